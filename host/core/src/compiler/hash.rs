//! Hashes by which values are found, and what counts as the same value.
//!
//! Owns the hash of a value by its content: of equal type and meaning, or with a number and the text that spells it
//! taken for one. Refuses to be a proof: whoever finds a value by its hash compares it.
//!
//! **Invariant:** values that are the same have the same hash, whatever the order of an object's members.

use std::hash::{BuildHasherDefault, Hasher};

use serde_json::{Map, Number, Value};

/// Mixes one word into a hash; the constant is the golden ratio's fraction, which spreads neighbours apart.
/// Whoever makes values collide on purpose only hides a candidate: every candidate is compared.
fn stir(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

pub(super) fn mix(a: u64, b: u64) -> u64 {
    stir(stir(9, a), b)
}

/// A hash of a member of an object, of those of its key and value. Those of all members are added up.
pub(super) fn member_hash(key: u64, value: u64) -> u64 {
    stir(key, value)
}

pub(super) fn object_hash(members: u64) -> u64 {
    mix(5, members)
}

/// A hash of a list, of those of its items mixed one after the other.
pub(super) fn list_hash(items: u64) -> u64 {
    mix(6, items)
}

fn bytes_hash(tag: u64, bytes: &[u8]) -> u64 {
    let mut hash = stir(tag, bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        hash = stir(hash, chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    let rest = chunks.remainder().iter().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    stir(hash, rest)
}

/// The hasher of maps whose keys are hashes already.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes_hash(self.0, bytes);
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

pub(super) type BuildAsIs = BuildHasherDefault<AsIs>;

pub(super) fn text_hash(text: &str) -> u64 {
    bytes_hash(4, text.as_bytes())
}

/// A number by its value: `1` and `1.0` are the same.
fn number_hash(number: &Number) -> u64 {
    match whole(number) {
        Some(whole) => bytes_hash(2, &whole.to_le_bytes()),
        None => stir(3, number.as_f64().unwrap_or_default().to_bits()),
    }
}

fn whole(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i64() {
        return Some(i128::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Some(i128::from(whole));
    }
    let float = number.as_f64()?;
    // Beyond 2^53 a double stands for many integers.
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i128)
}

/// A hash that only values of equal type and meaning share.
fn typed_hash(value: &Value) -> u64 {
    match value {
        Value::Null => stir(0, 1),
        Value::Bool(flag) => stir(1, u64::from(*flag)),
        Value::Number(number) => number_hash(number),
        Value::String(text) => text_hash(text),
        Value::Array(list) => list_hash(list.iter().fold(0, |sum, item| mix(sum, typed_hash(item)))),
        Value::Object(map) => hash_of(map),
    }
}

/// A hash of an object's content.
pub(super) fn hash_of(map: &Map<String, Value>) -> u64 {
    let sum = map
        .iter()
        .fold(0u64, |sum, (key, value)| sum.wrapping_add(member_hash(text_hash(key), typed_hash(value))));
    object_hash(sum)
}

/// The hash of [`typed_hash`] and that of [`loose_hash`].
pub(super) fn hashes(value: &Value) -> (u64, u64) {
    let typed = typed_hash(value);
    let loose = match value {
        Value::String(text) => loose_of(text, typed),
        _ => typed,
    };
    (typed, loose)
}

/// A hash that a number shares with the text that spells it.
pub(super) fn loose_hash(value: &Value) -> u64 {
    match value {
        Value::String(text) => loose_text(text),
        other => typed_hash(other),
    }
}

/// The same for a text.
pub(super) fn loose_text(text: &str) -> u64 {
    loose_of(text, text_hash(text))
}

/// The same, of a text's own hash.
pub(super) fn loose_of(text: &str, hash: u64) -> u64 {
    spelled_number(text).map_or(hash, |number| number_hash(&number))
}

/// The number that a whole text spells.
pub(super) fn spelled_number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if text.len() > 32 || !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Whether two values mean the same: numbers by value, everything else exactly.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || matches!((whole(a), whole(b)), (Some(a), Some(b)) if a == b)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
