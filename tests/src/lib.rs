//! What the end-to-end tests of t2m-host share.
//!
//! It owns a clean place to run in ([`TestEnv`]), the real program ([`HostCli`]), golden files ([`golden`]),
//! redaction ([`Redactor`]), a recorder for real MCP servers ([`McpWireRecorder`]) a client for ours
//! ([`McpClient`]), and a web server ([`web`]). It refuses to know
//! what the host does: it starts programs and compares text.
//!
//! **Invariant:** nothing here waits without a time limit, and no child outlives the value that started it.

mod child;
mod cli;
mod env;
mod failure;
pub mod filesystem;
pub mod golden;
mod locate;
pub mod mcp;
pub mod pattern;
pub mod process;
mod redact;
pub mod web;
mod wire;

pub use child::Running;
pub use cli::{CliOutput, HostCli};
pub use env::TestEnv;
pub use failure::{Failure, Outcome};
pub use filesystem::record_filesystem_session;
pub use locate::{cache_dir, data_dir, filesystem_server, guests_dir, host_binary, inspector, node, python};
pub use mcp::McpClient;
pub use redact::Redactor;
pub use wire::{McpWireRecorder, now_rfc3339};
