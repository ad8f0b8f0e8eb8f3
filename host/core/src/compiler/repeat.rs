//! Arguments that repeat what one of several earlier calls was given.
//!
//! Owns one rule: a session that tried a list or object of values in several calls of one tool and then goes on,
//! in a call of another, with one of them, chose it for a reason that the recording doesn't hold. Refuses single
//! values: for those the place they come from says as much.
//!
//! **Invariant:** what goes on with each of the earlier calls is no choice.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Kept;
use super::index::typed_hash;
use super::infer::Inferred;
use crate::problem::child;
use crate::workflow::{Decision, Verdict};

const REPEATED: &str =
    "several calls were tried with such values, and why this one was gone on with isn't recorded";

/// What calls of one tool were given under one name: the node that was given each first.
type Given = HashMap<u64, usize>;

/// Leaves to a person what was chosen among earlier calls.
pub(super) fn settle(kept: &[Kept<'_>], all: &mut [Inferred]) {
    let mut by_name: HashMap<&str, HashMap<&str, Given>> = HashMap::new();
    for (at, kept) in kept.iter().enumerate() {
        for (name, value) in containers(kept) {
            let given = by_name.entry(name).or_default().entry(kept.tool.as_str()).or_default();
            given.entry(typed_hash(value)).or_insert(at);
        }
    }
    by_name.retain(|_, tools| tools.len() > 1);
    for (at, (kept, inferred)) in kept.iter().zip(all).enumerate() {
        for (name, value) in containers(kept) {
            let Some(tools) = by_name.get(name) else { continue };
            let hash = typed_hash(value);
            let own: HashSet<u64> =
                tools.get(kept.tool.as_str()).into_iter().flatten().map(|(hash, _)| *hash).collect();
            let is_choice = tools.iter().any(|(tool, given)| {
                let before = |(_, first): &(&u64, &usize)| **first < at;
                *tool != kept.tool.as_str()
                    && given.get(&hash).is_some_and(|first| *first < at)
                    && given.iter().filter(before).any(|(other, _)| !own.contains(other))
            });
            if is_choice {
                leave(inferred, &format!("{}/", child("", name)));
            }
        }
    }
}

fn containers<'k>(kept: &'k Kept<'_>) -> impl Iterator<Item = (&'k str, &'k Value)> {
    let arguments = kept.event.arguments.iter();
    arguments
        .filter(|(_, value)| value.is_array() || value.is_object())
        .map(|(key, value)| (key.as_str(), value))
}

fn leave(inferred: &mut Inferred, inside: &str) {
    let settled = &inferred.settled;
    let is_inside = |(index, decision): &(usize, &mut Decision)| {
        decision.chosen.is_some() && decision.pointer.starts_with(inside) && !settled.contains(index)
    };
    let mut bound: Vec<(usize, &mut Decision)> =
        inferred.decisions.iter_mut().enumerate().filter(is_inside).collect();
    if bound.len() < 2 {
        return;
    }
    for (_, decision) in &mut bound {
        decision.candidates.splice(0..0, decision.chosen.take());
        decision.verdict = Verdict::Choice;
        decision.reasons = vec![REPEATED.to_owned()];
    }
}
