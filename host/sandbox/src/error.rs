//! Why a sandbox or a plugin can't be had.
//!
//! Owns the one error of setting up and loading. Refuses failures of calls: those are the core's
//! `ToolFailure`.
//!
//! **Invariant:** the message is for the person who loads the plugin; it names every problem found.

use t2m_core::code::Code;

/// Why a sandbox could not be set up or a plugin not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SandboxError {
    code: Code,
    message: String,
}

impl SandboxError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> SandboxError {
        SandboxError { code, message: message.into() }
    }

    /// Stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What is wrong; lower case, no final period.
    pub fn message(&self) -> &str {
        &self.message
    }
}
