//! The MCP door: tools of this host for any MCP client.
//!
//! Owns the way between protocol messages and calls. Refuses checks: every `tools/call` goes to the
//! dispatcher as a direct call. So far it lists and calls tools over a transport that the caller brings;
//! no command serves it yet.
//!
//! **Invariant:** a client sees only tools that are bound to a reviewed contract, and annotations come from
//! that contract.
#![forbid(unsafe_code)]

mod convert;
mod server;

pub use server::ToolServer;
