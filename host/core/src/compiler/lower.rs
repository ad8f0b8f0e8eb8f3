//! The last steps: inputs, output, and the proof that nothing was lost.
//!
//! Owns the inputs, the output and the self-check. Refuses to say what values of an input are allowed: that is
//! `observed`'s.
//!
//! **Invariant:** a workflow that passes the self-check makes exactly the recorded calls from the recorded
//! results.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use serde_json::{Map, Value};

use super::hash::same;
use super::order::Waits;
use super::several::Other;
use super::{Kept, MANY_EVENTS, observed};
use crate::code::Code;
use crate::problem::{Problem, Problems, item};
use crate::trace::Event;
use crate::workflow::{Expr, Input, Node, PathMissing, Recorded, Reference, Source, Workflow};

/// Inputs with what was seen of them, and the first recording's value as default.
pub(super) fn inputs(recorded: &Map<String, Value>, others: &[Other]) -> BTreeMap<String, Input> {
    recorded
        .iter()
        .map(|(name, value)| {
            let seen = others.iter().filter_map(|other| other.inputs.get(name));
            let seen: Vec<&Value> = std::iter::once(value).chain(seen).collect();
            let input = Input { schema: observed::schema_of_all(&seen), default: Some(value.clone()) };
            (name.clone(), input)
        })
        .collect()
}

/// The result of the one node that nothing waits for, or an object of several by id.
pub(super) fn output(kept: &[Kept<'_>], data: &[Vec<u32>], after: &[Waits]) -> Expr {
    let waits = after.iter().flat_map(BTreeMap::keys);
    let waited: BTreeSet<u32> = data.iter().flatten().chain(waits).copied().collect();
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

/// Resolves every argument again from what was recorded.
pub(super) fn self_check(
    inputs: &Map<String, Value>,
    positions: &[usize],
    workflow: &Workflow,
    results: &HashMap<&str, &Value>,
) -> Result<(), Problems> {
    let start = |source: &Source| match source {
        Source::Input(name) => inputs.get(name),
        Source::Node(id) => results.get(id.as_str()).copied(),
    };
    let fault = |(position, node): (&usize, &Node)| {
        let recorded = node.recorded.as_ref().map(|recorded| &recorded.arguments);
        let message = match recorded.map(|recorded| makes_members(&node.arguments, recorded, &start)) {
            Some(Ok(true)) => return None,
            Some(Ok(false)) | None => "the compiled arguments differ from the recorded ones".to_owned(),
            Some(Err(error)) => error.to_string(),
        };
        let at = format!("{}/arguments", item("/events", *position));
        Some(Problem::at(Code::CompileMismatch, at, message))
    };
    let nodes = &workflow.nodes;
    let problems = if nodes.len() < MANY_EVENTS {
        positions.iter().zip(nodes).filter_map(fault).collect()
    } else {
        positions.par_iter().zip(nodes).filter_map(fault).collect()
    };
    Problems::from_list(problems)
}

/// The recorded result of each node.
pub(super) fn results(workflow: &Workflow) -> HashMap<&str, &Value> {
    let mut results = HashMap::with_capacity(workflow.nodes.len());
    let recorded = workflow.nodes.iter().filter_map(|node| Some((node, node.recorded.as_ref()?)));
    results.extend(recorded.map(|(node, recorded)| (node.id.as_str(), &recorded.result)));
    results
}

/// Whether an expression makes exactly these arguments.
fn makes_members<'v>(
    expr: &Expr,
    wanted: &Map<String, Value>,
    start: &impl Fn(&Source) -> Option<&'v Value>,
) -> Result<bool, PathMissing> {
    match expr {
        Expr::Object(members) => {
            if members.len() != wanted.len() {
                return Ok(false);
            }
            for (key, member) in members {
                match wanted.get(key) {
                    Some(wanted) if makes(member, wanted, start)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        Expr::Literal(Value::Object(found)) => Ok(same_members(found, wanted)),
        Expr::Ref(reference) => match reference.follow(start(&reference.source))?.as_ref() {
            Value::Object(found) => Ok(same_members(found, wanted)),
            _ => Ok(false),
        },
        Expr::Literal(_) | Expr::List(_) | Expr::Template(_) => Ok(false),
    }
}

/// Whether an expression makes exactly this value.
fn makes<'v>(
    expr: &Expr,
    wanted: &Value,
    start: &impl Fn(&Source) -> Option<&'v Value>,
) -> Result<bool, PathMissing> {
    match (expr, wanted) {
        (Expr::Literal(value), _) => Ok(same(value, wanted)),
        (Expr::Ref(reference), _) => Ok(same(reference.follow(start(&reference.source))?.as_ref(), wanted)),
        (Expr::Template(template), Value::String(wanted)) => Ok(template.follow(start)? == *wanted),
        (Expr::Object(_), Value::Object(wanted)) => makes_members(expr, wanted, start),
        (Expr::List(items), Value::Array(wanted)) if items.len() == wanted.len() => {
            for (item, wanted) in items.iter().zip(wanted) {
                if !makes(item, wanted, start)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
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
