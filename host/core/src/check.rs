//! A workflow against a further recording of the same task.
//!
//! Owns the alignment of calls with nodes and the comparison of each argument. Refuses to run anything and
//! to repair the workflow: what differs is reported.
//!
//! The alignment is one rule: the first call of a tool belongs to the first node of that tool, the second to
//! the second, and so on. Calls that don't depend on each other may come in any order, so their order isn't
//! looked at. If a tool was called more often than it has nodes, exact repeats are passed over first.
//!
//! **Invariant:** every node and every event of the recording stands in the report exactly once, and every
//! argument of an aligned node is counted once.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::compare::{Difference, differences};
use crate::compiler::{same, why_no_node};
use crate::problem::{child, item};
use crate::redact;
use crate::trace::{Event, Trace};
use crate::workflow::{Expr, Input, Node, Reference, Source, Workflow};

/// How a workflow fits one recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Check {
    /// Argument values that come out as recorded.
    pub agree: usize,
    /// Argument values that come out different.
    pub differ: usize,
    /// Argument values whose source wasn't there.
    pub unbound: usize,
    /// Aligned nodes, in the workflow's order.
    pub nodes: Vec<NodeCheck>,
    /// Nodes without a call.
    pub without_call: Vec<Unmatched>,
    /// Calls that fit no node.
    pub without_node: Vec<Unmatched>,
    /// Calls that repeat an earlier one exactly, passed over.
    pub repeats: Vec<Unmatched>,
    /// Events that could be no node.
    pub left_out: Vec<Unmatched>,
    /// Inputs that the recording doesn't state, read off the first argument that is one. Recordings that were
    /// compiled together have no name for what differs between them.
    pub inputs_read_off: Vec<String>,
}

/// A node or call that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// The node or event.
    pub id: String,
    /// Its tool.
    pub tool: String,
    /// Why, if there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One node against its call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeCheck {
    /// The node.
    pub node: String,
    /// Its tool.
    pub tool: String,
    /// The event.
    pub event: String,
    /// Its argument values.
    pub arguments: Vec<ArgumentCheck>,
}

/// One argument value against the recorded one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArgumentCheck {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// Where the workflow takes it from; nothing if it is the same in every run.
    pub source: Option<String>,
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came out for an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The recorded value.
    Agree,
    /// Another value: `before` is the workflow's, `after` the recorded one.
    Differ {
        /// Each place that differs.
        differences: Vec<Difference>,
    },
    /// The way to the value wasn't there.
    Unbound {
        /// What was found where it ended.
        found: String,
    },
}

/// Compares a workflow with a recording.
pub fn check(workflow: &Workflow, trace: &Trace) -> Check {
    let mut report = Check::default();
    let calls = candidates(trace, &mut report);
    let calls = align(workflow, calls, &mut report);
    let results: HashMap<&str, &Value> =
        calls.iter().map(|(node, event)| (node.id.as_str(), &event.result)).collect();
    let mut inputs = trace.inputs.clone();
    report.inputs_read_off = read_off(&mut inputs, &calls);
    let case = Case { workflow, inputs: &inputs, results };
    for (node, event) in calls {
        let mut arguments = Vec::new();
        case.members(&node.arguments, &event.arguments, &mut arguments);
        for argument in &arguments {
            match argument.outcome {
                Outcome::Agree => report.agree += 1,
                Outcome::Differ { .. } => report.differ += 1,
                Outcome::Unbound { .. } => report.unbound += 1,
            }
        }
        report.nodes.push(NodeCheck {
            node: node.id.to_string(),
            tool: node.tool.to_string(),
            event: event.id.to_string(),
            arguments,
        });
    }
    report
}

