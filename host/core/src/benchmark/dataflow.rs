//! Recorded calls whose arguments have known producers.
//!
//! Owns two measures. *Edges*: is the source that was inferred for an argument one of the gold ones? A
//! source that was seen but left to a person (the best candidate of a list choice) counts as inferred, since
//! it is reported. *Held out*: what does a workflow compiled from one recording, or several, make of another
//! recording's results? There only what is bound counts; what was left to a person is unbound. Refuses
//! arguments whose truth isn't sure: only `POS` and `NEG` are scored.
//!
//! **Invariant:** each argument that is scored falls in exactly one outcome.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fraction;
use crate::compiler::{Compiled, Options, Suggestion, compile_all};
use crate::id::NodeId;
use crate::problem::{Problems, child};
use crate::trace::{self, Trace};
use crate::workflow::{Expr, Reference, Scope, Source, Step, Verdict};

/// A workflow is bound against this many other recordings of its template, so that templates with many
/// recordings don't outweigh the others.
const OTHERS: usize = 9;

/// Thresholds of the curve.
const THRESHOLDS: [f64; 9] = [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];

/// One recording.
#[derive(Debug, Clone, Deserialize)]
pub struct Item {
    /// Its name in the set.
    pub id: String,
    /// The calls in order.
    pub calls: Vec<RecordedCall>,
    /// What is known of arguments.
    pub arg_gold: Vec<Gold>,
}

/// One recorded call.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedCall {
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The result.
    pub result: Value,
}

/// What is known of one argument value.
#[derive(Debug, Clone, Deserialize)]
pub struct Gold {
    /// The call, counted from 0.
    pub call: usize,
    /// The way into its arguments.
    pub arg_path: Vec<Key>,
    /// How sure it is.
    pub cls: Class,
    /// The places that it comes from: a call and the way into its result.
    pub gold: Vec<(usize, Vec<Key>)>,
}

/// Whether an argument comes from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Class {
    /// It does, and the value is there.
    #[serde(rename = "POS")]
    Positive,
    /// It doesn't.
    #[serde(rename = "NEG")]
    Negative,
    /// It isn't sure.
    #[serde(other)]
    Unsure,
}

/// A step of a path in the data.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// An item of a list.
    Index(usize),
    /// A member of an object.
    Name(String),
}

/// The figures of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Dataflow {
    /// How well sources are found.
    #[serde(flatten)]
    pub edges: Edges,
    /// What workflows make of other recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
}

/// How well sources are found, as fractions of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Edges {
    /// Of the inferred edges, those from a gold producer.
    pub edge_precision: f64,
    /// Of the arguments with a producer, those with an edge from it.
    pub edge_recall: f64,
    /// The same with the gold path.
    pub path_precision: f64,
    /// The same with the gold path.
    pub path_recall: f64,
    /// Of all scored arguments, those that were left to a person.
    pub flagged: f64,
}

/// What workflows make of other recordings, as fractions of 1.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct HeldOut {
    /// Recordings that each workflow is compiled from.
    pub traces: usize,
    /// Workflow and other recording, pairs in all.
    pub pairs: usize,
    /// Arguments with a producer that get the recorded value.
    pub right: f64,
    /// Those that get another value.
    pub wrong_value: f64,
    /// Those whose path leads nowhere.
    pub path_missing: f64,
    /// Those that come from no result.
    pub unbound: f64,
    /// Of the arguments without a producer, those that come from a result.
    pub literal_bound: f64,
    /// The same if only decisions of some confidence were taken.
    pub curve: Vec<CurvePoint>,
}

/// Outcomes at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Decisions below this are left out.
    pub confidence: f64,
    /// As in [`HeldOut`].
    pub right: f64,
    /// As in [`HeldOut`].
    pub wrong_value: f64,
    /// As in [`HeldOut`].
    pub literal_bound: f64,
}

impl Item {
    /// The recording as a trace without inputs.
    fn trace(&self) -> Result<Trace, Problems> {
        let event = |(index, call): (usize, &RecordedCall)| {
            json!({
                "id": format!("c{index}"), "tool": tool_name(&call.name), "arguments": call.arguments,
                "result": call.result, "side_effect": "read",
            })
        };
        let events: Vec<Value> = self.calls.iter().enumerate().map(event).collect();
        trace::from_value(&json!({"name": self.id, "inputs": {}, "events": events}))
    }

    /// The sequence of its tools.
    pub fn template(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.name.as_str()).collect()
    }

    fn scored(&self) -> impl Iterator<Item = &Gold> {
        self.arg_gold.iter().filter(|gold| gold.cls != Class::Unsure)
    }
}

impl Gold {
    fn pointer(&self) -> String {
        self.arg_path.iter().fold(String::new(), |pointer, key| child(&pointer, &key.text()))
    }

