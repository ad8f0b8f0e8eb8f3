//! The audit log: which calls were let through, refused or asked about, and what became of them.
//!
//! Owns the records, the bytes of a line, the chain of hashes and its verifier. Refuses to store anything: a
//! writer outside keeps the lines.
//!
//! A line is one JSON object and a line break. It begins with `seq` (1 for the first record of the log, one
//! more for each, over all files), `at_ms` and `prev` (the hash of the record before, null for the first), and
//! it ends with `hash`. **The hash is SHA-256 over the bytes of the line from its `{` up to, and without, the
//! comma before `"hash"`.** So `sed 's/,"hash":"[^"]*"}$//'` and `sha256sum` are enough to check one. Every file
//! begins with a `log-opened` record that names the format and, by `prev`, the last record of the file before.
//!
//! **Invariant:** a record holds names, codes, counts and digests, never an argument, an input or a result.

mod line;
mod port;
mod record;
mod verify;

#[cfg(test)]
mod tests;

pub use line::{Line, Link, MAX_LINE_BYTES, encode};
pub use port::{AuditLog, Ending, Kept};
pub use record::{AUDIT_FORMAT, CallEnded, Decision, DecisionKind, Entry, GuardAnswer, Phase, Torn};
pub use verify::{Expect, Fault, Report, Tail, TornPlace, Verifier};