/// Adds inputs that arguments show; their names, in the order found.
fn read_off(inputs: &mut Map<String, Value>, calls: &[(&Node, &Event)]) -> Vec<String> {
    let mut names = Vec::new();
    for (node, event) in calls {
        let Expr::Object(members) = &node.arguments else { continue };
        for (key, member) in members {
            let Expr::Ref(Reference { source: Source::Input(name), path, convert: None }) = member else {
                continue;
            };
            if let Some(value) = event.arguments.get(key)
                && path.is_empty()
                && !inputs.contains_key(name)
            {
                inputs.insert(name.clone(), value.clone());
                names.push(name.clone());
            }
        }
    }
    names
}

fn unmatched(id: &str, tool: &str, reason: Option<String>) -> Unmatched {
    Unmatched { id: id.to_owned(), tool: tool.to_owned(), reason }
}

/// The calls that could be nodes, in recorded order.
fn candidates<'t>(trace: &'t Trace, report: &mut Check) -> Vec<&'t Event> {
    let mut kept = Vec::new();
    for (event, reason) in trace.events.iter().zip(why_no_node(trace)) {
        match reason {
            None => kept.push(event),
            reason => report.left_out.push(unmatched(event.id.as_str(), &event.tool, reason)),
        }
    }
    kept
}

fn align<'w, 't>(
    workflow: &'w Workflow,
    calls: Vec<&'t Event>,
    report: &mut Check,
) -> Vec<(&'w Node, &'t Event)> {
    let mut by_tool: HashMap<&str, Vec<&'t Event>> = HashMap::new();
    for event in calls {
        by_tool.entry(event.tool.as_str()).or_default().push(event);
    }
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for node in &workflow.nodes {
        *wanted.entry(node.tool.as_str()).or_default() += 1;
    }
    let mut kept = BTreeSet::new();
    let mut queues: HashMap<&str, std::vec::IntoIter<&'t Event>> = HashMap::new();
    for (tool, events) in by_tool {
        let nodes = wanted.get(tool).copied().unwrap_or_default();
        let events = pass_over_repeats(events, nodes, report);
        kept.extend(events.iter().skip(nodes).map(|event| (event.id.as_str(), tool)));
        queues.insert(tool, events.into_iter());
    }
    // In the order of ids, since calls were sorted by tool.
    report.without_node.extend(kept.into_iter().map(|(id, tool)| unmatched(id, tool, None)));
    report.repeats.sort_by(|a, b| a.id.cmp(&b.id));
    let mut pairs = Vec::new();
    for node in &workflow.nodes {
        match queues.get_mut(node.tool.as_str()).and_then(Iterator::next) {
            Some(event) => pairs.push((node, event)),
            None => report.without_call.push(unmatched(node.id.as_str(), node.tool.as_str(), None)),
        }
    }
    pairs
}

/// Takes out calls that repeat an earlier one, as long as there are more calls than nodes.
fn pass_over_repeats<'t>(events: Vec<&'t Event>, nodes: usize, report: &mut Check) -> Vec<&'t Event> {
    let mut surplus = events.len().saturating_sub(nodes);
    if surplus == 0 {
        return events;
    }
    let mut first: HashMap<crate::digest::Digest, &str> = HashMap::new();
    let mut kept = Vec::with_capacity(events.len());
    for event in events {
        let call = Value::Array(vec![Value::Object(event.arguments.clone()), event.result.clone()]);
        let earlier = *first.entry(crate::digest::Digest::of_json(&call)).or_insert(event.id.as_str());
        if surplus > 0 && earlier != event.id.as_str() {
            surplus -= 1;
            let reason = format!("it repeats `{earlier}`");
            report.repeats.push(unmatched(event.id.as_str(), &event.tool, Some(reason)));
        } else {
            kept.push(event);
        }
    }
    kept
}

/// What one recording gives.
struct Case<'t> {
    workflow: &'t Workflow,
    inputs: &'t Map<String, Value>,
    results: HashMap<&'t str, &'t Value>,
}

