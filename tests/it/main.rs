//! The one integration binary.
//!
//! Owns nothing but the list. Refuses a second binary: each links the engine anew.
//!
//! **Invariant:** every module drives the real program or the real sandbox.

// `cfg(test)` tells clippy that helpers are test code too.
#[cfg(test)]
mod any_component;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod compile_checks;
#[cfg(test)]
mod compile_limits;
#[cfg(test)]
mod dates;
#[cfg(test)]
mod dispatch_order;
#[cfg(test)]
mod filesystem;
#[cfg(test)]
mod hostile_host;
#[cfg(test)]
mod http_grants;
#[cfg(test)]
mod import;
#[cfg(test)]
mod instances;
#[cfg(test)]
mod mathqa;
#[cfg(test)]
mod mcp_abuse;
#[cfg(test)]
mod mcp_clients;
#[cfg(test)]
mod mcp_docs;
#[cfg(test)]
mod mcp_liveness;
#[cfg(test)]
mod mcp_serve;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod plugin_author;
#[cfg(test)]
mod plugin_cases;
#[cfg(test)]
mod plugin_review;
#[cfg(test)]
mod plugin_watch;
#[cfg(test)]
mod record;
#[cfg(test)]
mod redact;
#[cfg(test)]
mod sandbox_escapes;
#[cfg(test)]
mod sandbox_limits;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod time;
