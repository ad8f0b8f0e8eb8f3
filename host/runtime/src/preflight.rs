//! What would stop a run, found before anything of it runs.
//!
//! Owns the walk over the nodes. Refuses checks of its own: the dispatcher answers for each node.
//!
//! **Invariant:** a run that preflight blocks has caused no effect.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use t2m_core::dispatch::{CallError, Dispatcher};
use t2m_core::id::{NodeId, RunId};
use t2m_core::workflow::{Input, VerifiedWorkflow, Workflow};

/// A node that can't run as things are.
#[derive(Debug, Clone, Serialize)]
pub struct Blocked {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub error: CallError,
    /// Its arguments for people, with `<reference>` for what follows from other nodes.
    pub arguments: Value,
    /// What follows from other nodes.
    pub follows_from: Vec<String>,
}

/// Every node that can't run, in the workflow's order.
pub fn preflight(
    dispatcher: &Dispatcher,
    workflow: &Arc<VerifiedWorkflow>,
    run: &RunId,
    inputs: &Arc<Map<String, Value>>,
) -> Vec<Blocked> {
    let mut blocked = Vec::new();
    let shown = without_secrets(workflow.workflow(), inputs);
    for node in &workflow.workflow().nodes {
        if let Err(error) = dispatcher.preflight(workflow, inputs, node, run) {
            let known = node.arguments.fill_inputs(&shown).unwrap_or_else(|_| node.arguments.clone());
            let follows_from = known.references().iter().map(ToString::to_string).collect();
            let arguments = known.sketch();
            blocked.push(Blocked { node: node.id.clone(), error, arguments, follows_from });
        }
    }
    blocked
}

/// The inputs as people may see them. What is known of the others' arguments shows in an approval's message.
fn without_secrets(workflow: &Workflow, inputs: &Map<String, Value>) -> Map<String, Value> {
    let secret = |name: &String| workflow.inputs.get(name).is_some_and(Input::is_secret);
    let shown = |(name, value): (&String, &Value)| {
        let value = if secret(name) { Value::String(format!("<secret {name}>")) } else { value.clone() };
        (name.clone(), value)
    };
    inputs.iter().map(shown).collect()
}
