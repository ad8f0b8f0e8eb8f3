//! The time of this machine.
//!
//! Owns the real clock. Refuses sleeping.
//!
//! **Invariant:** only this module reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use t2m_core::dispatch::Clock;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
