//! What the dispatch needs from outside.
//!
//! Owns the traits. Refuses implementations, apart from those for shared pointers.
//!
//! **Invariant:** no port can change a call: arguments go out by shared reference only.

use std::future::Future;
use std::pin::Pin;

use super::call::ClearedCall;
use crate::approval::{ApprovalRequest, Unapproved};
use crate::event::Event;
use crate::guard::{GuardRequest, GuardVerdict};
use crate::id::RunId;
use crate::tool::{Reply, ToolFailure};

/// A future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that runs tools. It can only be asked with a call that passed every check.
///
/// Dropping the future cancels the call; a backend must stop its work then.
pub trait ToolBackend: Send + Sync {
    /// Runs the handler.
    fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>>;
}

/// Something that knows which calls a person has approved. It may wait for an answer.
pub trait ApprovalGate: Send + Sync {
    /// Uses an approval for one call. `requests` are the ways in which it may have been approved.
    fn take<'a>(
        &'a self,
        requests: &'a [ApprovalRequest],
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<(), Unapproved>>;

    /// Whether `take` could succeed, without using anything. A gate that can ask a person says yes.
    fn check(&self, requests: &[ApprovalRequest]) -> Result<(), Unapproved>;
}

/// A program that has the last word before a handler.
pub trait Guard: Send + Sync {
    /// Asks about one attempt.
    fn check(&self, request: GuardRequest) -> BoxFuture<'_, GuardVerdict>;
}

/// Something that watches. It must return at once and never fail a call.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: &Event);
}

/// The time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> u64;
}
