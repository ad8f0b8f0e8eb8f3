//! The threads that guests run on.
//!
//! Owns two groups of threads: one for calls that have just begun, one in the background for those that turned
//! out to be long. Refuses to keep a guest that computes on the caller's thread, which may be reading a client's
//! messages, for longer than a tick.
//!
//! **Invariant:** a guest that computes is in the background after its first tick, so a new call finds a free
//! thread and the caller is heard, whatever else is running.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use t2m_core::code::Code;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use crate::error::SandboxError;

/// How much a long call gives way to everything else on the machine, as a nice value. 10: a tenth of the
/// weight, so that a client, its messages and new calls go first, and an idle machine is still used in full.
#[cfg(target_os = "linux")]
const BACKGROUND_NICE: i32 = 10;

/// A call is quick if it takes no longer than this. 60 µs, a sixteenth of a tick: a caller that has begun sixteen
/// such calls, as many as there are slots, is back for other messages within a tick.
const QUICK: Duration = Duration::from_micros(60);

/// How long the calls of one plugin take, judged by the last two: one alone may have been held up by the machine.
#[derive(Default)]
pub(crate) struct Pace(AtomicU8);

impl Pace {
    /// Notes what a call took.
    pub(crate) fn took(&self, time: Duration) {
        let quick = if time <= QUICK { 2 } else { self.0.load(Ordering::Relaxed).saturating_sub(1) };
        self.0.store(quick, Ordering::Relaxed);
    }

    /// Notes that a call runs which is long.
    fn is_long(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether one of the last two calls was quick and none that runs is known to be long.
    pub(crate) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Set once a call has computed for longer than a tick.
#[derive(Clone, Default)]
pub(crate) struct Long(Arc<LongCall>);

#[derive(Default)]
struct LongCall {
    is_long: AtomicBool,
    plugin: Arc<Pace>,
}

impl Long {
    /// For a call of a plugin of this pace.
    pub(crate) fn of(plugin: &Arc<Pace>) -> Long {
        Long(Arc::new(LongCall { is_long: AtomicBool::new(false), plugin: Arc::clone(plugin) }))
    }

    /// Says that the call is long.
    pub(crate) fn set(&self) {
        self.0.is_long.store(true, Ordering::Relaxed);
        self.0.plugin.is_long();
    }

    fn is_set(&self) -> bool {
        self.0.is_long.load(Ordering::Relaxed)
    }
}

/// Where a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// On the caller's thread, which spares two changes of threads, about 20 µs. Only for a call that is alone or
    /// likely to be quick, so that the caller waits for one tick at most and not for a tick of each.
    Here,
    /// On a prompt thread.
    Away,
}

/// Both groups. Dropping them stops every guest at its next tick.
pub(crate) struct Workers {
    prompt: Threads,
    /// Started by the first long call, or nothing if that failed.
    background: Arc<OnceLock<Option<Threads>>>,
    cores: usize,
}

impl Workers {
    /// Starts the prompt threads. Each group has as many as there are cores.
    pub(crate) fn start(cores: usize) -> Result<Workers, SandboxError> {
        let prompt = Threads::start(Builder::new_multi_thread().thread_name("t2m-guest"), cores)?;
        Ok(Workers { prompt, background: Arc::default(), cores })
    }

    /// Does one call's work. Dropping the future stops it at its next tick at the latest.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        begin: Begin,
        long: Long,
        work: Pin<Box<impl Future<Output = T> + Send + 'static>>,
    ) -> Result<T, JoinError> {
        let work = WhilePrompt { work: Some(work), long };
        match begin {
            Begin::Here => to_its_end(work, &self.background, self.cores).await,
            Begin::Away => {
                let (background, cores) = (Arc::clone(&self.background), self.cores);
                let task = async move { to_its_end(work, &background, cores).await };
                AbortOnDropHandle::new(self.prompt.handle().spawn(task)).await?
            }
        }
    }
}

/// Carries work on in the background once it is long.
async fn to_its_end<F: Future<Output: Send> + Send + 'static>(
    work: WhilePrompt<F>,
    background: &OnceLock<Option<Threads>>,
    cores: usize,
) -> Result<F::Output, JoinError> {
    match work.await {
        Ok(done) => Ok(done),
        Err(rest) => match background.get_or_init(|| start_background(cores)) {
            Some(threads) => AbortOnDropHandle::new(threads.handle().spawn(rest)).await,
            // Better where it is than not at all: it still gives way at each tick.
            None => Ok(rest.await),
        },
    }
}

