//! The event loop of one run.
//!
//! Owns readiness, the concurrency limit, what happens to siblings of a failure, and the report. Refuses
//! to make checks: every call goes to the dispatcher.
//!
//! **Invariant:** a node starts when its own dependencies are done and a slot is free, never because a
//! layer is complete; the lowest recorded position goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use t2m_core::audit::{Ending, Entry, Kept};
use t2m_core::code::Code;
use t2m_core::digest::{Digest, Parts};
use t2m_core::dispatch::{Bound, CallError, CallRequest, Dispatcher, EventSink, Origin};
use t2m_core::event::Event;
use t2m_core::id::{NodeId, RunId};
use t2m_core::journal::{
    IllegalTransition, JOURNAL_VERSION, JournalError, JournalStore, NodeState, Record, RunState,
};
use t2m_core::tool::Reply;
use t2m_core::workflow::{Node, PathMissing, Scope, VerifiedWorkflow};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// How a run is to go.
#[derive(Clone)]
pub struct RunOptions {
    /// Its id.
    pub run: RunId,
    /// Its inputs, bound by [`t2m_core::workflow::bind_inputs`].
    pub inputs: Arc<Map<String, Value>>,
    /// Most calls at a time. At least 1.
    pub concurrency: usize,
    /// Longest time for the whole run.
    pub timeout: Option<Duration>,
    /// Stops the run from outside.
    pub cancel: Cancel,
    /// Who watches.
    pub events: Option<Arc<dyn EventSink>>,
}

/// A switch that stops a run. Clones share it.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Sender<bool>);

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel(watch::Sender::new(false))
    }
}

impl Cancel {
    /// Stops the run.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    async fn cancelled(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives in `self`, so waiting only ends with a change.
        let _ = receiver.wait_for(|cancelled| *cancelled).await;
    }
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Where it ended: what is done, failed, cancelled and in doubt.
    pub state: RunState,
    /// The result, or why there is none.
    pub outcome: Result<Value, (Code, String)>,
    /// The first failed call, with everything that is known of it.
    pub failure: Option<(NodeId, CallError)>,
    /// Time each call took, in microseconds.
    pub micros: BTreeMap<NodeId, u64>,
}

/// A run that could not be carried on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A record could not be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The loop wrote a record that can't be; a fault of this program.
    #[error("the run's own record is illegal: {0}")]
    Illegal(#[from] IllegalTransition),
}

/// A call that runs.
struct Running {
    position: usize,
    abort: AbortHandle,
    read_only: bool,
    since: Instant,
}

struct Loop<'a> {
    dispatcher: &'a Arc<Dispatcher>,
    workflow: &'a Arc<VerifiedWorkflow>,
    options: &'a RunOptions,
    journal: &'a mut dyn JournalStore,
    state: RunState,
    waiting_for: Vec<usize>,
    dependents: Vec<Vec<usize>>,
    ready: BTreeSet<usize>,
    calls: JoinSet<Result<Reply, CallError>>,
    running: BTreeMap<Id, Running>,
    stop: Option<(Code, String)>,
    failure: Option<(NodeId, CallError)>,
    micros: BTreeMap<NodeId, u64>,
}

/// Runs a workflow to its end.
pub async fn run(
    dispatcher: &Arc<Dispatcher>,
    workflow: &Arc<VerifiedWorkflow>,
    options: &RunOptions,
    journal: &mut dyn JournalStore,
) -> Result<RunReport, RunError> {
    let dependencies = workflow.dependencies();
    let mut dependents = vec![Vec::new(); dependencies.len()];
    for (position, sources) in dependencies.iter().enumerate() {
        for source in sources {
            if let Some(list) = dependents.get_mut(*source) {
                list.push(position);
            }
        }
    }
    let waiting_for: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let ready = waiting_for.iter().enumerate().filter(|(_, count)| **count == 0).map(|(at, _)| at).collect();
    let mut event_loop = Loop {
        dispatcher,
        workflow,
        options,
        journal,
        state: RunState::default(),
        waiting_for,
        dependents,
        ready,
        calls: JoinSet::new(),
        running: BTreeMap::new(),
        stop: None,
        failure: None,
        micros: BTreeMap::new(),
    };
    let ending = record_start(dispatcher, workflow, options);
    let report = event_loop.go().await;
    if let Some(ending) = ending {
        record_end(ending, &report);
    }
    report
}

