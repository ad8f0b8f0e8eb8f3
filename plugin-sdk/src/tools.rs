//! Calls from a plugin to other tools of the same host.
//!
//! Owns the typed call. Refuses to go round the host: a nested call needs the same policy, approval and
//! grants as any other.
//!
//! INVARIANT: an error of the called tool comes back with its own code.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Outcome, host};

/// Calls a tool and reads its result into a type, as [`Outcome::data`] does.
///
/// # Errors
/// What the tool or the host refused with, or `unexpected-result`.
pub fn call<R: DeserializeOwned>(name: &str, arguments: &impl Serialize) -> Result<R, Error> {
    call_outcome(name, arguments)?.data()
}

/// Calls a tool and returns all of its result.
///
/// # Errors
/// What the tool or the host refused with.
pub fn call_outcome(name: &str, arguments: &impl Serialize) -> Result<Outcome, Error> {
    host::call_tool(name, &serde_json::to_string(arguments)?)
}