/// Work until it is done or found to be long.
struct WhilePrompt<F> {
    work: Option<Pin<Box<F>>>,
    long: Long,
}

impl<F: Future> Future for WhilePrompt<F> {
    /// What the work gave, or the work itself, to be carried on elsewhere.
    type Output = Result<F::Output, Pin<Box<F>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending if self.long.is_set() => match self.work.take() {
                Some(rest) => Poll::Ready(Err(rest)),
                None => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

/// One group of threads.
struct Threads {
    /// Taken only when dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Threads {
    fn start(builder: &mut Builder, count: usize) -> Result<Threads, SandboxError> {
        let runtime = builder.worker_threads(count).enable_all().build();
        let runtime = runtime
            .map_err(|error| SandboxError::new(Code::Internal, format!("no threads for guests: {error}")))?;
        Ok(Threads { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Waiting for guests here would block whoever drops the sandbox, which may be a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn start_background(cores: usize) -> Option<Threads> {
    let mut builder = Builder::new_multi_thread();
    let started = Threads::start(builder.thread_name("t2m-long").on_thread_start(give_way), cores);
    started.inspect_err(|error| tracing::warn!(target: "t2m_sandbox", "no background: {error}")).ok()
}

/// Lets the calling thread give way. Elsewhere than on Linux a nice value is one of the whole process.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, BACKGROUND_NICE) {
        tracing::debug!(target: "t2m_sandbox", "long calls keep their priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// P02: one slow call among quick ones is the machine's doing, two are the plugin's, and so is a long one.
    #[test]
    fn a_plugin_is_quick_until_two_calls_say_otherwise() {
        let pace = Arc::new(Pace::default());
        assert!(!pace.is_quick(), "nothing is known yet");
        pace.took(QUICK);
        pace.took(QUICK * 2);
        assert!(pace.is_quick());
        pace.took(QUICK * 2);
        assert!(!pace.is_quick());
        pace.took(QUICK);
        Long::of(&pace).set();
        assert!(!pace.is_quick());
    }

    /// P02: work stays with the prompt threads until it is long, and then carries on in the background.
    #[tokio::test]
    async fn long_work_carries_on_in_the_background() {
        let workers = Workers::start(2).unwrap();
        let short =
            workers.run(Begin::Away, Long::default(), Box::pin(async { this_thread() })).await.unwrap();
        assert_eq!(short, "t2m-guest");
        let here =
            workers.run(Begin::Here, Long::default(), Box::pin(async { this_thread() })).await.unwrap();
        assert_eq!(here, this_thread());

        for (begin, thread) in [(Begin::Away, "t2m-guest".to_owned()), (Begin::Here, this_thread())] {
            let long = Long::default();
            let found = long.clone();
            let work = async move {
                let before = this_thread();
                tokio::task::yield_now().await;
                let waited = this_thread();
                found.set();
                tokio::task::yield_now().await;
                [before, waited, this_thread()]
            };
            let threads = workers.run(begin, long, Box::pin(work)).await.unwrap();
            assert_eq!(threads, [thread.clone(), thread, "t2m-long".to_owned()]);
        }
    }

    /// P02: a call that nobody waits for any more is dropped, wherever it runs.
    #[tokio::test]
    async fn dropping_the_wait_drops_the_work() {
        struct Told(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.take().map(|told| told.send(()));
            }
        }
        let workers = Workers::start(2).unwrap();
        let cases = [(Begin::Away, false), (Begin::Away, true), (Begin::Here, false), (Begin::Here, true)];
        for (begin, is_long) in cases {
            let (sender, dropped) = tokio::sync::oneshot::channel();
            let (start, started) = tokio::sync::oneshot::channel();
            let long = Long::default();
            if is_long {
                long.set();
            }
            let work = async move {
                let _told = Told(Some(sender));
                let _ = start.send(());
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = workers.run(begin, long, Box::pin(work)) => unreachable!("the work never ends"),
                _ = started => {}
            }
            dropped.await.unwrap();
        }
    }
}
