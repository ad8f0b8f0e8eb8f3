//! The one guarded dispatch: every call of every kind goes through here.
//!
//! Owns the fixed order of checks and the ports to the world outside. Refuses to know what a handler is:
//! a Wasm component, another server or a workflow are all a [`ToolBackend`].
//!
//! **Invariant:** verify → bind → policy → approval → input schema → guard → audit → handler → output schema. A
//! stage that says no ends the call, and [`ClearedCall`], which a backend needs, is made only after the
//! last check before the handler.

mod audited;
mod call;
mod pipeline;
mod ports;
mod registry;
#[cfg(test)]
mod tests;

pub use call::{
    CallContext, CallError, CallRequest, ClearedCall, NestedCalls, NestedLimits, NestedOrigin, Origin,
};
pub use pipeline::{Dispatcher, DispatcherParts};
pub use ports::{ApprovalGate, BoxFuture, CallLog, Clock, EventSink, Guard, LoggedCall, ToolBackend};
pub use registry::{Bound, PluginTools, Registered, Registry, Trust};
