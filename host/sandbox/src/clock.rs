//! Time and chance as a guest sees them.
//!
//! Owns the virtual clocks, the date that a plugin may be granted, and the seeds. Refuses the host's own clock and
//! entropy: with them a guest could measure other work on the machine, and a replay would differ.
//!
//! **Invariant:** what a guest reads depends on the run, node and attempt, on how often it reads, and on how
//! long it asked to sleep; never on the host's clock. The one exception is the date of a call that was granted it.
//! Sleeping itself takes real time, and the wall limit ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::SeedableRng;
use rand::rngs::StdRng;
use t2m_core::digest::Digest;
use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder, async_trait};

/// Nanoseconds that pass with each reading, so that a guest waiting for time to pass gets there.
const STEP: u64 = 1_000;

/// Where virtual wall clocks start at the earliest: 2025-01-01T00:00:00Z.
const WALL_START: u64 = 1_735_689_600;

/// Seconds over which the starts of different runs are spread, about half a year.
const WALL_SPREAD: u64 = 1 << 24;

/// The date and the deadline are told in steps of this many milliseconds: enough to plan by, too coarse to measure
/// other work with.
pub(crate) const COARSE_MS: u32 = 100;

/// What everything random in one call is made from.
#[derive(Clone, Copy)]
pub(crate) struct Seed([u8; 32]);

impl Seed {
    /// The seed of one attempt at one node of one run.
    pub(crate) fn of_call(run: &str, node: &str, attempt: u32) -> Seed {
        // Ids hold no NUL, so the parts can't be taken for each other.
        let text = format!("t2m-seed-1\0{run}\0{node}\0{attempt}");
        Seed(*Digest::of_bytes(text.as_bytes()).as_bytes())
    }

    /// The seed for asking a component what it offers.
    pub(crate) fn of_component(digest: Digest) -> Seed {
        Seed(*digest.as_bytes())
    }

    /// Gives a guest its randomness.
    pub(crate) fn install(self, wasi: &mut WasiCtxBuilder) {
        let mut other = self.0;
        other.reverse();
        let [low, high] = [self.word(0), self.word(8)];
        wasi.secure_random(StdRng::from_seed(self.0))
            .insecure_random(StdRng::from_seed(other))
            .insecure_random_seed(u128::from(low) << 64 | u128::from(high))
            .max_random_size(1 << 20);
    }

    fn word(self, from: usize) -> u64 {
        let bytes = self.0.iter().skip(from).take(8);
        bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

/// The clocks of one call.
#[derive(Clone, Default)]
pub(crate) struct VirtualClock {
    /// Nanoseconds since the call began.
    passed: Arc<AtomicU64>,
}

impl VirtualClock {
    fn read(&self) -> u64 {
        self.passed.fetch_add(STEP, Ordering::Relaxed)
    }

    /// Gives a guest its clocks in a run, with the date that was granted, if one was. The clock that isn't a date is
    /// also linked through [`HasClock`], where its sleeping is virtual too.
    pub(crate) fn install(&self, wasi: &mut WasiCtxBuilder, run: &str, date: Option<Date>) {
        match date {
            Some(date) => wasi.wall_clock(date),
            None => wasi.wall_clock(VirtualWallClock::of_run(run, self)),
        };
        wasi.monotonic_clock(self.clone());
    }
}

/// The date that a plugin reads instead of the virtual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Date {
    /// That of this machine.
    Now,
    /// Always this one, as the time since 1970, so that what a plugin makes of it can be tested.
    Fixed(Duration),
}

impl HostWallClock for Date {
    fn resolution(&self) -> Duration {
        Duration::from_millis(u64::from(COARSE_MS))
    }

    fn now(&self) -> Duration {
        let exact = match self {
            Date::Now => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Date::Fixed(date) => *date,
        };
        let millis = exact.subsec_millis();
        Duration::new(exact.as_secs(), (millis - millis % COARSE_MS) * 1_000_000)
    }
}

/// A call's clock as a date.
struct VirtualWallClock {
    clock: VirtualClock,
    /// Seconds since 1970 at which the run's clock starts.
    start: u64,
}

impl VirtualWallClock {
    /// A clock that starts at a moment derived from the run, the same for all its calls.
    fn of_run(run: &str, clock: &VirtualClock) -> VirtualWallClock {
        let spread = Seed::of_call(run, "", 0).word(16) % WALL_SPREAD;
        VirtualWallClock { clock: clock.clone(), start: WALL_START + spread }
    }
}

impl HostWallClock for VirtualWallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(STEP)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.start).saturating_add(Duration::from_nanos(self.clock.read()))
    }
}

