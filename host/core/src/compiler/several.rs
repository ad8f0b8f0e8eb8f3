//! What further recordings of one task say.
//!
//! Owns the comparison of a recording with others that call the same tools in the same order. Refuses
//! recordings of other sequences: which of their calls belong together would be a guess.
//!
//! **Invariant:** a reference that is kept resolves in every recording to what was recorded there; a literal
//! that is kept is the same in every recording that has it.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::index::same;
use crate::code::Code;
use crate::id::NodeId;
use crate::problem::{Problem, Problems, child, item};
use crate::trace::Trace;
use crate::workflow::{Expr, PathMissing, Reference, Scope, Source, Template};

/// A further recording, with the ids of the first.
pub(super) struct Other {
    pub(super) inputs: Map<String, Value>,
    results: BTreeMap<NodeId, Value>,
    /// Arguments of each event, as objects.
    arguments: Vec<Value>,
}

/// Lays further recordings beside the first.
pub(super) fn align(first: &Trace, rest: Vec<Trace>) -> Result<Vec<Other>, Problems> {
    let mut problems = Vec::new();
    let mut others = Vec::new();
    for (number, other) in (2..).zip(rest) {
        let differ = first
            .events
            .iter()
            .zip(&other.events)
            .position(|(a, b)| a.tool != b.tool || a.status.is_success() != b.status.is_success());
        let shorter = first.events.len().min(other.events.len());
        let differ = differ.or((first.events.len() != other.events.len()).then_some(shorter));
        if let Some(at) = differ {
            let message = format!(
                "recording {number} calls other tools from event {} on than the first; compile recordings \
                 of the same calls together",
                at + 1
            );
            problems.push(Problem::at(Code::TracesDiffer, item("/events", at), message));
            continue;
        }
        let ids = first.events.iter().map(|event| event.id.clone());
        let (mut results, mut arguments) = (BTreeMap::new(), Vec::new());
        for (id, event) in ids.zip(other.events) {
            results.insert(id, event.result);
            arguments.push(Value::Object(event.arguments));
        }
        others.push(Other { inputs: other.inputs, results, arguments });
    }
    Problems::from_list(problems)?;
    Ok(others)
}

impl Other {
    /// The recorded value of an argument; nothing if this recording has none.
    pub(super) fn argument(&self, position: usize, pointer: &str) -> Option<&Value> {
        self.arguments.get(position)?.pointer(pointer)
    }

    /// Whether a reference leads to what was recorded here too.
    pub(super) fn agrees(&self, reference: &Reference, position: usize, pointer: &str) -> bool {
        let scope = Scope { inputs: &self.inputs, results: &self.results };
        let Some(wanted) = self.argument(position, pointer) else { return true };
        reference.resolve(scope).is_ok_and(|found| same(&found, wanted))
    }

    /// The text that a template makes here.
    pub(super) fn makes_template(&self, template: &Template) -> Result<String, PathMissing> {
        template.resolve(Scope { inputs: &self.inputs, results: &self.results })
    }

    /// Whether two events are the same call with the same result here too.
    pub(super) fn repeats(&self, first: (usize, &NodeId), again: (usize, &NodeId)) -> bool {
        self.arguments.get(first.0) == self.arguments.get(again.0)
            && self.results.get(first.1) == self.results.get(again.1)
    }

    /// Whether an expression makes a top-level argument, if this recording has it.
    pub(super) fn makes_argument(&self, expr: &Expr, position: usize, key: &str) -> bool {
        let wanted = self.argument(position, &child("", key));
        wanted.is_none_or(|wanted| self.makes(expr, wanted))
    }

    fn makes(&self, expr: &Expr, wanted: &Value) -> bool {
        let scope = Scope { inputs: &self.inputs, results: &self.results };
        expr.resolve(scope).is_ok_and(|found| same(&found, wanted))
    }
}

/// Makes inputs of the literals that differ between recordings.
pub(super) struct Inputs<'o> {
    pub(super) first: &'o mut Map<String, Value>,
    pub(super) others: &'o mut [Other],
    /// Inputs made, by argument and values.
    made: HashMap<String, String>,
}

impl<'o> Inputs<'o> {
    pub(super) fn new(first: &'o mut Map<String, Value>, others: &'o mut [Other]) -> Inputs<'o> {
        Inputs { first, others, made: HashMap::new() }
    }

    /// Replaces what differs in the arguments of an event; pointers of what was replaced.
    pub(super) fn open(
        &mut self,
        arguments: &mut Expr,
        recorded: &Map<String, Value>,
        position: usize,
    ) -> Vec<(String, Reference)> {
        if let Expr::Literal(Value::Object(map)) = arguments {
            let members = std::mem::take(map).into_iter();
            *arguments = Expr::Object(members.map(|(key, value)| (key, Expr::Literal(value))).collect());
        }
        let mut opened = Vec::new();
        let Expr::Object(members) = arguments else { return opened };
        for (key, expr) in members {
            let pointer = child("", key);
            self.literals(expr, &pointer, key, position, &mut opened);
            let agrees = self.others.iter().all(|other| other.makes_argument(expr, position, key));
            // Lists of different lengths can't be told apart item by item.
            if !agrees && let Some(value) = recorded.get(key) {
                *expr = self.input(value, &pointer, key, position, &mut opened);
            }
        }
        opened
    }

    fn literals(
        &mut self,
        expr: &mut Expr,
        pointer: &str,
        name: &str,
        position: usize,
        opened: &mut Vec<(String, Reference)>,
    ) {
        match expr {
            Expr::Literal(value) => {
                let differs = |other: &Other| {
                    other.argument(position, pointer).is_some_and(|found| !same(found, value))
                };
                if self.others.iter().any(differs) {
                    let value = value.clone();
                    *expr = self.input(&value, pointer, name, position, opened);
                }
            }
            Expr::Object(members) => {
                for (key, member) in members {
                    self.literals(member, &child(pointer, key), key, position, opened);
                }
            }
            Expr::List(items) => {
                for (index, member) in items.iter_mut().enumerate() {
                    self.literals(member, &item(pointer, index), name, position, opened);
                }
            }
            Expr::Ref(_) | Expr::Template(_) => {}
        }
    }

    /// An input named after the argument; the same one where all recordings have the same values.
    fn input(
        &mut self,
        value: &Value,
        pointer: &str,
        name: &str,
        position: usize,
        opened: &mut Vec<(String, Reference)>,
    ) -> Expr {
        let seen: Vec<Value> = self
            .others
            .iter()
            .map(|other| other.argument(position, pointer).unwrap_or(value).clone())
            .collect();
        let key = format!("{name}\n{value}\n{}", Value::Array(seen.clone()));
        let name = self.made.entry(key).or_insert_with(|| {
            let numbered = (2..).map(|number| format!("{name}_{number}"));
            let free =
                std::iter::once(name.to_owned()).chain(numbered).find(|name| !self.first.contains_key(name));
            let free = free.unwrap_or_default();
            self.first.insert(free.clone(), value.clone());
            for (other, value) in self.others.iter_mut().zip(seen) {
                other.inputs.insert(free.clone(), value);
            }
            free
        });
        let reference = Reference { source: Source::Input(name.clone()), path: Vec::new(), convert: None };
        opened.retain(|(known, _)| !known.starts_with(pointer));
        opened.push((pointer.to_owned(), reference.clone()));
        Expr::Ref(reference)
    }
}
