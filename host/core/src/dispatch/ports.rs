//! What the dispatch needs from outside.
//!
//! Owns the traits. Refuses implementations, apart from those for shared pointers.
//!
//! **Invariant:** no port can change a call: arguments go out by shared reference only.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::call::{CallError, ClearedCall};
use crate::approval::{ApprovalRequest, Unapproved};
use crate::digest::Digest;
use crate::event::Event;
use crate::guard::{GuardRequest, GuardVerdict};
use crate::id::{NodeId, RunId, ToolName};
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
    /// Uses an approval for one call, and gives the id of the request it was for. `requests` are the ways in which
    /// the call may have been approved.
    fn take<'a>(
        &'a self,
        requests: &'a [ApprovalRequest],
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Digest, Unapproved>>;

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

/// A call as a recording knows it. Its run and node tell it from every other call; attempts at one node come
/// one after the other.
#[derive(Debug, Clone, Copy)]
pub struct LoggedCall<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The node, or a name below one for a nested call.
    pub node: &'a NodeId,
    /// The tool.
    pub tool: &'a ToolName,
    /// The arguments, fully resolved.
    pub arguments: &'a Value,
    /// The node of the call that made this one.
    pub caller: Option<&'a NodeId>,
    /// The workflow of the run, if it has one.
    pub workflow: Option<Digest>,
}

/// Something that keeps what was called and what came back. It must return at once and never fail a call. A
/// call that began and never ended was cancelled.
pub trait CallLog: Send + Sync {
    /// A call begins; no check was made yet.
    fn began(&self, call: LoggedCall<'_>);

    /// It ended, or was refused.
    fn ended(&self, call: LoggedCall<'_>, outcome: Result<&Reply, &CallError>);
}

/// The time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> u64;
}
