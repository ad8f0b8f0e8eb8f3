//! Numbers of formulas: what a computation's own shape says where values are equal.
//!
//! Owns two rules over calls that compute one number. A computation whose result nothing uses was made for the
//! one argument that it fits. And one of the few numbers that formulas hold themselves (halves, thirds, quarters,
//! months, minutes, percent), taken from an input a second time to go on with a result, is as likely the formula's own. Refuses
//! to look at anything but whole results that are one number, and at anything a person settled.
//!
//! **Invariant:** what is bound here was a candidate that fits every recording.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Kept;
use super::infer::Inferred;
use crate::effect::Effect;
use crate::workflow::{Decision, Reference, Source, Verdict};

const FOR_IT: &str = "the call computes this number and nothing else uses it";

const OWN: &str = "an input used before has this number, and formulas hold such a number themselves";

/// Whether a result is one number, but for the names it stands under.
fn is_one_number(result: &Value) -> bool {
    match result {
        Value::Number(_) => true,
        Value::Object(map) if map.len() == 1 => map.values().all(is_one_number),
        _ => false,
    }
}

/// Whether a call computes one number: what is known to change something returns a count instead.
fn computes(kept: &Kept<'_>) -> bool {
    let effect = kept.facts.effect;
    (effect.is_read_only() || effect == Effect::Unknown) && is_one_number(&kept.event.result)
}

/// Binds what fits only one argument to it, where nothing else uses it.
pub(super) fn give_use(kept: &[Kept<'_>], all: &mut [Inferred], number: impl Fn(&str) -> Option<u32>) {
    if !kept.iter().any(computes) {
        return;
    }
    let node_of = |reference: &Reference| match &reference.source {
        Source::Node(id) => number(id.as_str()),
        Source::Input(_) => None,
    };
    let is_number = |node: u32| kept.get(node as usize).is_some_and(computes);
    let mut uses: HashMap<u32, usize> = HashMap::new();
    for decision in all.iter().flat_map(|inferred| &inferred.decisions) {
        if let Some(node) = decision.chosen.as_ref().and_then(&node_of) {
            *uses.entry(node).or_default() += 1;
        }
    }
    let unused = |node: u32| is_number(node) && !uses.contains_key(&node);
    // For each unused node the decisions that could take it.
    let mut takers: HashMap<u32, Vec<(usize, usize, usize)>> = HashMap::new();
    for (at, inferred) in all.iter().enumerate() {
        for (index, decision) in inferred.decisions.iter().enumerate() {
            let is_open = match decision.verdict {
                Verdict::Ambiguous => true,
                Verdict::Input | Verdict::Reference => inferred.unnamed.contains(&index),
                Verdict::Literal | Verdict::Choice => false,
            };
            if !is_open || inferred.settled.contains(&index) {
                continue;
            }
            let mut offers = decision.candidates.iter().enumerate();
            let mut offers = offers.by_ref().filter_map(|(candidate, reference)| {
                node_of(reference).filter(|node| unused(*node)).map(|node| (node, candidate))
            });
            if let (Some((node, candidate)), None) = (offers.next(), offers.next()) {
                takers.entry(node).or_default().push((at, index, candidate));
            }
        }
    }
    let mut claims: Vec<(usize, usize, usize)> = takers
        .into_values()
        .filter_map(|takers| match takers.as_slice() {
            [one] => Some(*one),
            _ => None,
        })
        .collect();
    claims.sort_unstable();
    for (at, index, candidate) in claims {
        let Some(inferred) = all.get_mut(at) else { continue };
        let Some(decision) = inferred.decisions.get_mut(index) else { continue };
        // What loses its only use in turn had the better claim.
        if let Some(node) = decision.chosen.as_ref().and_then(&node_of).filter(|node| is_number(*node)) {
            match uses.get_mut(&node) {
                Some(count) if *count > 1 => *count -= 1,
                _ => continue,
            }
        }
        take(decision, candidate);
        if let Some(confidence) = inferred.confidence.get_mut(index) {
            *confidence = 0.75;
        }
    }
}

fn take(decision: &mut Decision, candidate: usize) {
    let taken = decision.candidates.remove(candidate);
    if let Some(before) = decision.chosen.replace(taken) {
        decision.candidates.insert(0, before);
    }
    decision.verdict = Verdict::Reference;
    decision.reasons = vec!["the same value".into(), FOR_IT.into()];
}

/// Whether formulas hold a number themselves: for halves, thirds, quarters, months, minutes, percent and thousands.
fn is_everyday(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| [1.0, 2.0, 3.0, 4.0, 12.0, 60.0, 100.0, 1000.0].contains(&number))
}

/// Leaves such numbers to a person where an input that was used before has them.
pub(super) fn doubt_inputs(kept: &[Kept<'_>], all: &mut [Inferred]) {
    let mut used: HashSet<Reference> = HashSet::new();
    for (kept, inferred) in kept.iter().zip(all.iter_mut()) {
        let goes_on = inferred.decisions.iter().any(|decision| decision.verdict == Verdict::Reference);
        let mut here = Vec::new();
        for (index, decision) in inferred.decisions.iter_mut().enumerate() {
            let Some(chosen) = decision.chosen.as_ref().filter(|_| decision.verdict == Verdict::Input) else {
                continue;
            };
            here.push(chosen.clone());
            let value = kept.event.arguments.get(decision.pointer.trim_start_matches('/'));
            let doubtful = goes_on
                && used.contains(chosen)
                && value.is_some_and(is_everyday)
                && inferred.unnamed.contains(&index)
                && !inferred.varied.contains(&index);
            if doubtful {
                decision.candidates.extend(decision.chosen.take());
                decision.candidates.rotate_right(1);
                decision.verdict = Verdict::Ambiguous;
                decision.reasons = vec![OWN.into()];
            }
        }
        used.extend(here);
    }
}
