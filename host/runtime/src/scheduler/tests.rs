//! The event loop with tools that are native code: order, limits, failure, time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use t2m_core::contract::Contracts;
use t2m_core::dispatch::{
    BoxFuture, ClearedCall, DispatcherParts, PluginTools, Registry, ToolBackend, Trust,
};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::{PluginId, ToolName};
use t2m_core::policy::{Action, Policy};
use t2m_core::tool::{ToolDescriptor, ToolFailure, Usage};
use t2m_core::workflow::{Expr, Provenance, Reference, Source, Workflow, verify};
use tokio::sync::Notify;

use super::*;
use crate::MemoryJournal;
use crate::preflight::preflight;

/// Tools by what they do:
/// `read`, `write` count and return; `wait_read`, `wait_write` wait for the gate; `fail` fails;
/// `hang_read`, `hang_write` never return; `panic` panics; `outer` calls `read` through the host.
#[derive(Default)]
struct Tools {
    gate: Notify,
    order: Mutex<Vec<String>>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl ToolBackend for Tools {
    fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        Box::pin(async move {
            let node = call.context().node.to_string();
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let tool = call.tool().as_str().to_owned();
            let failed = match tool.as_str() {
                "wait_read" | "wait_write" => {
                    self.gate.notified().await;
                    None
                }
                "hang_read" | "hang_write" => std::future::pending().await,
                "fail" => Some(ToolFailure::host(Code::ToolFailed, "no")),
                "panic" => panic!("a tool's own fault"),
                "outer" => {
                    let inner = call.nested().call("read", json!({})).await;
                    inner.err().map(|error| ToolFailure::host(error.code, error.message))
                }
                _ => {
                    tokio::task::yield_now().await;
                    None
                }
            };
            if tool == "open" {
                self.gate.notify_waiters();
                self.gate.notify_one();
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.order.lock().unwrap().push(node.clone());
            match failed {
                Some(failure) => Err(failure),
                None => Ok(Reply {
                    content: vec![],
                    structured: Some(json!({"node": node})),
                    usage: Usage::default(),
                }),
            }
        })
    }
}

fn effect_of(tool: &str) -> Effect {
    if tool.ends_with("write") { Effect::Write } else { Effect::Read }
}

fn dispatcher(tools: &Arc<Tools>, policy: Policy) -> Arc<Dispatcher> {
    let names = [
        "read",
        "write",
        "open",
        "wait_read",
        "wait_write",
        "fail",
        "hang_read",
        "hang_write",
        "panic",
        "outer",
    ];
    let descriptors = names.map(|name| ToolDescriptor {
        name: ToolName::new(name).unwrap(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        effect: effect_of(name),
        idempotency: Idempotency::Unknown,
        reads: vec![],
        writes: vec![],
    });
    let plugin = PluginTools {
        plugin: PluginId::new("native").unwrap(),
        handler: Digest::of_bytes(b"native"),
        trust: Trust::BuiltIn,
        tools: descriptors.to_vec(),
        backend: Arc::clone(tools) as _,
        lacking: BTreeMap::new(),
    };
    Dispatcher::new(DispatcherParts {
        policy,
        ..DispatcherParts::new(Registry::build([plugin], &Contracts::default()).unwrap())
    })
}

fn allow_writes() -> Policy {
    Policy { effects: BTreeMap::from([(Effect::Write, Action::Allow)]), ..Policy::default() }
}

fn id(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

/// A workflow of `(id, tool, after)`; its result is that of the last node.
fn workflow(nodes: &[(&str, &str, &[&str])]) -> Arc<VerifiedWorkflow> {
    let last = nodes.last().unwrap().0;
    let nodes = nodes.iter().map(|(node, tool, after)| Node {
        id: id(node),
        tool: ToolName::new(*tool).unwrap(),
        arguments: Expr::Object(BTreeMap::new()),
        after: after.iter().map(|node| id(node)).collect(),
        effect: effect_of(tool),
        idempotency: Idempotency::Unknown,
        timeout_ms: None,
        recorded: None,
        decisions: vec![],
    });
    let output = Reference { source: Source::Node(id(last)), path: vec![], convert: None };
    let workflow = Workflow {
        name: "test".into(),
        inputs: BTreeMap::new(),
        nodes: nodes.collect(),
        output: Expr::Ref(output),
        source: Provenance::default(),
    };
    Arc::new(verify(workflow, None).unwrap())
}

fn options(concurrency: usize) -> RunOptions {
    RunOptions {
        run: RunId::new("run").unwrap(),
        inputs: Arc::default(),
        concurrency,
        timeout: None,
        cancel: Cancel::default(),
        events: None,
    }
}

async fn go(
    tools: &Arc<Tools>,
    workflow: &Arc<VerifiedWorkflow>,
    options: &RunOptions,
) -> (RunReport, Vec<Record>) {
    let mut journal = MemoryJournal::default();
    let report = run(&dispatcher(tools, allow_writes()), workflow, options, &mut journal).await.unwrap();
    assert_eq!(RunState::replay(journal.records()).unwrap(), report.state, "the journal tells the same");
    (report, journal.records().to_vec())
}

/// T09: `slow` waits until `c` has run, so this run ends only if `c` doesn't wait for the layer of `slow`.
#[tokio::test]
async fn a_node_starts_when_its_own_inputs_are_ready() {
    let tools = Arc::new(Tools::default());
    let workflow = workflow(&[("slow", "wait_read", &[]), ("b", "read", &[]), ("c", "open", &["b"])]);
    let (report, _) = go(&tools, &workflow, &options(2)).await;
    assert!(report.outcome.is_ok());
    assert_eq!(*tools.order.lock().unwrap(), ["b", "c", "slow"]);
}

/// T09: never more calls at once than the limit, and as many as the limit.
#[tokio::test]
async fn the_concurrency_limit_is_kept_and_used() {
    for limit in [1, 3, 8] {
        let tools = Arc::new(Tools::default());
        let nodes: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let list: Vec<(&str, &str, &[&str])> = nodes.iter().map(|n| (n.as_str(), "read", &[][..])).collect();
        go(&tools, &workflow(&list), &options(limit)).await;
        assert_eq!(tools.most.load(Ordering::SeqCst), limit);
    }
}

/// P07: a call made by a call needs no slot of its own, so one slot is enough.
#[tokio::test]
async fn a_nested_call_at_concurrency_one_does_not_deadlock() {
    let tools = Arc::new(Tools::default());
    let (report, _) = go(&tools, &workflow(&[("a", "outer", &[])]), &options(1)).await;
    assert!(report.outcome.is_ok());
    assert_eq!(*tools.order.lock().unwrap(), ["a/read#1", "a"]);
}

/// T30: after a failure nothing starts, reads are cancelled, a write is let finish, and all of it is told.
#[tokio::test]
async fn a_failure_cancels_reads_and_lets_writes_finish() {
    let tools = Arc::new(Tools::default());
    let workflow = workflow(&[
        ("first", "read", &[]),
        ("writes", "wait_write", &[]),
        ("reads", "hang_read", &[]),
        ("fails", "fail", &["first"]),
        ("opens", "open", &[]),
        ("late", "read", &["writes"]),
    ]);
    // `opens` waits for a slot, so the gate is opened by hand once the failure is in.
    let opener = {
        let tools = Arc::clone(&tools);
        async move {
            while !tools.order.lock().unwrap().contains(&"fails".to_owned()) {
                tokio::task::yield_now().await;
            }
            tools.gate.notify_one();
        }
    };
    let options = options(3);
    let ((report, _), ()) = tokio::join!(go(&tools, &workflow, &options), opener);
    assert_eq!(report.outcome.clone().unwrap_err().0, Code::ToolFailed);
    let state = |node: &str| report.state.nodes().get(&id(node)).cloned();
    assert_eq!(state("first"), Some(NodeState::Done));
    assert_eq!(state("writes"), Some(NodeState::Done));
    assert_eq!(state("reads"), Some(NodeState::Cancelled));
    assert!(matches!(state("fails"), Some(NodeState::Failed { code: Code::ToolFailed, .. })));
    assert_eq!((state("opens"), state("late")), (None, None));
    assert_eq!(report.failure.unwrap().0, id("fails"));
}

/// T26, T30: out of time, a read is cancelled and a write is in doubt.
#[tokio::test(start_paused = true)]
async fn a_run_out_of_time_leaves_writes_in_doubt() {
    let tools = Arc::new(Tools::default());
    let workflow = workflow(&[("reads", "hang_read", &[]), ("writes", "hang_write", &[])]);
    let options = RunOptions { timeout: Some(Duration::from_secs(3600)), ..options(2) };
    let (report, records) = go(&tools, &workflow, &options).await;
    assert_eq!(report.outcome.unwrap_err().0, Code::InDoubt);
    assert_eq!(report.state.nodes()[&id("reads")], NodeState::Cancelled);
    assert_eq!(report.state.nodes()[&id("writes")], NodeState::InDoubt);
    assert_eq!(records.last(), Some(&Record::RunFinished { code: Some(Code::InDoubt) }));
}

/// T30: cancelling from outside ends the run.
#[tokio::test]
async fn a_cancelled_run_ends() {
    let tools = Arc::new(Tools::default());
    let options = options(1);
    options.cancel.cancel();
    let (report, _) = go(&tools, &workflow(&[("a", "hang_read", &[])]), &options).await;
    assert_eq!(report.outcome.unwrap_err().0, Code::RunCancelled);
    assert_eq!(report.state.nodes()[&id("a")], NodeState::Cancelled);
}

/// F40: a panic in a backend is a fault of the host, told as one, and the run ends in order.
#[tokio::test]
async fn a_panic_in_a_backend_fails_its_node_only() {
    let tools = Arc::new(Tools::default());
    let (report, _) = go(&tools, &workflow(&[("a", "panic", &[])]), &options(1)).await;
    assert_eq!(report.outcome.unwrap_err().0, Code::Internal);
}

/// P14: with the same calls the journal is the same, record by record.
#[tokio::test]
async fn the_same_run_gives_the_same_journal() {
    let nodes: &[(&str, &str, &[&str])] =
        &[("a", "read", &[]), ("b", "read", &["a"]), ("c", "write", &["a"]), ("d", "read", &["b", "c"])];
    let (_, first) = go(&Arc::new(Tools::default()), &workflow(nodes), &options(1)).await;
    let (_, second) = go(&Arc::new(Tools::default()), &workflow(nodes), &options(1)).await;
    assert_eq!(first, second);
    assert_eq!(first.len(), 2 + 2 * nodes.len());
}

/// Every started node was recorded before it ran: a journal that fails stops the run before the call.
#[tokio::test]
async fn a_call_that_can_not_be_recorded_does_not_run() {
    struct Full(usize);
    impl JournalStore for Full {
        fn append<'a>(&'a mut self, _: &'a Record) -> BoxFuture<'a, Result<(), JournalError>> {
            let result = self.0.checked_sub(1).map(|left| self.0 = left);
            Box::pin(std::future::ready(result.ok_or_else(|| JournalError("full".into()))))
        }
    }
    let nodes: &[(&str, &str, &[&str])] = &[("a", "write", &[]), ("b", "write", &["a"])];
    for length in 0..5 {
        let tools = Arc::new(Tools::default());
        let dispatcher = dispatcher(&tools, allow_writes());
        let error = run(&dispatcher, &workflow(nodes), &options(1), &mut Full(length)).await.unwrap_err();
        assert!(matches!(error, RunError::Journal(_)));
        let acted = tools.order.lock().unwrap().len();
        assert_eq!(acted, [0, 0, 1, 1, 2][length], "after {length} records");
    }
}

/// T22: preflight finds what the policy would refuse, before anything ran.
#[tokio::test]
async fn preflight_names_every_blocked_node() {
    let tools = Arc::new(Tools::default());
    let workflow = workflow(&[("a", "read", &[]), ("b", "write", &["a"]), ("c", "write", &["b"])]);
    let dispatcher = dispatcher(&tools, Policy::default());
    let blocked = preflight(&dispatcher, &workflow, &RunId::new("r").unwrap(), &Arc::default());
    let seen: Vec<_> = blocked.iter().map(|b| (b.node.as_str(), b.error.code)).collect();
    assert_eq!(seen, [("b", Code::ApprovalRequired), ("c", Code::ApprovalRequired)]);
    assert!(tools.order.lock().unwrap().is_empty());
}
