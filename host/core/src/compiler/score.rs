//! How much speaks for one source of an argument.
//!
//! Owns the weight of values and of evidence. Refuses to look at other candidates: `infer` compares.
//!
//! **Invariant:** null and what is empty never match, and a value that anything could have matches only by
//! its name, or as the whole result of a call that computes one number.

use serde_json::Value;

use super::hash::{same, spelled_number};
use super::index::Index;
use super::names::{STRONG, likeness};
use super::offered::Place;
use crate::redact;
use crate::workflow::Convert;

/// How much a value says of where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Nothing: null, or empty.
    Never,
    /// Little: a flag, a small or round number, a very short word.
    Weak,
    /// Enough.
    Strong,
}

/// Integers up to this size are page numbers, counts and flags more often than data.
const SMALL: f64 = 20.0;

pub(super) fn weight(value: &Value) -> Weight {
    // A redacted secret says nothing of where it came from, whole, in a text or in a list.
    unmarked(value).unwrap_or(Weight::Never)
}

/// The weight of a value without a marker; nothing if there is one in it.
fn unmarked(value: &Value) -> Option<Weight> {
    match value {
        Value::Null => Some(Weight::Never),
        Value::Bool(_) => Some(Weight::Weak),
        Value::Number(number) => {
            let size = number.as_f64().unwrap_or_default().abs();
            Some(number_weight(size, number.is_f64()))
        }
        Value::String(text) => (!redact::holds_marker(text)).then(|| text_weight(text)),
        Value::Array(list) => heaviest(list.iter()),
        Value::Object(map) if map.keys().any(|key| redact::holds_marker(key)) => None,
        Value::Object(map) => heaviest(map.values()),
    }
}

fn number_weight(size: f64, is_float: bool) -> Weight {
    if size.fract() != 0.0 {
        return Weight::Strong;
    }
    // A program that writes `3.0` computed it; `3` may be a page number.
    if is_float {
        return if size == 0.0 { Weight::Weak } else { Weight::Strong };
    }
    if size <= SMALL || is_round(size) { Weight::Weak } else { Weight::Strong }
}

/// One digit and noughts: page sizes, limits and timeouts.
fn is_round(size: f64) -> bool {
    let mut rest = size;
    while rest >= 10.0 && rest % 10.0 == 0.0 {
        rest /= 10.0;
    }
    rest < 10.0 && size <= 100_000.0
}

pub(super) fn text_weight(text: &str) -> Weight {
    if let Some(number) = spelled_number(text) {
        return number_weight(number.as_f64().unwrap_or_default().abs(), false);
    }
    let text = text.trim();
    match text.chars().count() {
        0 => Weight::Never,
        1..=3 => Weight::Weak,
        _ => Weight::Strong,
    }
}

fn heaviest<'v>(mut values: impl Iterator<Item = &'v Value>) -> Option<Weight> {
    values.try_fold(Weight::Never, |most, value| Some(most.max(unmarked(value)?)))
}

/// What is sought.
pub(super) struct Wanted<'a> {
    pub(super) value: &'a Value,
    pub(super) weight: Weight,
    pub(super) words: &'a [String],
}

/// What speaks against a candidate, whatever speaks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A key on the path to it is the value: the reference would be a literal in disguise.
    Named,
    /// A write returned it, and so common a value is the state restated more often than data.
    Restated,
}

/// A candidate and what speaks for it.
#[derive(Debug, Clone)]
pub(super) struct Scored {
    pub(super) place: u32,
    pub(super) source: u32,
    pub(super) depth: u32,
    pub(super) score: f64,
    pub(super) likeness: f64,
    pub(super) declared: bool,
    pub(super) convert: Option<Convert>,
    pub(super) doubt: Option<Doubt>,
}

impl Scored {
    /// Whether more than the value itself speaks for it.
    pub(super) fn has_evidence(&self) -> bool {
        self.likeness >= 0.3 || self.declared
    }
}

/// The score of one place, or nothing if it can't be the source.
pub(super) fn score(
    index: &Index<'_>,
    id: u32,
    wanted: &Wanted<'_>,
    tool_words: &[String],
    declared: bool,
) -> Option<Scored> {
    let place = index.place(id)?;
    let convert = conversion(place.value, wanted.value)?;
    let likeness = likeness_of(index, place, wanted.words, tool_words);
    let whole_number = place.is_whole_number();
    let fits = match wanted.weight {
        Weight::Never => false,
        Weight::Strong => true,
        Weight::Weak => likeness >= STRONG || whole_number || (declared && likeness >= 0.3),
    };
    if !fits {
        return None;
    }
    let mut score = likeness * 3.0;
    // Being all that a call returned counts for a common value what rarity counts for another one.
    score += if wanted.weight == Weight::Strong || whole_number { 2.0 } else { 0.0 };
    score += if declared { 3.0 } else { 0.0 };
    score += if convert.is_none() { 0.25 } else { 0.0 };
    let doubt = index.is_named(id).then_some(Doubt::Named);
    let (source, depth) = (place.source, place.depth);
    Some(Scored { place: id, source, depth, score, likeness, declared, convert, doubt })
}

fn likeness_of(index: &Index<'_>, place: &Place<'_>, wanted: &[String], tool_words: &[String]) -> f64 {
    let key = index.names.words(place.name);
    if key.is_empty() {
        // The value is all that the tool returned: the tool's name says what it is.
        return likeness(wanted, tool_words, &[]).min(0.85);
    }
    likeness(wanted, key, &[index.names.words(place.around), tool_words])
}

/// The conversion that makes `wanted` of `found`; nothing if there is none that is exact.
fn conversion(found: &Value, wanted: &Value) -> Option<Option<Convert>> {
    if same(found, wanted) {
        return Some(None);
    }
    let convert = match (found, wanted) {
        (Value::Number(_), Value::String(_)) => Convert::ToString,
        (Value::String(_), Value::Number(_)) => Convert::ToNumber,
        _ => return None,
    };
    let made = convert.apply(found.clone())?;
    same(&made, wanted).then_some(Some(convert))
}
