//! Trace v1: what was recorded, as a value and as a file.
//!
//! Owns the model, its rules, the JSON form that Trace2MCP 0.2.2 reads too, and the importers that make
//! traces of other formats. Refuses to judge what a recorded call means: that is the compiler's.
//!
//! **Invariant:** a [`Trace`] that [`parse`] or [`import`](import::import) returns has unique event ids,
//! valid times and at most [`MAX_EVENTS`] events, and nothing that was recorded is lost on the way.

pub mod import;
mod model;
mod parse;
mod schema;
mod time;

pub use model::{Event, GAPS, MAX_EVENTS, Status, Trace};
pub use parse::{digest, from_value, parse, to_json};
pub use schema::json_schema;
pub use time::Timestamp;

#[cfg(test)]
mod tests;
