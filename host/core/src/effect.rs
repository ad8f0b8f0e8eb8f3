//! What a call may do to the world, and whether it may be repeated.
//!
//! Owns the two scales and their order. Refuses to decide what is allowed: that is the policy's.
//!
//! **Invariant:** `Effect` is ordered by severity, so the worse of two claims is their maximum.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What calling a tool may do outside, from harmless to unknown.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The result depends on the arguments alone.
    Pure,
    /// Observes, changes nothing.
    Read,
    /// Creates or changes something.
    Write,
    /// Acts on a system whose state can't be seen from here.
    ExternalSideEffect,
    /// Removes something.
    Delete,
    /// Not known.
    #[default]
    Unknown,
}

impl Effect {
    /// Every effect, mildest first.
    pub const ALL: [Effect; 6] = [
        Effect::Pure,
        Effect::Read,
        Effect::Write,
        Effect::ExternalSideEffect,
        Effect::Delete,
        Effect::Unknown,
    ];

    /// Whether calls with this effect change nothing outside.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Effect::Pure | Effect::Read)
    }

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Effect::Pure => "pure",
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::ExternalSideEffect => "external_side_effect",
            Effect::Delete => "delete",
            Effect::Unknown => "unknown",
        }
    }

    /// Reads a name, in any case.
    pub fn parse(text: &str) -> Option<Effect> {
        Effect::ALL.into_iter().find(|effect| effect.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a repeated call with equal arguments does nothing further.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Repeating changes nothing further.
    Idempotent,
    /// Repeating acts again.
    NonIdempotent,
    /// Not known; treated like non-idempotent.
    #[default]
    Unknown,
}

impl Idempotency {
    /// Every value.
    pub const ALL: [Idempotency; 3] =
        [Idempotency::Idempotent, Idempotency::NonIdempotent, Idempotency::Unknown];

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Idempotency::Idempotent => "idempotent",
            Idempotency::NonIdempotent => "non_idempotent",
            Idempotency::Unknown => "unknown",
        }
    }

    /// Reads a name, in any case.
    pub fn parse(text: &str) -> Option<Idempotency> {
        Idempotency::ALL.into_iter().find(|value| value.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
