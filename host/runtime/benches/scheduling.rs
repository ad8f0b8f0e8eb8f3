//! What the scheduler itself costs for each node: a chain and a fan of native tools that return at
//! once. And what the audit log adds to a call.

#![expect(clippy::unwrap_used, reason = "a bench that can't set up has nothing to measure")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use t2m_core::audit::{AuditLog, Entry, Kept};
use t2m_core::contract::Contracts;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{
    BoxFuture, CallRequest, ClearedCall, Dispatcher, DispatcherParts, Origin, PluginTools, Registry,
    ToolBackend, Trust,
};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::{NodeId, PluginId, RunId, ToolName};
use t2m_core::policy::{Action, Policy};
use t2m_core::tool::{Reply, ToolDescriptor, ToolFailure, Usage};
use t2m_core::workflow::{Expr, Node, Provenance, VerifiedWorkflow, Workflow, verify};
use t2m_runtime::{
    AuditOptions, AuditSync, Cancel, MemoryJournal, RunOptions, SystemClock, run, start_audit,
};

struct Nothing;

impl ToolBackend for Nothing {
    fn call(&self, _: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        let reply = Reply { content: vec![], structured: Some(json!({})), usage: Usage::default() };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

fn dispatcher(tool: &ToolName, effect: Effect, audit: Option<Arc<dyn AuditLog>>) -> Arc<Dispatcher> {
    let descriptor = ToolDescriptor {
        name: tool.clone(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        effect,
        idempotency: Idempotency::Idempotent,
        reads: vec![],
        writes: vec![],
    };
    let plugin = PluginTools {
        plugin: PluginId::new("native").unwrap(),
        handler: Digest::of_bytes(b"native"),
        trust: Trust::BuiltIn,
        tools: vec![descriptor],
        backend: Arc::new(Nothing),
        lacking: BTreeMap::new(),
    };
    Dispatcher::new(DispatcherParts {
        policy: Policy { effects: BTreeMap::from([(Effect::Write, Action::Allow)]), ..Policy::default() },
        audit,
        ..DispatcherParts::new(Registry::build([plugin], &Contracts::default()).unwrap())
    })
}

fn workflow(tool: &ToolName, nodes: usize, chained: bool) -> Arc<VerifiedWorkflow> {
    let id = |n: usize| NodeId::new(format!("n{n}")).unwrap();
    let node = |n: usize| Node {
        id: id(n),
        tool: tool.clone(),
        arguments: Expr::Object(BTreeMap::new()),
        after: if chained && n > 0 { vec![id(n - 1)] } else { vec![] },
        effect: Effect::Pure,
        idempotency: Idempotency::Idempotent,
        timeout_ms: None,
        recorded: None,
        decisions: vec![],
    };
    let workflow = Workflow {
        name: "bench".into(),
        inputs: BTreeMap::new(),
        nodes: (0..nodes).map(node).collect(),
        output: Expr::Literal(json!(null)),
        source: Provenance::default(),
    };
    Arc::new(verify(workflow, None).unwrap())
}

fn scheduling(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let tool = ToolName::new("nothing").unwrap();
    let dispatcher = dispatcher(&tool, Effect::Pure, None);
    let mut group = c.benchmark_group("scheduling");
    for (name, chained) in [("chain", true), ("fan", false)] {
        let nodes = 1000;
        let workflow = workflow(&tool, nodes, chained);
        group.throughput(Throughput::Elements(nodes as u64));
        group.bench_function(BenchmarkId::new(name, nodes), |b| {
            b.iter(|| {
                let options = RunOptions {
                    run: RunId::new("bench").unwrap(),
                    inputs: Arc::default(),
                    concurrency: 8,
                    timeout: None,
                    cancel: Cancel::default(),
                    events: None,
                };
                let mut journal = MemoryJournal::default();
                let report = runtime.block_on(run(&dispatcher, &workflow, &options, &mut journal));
                black_box(report.unwrap())
            });
        });
    }
    group.finish();
}

/// What the audit log adds to a call that reads, and to one that has to wait for the disk.
fn audit(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tool = ToolName::new("nothing").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions {
        folder: folder.path().to_owned(),
        sync: AuditSync::Each,
        max_file_bytes: 16 << 20,
        program: "bench".into(),
    };
    let (log, closer) = start_audit(options, Arc::new(SystemClock)).unwrap();
    let flush = || {
        let run = RunId::new("bench").unwrap();
        let kept = log.begin(Entry::RunFinished { run, code: None, output: None }, true);
        if let Kept::Waiting(waiting) = kept {
            runtime.block_on(waiting).unwrap();
        }
    };
    let mut group = c.benchmark_group("audit");
    let recorded = || Some(Arc::clone(&log));
    let cases = [
        ("without", Effect::Pure, None),
        ("read", Effect::Pure, recorded()),
        ("durable", Effect::Write, recorded()),
    ];
    for (name, effect, audit) in cases {
        let dispatcher = dispatcher(&tool, effect, audit);
        group.bench_function(name, |b| {
            b.iter_custom(|calls| {
                let mut took = Duration::ZERO;
                let mut left = calls;
                // So many that the queue holds them: what is measured is the way into it.
                while left > 0 {
                    let now = left.min(4_000);
                    let since = Instant::now();
                    for _ in 0..now {
                        let request = CallRequest {
                            origin: Origin::Direct,
                            run: RunId::new("bench").unwrap(),
                            node: NodeId::new("nothing").unwrap(),
                            attempt: 1,
                            tool: tool.clone(),
                            arguments: json!({"path": "/srv/repo/report.md", "limit": 10}),
                            timeout: None,
                        };
                        black_box(runtime.block_on(dispatcher.dispatch(request)).unwrap());
                    }
                    took += since.elapsed();
                    left -= now;
                    flush();
                }
                took
            });
        });
    }
    group.finish();
    closer.close().unwrap();
}

criterion_group!(benches, scheduling, audit);
criterion_main!(benches);
