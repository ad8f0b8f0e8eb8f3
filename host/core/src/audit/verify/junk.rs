//! Lines that are no records.
//!
//! Owns their digest as one piece, as a later record would name it, and what is wrong with each. Refuses to
//! keep their bytes.
//!
//! **Invariant:** the digest is over all lines with the breaks between them, without the break behind the last.

use super::{MAX_FAULTS, Tail};
use crate::digest::Hasher;

#[derive(Default)]
pub(super) struct Junk {
    list: Vec<(u64, String)>,
    lines: u64,
    bytes: u64,
    hasher: Hasher,
    ended: bool,
}

impl Junk {
    /// Another line begins.
    pub(super) fn begin(&mut self, line: u64, why: String) {
        if self.lines > 0 {
            self.update(b"\n");
        }
        self.lines += 1;
        if self.list.len() < MAX_FAULTS {
            self.list.push((line, why));
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.hasher.update(bytes);
    }

    /// The line ends, with a break or without.
    pub(super) fn end(&mut self, ended: bool) {
        self.ended = ended;
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn first(&self) -> u64 {
        self.list.first().map_or(0, |(line, _)| *line)
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.lines.saturating_sub(u64::try_from(self.list.len()).unwrap_or(u64::MAX))
    }

    pub(super) fn tail(&self) -> Tail {
        Tail { bytes: self.bytes, digest: self.hasher.clone().finish(), ended: self.ended }
    }

    pub(super) fn into_list(self) -> Vec<(u64, String)> {
        self.list
    }
}