impl Case<'_> {
    fn start(&self, source: &Source) -> Option<&Value> {
        match source {
            Source::Input(name) => self.inputs.get(name),
            Source::Node(id) => self.results.get(id.as_str()).copied(),
        }
    }

    fn is_secret(&self, source: &Source) -> bool {
        let Source::Input(name) = source else { return false };
        self.workflow.inputs.get(name).is_some_and(Input::is_secret)
    }

    /// The arguments of one call.
    fn members(&self, expr: &Expr, recorded: &Map<String, Value>, found: &mut Vec<ArgumentCheck>) {
        let (own, literal) = match expr {
            Expr::Object(members) => (Some(members), None),
            Expr::Literal(Value::Object(map)) => (None, Some(map)),
            whole => return self.value(whole, "", Some(&Value::Object(recorded.clone())), found),
        };
        let keys: BTreeSet<&String> = own
            .iter()
            .flat_map(|members| members.keys())
            .chain(literal.iter().flat_map(|map| map.keys()))
            .chain(recorded.keys())
            .collect();
        for key in keys {
            let (pointer, recorded) = (child("", key), recorded.get(key));
            match (own.and_then(|own| own.get(key)), literal.and_then(|map| map.get(key))) {
                (Some(expr), _) => self.value(expr, &pointer, recorded, found),
                (None, made) => found.push(literal_check(pointer, made, recorded)),
            }
        }
    }

    fn value(&self, expr: &Expr, pointer: &str, recorded: Option<&Value>, found: &mut Vec<ArgumentCheck>) {
        match (expr, recorded) {
            (Expr::Literal(value), _) => {
                found.push(literal_check(pointer.to_owned(), Some(value), recorded));
            }
            (Expr::Ref(reference), _) => {
                let outcome = match reference.follow(self.start(&reference.source)) {
                    Ok(made) => outcome(pointer, Some(&made), recorded),
                    Err(_) if self.is_secret(&reference.source) => match recorded {
                        // Of a redacted secret no more can be said.
                        Some(Value::String(text)) if redact::is_marker(text) => Outcome::Agree,
                        _ => Outcome::Unbound {
                            found: "a secret, which has to be given and is in no recording".to_owned(),
                        },
                    },
                    Err(missing) => Outcome::Unbound { found: missing.found },
                };
                found.push(ArgumentCheck {
                    pointer: pointer.to_owned(),
                    source: Some(reference.to_string()),
                    outcome,
                });
            }
            (Expr::Template(template), _) => {
                let outcome = match template.follow(&|source| self.start(source)) {
                    Ok(made) => outcome(pointer, Some(&Value::String(made)), recorded),
                    Err(missing) => Outcome::Unbound { found: missing.found },
                };
                let (pointer, source) = (pointer.to_owned(), Some(template.to_string()));
                found.push(ArgumentCheck { pointer, source, outcome });
            }
            (Expr::Object(members), Some(Value::Object(map))) => {
                let keys: BTreeSet<&String> = members.keys().chain(map.keys()).collect();
                for key in keys {
                    let pointer = child(pointer, key);
                    match members.get(key) {
                        Some(member) => self.value(member, &pointer, map.get(key), found),
                        None => found.push(literal_check(pointer, None, map.get(key))),
                    }
                }
            }
            (Expr::List(items), Some(Value::Array(list))) if items.len() == list.len() => {
                for (index, (expr, recorded)) in items.iter().zip(list).enumerate() {
                    self.value(expr, &item(pointer, index), Some(recorded), found);
                }
            }
            (whole, _) => {
                // Another shape was recorded: there are no places to compare one by one.
                let sketch = whole.sketch();
                found.push(ArgumentCheck {
                    pointer: pointer.to_owned(),
                    source: whole.references().first().map(ToString::to_string),
                    outcome: Outcome::Differ {
                        differences: vec![Difference {
                            pointer: pointer.to_owned(),
                            before: Some(crate::document::shown(&sketch)),
                            after: recorded.map(crate::document::shown),
                        }],
                    },
                });
            }
        }
    }
}

