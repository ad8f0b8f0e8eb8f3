//! The call being served.
//!
//! Owns the view of it. Refuses to tell who made the call: a plugin must not decide by that.
//!
//! INVARIANT: the idempotency key is equal for every attempt at one node of one run.

use std::time::Duration;

use crate::host;

/// What a plugin may know about the call it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The run this call belongs to.
    pub run_id: String,
    /// The workflow node, or a name below it for a nested call.
    pub node_id: String,
    /// 1 for the first attempt at this node.
    pub attempt: u32,
    /// Hand it to systems that accept such a key.
    pub idempotency_key: String,
    /// Time left, after which the host stops the call.
    pub time_left: Duration,
}

/// Returns the call being served.
pub fn current() -> Context {
    host::context()
}
