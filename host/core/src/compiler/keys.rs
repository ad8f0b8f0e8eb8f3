//! Arguments that are keys of an object in an earlier result, as in `{"alice": {...}}` and `user: "alice"`.
//!
//! Owns their search, among the values that nothing else explains. Refuses to bind them: a reference leads to
//! values, and which of the keys the session took, and why, isn't recorded. So it is a choice that a person looks
//! at, with the object as its candidate.
//!
//! An object counts as a map if its values are of one kind, and are objects or lists, or its key is no plain word.
//! A map of one entry that has a plain word as its key says less: there the argument's name has to agree with
//! that of the map. A key that the caller knew before is no source.
//!
//! **Invariant:** in every recording that has the argument, its value is a key of the object that is named.

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use serde_json::{Map, Value};

use super::Kept;
use super::index::json_texts;
use super::infer::Inferred;
use super::names::{ALIKE, likeness, words};
use super::score::{Weight, weight};
use super::several::Other;
use crate::problem::{child, item, lookup};
use crate::workflow::{Decision, Reference, Source, Step, Verdict};

/// Most objects that one decision names.
const MAX_NAMED: usize = 4;

/// Longest key looked for, in bytes.
const MAX_KEY: usize = 255;

const REASON: &str = "it is a key of an object in an earlier result; a reference leads to a value, not to a \
                      key, so it can't be bound yet";

/// A value that nothing explains.
struct Wanted {
    node: usize,
    pointer: String,
    /// Its number among the node's decisions, unless it is inside of what was decided as a whole.
    decision: Option<usize>,
    found: Vec<Reference>,
}

/// The values sought, by text.
#[derive(Default)]
struct Sought {
    all: Vec<Wanted>,
    by_text: HashMap<String, Vec<usize>>,
    /// What the nodes up to the one at hand were given.
    given: HashSet<String>,
    /// By length and first byte: whether any is like that. Most keys aren't.
    filter: Vec<bool>,
}

/// Flags every unexplained argument that is a key. `is_input` knows the inputs that were recorded.
pub(super) fn flag(
    all_kept: &[Kept<'_>],
    others: &[Other],
    all: &mut [Inferred],
    is_input: &dyn Fn(&str) -> bool,
) {
    let mut sought = Sought { filter: vec![false; 1 << 16], ..Sought::default() };
    for (node, (kept, inferred)) in all_kept.iter().zip(all.iter()).enumerate() {
        for (number, decision) in inferred.decisions.iter().enumerate() {
            let opened = decision.verdict == Verdict::Input
                && matches!(&decision.chosen, Some(Reference { source: Source::Input(name), .. }) if !is_input(name));
            let open = decision.verdict == Verdict::Literal || opened;
            if !open || !decision.candidates.is_empty() {
                continue;
            }
            let Some(value) = lookup(&kept.event.arguments, &decision.pointer) else { continue };
            sought.want(node, value, &decision.pointer, Some(number));
        }
    }
    if sought.all.is_empty() {
        return;
    }
    for (node, kept) in all_kept.iter().enumerate() {
        kept.event.arguments.values().for_each(|value| sought.give(value));
        sought.walk(&Here { node, kept: all_kept, others }, &kept.event.result, &mut Vec::new());
    }
    for wanted in sought.all.into_iter().filter(|wanted| !wanted.found.is_empty()) {
        let Some(inferred) = all.get_mut(wanted.node) else { continue };
        match wanted.decision.and_then(|number| inferred.decisions.get_mut(number)) {
            Some(decision) => {
                decision.candidates = wanted.found;
                if decision.verdict == Verdict::Literal {
                    decision.verdict = Verdict::Choice;
                    decision.reasons.clear();
                }
                decision.reasons.push(REASON.to_owned());
            }
            None => {
                inferred.decisions.push(Decision {
                    pointer: wanted.pointer,
                    verdict: Verdict::Choice,
                    chosen: None,
                    candidates: wanted.found,
                    template: None,
                    reasons: vec![REASON.to_owned()],
                });
                inferred.confidence.push(0.0);
            }
        }
    }
}

/// The text that a value would have as a key.
fn as_key(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty() && text.len() <= MAX_KEY).then_some(text)
}

fn slot(text: &str) -> usize {
    text.len() << 8 | usize::from(text.bytes().next().unwrap_or_default())
}