fn literal_check(pointer: String, made: Option<&Value>, recorded: Option<&Value>) -> ArgumentCheck {
    ArgumentCheck { source: None, outcome: outcome(&pointer, made, recorded), pointer }
}

fn outcome(pointer: &str, made: Option<&Value>, recorded: Option<&Value>) -> Outcome {
    match (made, recorded) {
        (Some(made), Some(recorded)) if same(made, recorded) => Outcome::Agree,
        (Some(made), Some(recorded)) => Outcome::Differ { differences: differences(pointer, made, recorded) },
        (made, recorded) => Outcome::Differ {
            differences: vec![Difference {
                pointer: pointer.to_owned(),
                before: made.map(crate::document::shown),
                after: recorded.map(crate::document::shown),
            }],
        },
    }
}

impl Check {
    /// Whether every argument agrees and every node and call has a counterpart.
    pub fn fits(&self) -> bool {
        self.differ + self.unbound + self.without_call.len() + self.without_node.len() == 0
    }

    /// As lines for people, the worst first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} arguments agree, {} differ, {} unbound; {} nodes without a call, {} calls without a node",
            self.agree,
            self.differ,
            self.unbound,
            self.without_call.len(),
            self.without_node.len()
        )];
        let differs = |bound: bool| {
            move |node: &NodeCheck, argument: &ArgumentCheck| match &argument.outcome {
                Outcome::Differ { differences } if argument.source.is_some() == bound => {
                    let places: Vec<String> = differences.iter().map(ToString::to_string).collect();
                    let from =
                        argument.source.iter().map(|source| format!(" (from {source})")).collect::<String>();
                    Some(format!("{}:{}{from}", node.node, places.join(", ")))
                }
                _ => None,
            }
        };
        let unbound = |node: &NodeCheck, argument: &ArgumentCheck| match &argument.outcome {
            Outcome::Unbound { found } => {
                let source = argument.source.as_deref().unwrap_or_default();
                Some(format!("{}:{} from {source}: {found}", node.node, argument.pointer))
            }
            _ => None,
        };
        self.group("bound to a source that gives another value:", differs(true), &mut lines);
        self.group("bound to a source that isn't there:", unbound, &mut lines);
        self.group("the same in every run, but recorded otherwise:", differs(false), &mut lines);
        for (title, list) in [
            ("nodes without a call:", &self.without_call),
            ("calls without a node:", &self.without_node),
            ("repeats, passed over:", &self.repeats),
            ("left out:", &self.left_out),
        ] {
            if !list.is_empty() {
                lines.push(title.to_owned());
            }
            lines.extend(list.iter().map(|entry| {
                let reason = entry.reason.iter().map(|reason| format!(": {reason}")).collect::<String>();
                format!("  {} ({}){reason}", entry.id, entry.tool)
            }));
        }
        if !self.inputs_read_off.is_empty() {
            let names = self.inputs_read_off.join(", ");
            lines.push(format!(
                "inputs that the recording doesn't state, read off the first argument that is one: {names}"
            ));
        }
        lines
    }

    fn group(
        &self,
        title: &str,
        show: impl Fn(&NodeCheck, &ArgumentCheck) -> Option<String>,
        lines: &mut Vec<String>,
    ) {
        let all = self.nodes.iter().flat_map(|node| node.arguments.iter().map(move |one| (node, one)));
        let mut found = all.filter_map(|(node, argument)| show(node, argument)).peekable();
        if found.peek().is_some() {
            lines.push(title.to_owned());
        }
        lines.extend(found.map(|line| format!("  {line}")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compiler::{Claims, Options, compile};
    use crate::trace::from_value;

    fn session(city: &str, hotel: &str, more: Vec<Value>) -> Trace {
        let mut events = vec![
            json!({"id": "a", "tool": "find", "arguments": {"city": city}, "side_effect": "read",
                   "result": {"hotels": [{"id": hotel, "stars": 3}]}}),
            json!({"id": "b", "tool": "book", "arguments": {"hotel": hotel, "nights": 2, "tags": ["x", "y"]},
                   "side_effect": "write", "result": {"ok": true}}),
        ];
        events.extend(more);
        from_value(&json!({"inputs": {"city": city}, "events": events})).unwrap()
    }

    fn workflow() -> Workflow {
        compile(
            session("Porto", "h-77810", vec![]),
            &Options { claims: Claims::Believe, ..Options::default() },
        )
        .unwrap()
        .workflow
    }

    /// T15: each argument of a further recording agrees, differs or can't be bound, each with its place.
    #[test]
    fn a_further_recording_agrees_differs_or_is_unbound() {
        let good = check(&workflow(), &session("Lisbon", "h-12345", vec![]));
        assert!(good.fits(), "{good:?}");
        assert_eq!((good.agree, good.lines().len()), (4, 1));

        let mut other = session("Lisbon", "h-12345", vec![]);
        other.events[1].arguments["hotel"] = json!("h-99999");
        other.events[1].arguments["nights"] = json!(3);
        other.events[1].arguments["tags"] = json!(["x", "z"]);
        other.events[1].arguments.insert("late".into(), json!(true));
        let report = check(&workflow(), &other);
        assert_eq!((report.agree, report.differ, report.unbound), (1, 4, 0));
        assert_eq!(
            report.lines()[1..],
            [
                "bound to a source that gives another value:",
                "  b:/hotel `\"h-12345\"` -> `\"h-99999\"` (from a.hotels[0].id)",
                "the same in every run, but recorded otherwise:",
                "  b:/late nothing -> `true`",
                "  b:/nights `2` -> `3`",
                "  b:/tags/1 `\"y\"` -> `\"z\"`",
            ]
        );

        let mut empty = session("Lisbon", "h-12345", vec![]);
        empty.events[0].result = json!({"hotels": []});
        empty.inputs.clear();
        let report = check(&workflow(), &empty);
        assert_eq!((report.agree, report.differ, report.unbound), (3, 0, 1));
        assert_eq!(report.inputs_read_off, ["city"]);
        assert_eq!(
            report.lines()[2..],
            [
                "  b:/hotel from a.hotels[0].id: a list without 0",
                "inputs that the recording doesn't state, read off the first argument that is one: city",
            ]
        );
    }

    /// T15: calls and nodes without a counterpart are reported, repeats and failures apart.
    #[test]
    fn what_has_no_counterpart_is_reported() {
        let call = |id: &str, tool: &str, more: Value| {
            let mut event = json!({"id": id, "tool": tool, "arguments": {}, "result": 1});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let mut again = json!({"arguments": {"city": "Lisbon"}});
        again["result"] = json!({"hotels": [{"id": "h-12345", "stars": 3}]});
        let more = vec![
            call("c", "find", again),
            call("d", "pay", json!({})),
            call("e", "book", json!({"status": "failed"})),
        ];
        let report = check(&workflow(), &session("Lisbon", "h-12345", more));
        let ids = |list: &[Unmatched]| list.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&report.repeats), ["c"]);
        assert_eq!(ids(&report.without_node), ["d"]);
        assert_eq!(ids(&report.left_out), ["e"]);
        assert!(!report.fits());

        let mut short = session("Lisbon", "h-12345", vec![]);
        short.events.remove(0);
        let report = check(&workflow(), &short);
        assert_eq!(ids(&report.without_call), ["a"]);
        assert_eq!(report.unbound, 1);
        assert!(
            report.lines().contains(&"  b:/hotel from a.hotels[0].id: the node has no result".to_owned())
        );
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["nodes"][0]["arguments"][0]["outcome"], json!("unbound"));
    }

    /// T15: a workflow fits the recording it was compiled from.
    #[test]
    fn a_workflow_fits_its_own_recording() {
        let trace = session("Porto", "h-77810", vec![]);
        assert!(check(&workflow(), &trace).fits());
    }
}
