//! What would stop a run, found before anything of it runs.
//!
//! Owns the walk over the nodes. Refuses checks of its own: the dispatcher answers for each node.
//!
//! **Invariant:** a run that preflight blocks has caused no effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use t2m_core::dispatch::{CallError, Dispatcher};
use t2m_core::id::{NodeId, RunId};
use t2m_core::workflow::{Scope, VerifiedWorkflow};

/// A node that can't run as things are.
#[derive(Debug, Clone, Serialize)]
pub struct Blocked {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub error: CallError,
    /// Its arguments, if they don't depend on other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

/// Every node that can't run, in the workflow's order.
pub fn preflight(
    dispatcher: &Dispatcher,
    workflow: &Arc<VerifiedWorkflow>,
    run: &RunId,
    inputs: &Map<String, Value>,
) -> Vec<Blocked> {
    let nothing = BTreeMap::new();
    let scope = Scope { inputs, results: &nothing };
    let mut blocked = Vec::new();
    for node in &workflow.workflow().nodes {
        // A path that an input doesn't have is reported when the node's turn comes, as a failed node.
        let arguments =
            if node.arguments.depends_on_results() { None } else { node.arguments.resolve(scope).ok() };
        if let Err(error) = dispatcher.preflight(workflow, node, run, arguments.as_ref()) {
            blocked.push(Blocked { node: node.id.clone(), error, arguments });
        }
    }
    blocked
}
