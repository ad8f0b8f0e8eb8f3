//! Which values the arguments of a recording have, or hold in their texts.
//!
//! Owns a filter over them, so that the index keeps no place that nobody asks for: of a long recording that is
//! most. Refuses to be exact: a few others pass too.
//!
//! **Invariant:** whatever `infer` looks up for an argument passes.

use serde_json::Value;

use super::hash::{hashes, list_hash, member_hash, mix, object_hash, text_hash};
use super::infer::parts;
use crate::trace::Event;

/// Bits of the filter for each call, and the fewest and the most.
const BITS_A_CALL: usize = 64;
const FEWEST_BITS: usize = 1 << 13;
const MOST_BITS: usize = 1 << 27;

/// The filter: one bit for the upper bits of a hash.
pub(super) struct Asked {
    words: Vec<u64>,
    shift: u32,
}

impl Asked {
    /// What the arguments of these calls may be looked up by.
    pub(super) fn of(events: &[Event]) -> Asked {
        let bits = (events.len() * BITS_A_CALL).next_power_of_two().clamp(FEWEST_BITS, MOST_BITS);
        let mut asked = Asked { words: vec![0; bits / 64], shift: 64 - bits.ilog2() };
        for value in events.iter().flat_map(|event| event.arguments.values()) {
            asked.ask(value);
        }
        asked
    }

    /// Asks for a value and all that is in it; returns its hash.
    fn ask(&mut self, value: &Value) -> u64 {
        let (typed, loose) = match value {
            Value::Object(map) => {
                let sum = map.iter().fold(0u64, |sum, (key, value)| {
                    sum.wrapping_add(member_hash(text_hash(key), self.ask(value)))
                });
                (object_hash(sum), object_hash(sum))
            }
            Value::Array(list) => {
                let sum = list.iter().fold(0, |sum, value| mix(sum, self.ask(value)));
                (list_hash(sum), list_hash(sum))
            }
            Value::String(text) => {
                parts::each(text, &mut |hash| self.add(hash));
                hashes(value)
            }
            scalar => hashes(scalar),
        };
        self.add(loose);
        self.add(typed);
        typed
    }

    fn add(&mut self, hash: u64) {
        let bit = hash >> self.shift;
        if let Some(word) = self.words.get_mut((bit >> 6) as usize) {
            *word |= 1 << (bit & 63);
        }
    }

    /// Whether a value with this hash may be asked for.
    pub(super) fn holds(&self, hash: u64) -> bool {
        let bit = hash >> self.shift;
        self.words.get((bit >> 6) as usize).is_some_and(|word| word >> (bit & 63) & 1 == 1)
    }
}
