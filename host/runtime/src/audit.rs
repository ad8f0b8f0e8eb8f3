//! The audit log on disk: a folder of files, written by one thread of each process.
//!
//! Owns the queue to that thread and what a call has to wait for. Refuses to let a call run whose record can't
//! be kept: the caller is told so.
//!
//! Several processes may write to one folder, since every client starts a server of its own with the same
//! configuration: each batch is appended under a lock, behind whatever the others wrote meanwhile.
//!
//! **Invariant:** a record that something waited for was on the disk, by the operator's wish, before that went on.

mod head;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use t2m_core::audit::{AuditLog, Entry, Kept};
use t2m_core::code::Code;
use t2m_core::dispatch::Clock;
use tokio::sync::oneshot;

use self::store::Store;
pub use head::{Head, audit_head};
pub use snapshot::AuditSnapshot;

/// When records are on the disk for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditSync {
    /// The decision of a call that may change something before its handler runs; everything else within a
    /// second.
    Each,
    /// Everything within a second.
    Interval,
    /// When the system writes it. What was written survives the program, not the machine.
    Never,
}

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Its folder, made if it isn't there.
    pub folder: PathBuf,
    /// When records are on the disk.
    pub sync: AuditSync,
    /// A file that would become larger is ended, and the next one begun.
    pub max_file_bytes: u64,
    /// Name and version of the program, for the log.
    pub program: String,
}

/// Why a log can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuditError {
    /// Stable code.
    pub code: Code,
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

impl AuditError {
    fn new(code: Code, path: &Path, message: impl Into<String>) -> AuditError {
        AuditError { code, path: path.to_owned(), message: message.into() }
    }

    fn io(path: &Path, error: &std::io::Error) -> AuditError {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        AuditError::new(Code::AuditUnwritable, path, format!("`{file}`: {error}"))
    }

    fn unreadable(path: &Path, error: &std::io::Error) -> AuditError {
        AuditError { code: Code::FileUnreadable, ..AuditError::io(path, error) }
    }
}

/// Records that may wait to be written. Each takes less than a kilobyte, so that a disk that stands still costs 16 MB
/// before calls are refused.
const MAX_QUEUED: usize = 16 << 10;
/// Records that are written in one piece.
const MAX_BATCH: usize = 1_024;
/// How long a record may be in the system's memory alone. As journald waits for what isn't urgent, but shorter.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// How far the head may lag behind what is on the disk. Writing it costs as much as writing a record.
const HEAD_EVERY: Duration = Duration::from_millis(250);
/// How long to wait before writing is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

enum Message {
    Record(Queued),
    Close,
}

struct Queued {
    at_ms: u64,
    entry: Entry,
    waiter: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Default)]
struct Shared {
    /// Records that wait, and those that will follow for sure.
    waiting: AtomicUsize,
    broken: AtomicBool,
    why: Mutex<String>,
}

impl Shared {
    fn fail(&self, why: &str) {
        why.clone_into(&mut self.why.lock().unwrap_or_else(PoisonError::into_inner));
        self.broken.store(true, Ordering::Release);
    }

    fn why(&self) -> String {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The end of the queue that calls have.
struct AuditQueue {
    queue: Sender<Message>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    sync: AuditSync,
}

impl AuditQueue {
    fn send(&self, entry: Entry, waiter: Option<oneshot::Sender<Result<(), String>>>) -> bool {
        self.queue.send(Message::Record(Queued { at_ms: self.clock.now_ms(), entry, waiter })).is_ok()
    }
}

impl AuditLog for AuditQueue {
    fn begin(&self, entry: Entry, durable: bool) -> Kept {
        if self.shared.broken.load(Ordering::Acquire) {
            return Kept::Refused(self.shared.why());
        }
        // The end of what begins finds room, whatever comes between.
        let room = 1 + usize::from(entry.is_followed());
        if self.shared.waiting.fetch_add(room, Ordering::Relaxed) + room > MAX_QUEUED {
            self.shared.waiting.fetch_sub(room, Ordering::Relaxed);
            return Kept::Refused(format!("{MAX_QUEUED} records wait to be written already"));
        }
        let (waiter, answer) = match durable && self.sync == AuditSync::Each {
            true => Some(oneshot::channel()).unzip(),
            false => (None, None),
        };
        let gone = || "its writer has ended".to_owned();
        if !self.send(entry, waiter) {
            return Kept::Refused(gone());
        }
        match answer {
            None => Kept::Queued,
            Some(answer) => {
                Kept::Waiting(Box::pin(async move { answer.await.unwrap_or_else(|_| Err(gone())) }))
            }
        }
    }

    fn end(&self, entry: Entry) {
        // A writer that is gone lets nothing begin, and says how much it didn't write.
        let _ = self.send(entry, None);
    }
}

/// Ends the log. Dropping it does so as well.
pub struct AuditCloser {
    queue: Sender<Message>,
    writing: Option<JoinHandle<Result<(), AuditError>>>,
}

impl AuditCloser {
    /// Waits until what was recorded is written, and says what wasn't.
    pub fn close(mut self) -> Result<(), AuditError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), AuditError> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        // A writer that is gone says why below.
        let _ = self.queue.send(Message::Close);
        let broke_off = || AuditError::new(Code::Internal, Path::new(""), "the writer broke off");
        writing.join().unwrap_or_else(|_| Err(broke_off()))
    }
}

