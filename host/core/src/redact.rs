//! A copy of a recording that can be shown to others.
//!
//! Owns the search for secrets, the markers that stand in their place, and the report of what was done. Refuses
//! to change a recording in place, and to say anything of a secret in a report or an error.
//!
//! **Invariant:** a secret that was found once stands nowhere in the copy, unless the report says that it was
//! too short or too common to be looked for elsewhere; equal secrets have equal markers and different ones
//! different markers; redacting a copy again changes nothing.

mod everywhere;
mod find;
mod looks;
mod marker;
mod rewrite;
mod rules;
mod scan;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::problem::Problems;
use crate::trace::{self, Trace};

pub use marker::{START, find_marker, holds_anonymous, holds_marker, is_anonymous, is_marker};
pub use rules::Options;

/// A recording without its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Redacted {
    /// The copy.
    pub trace: Trace,
    /// What was done.
    pub report: RedactReport,
}

/// What was redacted and what wasn't. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RedactReport {
    /// How many secrets of each kind.
    pub kinds: BTreeMap<String, usize>,
    /// Each secret, in the order in which they were found first.
    pub secrets: Vec<Secret>,
    /// Values that stayed although something spoke for a secret.
    pub kept: Vec<Kept>,
}

/// One secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// What stands in its place.
    pub marker: String,
    /// How often it stood.
    pub count: usize,
    /// JSON Pointers to the first places, in the copy.
    pub places: Vec<String>,
    /// It was looked for everywhere. Short and common ones aren't: they would be found by chance.
    pub everywhere: bool,
}

/// A value that stayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The key it stands under.
    pub key: String,
    /// JSON Pointer to the first one.
    pub pointer: String,
    /// How many stayed for the same reason under such a key.
    pub count: usize,
    /// Why; lower case, no final period.
    pub reason: String,
}

impl RedactReport {
    /// Whether the recording had no secret.
    pub fn is_clean(&self) -> bool {
        self.secrets.is_empty()
    }
}

/// Makes a copy without secrets.
pub fn redact(trace: &Trace, options: &Options) -> Result<Redacted, Problems> {
    let rules = rules::Rules::new(options)?;
    let found = scan::scan(trace, &rules);
    let (copy, report) = rewrite::rewrite(trace, found)?;
    // A name with a secret in it became another one; two could have become the same.
    let copy = trace::from_value(&trace::to_json(&copy))?;
    Ok(Redacted { trace: copy, report })
}

#[cfg(test)]
mod tests;
