//! The pure heart of t2m-host: what a trace means, what a workflow is, and when a call may run.
//!
//! Owns the formats (trace, workflow, contracts, approvals), the compiler, the policy and the one guarded
//! dispatch. Refuses to own anything that touches the world: no files, network, clock, randomness,
//! threads, async runtime, Wasm engine or protocol library. What it needs from outside comes in through
//! the traits of [`dispatch::ports`](dispatch).
//!
//! **Invariant:** a tool backend can run only with a [`dispatch::ClearedCall`], and only
//! [`dispatch::Dispatcher`] makes one, after every check in a fixed order.
#![forbid(unsafe_code)]

pub mod approval;
pub mod audit;
pub mod benchmark;
pub mod catalog;
pub mod check;
pub mod code;
pub mod compare;
pub mod compiler;
pub mod contract;
pub mod diff;
pub mod digest;
pub mod dispatch;
pub mod document;
pub mod effect;
pub mod event;
pub mod guard;
pub mod id;
pub mod journal;
pub mod json;
pub mod policy;
pub mod problem;
pub mod redact;
pub mod replay;
pub mod schema;
pub mod terminal;
pub mod tool;
pub mod trace;
pub mod workflow;
