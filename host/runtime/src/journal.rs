//! A journal that lasts as long as the process.
//!
//! Owns records in memory. Refuses durability; the same records go to a durable store by the same port.
//!
//! **Invariant:** records are kept in the order they were appended.

use t2m_core::dispatch::BoxFuture;
use t2m_core::journal::{JournalError, JournalStore, Record};

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    records: Vec<Record>,
}

impl MemoryJournal {
    /// The records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }
}

impl JournalStore for MemoryJournal {
    fn append<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), JournalError>> {
        self.records.push(record.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}