    fn fits(&self, reference: &Reference) -> (bool, bool) {
        let Source::Node(node) = &reference.source else { return (false, false) };
        let steps: Vec<&Step> = reference.path.iter().filter(|step| **step != Step::ParseJson).collect();
        let is_path = |path: &Vec<Key>| {
            path.len() == steps.len()
                && path.iter().zip(&steps).all(|(key, step)| match (key, step) {
                    (Key::Index(a), Step::Index(b)) => a == b,
                    (Key::Name(a), Step::Key(b)) => a == b,
                    _ => false,
                })
        };
        let mut producers =
            self.gold.iter().filter(|(call, _)| node.as_str() == format!("c{call}")).peekable();
        (producers.peek().is_some(), producers.any(|(_, path)| is_path(path)))
    }
}

impl Key {
    fn text(&self) -> String {
        match self {
            Key::Index(index) => index.to_string(),
            Key::Name(name) => name.clone(),
        }
    }
}

/// Infers each recording by itself and compares sources. `seen` is told of each argument that isn't right.
pub fn edges(
    items: &[Item],
    options: &Options,
    seen: &mut dyn FnMut(&Item, &Gold, Option<&str>),
) -> Result<Edges, Problems> {
    let (mut inferred, mut right, mut exact, mut positive) = (0, 0, 0, 0);
    let (mut flagged, mut scored) = (0, 0);
    for item in items {
        let compiled = compile_all(vec![item.trace()?], options)?;
        for gold in item.scored() {
            scored += 1;
            positive += usize::from(gold.cls == Class::Positive);
            let (source, is_flagged) = inferred_source(&compiled, gold);
            flagged += usize::from(is_flagged);
            let Some(reference) = source else {
                if gold.cls == Class::Positive {
                    seen(item, gold, None);
                }
                continue;
            };
            inferred += 1;
            let (is_right, is_exact) = gold.fits(reference);
            right += usize::from(is_right);
            exact += usize::from(is_exact);
            if !is_exact {
                seen(item, gold, Some(&reference.to_string()));
            }
        }
    }
    Ok(Edges {
        edge_precision: fraction(right, inferred),
        edge_recall: fraction(right, positive),
        path_precision: fraction(exact, inferred),
        path_recall: fraction(exact, positive),
        flagged: fraction(flagged, scored),
    })
}

/// The source inferred for an argument, and whether it was left to a person.
fn inferred_source<'c>(compiled: &'c Compiled, gold: &Gold) -> (Option<&'c Reference>, bool) {
    let id = format!("c{}", gold.call);
    let pointer = gold.pointer();
    let node = compiled.workflow.nodes.iter().find(|node| node.id.as_str() == id);
    let decision = node.and_then(|node| node.decisions.iter().find(|decision| decision.pointer == pointer));
    match decision {
        Some(decision) => match decision.verdict {
            Verdict::Reference => (decision.chosen.as_ref(), false),
            // A candidate that nobody could accept, such as the object of a key, is no source.
            Verdict::Choice => {
                let suggested = |found: &&Suggestion| found.event == id && found.pointer == pointer;
                let suggestion = compiled.report.suggestions.iter().find(suggested);
                let first = decision.candidates.first();
                (first.filter(|_| suggestion.is_some_and(|found| found.acceptable)), true)
            }
            Verdict::Ambiguous => (None, true),
            Verdict::Input | Verdict::Literal => (None, false),
        },
        None => (None, false),
    }
}

#[derive(Default)]
struct Outcomes {
    right: Vec<f64>,
    wrong_value: Vec<f64>,
    path_missing: usize,
    unbound: usize,
    literal_bound: Vec<f64>,
    negative: usize,
}

/// Compiles each window of `traces` recordings of a template and binds the others of the template (the next
/// nine, in the order of the file) with their own results. An argument that only one side has isn't scored.
/// `seen` is told of each wrong value, each value that is unbound, and each literal that was bound.
pub fn held_out(
    items: &[Item],
    traces: usize,
    options: &Options,
    seen: &mut dyn FnMut(&Item, &Item, &Gold, &str),
) -> Result<HeldOut, Problems> {
    let mut templates: BTreeMap<Vec<&str>, Vec<&Item>> = BTreeMap::new();
    for item in items {
        templates.entry(item.template()).or_default().push(item);
    }
    let mut outcomes = Outcomes::default();
    let mut pairs = 0;
    for group in templates.values().filter(|group| group.len() > traces) {
        let results: Vec<BTreeMap<NodeId, Value>> = group.iter().map(|item| results(item)).collect();
        for start in 0..group.len() {
            let around = |offset: usize| group.get((start + offset) % group.len());
            let sources = (0..traces).filter_map(|offset| around(offset).map(|item| item.trace()));
            let compiled = compile_all(sources.collect::<Result<_, _>>()?, options)?;
            let known = Known::of(&compiled);
            for offset in traces..group.len().min(traces + OTHERS) {
                let at = (start + offset) % group.len();
                let (Some(from), Some(to), Some(results)) =
                    (group.get(start), group.get(at), results.get(at))
                else {
                    continue;
                };
                pairs += 1;
                for gold in to.scored() {
                    if let Some(text) = outcomes.note(&known, gold, to, results) {
                        seen(from, to, gold, &text);
                    }
                }
            }
        }
    }
    Ok(outcomes.figures(traces, pairs))
}

