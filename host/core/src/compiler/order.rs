//! Which nodes have to wait although no value comes from the node they wait for.
//!
//! Owns declared dependencies and the barrier that keeps effects in recorded order. Refuses parallelism
//! that isn't proven: two calls may run at once only if both are read-only, or both say what they touch
//! and can't meet.
//!
//! **Invariant:** the number of edges is linear in the number of nodes, and every edge leads back to an
//! earlier node.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Kept;
use super::facts::{Facts, Key};
use crate::code::Code;
use crate::document::Report;
use crate::effect::Effect;
use crate::problem::item;
use crate::workflow::Wait;

/// A node that meets more earlier ones than this waits for everything instead: sound, and no edges to each.
const MAX_MEETINGS: usize = 32;

/// Declared dependencies of each node, as nodes.
pub(super) fn declared(kept: &[Kept<'_>], alias: &HashMap<&str, u32>, report: &Report) -> Vec<Vec<u32>> {
    kept.iter()
        .enumerate()
        .map(|(own, kept)| {
            let mut found = BTreeSet::new();
            for (at, id) in kept.event.dependencies.iter().enumerate() {
                match alias.get(id.as_str()) {
                    Some(node) if (*node as usize) < own => {
                        found.insert(*node);
                    }
                    other => {
                        let pointer = format!("{}/dependencies", item("/events", kept.position));
                        let why = match other {
                            Some(_) => "comes later",
                            None => "is no successful event of this trace",
                        };
                        report.add(Code::DependencyUnmet, item(&pointer, at), format!("`{id}` {why}"));
                    }
                }
            }
            found.into_iter().collect()
        })
        .collect()
}

/// The nodes each node has to wait for beyond those its values come from, each with the reason.
pub(super) fn order(kept: &[Kept<'_>], data: &[Vec<u32>], wanted: &[Waits]) -> Vec<Waits> {
    let mut state = State::default();
    let mut after = Vec::with_capacity(kept.len());
    for (own, ((kept, data), wanted)) in kept.iter().zip(data).zip(wanted).enumerate() {
        let own = u32::try_from(own).unwrap_or(u32::MAX);
        after.push(state.node(own, &kept.facts, data, wanted));
    }
    after
}

/// Nodes to wait for, sorted, each with the first reason found.
pub(super) type Waits = BTreeMap<u32, Wait>;

#[derive(Default)]
struct State {
    /// The last node that everything later waits for.
    barrier: Option<u32>,
    /// Nodes since then that no later node of theirs waits for.
    open: BTreeSet<u32>,
    /// For each node the last barrier that it waits for, directly or not.
    behind: Vec<Option<u32>>,
    is_pure: Vec<bool>,
    touched: Touched,
}

/// What was read and written since the last barrier.
#[derive(Default)]
struct Touched {
    /// By scheme, kind of path and path: nodes, and whether they write.
    by_key: BTreeMap<(String, bool, String), Vec<(u32, bool)>>,
    /// Reads of nobody knows what.
    unknown_reads: Vec<u32>,
    /// Writers with keys.
    writers: Vec<u32>,
}

impl State {
    fn node(&mut self, own: u32, facts: &Facts, data: &[u32], wanted: &Waits) -> Waits {
        let pure = facts.effect == Effect::Pure;
        self.is_pure.push(pure);
        let mut after: Waits =
            wanted.iter().filter(|(node, _)| !data.contains(node)).map(|(node, why)| (*node, *why)).collect();
        let mut wait = |node: u32, why: Wait| {
            if !data.contains(&node) {
                after.entry(node).or_insert(why);
            }
        };
        let meetings = if pure || facts.is_barrier() { None } else { self.touched.meetings(facts) };
        let blocks = !pure && meetings.is_none();
        if blocks {
            // What is open reaches everything since the last barrier.
            self.open.iter().for_each(|node| wait(*node, Wait::Barrier));
            if self.open.is_empty() {
                self.barrier.into_iter().for_each(|node| wait(node, Wait::Barrier));
            }
        } else if let Some(meetings) = meetings {
            let why = if facts.reads.is_some() { Wait::Key } else { Wait::Barrier };
            meetings.iter().for_each(|node| {
                // A writer that met more of them than have names would wait for everything.
                let unknown = !facts.effect.is_read_only() && self.touched.unknown_reads.contains(node);
                wait(*node, if unknown { Wait::Barrier } else { why });
            });
            if self.behind_of(data.iter().chain(after.keys())) < self.barrier {
                self.barrier.into_iter().for_each(|node| {
                    after.entry(node).or_insert(Wait::Barrier);
                });
            }
        }
        let behind = self.behind_of(data.iter().chain(after.keys()));
        self.behind.push(behind);
        if pure {
            return after;
        }
        if blocks {
            self.barrier = Some(own);
            self.open.clear();
            self.touched = Touched::default();
        } else {
            for earlier in data.iter().chain(after.keys()) {
                self.open.remove(earlier);
            }
            self.touched.note(own, facts);
            self.open.insert(own);
        }
        after
    }

    /// The last barrier that one of the nodes is, or waits for.
    fn behind_of<'a>(&self, nodes: impl Iterator<Item = &'a u32>) -> Option<u32> {
        nodes
            .filter_map(|node| {
                let own = self.barrier.filter(|barrier| barrier == node);
                own.or_else(|| self.behind.get(*node as usize).copied().flatten())
            })
            .max()
    }
}

impl Touched {
    /// Earlier nodes that must come first, or nothing if they are too many to name.
    fn meetings(&self, facts: &Facts) -> Option<BTreeSet<u32>> {
        let writes_nothing = facts.effect.is_read_only();
        let mut found = BTreeSet::new();
        let Some(reads) = &facts.reads else {
            // A read of nobody knows what meets every write.
            found.extend(self.writers.iter().take(MAX_MEETINGS + 1));
            return (found.len() <= MAX_MEETINGS).then_some(found);
        };
        if !writes_nothing {
            found.extend(self.unknown_reads.iter().take(MAX_MEETINGS + 1));
        }
        let keys = reads.iter().map(|key| (key, false));
        let written = facts.writes.iter().flatten().map(|key| (key, true));
        for (key, writes) in keys.chain(written) {
            self.meet(key, writes, &mut found);
            if found.len() > MAX_MEETINGS {
                return None;
            }
        }
        Some(found)
    }

    fn meet(&self, key: &Key, writes: bool, found: &mut BTreeSet<u32>) {
        let mut add = |touches: &Vec<(u32, bool)>| {
            let relevant = touches.iter().filter(|(_, wrote)| writes || *wrote);
            found.extend(relevant.map(|(node, _)| *node).take(MAX_MEETINGS + 1));
        };
        let at = |path: &str| (key.scheme.clone(), key.absolute, path.to_owned());
        for prefix in key.prefixes().filter(|prefix| prefix.len() < key.path.len()) {
            if let Some(touches) = self.by_key.get(&at(prefix)) {
                add(touches);
            }
        }
        let below = self
            .by_key
            .range(at(&key.path)..)
            .take_while(|((scheme, absolute, path), _)| {
                *scheme == key.scheme && *absolute == key.absolute && path.starts_with(&key.path)
            })
            .take(MAX_MEETINGS + 1);
        below.for_each(|(_, touches)| add(touches));
        // Where a relative path starts isn't known: it may meet any absolute one of its scheme.
        let other = (key.scheme.clone(), !key.absolute, String::new());
        let kin = self
            .by_key
            .range(other..)
            .take_while(|((scheme, absolute, _), _)| *scheme == key.scheme && *absolute != key.absolute)
            .take(MAX_MEETINGS + 1);
        kin.for_each(|(_, touches)| add(touches));
    }

    fn note(&mut self, own: u32, facts: &Facts) {
        if !facts.effect.is_read_only() {
            self.writers.push(own);
        }
        let Some(reads) = &facts.reads else {
            self.unknown_reads.push(own);
            return;
        };
        let at = |key: &Key| (key.scheme.clone(), key.absolute, key.path.clone());
        for key in reads {
            self.by_key.entry(at(key)).or_default().push((own, false));
        }
        for key in facts.writes.iter().flatten() {
            // Whoever meets this write comes after those it met.
            let touches = self.by_key.entry(at(key)).or_default();
            touches.clear();
            touches.push((own, true));
        }
    }
}
