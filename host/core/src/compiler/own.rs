//! What one recording says by itself, before others are laid beside it.
//!
//! Owns the look at a recording alone: which calls could be nodes, what they touch, where their arguments come
//! from. Refuses to decide: whatever is found here has to hold in the others too.
//!
//! **Invariant:** a call without an entry can't be a node, and one whose arguments are given no source repeats an
//! earlier call or takes them from nowhere.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::align::Call;
use super::asked::Asked;
use super::facts::Facts;
use super::hash::loose_hash;
use super::{Kept, Options, Selected, select, stated};
use crate::code::Code;
use crate::effect::Effect;
use crate::problem::{Problem, Problems, child, item};
use crate::trace::Trace;
use crate::workflow::{Decision, Dropped, Reference, Source, Verdict};

/// Most values of one call that its likeness to others is counted by.
const MAX_MARKS: usize = 64;

/// One recording.
pub(super) struct Own {
    /// By position, in order: the calls that could be nodes.
    pub(super) calls: BTreeMap<usize, OwnCall>,
    /// Positions by the ids of events.
    positions: HashMap<String, usize>,
    /// Events that can't be nodes.
    pub(super) left_out: Vec<(usize, Dropped)>,
}

/// One call.
pub(super) struct OwnCall {
    pub(super) facts: Facts,
    /// The call whose result it repeats.
    pub(super) repeats: Option<usize>,
    pub(super) decisions: Vec<Decision>,
    /// Positions of the calls that it declares to need.
    pub(super) declared: Vec<usize>,
}

impl Own {
    /// Looks at a recording. `number` is counted from 1.
    pub(super) fn of(trace: &Trace, number: usize, options: &Options) -> Result<Own, Problems> {
        Own::look(trace, options).map_err(|problems| named(problems, number))
    }

    fn look(trace: &Trace, options: &Options) -> Result<Own, Problems> {
        let Selected { kept, dropped, alias, declared, .. } = select(trace, options, &[], false)?;
        let asked = Asked::of(&trace.events);
        let (inferred, _) = super::infer::infer(trace, &[], &kept, &declared, &asked, options)?;
        let position = |node: u32| kept.get(node as usize).map(|kept: &Kept<'_>| kept.position);
        let mut calls: BTreeMap<usize, OwnCall> = BTreeMap::new();
        for ((kept, declared), inferred) in kept.iter().zip(&declared).zip(inferred) {
            let declared = declared.iter().filter_map(|node| position(*node)).collect();
            let (facts, decisions) = (kept.facts.clone(), inferred.decisions);
            calls.insert(kept.position, OwnCall { facts, repeats: None, decisions, declared });
        }
        let mut left_out = Vec::new();
        for (at, dropped) in dropped {
            let first = dropped.same_as.as_ref().and_then(|id| alias.get(id.as_str()));
            match first.and_then(|node| kept.get(*node as usize)) {
                Some(first) => {
                    let (facts, repeats) = (first.facts.clone(), Some(first.position));
                    let call = OwnCall { facts, repeats, decisions: Vec::new(), declared: Vec::new() };
                    calls.insert(at, call);
                }
                None => left_out.push((at, dropped)),
            }
        }
        let positions = trace.events.iter().enumerate().map(|(at, event)| (event.id.to_string(), at));
        Ok(Own { calls, positions: positions.collect(), left_out })
    }

    /// The position of the call that a reference starts at.
    pub(super) fn source(&self, reference: &Reference) -> Option<usize> {
        match &reference.source {
            Source::Input(_) => None,
            Source::Node(id) => self.positions.get(id.as_str()).copied(),
        }
    }

    /// What the calls are compared by. `kinds` numbers the kinds of all recordings.
    pub(super) fn compared(
        &self,
        trace: &Trace,
        options: &Options,
        kinds: &mut BTreeMap<(String, Effect), u32>,
    ) -> Vec<Call> {
        let mut calls = Vec::with_capacity(self.calls.len());
        for (at, own) in &self.calls {
            let Some(event) = trace.events.get(*at) else { continue };
            // A claim of one recorder doesn't make the call another one than that of the next.
            let effect = stated(event, options).facts.effect;
            let next = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
            let kind = *kinds.entry((event.tool.clone(), effect)).or_insert(next);
            let mut held = Vec::new();
            for (key, value) in &event.arguments {
                marks(value, &child("", key), &mut held);
            }
            // A repeat is made like the call that it repeats.
            let made = own.repeats.and_then(|first| self.calls.get(&first)).unwrap_or(own);
            let mut made: Vec<u64> = made
                .decisions
                .iter()
                .filter_map(|decision| self.made(trace, decision))
                .take(MAX_MARKS)
                .collect();
            held.sort_unstable();
            made.sort_unstable();
            calls.push(Call { kind, made, held });
        }
        calls
    }

    /// A hash of where a value comes from that is the same in recordings with other ids.
    fn made(&self, trace: &Trace, decision: &Decision) -> Option<u64> {
        let chosen = decision.chosen.as_ref()?;
        let from = match &chosen.source {
            Source::Input(name) => name.clone(),
            Source::Node(_) => trace.events.get(self.source(chosen)?)?.tool.clone(),
        };
        let path: String = chosen.path.iter().map(|step| format!("/{step}")).collect();
        let is_input = matches!(chosen.source, Source::Input(_));
        Some(loose_hash(&Value::String(format!("{}\n{is_input}\n{from}\n{path}", decision.pointer))))
    }
}

/// Where a value came from, if the recording by itself says that it did.
pub(super) fn sources(decision: &Decision) -> &[Reference] {
    match (&decision.chosen, decision.verdict) {
        (Some(chosen), _) => std::slice::from_ref(chosen),
        (None, Verdict::Choice) => decision.candidates.get(..1).unwrap_or_default(),
        (None, Verdict::Ambiguous) => &decision.candidates,
        _ => &[],
    }
}

fn marks(value: &Value, pointer: &str, found: &mut Vec<u64>) {
    if found.len() >= MAX_MARKS {
        return;
    }
    match value {
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                marks(value, &item(pointer, index), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                marks(value, &child(pointer, key), found);
            }
        }
        scalar => found.push(loose_hash(&Value::String(format!("{pointer}\n{scalar}")))),
    }
}

/// The same problems, of a further recording.
fn named(problems: Problems, number: usize) -> Problems {
    if number == 1 {
        return problems;
    }
    let list = problems.into_list().into_iter();
    let list = list
        .map(|problem| Problem { message: format!("recording {number}: {}", problem.message), ..problem });
    match Problems::from_list(list.collect()) {
        Err(problems) => problems,
        Ok(()) => Problem::at(Code::Internal, "", "a recording was refused without a reason").into(),
    }
}
