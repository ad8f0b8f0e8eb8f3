//! The MCP door: tools of this host for any MCP client.
//!
//! Owns the way between protocol messages and calls, and the stdio transport. Refuses checks: a tool's call goes
//! to the dispatcher as a direct call, a workflow's to a [`WorkflowRunner`] that dispatches each node.
//!
//! **Invariant:** a client sees only tools that are bound to a reviewed contract and workflows made of such
//! tools, and annotations come from those contracts.
#![forbid(unsafe_code)]

mod catalog;
mod convert;
mod progress;
mod server;
mod stdio;
mod workflow;

pub use catalog::Catalog;
pub use convert::{result_json, workflow_result_json};
pub use server::{ToolServer, serve};
pub use stdio::standard_streams;
pub use workflow::{RunFuture, WorkflowCall, WorkflowFailure, WorkflowRunner, WorkflowTool};
