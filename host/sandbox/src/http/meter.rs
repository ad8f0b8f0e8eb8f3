//! How much one call sends and receives over HTTP.
//!
//! Owns the limits, the counts and the stream that counts. Refuses to count for each request: many small ones
//! would get round it.
//!
//! **Invariant:** once a limit is broken the call is stopped, whether the guest looks at the error or not, and what
//! would break the limit on bytes sent isn't sent.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// What the HTTP of one call may use. Everything but the waits is a total for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Requests, refused ones included. 32: a page with its redirects, or a listing of a thousand entries.
    pub requests: u32,
    /// Bytes sent, headers included. 4 MiB, as much as a result may have.
    pub sent_bytes: u64,
    /// Bytes received, headers included. 16 MiB: a large page or file, and what a call at the default memory
    /// limit can still hold.
    pub received_bytes: u64,
    /// Bytes that the headers of one request or answer take in memory. 64 KiB: servers commonly refuse more
    /// than 8 to 16 KiB on the wire.
    pub header_bytes: usize,
    /// Longest wait for a name, a connection and TLS. 10 s: more than three lost packets cost.
    pub connect: Duration,
    /// Longest wait for the first byte of an answer, and between two. 30 s: the default for the whole call.
    pub idle: Duration,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            requests: 32,
            sent_bytes: 4 << 20,
            received_bytes: 16 << 20,
            header_bytes: 64 << 10,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

impl HttpLimits {
    /// The most that a sandbox set up with defaults lets a plugin have.
    pub fn ceiling() -> HttpLimits {
        HttpLimits {
            requests: 10_000,
            sent_bytes: 1 << 30,
            received_bytes: 1 << 30,
            header_bytes: 256 << 10,
            connect: Duration::from_secs(120),
            idle: Duration::from_secs(3_600),
        }
    }

    /// The smaller number of each.
    pub fn min(self, other: HttpLimits) -> HttpLimits {
        HttpLimits {
            requests: self.requests.min(other.requests),
            sent_bytes: self.sent_bytes.min(other.sent_bytes),
            received_bytes: self.received_bytes.min(other.received_bytes),
            header_bytes: self.header_bytes.min(other.header_bytes),
            connect: self.connect.min(other.connect),
            idle: self.idle.min(other.idle),
        }
    }
}

/// Which limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breach {
    Requests,
    Sent,
    Received,
}

impl Breach {
    /// For the caller, behind "the plugin was stopped: ".
    pub(crate) fn text(self, limits: HttpLimits) -> String {
        match self {
            Breach::Requests => format!("it made more than {} HTTP requests", limits.requests),
            Breach::Sent => format!("it sent more than {} bytes over HTTP", limits.sent_bytes),
            Breach::Received => format!("it received more than {} bytes over HTTP", limits.received_bytes),
        }
    }
}

/// The counts of one call.
pub(crate) struct Meter {
    limits: HttpLimits,
    requests: AtomicU32,
    sent: AtomicU64,
    received: AtomicU64,
    breach: OnceLock<Breach>,
    told: Notify,
}

impl Meter {
    pub(super) fn new(limits: HttpLimits) -> Meter {
        Meter {
            limits,
            requests: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            breach: OnceLock::new(),
            told: Notify::new(),
        }
    }

    /// Counts one request, and says whether it may be made.
    pub(super) fn begin_request(&self) -> bool {
        let fits = self.requests.fetch_add(1, Ordering::Relaxed) < self.limits.requests;
        fits || self.stop(Breach::Requests)
    }

    /// Takes what of these bytes may still be sent, before it is.
    fn take_sent(&self, bytes: usize) -> usize {
        let wanted = bytes as u64;
        let take = |sent: u64| Some(sent.saturating_add(wanted).min(self.limits.sent_bytes));
        let before = self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or_default();
        let taken = self.limits.sent_bytes.saturating_sub(before).min(wanted);
        if taken < wanted {
            self.stop(Breach::Sent);
        }
        usize::try_from(taken).unwrap_or(usize::MAX)
    }

    /// Gives back what was taken and not sent.
    fn give_back(&self, bytes: usize) {
        self.sent.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    fn received(&self, bytes: usize) -> bool {
        let before = self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        before.saturating_add(bytes as u64) <= self.limits.received_bytes || self.stop(Breach::Received)
    }

    fn stop(&self, breach: Breach) -> bool {
        // The first one counts.
        let _ = self.breach.set(breach);
        self.told.notify_waiters();
        false
    }

    /// The limit that was broken.
    pub(crate) fn breach(&self) -> Option<Breach> {
        self.breach.get().copied()
    }

    /// Waits until a limit is broken.
    pub(crate) async fn until_broken(&self) {
        let mut told = std::pin::pin!(self.told.notified());
        // Listening first, so that a breach in between isn't missed.
        told.as_mut().enable();
        if self.breach().is_none() {
            told.await;
        }
    }

    /// Requests, bytes sent and bytes received.
    pub(crate) fn counts(&self) -> (u32, u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (self.requests.load(Ordering::Relaxed), load(&self.sent), load(&self.received))
    }
}

/// A stream whose bytes are counted, inside TLS.
pub(super) struct Counted<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Counted<S> {
        Counted { stream, meter }
    }
}

fn broken() -> io::Error {
    io::Error::other("a limit of the call is broken")
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let fits = self.meter.received(buffer.filled().len().saturating_sub(before));
        Poll::Ready(if fits { Ok(()) } else { Err(broken()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = self.meter.take_sent(bytes.len());
        let Some(bytes) = bytes.get(..taken).filter(|taken| taken.len() == bytes.len()) else {
            return Poll::Ready(Err(broken()));
        };
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        let count = if let Poll::Ready(Ok(count)) = &written { *count } else { 0 };
        self.meter.give_back(taken.saturating_sub(count));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// P02: each direction is one total over all requests of a call, and breaking it is told at once.
    #[tokio::test]
    async fn bytes_of_all_requests_count_together() {
        let limits = HttpLimits { sent_bytes: 8, received_bytes: 4, requests: 1, ..HttpLimits::default() };
        let meter = Arc::new(Meter::new(limits));
        for _ in 0..2 {
            let (near, mut far) = tokio::io::duplex(64);
            let mut near = Counted::new(near, Arc::clone(&meter));
            far.write_all(b"ok").await.unwrap();
            near.write_all(b"four").await.unwrap();
            assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 2);
        }
        assert_eq!((meter.counts(), meter.breach()), ((0, 8, 4), None));
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"more").await.unwrap();
        let mut near = Counted::new(near, Arc::clone(&meter));
        assert!(near.read(&mut [0; 8]).await.is_err());
        meter.until_broken().await;
        assert_eq!(meter.breach(), Some(Breach::Received));
        assert!(near.write_all(b"x").await.is_err());
        assert!(meter.begin_request() && !meter.begin_request());
        assert_eq!(meter.breach(), Some(Breach::Received), "the first one counts");
    }
}