/// Tells the audit log of the run. If it can't keep that, the dispatch refuses every call.
fn record_start(
    dispatcher: &Dispatcher,
    workflow: &VerifiedWorkflow,
    options: &RunOptions,
) -> Option<Ending> {
    let log = dispatcher.audit()?;
    let entry = Entry::RunStarted {
        run: options.run.clone(),
        workflow: workflow.digest(),
        inputs: Digest::of_parts(Parts::Map(&options.inputs)),
        nodes: workflow.workflow().nodes.len(),
    };
    if let Kept::Refused(_) = log.begin(entry, false) {
        return None;
    }
    let if_stopped =
        Entry::RunFinished { run: options.run.clone(), code: Some(Code::RunCancelled), output: None };
    Some(Ending::new(log, if_stopped))
}

fn record_end(ending: Ending, report: &Result<RunReport, RunError>) {
    let outcome = report.as_ref().map(|report| report.outcome.as_ref());
    ending.is(|entry| {
        let Entry::RunFinished { code, output, .. } = entry else { return };
        (*code, *output) = match outcome {
            Ok(Ok(value)) => (None, Some(Digest::of_json(value))),
            Ok(Err((code, _))) => (Some(*code), None),
            Err(_) => (Some(Code::Internal), None),
        };
    });
}

