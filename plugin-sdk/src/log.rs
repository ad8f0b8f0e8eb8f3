//! Messages for the operator.
//!
//! Owns the levels. Refuses to format: pass a `format!` if a message needs one.
//!
//! INVARIANT: a message never becomes part of a result, and the host may drop it.

use crate::host;

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Each step.
    Trace,
    /// For whoever debugs the plugin.
    Debug,
    /// Worth knowing.
    Info,
    /// Something to look at.
    Warn,
    /// Something failed.
    Error,
}

/// Writes a message of a level.
pub fn log(level: Level, message: impl AsRef<str>) {
    host::log(level, message.as_ref());
}

/// Writes a message about a step.
pub fn trace(message: impl AsRef<str>) {
    log(Level::Trace, message);
}

/// Writes a message for whoever debugs the plugin.
pub fn debug(message: impl AsRef<str>) {
    log(Level::Debug, message);
}

/// Writes a message worth knowing.
pub fn info(message: impl AsRef<str>) {
    log(Level::Info, message);
}

/// Writes a message about something to look at.
pub fn warn(message: impl AsRef<str>) {
    log(Level::Warn, message);
}

/// Writes a message about a failure.
pub fn error(message: impl AsRef<str>) {
    log(Level::Error, message);
}
