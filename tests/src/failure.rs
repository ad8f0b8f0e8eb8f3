//! The one error of the test helpers: a text for the person who reads the failed test.
//!
//! It refuses kinds and codes; nothing decides by what a helper reports.
//!
//! **Invariant:** `Debug` prints the text as it is, line breaks included, because that is what a failing test
//! shows.

use std::fmt;

/// Why a helper couldn't do its work.
pub struct Failure(String);

/// What helpers return, and tests too: `fn denied_call() -> Outcome<()>`.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Puts what was being done before what went wrong.
    pub(crate) fn at(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(why: std::io::Error) -> Self {
        Self(why.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(why: serde_json::Error) -> Self {
        Self(format!("not the expected JSON: {why}"))
    }
}