impl HostMonotonicClock for VirtualClock {
    fn resolution(&self) -> u64 {
        STEP
    }

    fn now(&self) -> u64 {
        self.read()
    }
}

/// Links `wasi:clocks/monotonic-clock` to a [`VirtualClock`].
pub(crate) struct HasClock;

impl HasData for HasClock {
    type Data<'a> = ClockView<'a>;
}

/// One call's clock and the table of its handles.
pub(crate) struct ClockView<'a> {
    pub(crate) clock: &'a VirtualClock,
    pub(crate) table: &'a mut ResourceTable,
}

impl ClockView<'_> {
    fn wake_at(&mut self, instant: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = self.clock.passed.load(Ordering::Relaxed);
        let alarm = Alarm {
            clock: self.clock.clone(),
            instant,
            due: tokio::time::Instant::now().checked_add(Duration::from_nanos(instant.saturating_sub(now))),
        };
        let alarm = self.table.push(alarm)?;
        subscribe(self.table, alarm)
    }
}

impl monotonic_clock::Host for ClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.clock.read())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(STEP)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.wake_at(when)
    }

    fn subscribe_duration(&mut self, length: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = self.clock.passed.load(Ordering::Relaxed);
        self.wake_at(now.saturating_add(length))
    }
}

/// A moment of the virtual clock that a guest waits for.
struct Alarm {
    clock: VirtualClock,
    instant: u64,
    /// When it is over in real time; `None` lies beyond what can be told.
    due: Option<tokio::time::Instant>,
}

#[async_trait]
impl Pollable for Alarm {
    async fn ready(&mut self) {
        match self.due {
            Some(due) if due > tokio::time::Instant::now() => tokio::time::sleep_until(due).await,
            // A guest that polls in a loop must not starve the others.
            Some(_) => tokio::task::yield_now().await,
            None => std::future::pending().await,
        }
        self.clock.passed.fetch_max(self.instant, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P14: the same run sees the same times, another run others.
    #[test]
    fn clocks_depend_on_the_run_alone() {
        let read = |run| VirtualWallClock::of_run(run, &VirtualClock::default()).now();
        assert_eq!(read("a"), read("a"));
        assert_ne!(read("a"), read("b"));
        let clock = VirtualClock::default();
        assert!(HostMonotonicClock::now(&clock) < HostMonotonicClock::now(&clock));
    }

    /// P14: a granted date is too coarse to measure with, and reading it moves no clock.
    #[test]
    fn a_granted_date_is_rounded_down() {
        for (millis, rounded) in
            [(0, 0), (99, 0), (1_000_199, 1_000_100), (1_700_000_000_999, 1_700_000_000_900)]
        {
            let read = Date::Fixed(Duration::from_millis(millis)).now();
            assert_eq!(read, Duration::from_millis(rounded), "{millis}");
        }
        assert!(Date::Now.now() > Duration::from_secs(WALL_START));
        assert_eq!(Date::Now.now().as_nanos() % 100_000_000, 0);
    }

    /// P14: a guest that slept finds its clock moved on by what it asked for.
    #[tokio::test]
    async fn sleeping_moves_the_virtual_clock() {
        let clock = VirtualClock::default();
        let mut alarm = Alarm {
            clock: clock.clone(),
            instant: 5_000_000,
            due: tokio::time::Instant::now().checked_add(Duration::from_millis(1)),
        };
        alarm.ready().await;
        assert_eq!(HostMonotonicClock::now(&clock), 5_000_000);
    }

    /// P14: attempts and nodes get different randomness, the same attempt the same.
    #[test]
    fn seeds_differ_by_attempt_and_node() {
        let seed = |node, attempt| Seed::of_call("run", node, attempt).0;
        assert_eq!(seed("n", 1), seed("n", 1));
        assert_ne!(seed("n", 1), seed("n", 2));
        assert_ne!(seed("n", 1), seed("m", 1));
    }
}
