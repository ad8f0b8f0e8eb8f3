//! Items of lists and of maps: which of them would be taken again, and which the session chose.
//!
//! Owns that rule, and the making of arguments from what is left bound. Refuses to guess at reasons for a
//! choice: whoever ran the session had one, and the recording doesn't hold it.
//!
//! **Invariant:** an item is bound only if it is the first of its list, or calls of one tool take the items
//! of that list one after the other from the first on. A value whose path names the value itself is never
//! bound.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::infer::Inferred;
use crate::problem::{child, item};
use crate::workflow::{Expr, Verdict};

const CHOSEN: &str = "the session chose this item of a list; why isn't recorded";

const NAMED: &str = "the path to it names the value itself: another run finds the same there or nothing";

/// An argument value that was found in an item of a list, or in a map under a key that is the value.
pub(super) struct Pick {
    node: u32,
    decision: usize,
    /// Who takes it: tool and pointer.
    taker: (u32, String),
    /// The length of the pointer to the list of the argument that it is in.
    within: Option<usize>,
    /// The lists it is in and the index in each.
    steps: Vec<(u32, usize)>,
    /// The path to it names it.
    named: bool,
}

impl Pick {
    /// Nothing if the value is in no list and its path doesn't name it.
    pub(super) fn of(
        node: u32,
        decision: usize,
        pointer: &str,
        tool: u32,
        within: Option<usize>,
        steps: Vec<(u32, usize)>,
        named: bool,
    ) -> Option<Pick> {
        let taker = (tool, pointer.to_owned());
        (named || !steps.is_empty()).then_some(Pick { node, decision, taker, within, steps, named })
    }
}

/// The items of one list that one taker took, in order.
#[derive(Default)]
struct Walk {
    seen: BTreeSet<usize>,
    /// Each new item was the next one.
    in_order: bool,
}

/// Leaves every value that the session chose as it was recorded.
pub(super) fn settle(picks: &[Pick], all: &mut [Inferred]) {
    let mut walks: HashMap<(&(u32, String), u32), Walk> = HashMap::new();
    for pick in picks {
        for (list, index) in &pick.steps {
            let walk = walks
                .entry((&pick.taker, *list))
                .or_insert_with(|| Walk { seen: BTreeSet::new(), in_order: true });
            walk.in_order &= walk.seen.contains(index) || *index == walk.seen.len();
            walk.seen.insert(*index);
        }
    }
    for pick in picks {
        let walked =
            |(list, _): &(u32, usize)| walks.get(&(&pick.taker, *list)).is_some_and(|walk| walk.in_order);
        if !pick.named && pick.steps.iter().all(walked) {
            continue;
        }
        if let Some(inferred) = all.get_mut(pick.node as usize) {
            leave(pick, inferred);
        }
    }
}

fn leave(pick: &Pick, inferred: &mut Inferred) {
    let Some(decision) = inferred.decisions.get_mut(pick.decision) else { return };
    let Some(chosen) = decision.chosen.take() else { return };
    decision.candidates.insert(0, chosen);
    decision.verdict = Verdict::Choice;
    decision.reasons = vec![if pick.named { NAMED } else { CHOSEN }.into()];
    let Some(list) = pick.within.and_then(|end| pick.taker.1.get(..end)) else { return };
    // Some items were chosen in the session. To bind the others would mix old values with new ones.
    let inside = |pointer: &str| pointer.strip_prefix(list).is_some_and(|rest| rest.starts_with('/'));
    let settled = &inferred.settled;
    let open = inferred.decisions.iter_mut().enumerate().filter(|(index, _)| !settled.contains(index));
    for (_, decision) in open.filter(|(_, decision)| inside(&decision.pointer)) {
        if decision.expr().is_some() {
            decision.verdict = Verdict::Choice;
            decision.candidates.splice(0..0, decision.chosen.take());
            decision.reasons.push("other items of this list are choices of the session".into());
        }
    }
}

/// An object in which some members are bound; the others are data. What is bound is taken.
pub(super) fn members(map: &Map<String, Value>, pointer: &str, bound: &mut BTreeMap<&str, Expr>) -> Expr {
    let members = map.iter().map(|(key, value)| (key.clone(), made(value, &child(pointer, key), bound)));
    Expr::Object(members.collect())
}

fn made(value: &Value, pointer: &str, bound: &mut BTreeMap<&str, Expr>) -> Expr {
    if let Some(expr) = bound.remove(pointer) {
        return expr;
    }
    if !(value.is_object() || value.is_array()) {
        return Expr::Literal(value.clone());
    }
    let below = format!("{pointer}/");
    let is_inside = bound.range(below.as_str()..).next().is_some_and(|(key, _)| key.starts_with(&below));
    match value {
        Value::Object(map) if is_inside => members(map, pointer, bound),
        Value::Array(list) if is_inside => {
            let items = list.iter().enumerate();
            Expr::List(items.map(|(index, value)| made(value, &item(pointer, index), bound)).collect())
        }
        value => Expr::Literal(value.clone()),
    }
}
