//! MCP over standard input and output (basic/transports, "stdio").
//!
//! Owns the flow of messages: what is read ahead, what waits, what is in flight, and the end. Refuses to run
//! anything and to block: it is polled by the protocol's own loop.
//!
//! **Invariant:** every request that can be told apart from noise gets exactly one answer, unless the client
//! cancelled it; memory is bounded whatever the client sends or fails to read.

mod decode;
mod lines;
mod outbox;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use decode::{Incoming, Kind, decode};
use lines::{Line, Lines};
use outbox::{Outbox, Sent};

pub use streams::standard_streams;

/// Tool calls that are handed on at a time. 32: two for each slot of the sandbox, so that none is ever idle.
const MAX_CALLS: usize = 32;

/// Bytes of calls that are handed on at a time, and again of calls that are read ahead meanwhile: 8 MiB, twice the
/// largest message; parsed, they may take sixteen times as much. When both are full nothing is read, and the
/// client's writes wait.
const MAX_BYTES: usize = 8 << 20;

/// Subscriptions of one client at a time. One is of use; 16 leave room for whoever opens one for each window.
const MAX_SUBSCRIPTIONS: usize = 16;

/// Ids of cancelled requests that are remembered. Their work may go on for a moment, and a new request of the
/// same id would be stopped with it; the protocol forbids to use an id twice anyway.
const MAX_CANCELLED: usize = 4096;

/// Bytes of answers that the client has not read. When there are more, nothing is read either.
const MAX_UNSENT: usize = 8 << 20;

/// How long running calls may go on when the client has closed its side. A script that pipes requests in gets
/// the answers of quick ones, and the process is gone within a second.
const GRACE: Duration = Duration::from_millis(500);

/// A transport over a pair of streams, one JSON-RPC message a line.
pub(crate) struct StdioTransport<R, W> {
    lines: Lines<R>,
    outbox: Outbox<W>,
    /// Every request without an answer so far.
    open: HashMap<RequestId, Stage>,
    /// Calls that were read and not handed on yet, in order; an id whose call is gone was cancelled.
    order: VecDeque<RequestId>,
    waiting: HashMap<RequestId, (ClientJsonRpcMessage, usize)>,
    waiting_bytes: usize,
    /// Calls that were handed on, and their bytes.
    calls: usize,
    call_bytes: usize,
    subscriptions: usize,
    cancelled: VecDeque<RequestId>,
    /// The client has said that it is ready; saying it again means nothing.
    ready: bool,
    /// A request was handed on; before that a notification would end the protocol's handshake.
    begun: bool,
    /// The client closed its side; what still runs has until then.
    ends_at: Option<Instant>,
    ended: Arc<Notify>,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A call that waits for others.
    Waiting,
    /// A call of so many bytes that was handed on.
    Call(usize),
    /// Something else that was handed on.
    Other,
    /// A subscription, which is never answered while the client is there.
    Subscription,
}

/// A line, taken out of the buffer.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time; a box would cost an allocation for each message"
)]
enum Read {
    /// A message and its size.
    Message(Incoming, usize),
    TooLong(usize),
    End,
}

impl Read {
    fn of(line: &Line<'_>) -> Read {
        match line {
            Line::Whole(bytes) => Read::Message(decode(bytes), bytes.len()),
            Line::TooLong(bytes) => Read::TooLong(*bytes),
            Line::End => Read::End,
        }
    }
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A transport over these streams. It must be made on the runtime that serves it.
    pub(crate) fn new(input: R, output: W) -> StdioTransport<R, W> {
        StdioTransport {
            lines: Lines::new(input),
            outbox: Outbox::new(output),
            open: HashMap::new(),
            order: VecDeque::new(),
            waiting: HashMap::new(),
            waiting_bytes: 0,
            calls: 0,
            call_bytes: 0,
            subscriptions: 0,
            cancelled: VecDeque::new(),
            ready: false,
            begun: false,
            ends_at: None,
            ended: Arc::default(),
        }
    }

