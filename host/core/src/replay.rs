//! A workflow gone through with what was recorded: no handler runs and no guard is asked.
//!
//! Owns the comparison of each node's arguments with the recorded ones, and the question which recorded
//! results no longer stand for what a run would return. Refuses to invent results.
//!
//! **Invariant:** a node is `fresh` only if its arguments are the recorded ones and nothing stale comes before
//! it; the output is shown only if everything it is made of is fresh.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::code::Code;
use crate::compare::{Difference, differences};
use crate::id::NodeId;
use crate::problem::{Problem, Problems};
use crate::workflow::{Scope, Source, VerifiedWorkflow};

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// Nodes whose arguments and recorded result stand.
    pub fresh: usize,
    /// Nodes whose recorded result doesn't stand.
    pub stale: usize,
    /// Each node, in the workflow's order.
    pub nodes: Vec<NodeReplay>,
    /// The output, if everything it is made of stands.
    pub output: Option<Value>,
    /// Why there is no output, if so.
    pub no_output: Option<String>,
}

/// What a replay found of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeReplay {
    /// The node.
    pub node: String,
    /// Its tool.
    pub tool: String,
    /// Whether its recorded result stands.
    #[serde(flatten)]
    pub state: State,
}

/// Whether a recorded result stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// The arguments are the recorded ones.
    Fresh,
    /// The arguments differ: the recorded result is that of another call.
    Changed {
        /// Each place, from the recorded to the new value.
        differences: Vec<Difference>,
    },
    /// A value can't be found in what was recorded.
    Unbound {
        /// Why; lower case, no final period.
        reason: String,
    },
    /// It follows from nodes whose results don't stand.
    Stale {
        /// Those nodes.
        because_of: Vec<String>,
    },
    /// The workflow holds no recording of it.
    NotRecorded,
}

/// Goes through a workflow with these inputs.
pub fn replay(verified: &VerifiedWorkflow, inputs: &Map<String, Value>) -> Result<Replay, Problems> {
    let workflow = verified.workflow();
    let results: BTreeMap<NodeId, Value> = workflow
        .nodes
        .iter()
        .filter_map(|node| Some((node.id.clone(), node.recorded.as_ref()?.result.clone())))
        .collect();
    if results.is_empty() && !workflow.nodes.is_empty() {
        let message = "no node has a recorded result, so there is nothing to replay";
        return Err(Problem::at(Code::FieldMissing, "/nodes/0/recorded", message).into());
    }
    let scope = Scope { inputs, results: &results };
    let mut states: Vec<Option<State>> = vec![None; workflow.nodes.len()];
    for position in verified.layers().iter().flatten() {
        let Some(node) = workflow.nodes.get(*position) else { continue };
        let because_of = upstream(verified, *position, &states);
        let state = match &node.recorded {
            _ if !because_of.is_empty() => State::Stale { because_of },
            None => State::NotRecorded,
            Some(recorded) => match node.arguments.resolve(scope) {
                Err(missing) => State::Unbound { reason: missing.to_string() },
                Ok(made) => {
                    let differences = differences("", &Value::Object(recorded.arguments.clone()), &made);
                    if differences.is_empty() { State::Fresh } else { State::Changed { differences } }
                }
            },
        };
        if let Some(slot) = states.get_mut(*position) {
            *slot = Some(state);
        }
    }
    let nodes: Vec<NodeReplay> = workflow
        .nodes
        .iter()
        .zip(states)
        .filter_map(|(node, state)| {
            Some(NodeReplay { node: node.id.to_string(), tool: node.tool.to_string(), state: state? })
        })
        .collect();
    let fresh = nodes.iter().filter(|node| node.state == State::Fresh).count();
    let lost: Vec<&str> = workflow
        .output
        .references()
        .into_iter()
        .filter_map(|reference| match &reference.source {
            Source::Node(id) => Some(nodes.get(verified.position(id)?)?),
            Source::Input(_) => None,
        })
        .filter(|node| node.state != State::Fresh)
        .map(|node| node.node.as_str())
        .collect();
    let (output, no_output) = if lost.is_empty() {
        match workflow.output.resolve(scope) {
            Ok(output) => (Some(output), None),
            Err(missing) => (None, Some(missing.to_string())),
        }
    } else {
        (None, Some(format!("it is made of results that don't stand: {}", lost.join(", "))))
    };
    Ok(Replay { fresh, stale: nodes.len() - fresh, nodes, output, no_output })
}

/// The nodes before one whose results don't stand and matter to it: those its values come from, and those
/// that may have changed what it sees.
fn upstream(verified: &VerifiedWorkflow, position: usize, states: &[Option<State>]) -> Vec<String> {
    let workflow = verified.workflow();
    let Some(node) = workflow.nodes.get(position) else { return Vec::new() };
    let references = node.arguments.references();
    let gives_value = |id: &NodeId| {
        references.iter().any(|reference| matches!(&reference.source, Source::Node(from) if from == id))
    };
    let before = verified.dependencies().get(position).into_iter().flatten();
    before
        .filter(|earlier| !matches!(states.get(**earlier), Some(Some(State::Fresh))))
        .filter_map(|earlier| workflow.nodes.get(*earlier))
        .filter(|earlier| !earlier.effect.is_read_only() || gives_value(&earlier.id))
        .map(|earlier| earlier.id.to_string())
        .collect()
}

