//! How much one call may use.
//!
//! Owns the numbers, their defaults and the counting of memories and tables. Refuses limits for each
//! memory or table: a guest with many small ones would get round them.
//!
//! **Invariant:** every number is a total for one call, over everything the call's instance holds.

use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::http::HttpLimits;

/// What one call may use at most. The smaller of a plugin's limits and the sandbox's ceiling counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time on the wall, nested calls included. 30 s: longer than any tool that a client waits for, since
    /// MCP clients commonly give up after 60 s.
    pub wall: Duration,
    /// Fuel, about one unit for each Wasm instruction and for each byte copied in bulk. 20 billion is 5 to
    /// 20 s of one core, so that a busy loop ends by this deterministic limit and not by the clock.
    pub fuel: u64,
    /// Bytes of all linear memories together. 64 MiB: a Python plugin starts with 13, and all slots full
    /// still fit an ordinary machine.
    pub memory_bytes: usize,
    /// Elements of all tables together. 20,000: the largest interpreter measured has 7,691.
    pub table_elements: usize,
    /// Core instances. 64: a Rust plugin has 3, a Python plugin with WASI stubbed out more than 32.
    pub instances: usize,
    /// Linear memories. 4: a Rust plugin has 1, a JavaScript plugin 2.
    pub memories: usize,
    /// Tables. 16.
    pub tables: usize,
    /// Bytes that one hand-over from guest to host may take, the result of a tool included. 4 MiB: a larger
    /// result is of no use to a model, and its JSON takes up to sixteen times as much once it is parsed.
    pub transfer_bytes: usize,
    /// Bytes of log messages, each counted with 16 more. 64 KiB.
    pub log_bytes: u64,
    /// Log messages. 1,000.
    pub log_lines: u32,
    /// Bytes kept of standard output, and again of standard error. 64 KiB; what goes beyond is refused to
    /// the guest and does not end the call.
    pub stdio_bytes: usize,
    /// Open files, folders, streams and timers together. 256: the default slots then hold at most 4,096, to
    /// which `ulimit -n` should be raised where plugins use many files.
    pub handles: usize,
    /// Bytes written in granted folders, and those that a file grows by without being written. 64 MiB: as much as
    /// a call may have in memory.
    pub written_bytes: u64,
    /// Files, folders and links made in granted folders; opening a file that may have to be made counts. 1,000.
    pub created_files: u32,
    /// Requests to granted hosts.
    pub http: HttpLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wall: Duration::from_secs(30),
            fuel: 20_000_000_000,
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            instances: 64,
            memories: 4,
            tables: 16,
            transfer_bytes: 4 << 20,
            log_bytes: 64 << 10,
            log_lines: 1_000,
            stdio_bytes: 64 << 10,
            handles: 256,
            written_bytes: 64 << 20,
            created_files: 1_000,
            http: HttpLimits::default(),
        }
    }
}

impl Limits {
    /// The most that a sandbox set up with defaults lets a plugin have.
    pub fn ceiling() -> Limits {
        Limits {
            wall: Duration::from_secs(3_600),
            fuel: 100_000_000_000_000,
            memory_bytes: 1 << 30,
            table_elements: 100_000,
            instances: 64,
            memories: 8,
            tables: 64,
            transfer_bytes: 64 << 20,
            log_bytes: 16 << 20,
            log_lines: 100_000,
            stdio_bytes: 4 << 20,
            handles: 4_096,
            written_bytes: 64 << 30,
            created_files: 1_000_000,
            http: HttpLimits::ceiling(),
        }
    }

    /// The smaller number of each.
    pub fn min(self, other: Limits) -> Limits {
        Limits {
            wall: self.wall.min(other.wall),
            fuel: self.fuel.min(other.fuel),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            table_elements: self.table_elements.min(other.table_elements),
            instances: self.instances.min(other.instances),
            memories: self.memories.min(other.memories),
            tables: self.tables.min(other.tables),
            transfer_bytes: self.transfer_bytes.min(other.transfer_bytes),
            log_bytes: self.log_bytes.min(other.log_bytes),
            log_lines: self.log_lines.min(other.log_lines),
            stdio_bytes: self.stdio_bytes.min(other.stdio_bytes),
            handles: self.handles.min(other.handles),
            written_bytes: self.written_bytes.min(other.written_bytes),
            created_files: self.created_files.min(other.created_files),
            http: self.http.min(other.http),
        }
    }
}

/// Counts what the memories and tables of one store hold.
pub(crate) struct Meter {
    limits: Limits,
    memory: usize,
    elements: usize,
    /// Highest sum of all linear memories, in bytes.
    pub(crate) peak: usize,
    /// The guest asked for more memory than there is left for it.
    pub(crate) memory_refused: bool,
    /// The guest asked for more table elements than there are left for it.
    pub(crate) table_refused: bool,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Meter {
        Meter { limits, memory: 0, elements: 0, peak: 0, memory_refused: false, table_refused: false }
    }
}

impl Meter {
    /// Begins to count anew what is asked for; what is there stays.
    pub(crate) fn renew(&mut self) {
        (self.peak, self.memory_refused, self.table_refused) = (self.memory, false, false);
    }
}

/// Adds a growth to a sum if the sum stays within its limit.
fn grow(sum: &mut usize, limit: usize, current: usize, desired: usize) -> bool {
    let wanted = sum.saturating_add(desired.saturating_sub(current));
    let fits = wanted <= limit;
    if fits {
        *sum = wanted;
    }
    fits
}

impl ResourceLimiter for Meter {
    // A refusal is told to the guest, which may go on without; if it gives up instead, `outcome` finds the
    // flag and names the limit.
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = grow(&mut self.memory, self.limits.memory_bytes, current, desired);
        self.memory_refused |= !fits;
        self.peak = self.peak.max(self.memory);
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = grow(&mut self.elements, self.limits.table_elements, current, desired);
        self.table_refused |= !fits;
        Ok(fits)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P02: the limit is a sum over all memories, not one for each.
    #[test]
    fn many_small_memories_count_as_one_large() {
        let mut meter = Meter::new(Limits { memory_bytes: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        assert!(meter.memory_refused);
        assert!(meter.memory_growing(60, 100, None).unwrap());
        assert_eq!(meter.peak, 100);
        assert!(!meter.table_refused);
    }

    /// P02: a plugin can't raise its limits above the ceiling.
    #[test]
    fn the_smaller_limit_counts() {
        let low = Limits { fuel: 1, ..Limits::ceiling() };
        let both = low.min(Limits::default());
        assert_eq!((both.fuel, both.memory_bytes), (1, Limits::default().memory_bytes));
    }
}
