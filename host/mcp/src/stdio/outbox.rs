//! Answers on their way out.
//!
//! Owns the order of messages and what the client hasn't read. Refuses to wait: what the stream doesn't take at
//! once is written by a task.
//!
//! **Invariant:** messages leave in the order of `send`, each as one line.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rmcp::model::ServerJsonRpcMessage;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, oneshot};

/// The way out. Its writing task ends with it, or when the stream breaks.
pub(super) struct Outbox<W> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    state: Mutex<State<W>>,
    /// Some of what was unsent is sent, or the stream broke.
    progress: Notify,
}

struct State<W> {
    output: W,
    unsent: VecDeque<Unsent>,
    unsent_bytes: usize,
    /// The stream has taken everything and may not have passed it on.
    flushing: bool,
    broken: bool,
    /// No more messages will come.
    closed: bool,
    /// The writing task, once it has had its first turn.
    writer: Option<Waker>,
}

struct Unsent {
    bytes: Vec<u8>,
    written: usize,
    told: oneshot::Sender<()>,
}

/// A message that was sent, or will be.
pub(super) struct Sent(Option<oneshot::Receiver<()>>);

impl Sent {
    /// Waits until the stream has taken the message.
    pub(super) async fn wait(self) -> io::Result<()> {
        match self.0 {
            None => Ok(()),
            Some(told) => told.await.map_err(|_| io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Outbox<W> {
    /// An outbox whose writing task runs on the current runtime.
    pub(super) fn new(output: W) -> Outbox<W> {
        let state = State {
            output,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            flushing: false,
            broken: false,
            closed: false,
            writer: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), progress: Notify::new() });
        let writing = Arc::clone(&shared);
        tokio::spawn(async move { std::future::poll_fn(|context| writing.poll(context)).await });
        Outbox { shared }
    }

    /// Sends a message, at once if the stream takes it.
    pub(super) fn send(&self, message: &ServerJsonRpcMessage) -> Sent {
        let mut bytes = match serde_json::to_vec(message) {
            Ok(bytes) => bytes,
            Err(error) => {
                // Every message is made of JSON values, so this is a fault of this program.
                tracing::error!("a message has no JSON form: {error}");
                return Sent(None);
            }
        };
        bytes.push(b'\n');
        let mut state = self.shared.lock();
        let (told, receiver) = oneshot::channel();
        if state.broken {
            // `told` is gone at the end of this, which tells the receiver.
            return Sent(Some(receiver));
        }
        state.unsent_bytes += bytes.len();
        state.unsent.push_back(Unsent { bytes, written: 0, told });
        if state.unsent.len() > 1 {
            return Sent(Some(receiver));
        }
        // In the name of the writing task, which is asleep: whatever the stream isn't ready for wakes that task.
        // Before its first turn there is no name to write in, and it finds the message itself.
        if let Some(writer) = state.writer.clone() {
            let _ = state.write(&mut Context::from_waker(&writer));
        }
        if state.unsent.is_empty() && !state.broken { Sent(None) } else { Sent(Some(receiver)) }
    }

    /// Bytes that the stream hasn't taken.
    pub(super) fn unsent(&self) -> usize {
        self.shared.lock().unsent_bytes
    }

    /// Whether the stream has passed on everything.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.unsent.is_empty() && !state.flushing
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_broken(&self) -> bool {
        self.shared.lock().broken
    }

    /// Waits until something was written by the task, or the stream broke.
    pub(super) async fn progress(&self) {
        self.shared.progress.notified().await;
    }
}

impl<W> Drop for Outbox<W> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }
}

impl<W: AsyncWrite + Unpin> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writing task: writes what there is, then sleeps until there is more.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let _ = state.write(context);
        // Told too often rather than once too little: who waits looks for himself.
        self.progress.notify_one();
        if state.broken || (state.closed && state.unsent.is_empty() && !state.flushing) {
            return Poll::Ready(());
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<W: AsyncWrite + Unpin> State<W> {
    /// Writes until everything is written, the stream takes no more or is broken.
    fn write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(first) = self.unsent.front_mut() {
            let rest = first.bytes.get(first.written..).unwrap_or_default();
            match Pin::new(&mut self.output).poll_write(context, rest) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) if count > 0 => {
                    first.written += count;
                    self.unsent_bytes -= count;
                    if first.written == first.bytes.len()
                        && let Some(first) = self.unsent.pop_front()
                    {
                        // Not everybody waits.
                        let _ = first.told.send(());
                    }
                }
                Poll::Ready(failed) => {
                    let reason = failed.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    tracing::debug!("standard output can't be written: {reason}");
                    return self.give_up();
                }
            }
        }
        let flushed = Pin::new(&mut self.output).poll_flush(context);
        self.flushing = flushed.is_pending();
        match flushed {
            Poll::Ready(Err(_)) => self.give_up(),
            flushed => flushed.map(|_| ()),
        }
    }

    fn give_up(&mut self) -> Poll<()> {
        self.broken = true;
        self.unsent.clear();
        self.unsent_bytes = 0;
        self.flushing = false;
        Poll::Ready(())
    }
}