impl Replay {
    /// Whether every recorded result stands.
    pub fn stands(&self) -> bool {
        self.stale == 0
    }

    /// As lines for people; what stands is only counted.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} of {} nodes replay as recorded", self.fresh, self.nodes.len())];
        for entry in &self.nodes {
            let text = match &entry.state {
                State::Fresh => continue,
                State::Changed { differences } => {
                    let places: Vec<String> = differences.iter().map(ToString::to_string).collect();
                    format!("has other arguments, so its recorded result is stale: {}", places.join(", "))
                }
                State::Unbound { reason } => format!("can't be resolved: {reason}"),
                State::Stale { because_of } => format!("is stale because of {}", because_of.join(", ")),
                State::NotRecorded => "has no recorded result".to_owned(),
            };
            lines.push(format!("  {} ({}) {text}", entry.node, entry.tool));
        }
        if let Some(reason) = &self.no_output {
            lines.push(format!("no output: {reason}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compiler::{Claims, Options, compile};
    use crate::trace::from_value;
    use crate::workflow::{Workflow, bind_inputs, verify};

    fn workflow() -> Workflow {
        let trace = from_value(&json!({"inputs": {"city": "Porto", "guest": "Ann Smith"}, "events": [
            {"id": "find", "tool": "find", "arguments": {"city": "Porto"}, "side_effect": "read",
             "result": {"id": "h-77810"}},
            {"id": "greet", "tool": "greet", "arguments": {"guest": "Ann Smith"}, "side_effect": "read",
             "result": {"text": "Hello"}},
            {"id": "book", "tool": "book", "arguments": {"hotel_id": "h-77810"}, "side_effect": "write",
             "result": {"booking": "b-12345"}},
            {"id": "list", "tool": "list", "arguments": {}, "side_effect": "read", "result": {"count": 1}},
        ]}))
        .unwrap();
        compile(trace, &Options { claims: Claims::Believe, ..Options::default() }).unwrap().workflow
    }

    fn states(workflow: Workflow, inputs: Value) -> (Vec<String>, Replay) {
        let verified = verify(workflow, None).unwrap();
        let inputs = bind_inputs(&verified, inputs.as_object().unwrap().clone()).unwrap();
        let found = replay(&verified, &inputs).unwrap();
        (found.lines(), found)
    }

    /// T28: what was recorded replays as recorded.
    #[test]
    fn recorded_inputs_give_the_recorded_calls_and_output() {
        let (lines, found) = states(workflow(), json!({}));
        assert_eq!(lines, ["4 of 4 nodes replay as recorded"]);
        assert!(found.stands());
        assert_eq!(found.output, Some(json!({"count": 1})));
    }

    /// T28: another input makes results stale, and everything that follows from them or may see them.
    #[test]
    fn changed_inputs_make_results_stale() {
        let (lines, found) = states(workflow(), json!({"city": "Lisbon"}));
        assert_eq!(
            lines,
            [
                "1 of 4 nodes replay as recorded",
                "  find (find) has other arguments, so its recorded result is stale: /city `\"Porto\"` -> `\"Lisbon\"`",
                "  book (book) is stale because of find",
                "  list (list) is stale because of book",
                "no output: it is made of results that don't stand: list",
            ]
        );
        assert_eq!(found.output, None);

        // A read whose arguments changed alters nothing that a later call sees.
        let (lines, _) = states(workflow(), json!({"guest": "Bob Jones"}));
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    /// T28: what isn't there is said.
    #[test]
    fn missing_recordings_and_paths_are_named() {
        let mut partly = workflow();
        partly.nodes[0].recorded = None;
        let (lines, found) = states(partly, json!({}));
        assert_eq!(
            lines[1..3],
            ["  find (find) has no recorded result", "  book (book) is stale because of find"]
        );
        assert_eq!((found.fresh, found.stale), (1, 3));

        let mut lost = workflow();
        lost.nodes[0].recorded.as_mut().unwrap().result = json!({});
        let (lines, _) = states(lost, json!({}));
        assert!(lines[1].contains("book (book) can't be resolved: `find.id` leads nowhere"), "{lines:?}");

        let mut bare = workflow();
        bare.nodes.iter_mut().for_each(|node| node.recorded = None);
        let verified = verify(bare, None).unwrap();
        let inputs = bind_inputs(&verified, Map::new()).unwrap();
        assert_eq!(replay(&verified, &inputs).unwrap_err().code(), Code::FieldMissing);
    }
}