/// Sets name tools as they like; what MCP doesn't allow becomes `_`.
fn tool_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

fn results(item: &Item) -> BTreeMap<NodeId, Value> {
    let named = |(index, call): (usize, &RecordedCall)| {
        Some((NodeId::new(format!("c{index}")).ok()?, call.result.clone()))
    };
    item.calls.iter().enumerate().filter_map(named).collect()
}

/// The bound arguments of a workflow.
struct Known<'c> {
    by_place: HashMap<(&'c str, &'c str), f64>,
    arguments: HashMap<&'c str, &'c Expr>,
}

impl<'c> Known<'c> {
    fn of(compiled: &'c Compiled) -> Known<'c> {
        let mut by_place = HashMap::new();
        let mut arguments = HashMap::new();
        for (node, confidence) in compiled.workflow.nodes.iter().zip(&compiled.confidence) {
            arguments.insert(node.id.as_str(), &node.arguments);
            for (decision, confidence) in node.decisions.iter().zip(confidence) {
                by_place.insert((node.id.as_str(), decision.pointer.as_str()), *confidence);
            }
        }
        Known { by_place, arguments }
    }

    fn confidence(&self, call: &str, pointer: &str) -> f64 {
        let ends = pointer.match_indices('/').map(|(at, _)| at).chain([pointer.len()]);
        let prefixes = ends.filter_map(|end| pointer.get(..end));
        let mut known = prefixes.filter_map(|pointer| self.by_place.get(&(call, pointer)));
        known.next_back().copied().unwrap_or(1.0)
    }
}

/// What stands at a path of an expression.
fn part<'e>(expr: &'e Expr, path: &[Key]) -> Option<(&'e Expr, usize)> {
    let (Some(key), used) = (path.first(), 1) else { return Some((expr, 0)) };
    let rest = path.get(1..).unwrap_or_default();
    let below = match (expr, key) {
        (Expr::Object(members), Key::Name(name)) => members.get(name)?,
        (Expr::List(items), Key::Index(index)) => items.get(*index)?,
        (Expr::Literal(value), _) => {
            let pointer = path.iter().fold(String::new(), |pointer, key| child(&pointer, &key.text()));
            return value.pointer(&pointer).map(|_| (expr, 0));
        }
        (Expr::Ref(_) | Expr::Template(_), _) => return Some((expr, 0)),
        _ => return None,
    };
    part(below, rest).map(|(found, more)| (found, used + more))
}

impl Outcomes {
    /// Sorts one argument in; for a bad outcome, what was found.
    fn note(
        &mut self,
        known: &Known<'_>,
        gold: &Gold,
        to: &Item,
        results: &BTreeMap<NodeId, Value>,
    ) -> Option<String> {
        let call = format!("c{}", gold.call);
        let pointer = gold.pointer();
        let (expr, used) = part(known.arguments.get(call.as_str())?, &gold.arg_path)?;
        let bound = expr.depends_on_results();
        let confidence = known.confidence(&call, &pointer);
        if gold.cls == Class::Negative {
            self.negative += 1;
            if bound {
                self.literal_bound.push(confidence);
                return Some(format!("literal bound to {}", expr.sketch()));
            }
            return None;
        }
        if !bound {
            self.unbound += 1;
            return Some("unbound".to_owned());
        }
        let inputs = Map::new();
        let arguments = Value::Object(to.calls.get(gold.call)?.arguments.clone());
        let wanted = arguments.pointer(&pointer)?;
        let rest = gold.arg_path.get(used..).unwrap_or_default();
        let rest = rest.iter().fold(String::new(), |pointer, key| child(&pointer, &key.text()));
        let found = expr.resolve(Scope { inputs: &inputs, results });
        match found.as_ref().ok().and_then(|found| found.pointer(&rest)) {
            None => self.path_missing += 1,
            Some(found) if crate::compiler::same(found, wanted) => self.right.push(confidence),
            Some(found) => {
                self.wrong_value.push(confidence);
                return Some(format!("wrong: {} gave {found}, not {wanted}", expr.sketch()));
            }
        }
        None
    }

    fn figures(self, traces: usize, pairs: usize) -> HeldOut {
        let positive = self.right.len() + self.wrong_value.len() + self.path_missing + self.unbound;
        let above = |list: &[f64], least: f64| list.iter().filter(|confidence| **confidence >= least).count();
        let point = |confidence: f64| CurvePoint {
            confidence,
            right: fraction(above(&self.right, confidence), positive),
            wrong_value: fraction(above(&self.wrong_value, confidence), positive),
            literal_bound: fraction(above(&self.literal_bound, confidence), self.negative),
        };
        HeldOut {
            traces,
            pairs,
            right: fraction(self.right.len(), positive),
            wrong_value: fraction(self.wrong_value.len(), positive),
            path_missing: fraction(self.path_missing, positive),
            unbound: fraction(self.unbound, positive),
            literal_bound: fraction(self.literal_bound.len(), self.negative),
            curve: THRESHOLDS.into_iter().map(point).collect(),
        }
    }
}
