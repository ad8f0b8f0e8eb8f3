//! Progress of a workflow for the client that asked for it (MCP, basic/utilities/progress).
//!
//! Owns the way from events to notifications. Refuses to slow a run down: events queue, and a client that
//! doesn't read delays only its own result.
//!
//! **Invariant:** every notification of a call is sent before its result, with a number that grows.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use t2m_core::dispatch::EventSink;
use t2m_core::event::Event;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A run's events on their way to one client. Their number is bounded by the nodes of the workflow.
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    total: usize,
    done: usize,
    finished: UnboundedReceiver<String>,
}

/// Keeps what a client hears of.
struct Finished(UnboundedSender<String>);

impl EventSink for Finished {
    fn emit(&self, event: &Event) {
        if let Event::NodeFinished { node, code: None, .. } = event {
            // Nobody hears it once the call is over.
            let _ = self.0.send(node.to_string());
        }
    }
}

impl Progress {
    /// Progress of a run with so many nodes.
    pub(crate) fn new(
        peer: Peer<RoleServer>,
        token: ProgressToken,
        total: usize,
    ) -> (Progress, Arc<dyn EventSink>) {
        let (sender, finished) = unbounded_channel();
        (Progress { peer, token, total, done: 0, finished }, Arc::new(Finished(sender)))
    }

    /// Waits for the work and tells of each node meanwhile.
    pub(crate) async fn until<T>(mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                Some(node) = self.finished.recv() => self.tell(node).await,
                done = &mut work => break done,
            }
        };
        while let Ok(node) = self.finished.try_recv() {
            self.tell(node).await;
        }
        done
    }

    async fn tell(&mut self, node: String) {
        self.done += 1;
        let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let about = ProgressNotificationParam::new(self.token.clone(), count(self.done))
            .with_total(count(self.total))
            .with_message(node);
        // A client that is gone is found by the transport.
        let _ = self.peer.notify_progress(about).await;
    }
}
