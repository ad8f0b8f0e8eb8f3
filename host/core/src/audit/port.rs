//! What keeps the log, as the dispatch sees it.
//!
//! Owns the port and the promise that what began ends. Refuses to know files.
//!
//! **Invariant:** whoever was told [`Kept::Refused`] lets nothing run.

use std::sync::Arc;

use super::record::Entry;
use crate::dispatch::BoxFuture;

/// Something that keeps records, in the order in which it takes them. It must return at once.
pub trait AuditLog: Send + Sync {
    /// Takes a record that something depends on. `durable`: what follows must not happen before the record is
    /// as safe as the operator wants such records to be.
    fn begin(&self, entry: Entry, durable: bool) -> Kept;

    /// Takes the record that ends what a record began, unless that was refused. There is always room for it.
    fn end(&self, entry: Entry);
}

/// What became of a record.
pub enum Kept {
    /// It will be written; nothing has to wait for that.
    Queued,
    /// It can't be kept, and why.
    Refused(String),
    /// To be waited for.
    Waiting(BoxFuture<'static, Result<(), String>>),
}

/// The end of something that began. If nobody says how it ended, the entry it was made with is kept: it was
/// stopped from outside.
pub struct Ending {
    log: Arc<dyn AuditLog>,
    entry: Option<Entry>,
}

impl Ending {
    /// To be made once the beginning was taken.
    pub fn new(log: &Arc<dyn AuditLog>, if_stopped: Entry) -> Ending {
        Ending { log: Arc::clone(log), entry: Some(if_stopped) }
    }

    /// From now on it would end so if it were stopped.
    pub fn would_be(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = &mut self.entry {
            change(entry);
        }
    }

    /// It ended so.
    pub fn is(mut self, change: impl FnOnce(&mut Entry)) {
        self.would_be(change);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.log.end(entry);
        }
    }
}
