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

/// An object in a result with a key that an argument may be. They come in the order of nodes.
pub(super) struct Keyed {
    pub(super) node: u32,
    pub(super) key: String,
    pub(super) kind: Kind,
    pub(super) object: Reference,
}

/// Flags every unexplained argument that is a key. `is_input` knows the inputs that were recorded.
pub(super) fn flag(
    keyed: Vec<Keyed>,
    all_kept: &[Kept<'_>],
    others: &[Other],
    all: &mut [Inferred],
    is_input: &dyn Fn(&str) -> bool,
) {
    if keyed.is_empty() {
        return;
    }
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
    let everywhere = |wanted: &Wanted, object: &Reference| holds_everywhere(all_kept, others, wanted, object);
    let mut keyed = keyed.into_iter().peekable();
    for (node, kept) in (0..).zip(all_kept) {
        kept.event.arguments.values().for_each(|value| sought.give(value));
        while let Some(keyed) = keyed.next_if(|keyed| keyed.node == node) {
            sought.offer(keyed, &everywhere);
        }
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
                decision.reasons.push(REASON.into());
            }
            None => {
                inferred.decisions.push(Decision {
                    pointer: wanted.pointer,
                    verdict: Verdict::Choice,
                    chosen: None,
                    candidates: wanted.found,
                    template: None,
                    reasons: vec![REASON.into()],
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

    /// No means that it isn't sought.
    fn is_like_any(&self, text: &str) -> bool {
        text.len() <= MAX_KEY && self.filter.get(slot(text)) == Some(&true)
    }

    fn give(&mut self, value: &Value) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| self.give(value)),
            Value::Object(map) => map.values().for_each(|value| self.give(value)),
            scalar => {
                // Few values are sought, and most others are told apart without making a text of them.
                let is_like = match scalar {
                    Value::String(text) => self.is_like_any(text),
                    other => other.is_number(),
                };
                let text = is_like.then(|| as_key(scalar)).flatten();
                self.given.extend(text.filter(|text| self.by_text.contains_key(text)));
            }
        }
    }

    /// Offers an object to the arguments of later nodes that are a key of it.
    fn offer(&mut self, keyed: Keyed, everywhere: &dyn Fn(&Wanted, &Reference) -> bool) {
        if self.given.contains(&keyed.key) {
            return;
        }
        for number in self.by_text.get(&keyed.key).into_iter().flatten() {
            let Some(wanted) = self.all.get_mut(*number) else { continue };
            if wanted.node <= keyed.node as usize || wanted.found.len() >= MAX_NAMED {
                continue;
            }
            let agrees = keyed.kind == Kind::Map || names_agree(&wanted.pointer, &keyed.object.path);
            if agrees && everywhere(wanted, &keyed.object) {
                wanted.found.push(keyed.object.clone());
            }
        }
    }
}

/// Whether each further recording's value is a key of the same object there, if it has the value.
fn holds_everywhere(kept: &[Kept<'_>], others: &[Other], wanted: &Wanted, object: &Reference) -> bool {
    let Some(position) = kept.get(wanted.node).map(|kept| kept.position) else { return false };
    let Source::Node(id) = &object.source else { return false };
    others.iter().all(|other| {
        let Some(value) = other.argument(position, &wanted.pointer) else { return true };
        let found = object.follow(other.results.get(id));
        let found = found.as_ref().ok().and_then(|found| found.as_object());
        as_key(value).zip(found).is_some_and(|(key, found)| found.contains_key(&key))
    })
}

/// How sure it is that an object's keys are data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    /// One entry under a plain word may be a field, too.
    Perhaps,
}

/// Nothing if the keys are the names of fields.
pub(super) fn kind_of(map: &Map<String, Value>, key: &str) -> Option<Kind> {
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
fn names_agree(pointer: &str, path: &[Step]) -> bool {
    let name = pointer.rsplit('/').find(|name| name.parse::<usize>().is_err()).unwrap_or_default();
    let map = path.iter().rev().find_map(|step| match step {
        Step::Key(key) => Some(key),
        _ => None,
    });
    map.is_some_and(|map| likeness(&words(name), &words(map), &[]) >= ALIKE)
}