impl Sought {
    fn want(&mut self, node: usize, value: &Value, pointer: &str, decision: Option<usize>) {
        match value {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    self.want(node, value, &item(pointer, index), None);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.want(node, value, &child(pointer, key), None);
                }
            }
            scalar => {
                let Some(text) = as_key(scalar).filter(|_| weight(scalar) != Weight::Never) else { return };
                if let Some(slot) = self.filter.get_mut(slot(&text)) {
                    *slot = true;
                }
                self.by_text.entry(text).or_default().push(self.all.len());
                let pointer = pointer.to_owned();
                self.all.push(Wanted { node, pointer, decision, found: Vec::new() });
            }
        }
    }

    fn give(&mut self, value: &Value) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| self.give(value)),
            Value::Object(map) => map.values().for_each(|value| self.give(value)),
            scalar => {
                if let Some(text) = as_key(scalar).filter(|text| self.by_text.contains_key(text)) {
                    self.given.insert(text);
                }
            }
        }
    }

    /// Looks through the result of a node.
    fn walk<'v>(&mut self, here: &Here<'_>, value: &'v Value, path: &mut Vec<Way<'v>>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.look(here, map, key, path);
                    path.push(Way::Key(key));
                    self.walk(here, value, path);
                    path.pop();
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    path.push(Way::Index(index));
                    self.walk(here, value, path);
                    path.pop();
                }
            }
            Value::String(_) => {
                if let Some(inner) = json_texts(value).first().filter(|inner| !inner.is_null()) {
                    let mut path: Vec<Way<'_>> = path.clone();
                    path.push(Way::Json);
                    self.walk(here, inner, &mut path);
                }
            }
            _ => {}
        }
    }

    fn look(&mut self, here: &Here<'_>, map: &Map<String, Value>, key: &str, path: &[Way<'_>]) {
        if key.len() > MAX_KEY || self.filter.get(slot(key)) != Some(&true) {
            return;
        }
        let Some(numbers) = self.by_text.get(key) else { return };
        if self.given.contains(key) {
            return;
        }
        let Some(kind) = kind_of(map, key) else { return };
        for number in numbers {
            let Some(wanted) = self.all.get_mut(*number) else { continue };
            if wanted.node <= here.node || wanted.found.len() >= MAX_NAMED {
                continue;
            }
            let Some(reference) = here.reference(path) else { continue };
            let agrees = kind == Kind::Map || names_agree(&wanted.pointer, path);
            if agrees && here.holds_everywhere(wanted, &reference) {
                wanted.found.push(reference);
            }
        }
    }
}

/// The result that is looked through.
struct Here<'a> {
    node: usize,
    kept: &'a [Kept<'a>],
    others: &'a [Other],
}

/// One step, borrowed: most ways are walked for nothing.
#[derive(Clone, Copy)]
enum Way<'v> {
    Key(&'v str),
    Index(usize),
    Json,
}

impl Here<'_> {
    fn reference(&self, path: &[Way<'_>]) -> Option<Reference> {
        let step = |way: &Way<'_>| match way {
            Way::Key(key) => Step::Key((*key).to_owned()),
            Way::Index(index) => Step::Index(*index),
            Way::Json => Step::ParseJson,
        };
        let source = Source::Node(self.kept.get(self.node)?.event.id.clone());
        Some(Reference { source, path: path.iter().map(step).collect(), convert: None })
    }

    /// Whether each further recording's value is a key of the same object there, if it has the value.
    fn holds_everywhere(&self, wanted: &Wanted, reference: &Reference) -> bool {
        let Some(position) = self.kept.get(wanted.node).map(|kept| kept.position) else { return false };
        let Source::Node(id) = &reference.source else { return false };
        self.others.iter().all(|other| {
            let Some(value) = other.argument(position, &wanted.pointer) else { return true };
            let object = reference.follow(other.results.get(id));
            let object = object.as_ref().ok().and_then(|object| object.as_object());
            as_key(value).zip(object).is_some_and(|(key, object)| object.contains_key(&key))
        })
    }
}

/// How sure it is that an object's keys are data.
#[derive(PartialEq, Eq)]
enum Kind {
    Map,
    /// One entry under a plain word may be a field, too.
    Perhaps,
}

/// Nothing if the keys are the names of fields.
fn kind_of(map: &Map<String, Value>, key: &str) -> Option<Kind> {
    let kind = |value: &Value| -> Discriminant<Value> { discriminant(value) };
    let first = map.get(key)?;
    let plain = key.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let nested = matches!(first, Value::Object(_) | Value::Array(_));
    if !map.values().all(|value| kind(value) == kind(first)) || (plain && !nested) {
        return None;
    }
    Some(if plain && map.len() == 1 { Kind::Perhaps } else { Kind::Map })
}

/// Whether the argument is named like the map.
fn names_agree(pointer: &str, path: &[Way<'_>]) -> bool {
    let name = pointer.rsplit('/').find(|name| name.parse::<usize>().is_err()).unwrap_or_default();
    let map = path.iter().rev().find_map(|way| match way {
        Way::Key(key) => Some(*key),
        _ => None,
    });
    map.is_some_and(|map| likeness(&words(name), &words(map), &[]) >= ALIKE)
}