    /// Told once nothing more will be handed on.
    pub(crate) fn ended(&self) -> Arc<Notify> {
        Arc::clone(&self.ended)
    }

    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        let next = self.next_until_end().await;
        if next.is_none() {
            self.ended.notify_one();
        }
        next
    }

    async fn next_until_end(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.outbox.is_broken() {
                return None;
            }
            if let Some(call) = self.next_waiting() {
                return Some(call);
            }
            if let Some(ends_at) = self.ends_at {
                if self.unanswered() == 0 && self.outbox.is_idle() {
                    return None;
                }
                tokio::select! {
                    () = self.outbox.progress() => continue,
                    () = sleep_until(ends_at) => {
                        tracing::warn!("the client is gone; {} calls were stopped", self.unanswered());
                        return None;
                    }
                }
            }
            let may_read = self.waiting_bytes < MAX_BYTES && self.outbox.unsent() < MAX_UNSENT;
            let read = tokio::select! {
                line = self.lines.next(), if may_read => Read::of(&line),
                () = self.outbox.progress() => continue,
            };
            if let Some(message) = self.take(read) {
                return Some(message);
            }
        }
    }

    fn next_waiting(&mut self) -> Option<ClientJsonRpcMessage> {
        while self.may_hand_on() {
            let id = self.order.pop_front()?;
            if let Some((call, bytes)) = self.waiting.remove(&id) {
                self.waiting_bytes -= bytes;
                self.hand_on(id, bytes);
                return Some(call);
            }
        }
        None
    }

    /// Whether one more call may run. A client that doesn't read its answers gets no further ones.
    fn may_hand_on(&self) -> bool {
        self.calls < MAX_CALLS && self.call_bytes < MAX_BYTES && self.outbox.unsent() < MAX_UNSENT
    }

    fn hand_on(&mut self, id: RequestId, bytes: usize) {
        self.calls += 1;
        self.call_bytes += bytes;
        self.open.insert(id, Stage::Call(bytes));
    }

    /// Requests that the client may still want answered.
    fn unanswered(&self) -> usize {
        self.open.values().filter(|stage| **stage != Stage::Subscription).count()
    }

    /// What becomes of one line: a message to hand on, or nothing because it was kept, answered or dropped.
    fn take(&mut self, read: Read) -> Option<ClientJsonRpcMessage> {
        let (incoming, size) = match read {
            Read::Message(incoming, size) => (incoming, size),
            Read::TooLong(bytes) => {
                let message =
                    format!("a message of {bytes} bytes was dropped; the limit is {}", lines::MAX_LINE);
                self.refuse(None, ErrorData::new(ErrorCode::INVALID_REQUEST, message, None));
                return None;
            }
            Read::End => {
                self.ends_at = Some(Instant::now() + GRACE);
                return None;
            }
        };
        match incoming {
            Incoming::Request { id, kind, message } => self.request(id, kind, message, size),
            Incoming::Cancelled { id, message } => self.cancelled(&id, message),
            Incoming::Ready(message) if self.begun && !self.ready => {
                self.ready = true;
                Some(message)
            }
            Incoming::Other(message) if self.begun => Some(message),
            Incoming::Ready(_) => None,
            Incoming::Other(_) => {
                tracing::debug!(
                    "something that is no request came before the first request, and was dropped"
                );
                None
            }
            Incoming::Nothing => None,
            Incoming::Invalid { id, error } => {
                // An answer under an id that is in use would pass for the answer of that request.
                self.refuse(id.filter(|id| !self.open.contains_key(id)), error);
                None
            }
        }
    }

    fn request(
        &mut self,
        id: RequestId,
        kind: Kind,
        message: ClientJsonRpcMessage,
        size: usize,
    ) -> Option<ClientJsonRpcMessage> {
        if self.open.contains_key(&id) || self.cancelled.contains(&id) {
            let message = format!("the id {id} belongs to a request that isn't over yet or was cancelled");
            self.refuse(None, ErrorData::new(ErrorCode::INVALID_REQUEST, message, None));
            return None;
        }
        match kind {
            Kind::Call if !self.may_hand_on() || !self.waiting.is_empty() => {
                self.waiting_bytes += size;
                self.order.push_back(id.clone());
                self.waiting.insert(id.clone(), (message, size));
                self.open.insert(id, Stage::Waiting);
                return None;
            }
            Kind::Call => self.hand_on(id, size),
            Kind::Subscription if self.subscriptions >= MAX_SUBSCRIPTIONS => {
                let message = format!("at most {MAX_SUBSCRIPTIONS} subscriptions at a time");
                self.refuse(Some(id), ErrorData::new(ErrorCode::INVALID_REQUEST, message, None));
                return None;
            }
            Kind::Subscription => {
                self.subscriptions += 1;
                self.open.insert(id, Stage::Subscription);
            }
            Kind::Other => drop(self.open.insert(id, Stage::Other)),
        }
        self.begun = true;
        Some(message)
    }

    /// A cancelled call that waits is forgotten here; the protocol's loop stops one that runs.
    fn cancelled(&mut self, id: &RequestId, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match self.close(id)? {
            Stage::Waiting => {
                // Ids without a call are dropped now and then, so that cancelling costs neither time nor memory.
                if self.order.len() > 2 * self.waiting.len() + MAX_CALLS {
                    self.order.retain(|id| self.waiting.contains_key(id));
                }
                None
            }
            _ => {
                self.cancelled.push_back(id.clone());
                if self.cancelled.len() > MAX_CANCELLED {
                    self.cancelled.pop_front();
                }
                Some(message)
            }
        }
    }

    fn close(&mut self, id: &RequestId) -> Option<Stage> {
        let stage = self.open.remove(id)?;
        match stage {
            Stage::Waiting => {
                let bytes = self.waiting.remove(id).map_or(0, |(_, bytes)| bytes);
                self.waiting_bytes -= bytes;
            }
            Stage::Call(bytes) => {
                self.calls -= 1;
                self.call_bytes -= bytes;
            }
            Stage::Subscription => self.subscriptions -= 1,
            Stage::Other => {}
        }
        Some(stage)
    }

    fn refuse(&mut self, id: Option<RequestId>, error: ErrorData) {
        drop(self.outbox.send(&ServerJsonRpcMessage::error(error, id)));
    }
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => drop(self.close(&response.id)),
            JsonRpcMessage::Error(error) => drop(error.id.as_ref().and_then(|id| self.close(id))),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        // Written or queued before this returns, so that messages keep their order whoever waits for what.
        let sent: Sent = self.outbox.send(&message);
        sent.wait()
    }

    fn receive(&mut self) -> impl Future<Output = Option<ClientJsonRpcMessage>> + Send {
        self.next()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        ready(Ok(()))
    }
}
