//! Runs workflows: starts each call when its inputs are ready, records before it acts, and reports.
//!
//! Owns the scheduler, the audit log on disk, and the other real-world ends of core's ports that need an async runtime or a clock.
//! Refuses Wasm engines and protocols: a call is a [`t2m_core::dispatch::CallRequest`], whatever runs it.
//!
//! **Invariant:** one event loop owns a run. It alone writes the journal, and a call starts only after its
//! record was kept.
#![forbid(unsafe_code)]

mod approvals;
mod audit;
mod clock;
mod journal;
mod preflight;
mod scheduler;

pub use approvals::GivenApprovals;
pub use audit::{
    AuditCloser, AuditError, AuditOptions, AuditSnapshot, AuditSync, Head, audit_head, start_audit,
};
pub use clock::SystemClock;
pub use journal::MemoryJournal;
pub use preflight::{Blocked, preflight};
pub use scheduler::{Cancel, RunError, RunOptions, RunReport, run};
