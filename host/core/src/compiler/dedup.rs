//! Reads that were repeated.
//!
//! Owns the rule when a second call may be dropped for the first. Refuses everything that isn't certain:
//! pure calls, and reads that may be repeated, with the same arguments and the same recorded result, and
//! nothing in between that may have changed what they read.
//!
//! **Invariant:** no read is dropped across a call that may write what it reads, whether that call
//! succeeded or not.

use std::collections::HashMap;

use super::facts::{Facts, Key};
use super::hash::hash_of;
use crate::effect::{Effect, Idempotency};
use crate::redact;
use crate::trace::Event;

pub(super) const REASON: &str = "it repeats an earlier call with the same arguments and the same result, and \
                                 nothing in between could change that";

/// A kept call that later ones may repeat.
struct Kept<'t> {
    event: &'t Event,
    position: usize,
    index: u32,
}

/// Calls seen so far. Positions are counted from 1, so that 0 means never.
#[derive(Default)]
pub(super) struct Repeats<'t> {
    /// No key is believed: every write may change everything.
    distrust_keys: bool,
    /// A read was dropped because keys told it apart from a write in between.
    pub(super) relied_on_keys: bool,
    kept: HashMap<(&'t str, u64), Kept<'t>>,
    /// The last call that may have changed anything.
    last_unknown: usize,
    /// The last write with any key.
    last_keyed: usize,
    /// By scheme and kind of path: the last write.
    last_kind: HashMap<(String, bool), usize>,
    /// By key: the last write at exactly that key.
    last_at: HashMap<Key, usize>,
    /// By key: the last write at it or below.
    last_below: HashMap<Key, usize>,
}

impl<'t> Repeats<'t> {
    pub(super) fn new(distrust_keys: bool) -> Repeats<'t> {
        Repeats { distrust_keys, ..Repeats::default() }
    }

    /// Notes what an event may have changed.
    pub(super) fn note_writer(&mut self, position: usize, facts: &Facts) {
        if facts.effect.is_read_only() {
            return;
        }
        let position = position + 1;
        let Some(keys) = facts.writes.as_ref().filter(|_| !self.distrust_keys) else {
            self.last_unknown = position;
            return;
        };
        self.last_keyed = position;
        for key in keys {
            self.last_kind.insert((key.scheme.clone(), key.absolute), position);
            self.last_at.insert(key.clone(), position);
            for prefix in key.prefixes() {
                let above = Key { path: prefix.to_owned(), ..key.clone() };
                self.last_below.insert(above, position);
            }
        }
    }

    /// The position, counted from 1, of the last call that may have changed what `facts` reads.
    fn last_change(&self, facts: &Facts) -> usize {
        if facts.effect == Effect::Pure {
            return 0;
        }
        let Some(keys) = &facts.reads else {
            return self.last_unknown.max(self.last_keyed);
        };
        let met = keys.iter().map(|key| self.last_meeting(key)).max();
        self.last_unknown.max(met.unwrap_or_default())
    }

    fn last_meeting(&self, key: &Key) -> usize {
        let found = |map: &HashMap<Key, usize>, key: &Key| map.get(key).copied().unwrap_or_default();
        // Where a relative path starts isn't known, so it may meet any absolute one.
        let other_kind = self.last_kind.get(&(key.scheme.clone(), !key.absolute)).copied();
        let above = key.prefixes().map(|prefix| {
            let above = Key { path: prefix.to_owned(), ..key.clone() };
            found(&self.last_at, &above)
        });
        above.chain(other_kind).chain([found(&self.last_below, key)]).max().unwrap_or_default()
    }

    /// The node whose result stands for this event, if it only repeats it.
    pub(super) fn same_as(
        &mut self,
        position: usize,
        event: &Event,
        facts: &Facts,
        ids: &HashMap<&str, usize>,
    ) -> Option<u32> {
        // Markers that don't say which secret they stand for make different calls look equal.
        if !may_be_dropped(facts) || event.arguments.values().any(redact::holds_anonymous) {
            return None;
        }
        let key = (event.tool.as_str(), hash_of(&event.arguments));
        let first = self.kept.get(&key)?;
        let same = first.event.arguments == event.arguments && first.event.result == event.result;
        // Declared to come after something later than the first call: then it isn't that call's repeat.
        let since = |id: &str| ids.get(id).is_some_and(|at| *at > first.position && *at < position);
        let apart = event.dependencies.iter().any(|id| since(id.as_str()));
        if !same || apart || self.last_change(facts) > first.position + 1 {
            return None;
        }
        self.relied_on_keys |= facts.effect != Effect::Pure && self.last_keyed > first.position + 1;
        Some(first.index)
    }

    /// Remembers a kept call; a later one with the same arguments takes its place.
    pub(super) fn keep(&mut self, position: usize, event: &'t Event, facts: &Facts, index: u32) {
        if may_be_dropped(facts) {
            let key = (event.tool.as_str(), hash_of(&event.arguments));
            self.kept.insert(key, Kept { event, position, index });
        }
    }
}

fn may_be_dropped(facts: &Facts) -> bool {
    match facts.effect {
        Effect::Pure => true,
        Effect::Read => facts.idempotency == Idempotency::Idempotent,
        _ => false,
    }
}