impl Loop<'_> {
    async fn go(&mut self) -> Result<RunReport, RunError> {
        self.keep(Record::RunStarted {
            version: JOURNAL_VERSION,
            run: self.options.run.clone(),
            workflow: self.workflow.digest(),
            inputs: self.options.inputs.as_ref().clone(),
        })
        .await?;
        let nodes = self.workflow.workflow().nodes.len();
        self.emit(|run| Event::RunStarted { run, nodes });
        let options = self.options;
        let deadline = async {
            match options.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        let cancelled = options.cancel.cancelled();
        tokio::pin!(cancelled);
        loop {
            while self.stop.is_none() && self.running.len() < self.options.concurrency.max(1) {
                let Some(position) = self.ready.pop_first() else { break };
                self.start(position).await?;
            }
            if self.running.is_empty() {
                break;
            }
            tokio::select! {
                // A result that is there counts, even if time is up as well.
                biased;
                Some(ended) = self.calls.join_next_with_id() => self.ended(ended).await?,
                () = &mut cancelled, if self.stop.is_none() => {
                    self.stop_all(Code::RunCancelled, "the run was cancelled").await?;
                }
                () = &mut deadline, if self.stop.is_none() => {
                    self.stop_all(Code::RunTimeout, "the run is out of time").await?;
                }
            }
        }
        let outcome = self.outcome();
        let code = outcome.as_ref().err().map(|(code, _)| *code);
        self.keep(Record::RunFinished { code }).await?;
        self.emit(|run| Event::RunFinished { run, code });
        Ok(RunReport {
            state: std::mem::take(&mut self.state),
            outcome,
            failure: self.failure.take(),
            micros: std::mem::take(&mut self.micros),
        })
    }

    fn outcome(&mut self) -> Result<Value, (Code, String)> {
        if let Some((code, message)) = self.stop.take() {
            let doubtful = |(node, state): (&NodeId, &NodeState)| {
                matches!(state, NodeState::InDoubt).then(|| node.to_string())
            };
            let in_doubt: Vec<String> = self.state.nodes().iter().filter_map(doubtful).collect();
            if in_doubt.is_empty() {
                return Err((code, message));
            }
            let nodes = in_doubt.join(", ");
            return Err((Code::InDoubt, format!("{message}, and whether {nodes} acted isn't known")));
        }
        self.resolve(|workflow, scope| workflow.workflow().output.resolve(scope))
            .map_err(|missing| (Code::ReferenceUnknown, format!("the output can't be made: {missing}")))
    }

    fn resolve<T>(
        &self,
        make: impl FnOnce(&VerifiedWorkflow, Scope<'_>) -> Result<T, PathMissing>,
    ) -> Result<T, PathMissing> {
        make(self.workflow, Scope { inputs: &self.options.inputs, results: self.state.results() })
    }

    async fn start(&mut self, position: usize) -> Result<(), RunError> {
        let workflow = Arc::clone(self.workflow);
        let Some(node) = workflow.workflow().nodes.get(position) else { return Ok(()) };
        let read_only = self.is_read_only(node);
        let arguments = self.resolve(|_, scope| node.arguments.resolve(scope));
        let digest = arguments.as_ref().map_or_else(|_| Digest::of_bytes(b""), Digest::of_json);
        let started = Record::NodeStarted { node: node.id.clone(), attempt: 1, read_only, arguments: digest };
        self.keep(started).await?;
        self.emit(|run| Event::NodeStarted {
            run,
            node: node.id.clone(),
            attempt: 1,
            tool: node.tool.clone(),
        });
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(missing) => {
                let message = format!("node `{}`: {missing}", node.id);
                return self.failed(node, Code::ReferenceUnknown, message, false, 0).await;
            }
        };
        let request = CallRequest {
            origin: Origin::Workflow {
                workflow: Arc::clone(&workflow),
                inputs: Arc::clone(&self.options.inputs),
            },
            run: self.options.run.clone(),
            node: node.id.clone(),
            attempt: 1,
            tool: node.tool.clone(),
            arguments,
            timeout: node.timeout_ms.map(Duration::from_millis),
        };
        let dispatcher = Arc::clone(self.dispatcher);
        let abort = self.calls.spawn(async move { dispatcher.dispatch(request).await });
        self.running.insert(abort.id(), Running { position, abort, read_only, since: Instant::now() });
        Ok(())
    }

    /// By the reviewed contract, not by what the workflow says of itself.
    fn is_read_only(&self, node: &Node) -> bool {
        match self.dispatcher.registry().get(&node.tool).map(|registered| &registered.bound) {
            Some(Bound::Reviewed { contract, .. }) => contract.effect.is_read_only(),
            _ => false,
        }
    }

    async fn ended(
        &mut self,
        ended: Result<(Id, Result<Reply, CallError>), JoinError>,
    ) -> Result<(), RunError> {
        let (id, result) = match ended {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(running) = self.running.remove(&id) else { return Ok(()) };
        let workflow = Arc::clone(self.workflow);
        let Some(node) = workflow.workflow().nodes.get(running.position) else { return Ok(()) };
        let micros = u64::try_from(running.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        match result {
            Ok(Ok(reply)) => self.finished(node, running.position, reply.value(), micros).await,
            Ok(Err(error)) => {
                let (code, message, acted) = (error.code, error.message.clone(), error.may_have_acted());
                if self.failure.is_none() {
                    self.failure = Some((node.id.clone(), error));
                }
                let message = format!("node `{}`: {message}", node.id);
                self.failed(node, code, message, acted, micros).await
            }
            Err(error) if error.is_cancelled() => {
                self.keep(Record::NodeStopped { node: node.id.clone() }).await
            }
            Err(_) => {
                let message = format!("node `{}`: the host failed while it ran", node.id);
                self.failed(node, Code::Internal, message, true, micros).await
            }
        }
    }

    async fn finished(
        &mut self,
        node: &Node,
        position: usize,
        result: Value,
        micros: u64,
    ) -> Result<(), RunError> {
        self.keep(Record::NodeFinished { node: node.id.clone(), result }).await?;
        self.note_end(node, None, micros);
        for dependent in self.dependents.get(position).into_iter().flatten() {
            if let Some(count) = self.waiting_for.get_mut(*dependent) {
                *count -= 1;
                if *count == 0 {
                    self.ready.insert(*dependent);
                }
            }
        }
        Ok(())
    }

    /// A failure starts nothing more. Siblings that only read are stopped; one with an effect is let finish,
    /// because stopping it would leave its outcome in doubt.
    async fn failed(
        &mut self,
        node: &Node,
        code: Code,
        message: String,
        may_have_acted: bool,
        micros: u64,
    ) -> Result<(), RunError> {
        let record =
            Record::NodeFailed { node: node.id.clone(), code, message: message.clone(), may_have_acted };
        self.keep(record).await?;
        self.note_end(node, Some(code), micros);
        self.stop.get_or_insert((code, message));
        self.running.values().filter(|running| running.read_only).for_each(|running| running.abort.abort());
        Ok(())
    }

    async fn stop_all(&mut self, code: Code, message: &str) -> Result<(), RunError> {
        self.stop.get_or_insert((code, message.to_owned()));
        self.running.values().for_each(|running| running.abort.abort());
        Ok(())
    }

    fn note_end(&mut self, node: &Node, code: Option<Code>, micros: u64) {
        self.micros.insert(node.id.clone(), micros);
        self.emit(|run| Event::NodeFinished { run, node: node.id.clone(), attempt: 1, code, micros });
    }

    /// Keeps a record and moves the state by it.
    async fn keep(&mut self, record: Record) -> Result<(), RunError> {
        self.journal.append(&record).await?;
        self.state.apply(record)?;
        Ok(())
    }

    fn emit(&self, make: impl FnOnce(RunId) -> Event) {
        if let Some(sink) = &self.options.events {
            sink.emit(&make(self.options.run.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
