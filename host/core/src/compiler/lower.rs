//! The last steps: inputs, output, and the proof that nothing was lost.
//!
//! Owns the inference of input schemas and the self-check. Refuses narrow schemas: one recording shows a
//! type, not which values are allowed.
//!
//! **Invariant:** a workflow that passes the self-check makes exactly the recorded calls from the recorded
//! results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Kept;
use super::index::same;
use super::several::Other;
use crate::code::Code;
use crate::id::NodeId;
use crate::problem::{Problem, Problems, item};
use crate::trace::Event;
use crate::workflow::{Expr, Input, Node, Recorded, Reference, Scope, Source, Workflow};

/// Inputs with the type that was seen and the recorded value as default.
///
/// Where recordings show several types, any is allowed.
pub(super) fn inputs(recorded: &Map<String, Value>, others: &[Other]) -> BTreeMap<String, Input> {
    recorded
        .iter()
        .map(|(name, value)| {
            let schema = schema_of(value);
            let seen = others.iter().filter_map(|other| other.inputs.get(name));
            let is_one = seen.map(schema_of).all(|other| other == schema);
            let schema = if is_one { schema } else { json!({}) };
            let input = Input { schema, default: Some(value.clone()) };
            (name.clone(), input)
        })
        .collect()
}

/// A schema that allows every value of the same type.
fn schema_of(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "number"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(list) => {
            let mut items = list.iter().map(schema_of);
            let first = items.next();
            match first.filter(|first| items.all(|other| other == *first)) {
                Some(items) => json!({"type": "array", "items": items}),
                None => json!({"type": "array"}),
            }
        }
        Value::Object(map) => {
            let properties: Map<_, _> =
                map.iter().map(|(key, value)| (key.clone(), schema_of(value))).collect();
            json!({"type": "object", "properties": properties})
        }
    }
}

/// The result of the one node that nothing waits for, or an object of several by id.
pub(super) fn output(kept: &[Kept<'_>], data: &[Vec<u32>], after: &[Vec<u32>]) -> Expr {
    let waited: BTreeSet<u32> = data.iter().chain(after).flatten().copied().collect();
    let result = |kept: &Kept<'_>| {
        Expr::Ref(Reference { source: Source::Node(kept.event.id.clone()), path: Vec::new(), convert: None })
    };
    let sinks: Vec<&Kept<'_>> = kept
        .iter()
        .enumerate()
        .filter(|(index, _)| u32::try_from(*index).is_ok_and(|index| !waited.contains(&index)))
        .map(|(_, kept)| kept)
        .collect();
    match sinks.as_slice() {
        [one] => result(one),
        several => {
            Expr::Object(several.iter().map(|kept| (kept.event.id.to_string(), result(kept))).collect())
        }
    }
}

/// Moves what was recorded into the nodes. `positions` are those of their events.
pub(super) fn recorded(nodes: &mut [Node], positions: &[usize], events: Vec<Event>) {
    let mut wanted = nodes.iter_mut().zip(positions).peekable();
    for (position, event) in events.into_iter().enumerate() {
        if let Some((node, _)) = wanted.next_if(|(_, wanted)| **wanted == position) {
            let Event { arguments, result, duration_ms, .. } = event;
            node.recorded = Some(Recorded { arguments, result, duration_ms });
        }
    }
}

/// Resolves every argument again from what was recorded. The results move out of the nodes and back, so
/// that they aren't copied.
pub(super) fn self_check(
    inputs: &Map<String, Value>,
    positions: &[usize],
    workflow: &mut Workflow,
) -> Result<(), Problems> {
    let mut results: BTreeMap<NodeId, Value> = BTreeMap::new();
    for node in &mut workflow.nodes {
        let recorded = node.recorded.as_mut().map(|recorded| std::mem::take(&mut recorded.result));
        results.insert(node.id.clone(), recorded.unwrap_or_default());
    }
    let scope = Scope { inputs, results: &results };
    let mut problems = Vec::new();
    for (position, node) in positions.iter().zip(&workflow.nodes) {
        let recorded = node.recorded.as_ref().map(|recorded| &recorded.arguments);
        let message = match (node.arguments.resolve(scope), recorded) {
            (Ok(Value::Object(made)), Some(recorded)) if same_members(&made, recorded) => continue,
            (Ok(_), _) => "the compiled arguments differ from the recorded ones".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        let at = format!("{}/arguments", item("/events", *position));
        problems.push(Problem::at(Code::CompileMismatch, at, message));
    }
    for node in &mut workflow.nodes {
        if let (Some(recorded), Some(result)) = (&mut node.recorded, results.remove(&node.id)) {
            recorded.result = result;
        }
    }
    Problems::from_list(problems)
}

/// The same for further recordings: an argument that a recording has is made there too.
pub(super) fn check_others(
    others: &[Other],
    positions: &[usize],
    workflow: &Workflow,
) -> Result<(), Problems> {
    let mut problems = Vec::new();
    for (number, other) in (2..).zip(others) {
        for (position, node) in positions.iter().zip(&workflow.nodes) {
            let Expr::Object(members) = &node.arguments else { continue };
            for (key, expr) in members {
                if !other.makes_argument(expr, *position, key) {
                    let at = crate::problem::child(&format!("{}/arguments", item("/events", *position)), key);
                    let message = format!("the compiled argument differs from that of recording {number}");
                    problems.push(Problem::at(Code::CompileMismatch, at, message));
                }
            }
        }
    }
    Problems::from_list(problems)
}

fn same_members(made: &Map<String, Value>, recorded: &Map<String, Value>) -> bool {
    made.len() == recorded.len()
        && recorded.iter().all(|(key, value)| made.get(key).is_some_and(|made| same(made, value)))
}