impl Drop for AuditCloser {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Opens a log, or begins one, and starts its writer.
pub fn start_audit(
    options: AuditOptions,
    clock: Arc<dyn Clock>,
) -> Result<(Arc<dyn AuditLog>, AuditCloser), AuditError> {
    let sync = options.sync;
    let store = Store::open(options, clock.now_ms())?;
    let (queue, messages) = channel();
    let shared = Arc::new(Shared::default());
    let writer = Writer {
        path: store.folder().to_owned(),
        store,
        sync,
        shared: Arc::clone(&shared),
        batch: Vec::new(),
        written: 0,
        unsynced: None,
        head_at: Instant::now(),
    };
    let writing = std::thread::Builder::new()
        .name("t2m-audit".to_owned())
        .spawn(move || writer.run(&messages))
        .map_err(|error| AuditError::new(Code::Internal, Path::new(""), error.to_string()))?;
    let closer = AuditCloser { queue: queue.clone(), writing: Some(writing) };
    Ok((Arc::new(AuditQueue { queue, shared, clock, sync }), closer))
}

struct Writer {
    path: PathBuf,
    store: Store,
    sync: AuditSync,
    shared: Arc<Shared>,
    /// What isn't written yet.
    batch: Vec<Queued>,
    /// How much of that is written.
    written: usize,
    /// Since when something is written and not on the disk for sure.
    unsynced: Option<Instant>,
    head_at: Instant,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) -> Result<(), AuditError> {
        loop {
            let closing = self.receive(messages);
            let done = self.write(closing);
            match done {
                Ok(()) => self.shared.broken.store(false, Ordering::Release),
                Err(error) => {
                    self.refuse(&error);
                    if closing {
                        let lost = self.batch.len() - self.written;
                        let message = format!("{lost} records of the audit log aren't written: {error}");
                        return Err(AuditError { message, ..error });
                    }
                }
            }
            if closing {
                return Ok(());
            }
        }
    }

    /// Waits for something to do, and says whether it is to end.
    fn receive(&mut self, messages: &Receiver<Message>) -> bool {
        let broken = self.shared.broken.load(Ordering::Acquire);
        let now = Instant::now();
        let due = [
            broken.then(|| now + RETRY_EVERY),
            self.unsynced.map(|since| since + SYNC_EVERY),
            self.store.head_lags().then(|| self.head_at + HEAD_EVERY),
        ];
        let mut next = match due.into_iter().flatten().min() {
            // While it is broken, what ends is taken in and tried with the rest.
            Some(at) => messages.recv_timeout(at.saturating_duration_since(now)),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        loop {
            match next {
                Ok(Message::Record(record)) => self.batch.push(record),
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
            if self.batch.len() >= MAX_BATCH {
                return false;
            }
            next = match messages.try_recv() {
                Ok(message) => Ok(message),
                Err(_) => return false,
            };
        }
    }

    fn write(&mut self, closing: bool) -> Result<(), AuditError> {
        if !self.batch.is_empty() {
            let records: Vec<(u64, &Entry)> =
                self.batch.iter().map(|record| (record.at_ms, &record.entry)).collect();
            self.store.append(&records, &mut self.written)?;
            self.unsynced.get_or_insert_with(Instant::now);
        }
        let waited = self.batch.iter().any(|record| record.waiter.is_some());
        let due = self.unsynced.is_some_and(|since| closing || since.elapsed() >= SYNC_EVERY);
        if waited || due {
            self.store.sync(self.sync != AuditSync::Never)?;
            self.unsynced = None;
        }
        self.shared.waiting.fetch_sub(self.batch.len(), Ordering::Relaxed);
        self.written = 0;
        for record in self.batch.drain(..) {
            // Whoever waited may be gone.
            let _ = record.waiter.map(|waiter| waiter.send(Ok(())));
        }
        if self.store.head_lags() && (closing || self.head_at.elapsed() >= HEAD_EVERY) {
            self.store.write_head()?;
            self.head_at = Instant::now();
        }
        Ok(())
    }

    /// Lets nothing begin until writing works again. What ended is kept for then.
    fn refuse(&mut self, error: &AuditError) {
        self.shared.fail(&format!("the audit log in `{}` can't be written: {error}", self.path.display()));
        let why = self.shared.why();
        for record in &mut self.batch {
            let _ = record.waiter.take().map(|waiter| waiter.send(Err(why.clone())));
        }
    }
}
