//! The error a tool returns.
//!
//! Owns the mapping from common Rust errors to codes. Refuses to carry a backtrace or a source chain: both
//! would have to cross the sandbox as text nobody can act on.
//!
//! INVARIANT: every error has a code, and a code given here is lower-case words joined by `-`.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind};

use serde_json::Value;

/// Why a tool failed.
///
/// `?` turns any standard error into one; an [`io::Error`] gets a code for its kind, anything else `failed`.
/// For that reason this type isn't a `std::error::Error` itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    code: String,
    message: String,
    retryable: bool,
    details: Option<Value>,
}

impl Error {
    /// Makes an error of a code such as `not-found` and a message for people that says what to do next.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retryable: false, details: None }
    }

    /// The arguments don't fit the tool.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new("invalid-arguments", message)
    }

    /// Says that the same call may succeed later.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// Adds details for programs.
    #[must_use]
    pub fn details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(details.into());
        self
    }

    /// The code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// The details for programs.
    pub fn detail(&self) -> Option<&Value> {
        self.details.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let code = match (&error as &dyn Any).downcast_ref::<io::Error>() {
            Some(io) => io_code(io.kind()),
            None => "failed",
        };
        Self::new(code, error.to_string()).retryable(code == "interrupted" || code == "timed-out")
    }
}

fn io_code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not-found",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "not-permitted",
        ErrorKind::AlreadyExists => "already-exists",
        ErrorKind::NotADirectory => "not-a-directory",
        ErrorKind::IsADirectory => "is-a-directory",
        ErrorKind::DirectoryNotEmpty => "not-empty",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "storage-full",
        ErrorKind::InvalidData => "invalid-data",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Interrupted => "interrupted",
        ErrorKind::Unsupported => "unsupported",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    fn read() -> Result<String, Error> {
        Ok(std::fs::read_to_string("/no/such/file")?)
    }

    fn number() -> Result<i32, Error> {
        Ok("x".parse::<i32>()?)
    }

    #[test]
    fn question_mark_gives_codes() {
        assert_eq!(read().unwrap_err().code(), "not-found");
        assert_eq!(number().unwrap_err().code(), "failed");
    }
}
