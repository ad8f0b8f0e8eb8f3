//! Arguments that repeat what one of several earlier calls was given.
//!
//! Owns one rule: a session that tried a list or object of earlier values in several calls of one tool and then
//! goes on, in a call of another, with the values of one of them, chose it for a reason that the recording
//! doesn't hold. Refuses single values: for those the place they come from says as much.
//!
//! **Invariant:** what goes on with each of the earlier calls is no choice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Kept;
use super::infer::Inferred;
use crate::problem::child;
use crate::workflow::{Decision, Verdict};

const REPEATED: &str =
    "several calls were tried with such values, and why this one was gone on with isn't recorded";

/// What calls of one tool were given under one name, as hashes of their sources: the first node of each.
type Given = HashMap<u64, usize>;

/// Leaves to a person what was chosen among earlier calls.
pub(super) fn settle(kept: &[Kept<'_>], all: &mut [Inferred]) {
    let groups: Vec<BTreeMap<&str, u64>> =
        kept.iter().zip(&*all).map(|(kept, made)| sources(kept, made)).collect();
    let mut by_name: HashMap<&str, HashMap<&str, Given>> = HashMap::new();
    for (at, (kept, groups)) in kept.iter().zip(&groups).enumerate() {
        for (name, hash) in groups {
            let given = by_name.entry(name).or_default().entry(kept.tool.as_str()).or_default();
            given.entry(*hash).or_insert(at);
        }
    }
    by_name.retain(|_, tools| tools.len() > 1);
    for (at, ((kept, inferred), groups)) in kept.iter().zip(all).zip(&groups).enumerate() {
        for (name, hash) in groups {
            let Some(tools) = by_name.get(name) else { continue };
            let own = tools.get(kept.tool.as_str());
            let own: HashSet<u64> = own.into_iter().flatten().map(|(hash, _)| *hash).collect();
            let is_choice = tools.iter().any(|(tool, given)| {
                let before = |(_, first): &(&u64, &usize)| **first < at;
                *tool != kept.tool.as_str()
                    && given.get(hash).is_some_and(|first| *first < at)
                    && given.iter().filter(before).any(|(other, _)| !own.contains(other))
            });
            if is_choice {
                leave(inferred, &inside(name));
            }
        }
    }
}

fn inside(name: &str) -> String {
    format!("{}/", child("", name))
}

/// For each list or object that holds two or more earlier values a hash of where they come from.
fn sources<'k>(kept: &'k Kept<'_>, made: &Inferred) -> BTreeMap<&'k str, u64> {
    let arguments = kept.event.arguments.iter();
    let containers = arguments.filter(|(_, value)| value.is_array() || value.is_object());
    let found = containers.filter_map(|(name, _)| {
        let inside = inside(name);
        let mut hasher = DefaultHasher::new();
        let mut count = 0usize;
        for decision in &made.decisions {
            if let (Some(rest), Some(chosen)) = (decision.pointer.strip_prefix(&inside), &decision.chosen) {
                (rest, chosen).hash(&mut hasher);
                count += 1;
            }
        }
        (count > 1).then(|| (name.as_str(), hasher.finish()))
    });
    found.collect()
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
        decision.reasons = vec![REPEATED.into()];
    }
}
