//! The thread that moves the epoch on.
//!
//! Owns the tick and its rest while no guest runs. Refuses to know what happens at a tick: each store's
//! deadline says that.
//!
//! **Invariant:** while a [`Running`] exists, the epoch moves once a tick; it may stand still otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use t2m_core::code::Code;
use wasmtime::{Engine, EngineWeak};

use crate::error::SandboxError;

/// Time between two steps of the epoch. 1 ms: no delay that a client would notice.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without a guest after which the thread rests until the next one: a busy server never wakes it, an
/// idle one isn't woken by it.
const TICKS_BEFORE_REST: u32 = 100;

#[derive(Default)]
struct Pulse {
    /// Guests that run, or may.
    guests: AtomicUsize,
    /// Those of them that serve somebody.
    serving: AtomicUsize,
    resting: AtomicBool,
}

/// The thread. It ends when this is dropped.
pub(crate) struct Ticker {
    pulse: Arc<Pulse>,
    thread: Thread,
}

impl Ticker {
    /// Starts it.
    pub(crate) fn start(engine: &Engine) -> Result<Ticker, SandboxError> {
        let pulse = Arc::new(Pulse::default());
        let (watched, engine) = (Arc::clone(&pulse), engine.weak());
        let thread: JoinHandle<()> = std::thread::Builder::new()
            .name("t2m-epoch".to_owned())
            .spawn(move || tick(&watched, &engine))
            .map_err(|error| {
                SandboxError::new(Code::Internal, format!("no thread for the epoch: {error}"))
            })?;
        Ok(Ticker { pulse, thread: thread.thread().clone() })
    }

    /// Keeps the epoch moving as long as the value lives, for a guest that serves somebody.
    pub(crate) fn serving(&self) -> Running {
        self.pulse.serving.fetch_add(1, Ordering::SeqCst);
        let mut running = self.running();
        running.serving = true;
        running
    }

    /// The same for a guest that serves nobody yet.
    pub(crate) fn running(&self) -> Running {
        // One order over both values, here and in `tick`: either this sees the rest, or the rest sees this.
        self.pulse.guests.fetch_add(1, Ordering::SeqCst);
        if self.pulse.resting.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running { pulse: Arc::clone(&self.pulse), serving: false }
    }

    /// Whether no guest serves anybody.
    pub(crate) fn is_idle(&self) -> bool {
        self.pulse.serving.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

/// A guest that runs, or may.
pub(crate) struct Running {
    pulse: Arc<Pulse>,
    serving: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.serving {
            self.pulse.serving.fetch_sub(1, Ordering::SeqCst);
        }
        self.pulse.guests.fetch_sub(1, Ordering::SeqCst);
    }
}

fn tick(pulse: &Arc<Pulse>, engine: &EngineWeak) {
    let mut idle = 0;
    // The last other owners are the ticker itself and guests; without them nobody reads the epoch.
    while Arc::strong_count(pulse) > 1 {
        std::thread::sleep(TICK);
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
        idle = if pulse.guests.load(Ordering::SeqCst) > 0 { 0 } else { idle + 1 };
        if idle >= TICKS_BEFORE_REST {
            pulse.resting.store(true, Ordering::SeqCst);
            if pulse.guests.load(Ordering::SeqCst) == 0 && Arc::strong_count(pulse) > 1 {
                std::thread::park();
            }
            pulse.resting.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// P02: the epoch moves for a guest that comes after a long rest.
    #[test]
    fn a_rest_ends_with_the_next_guest() {
        let engine = Engine::default();
        let ticker = Ticker::start(&engine).unwrap();
        let by = Instant::now() + Duration::from_secs(30);
        while !ticker.pulse.resting.load(Ordering::SeqCst) {
            assert!(Instant::now() < by, "it never rests");
            std::thread::yield_now();
        }
        let _running = ticker.running();
        assert!(!ticker.pulse.resting.load(Ordering::SeqCst));
        let guests = &ticker.pulse.guests;
        assert_eq!(guests.load(Ordering::SeqCst), 1);
    }
}
