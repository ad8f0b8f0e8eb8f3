//! What the scheduler itself costs for each node: a chain and a fan of native tools that return at once.

#![expect(clippy::unwrap_used, reason = "a bench that can't set up has nothing to measure")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use t2m_core::contract::Contracts;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{
    BoxFuture, ClearedCall, Dispatcher, DispatcherParts, PluginTools, Registry, ToolBackend, Trust,
};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::{NodeId, PluginId, RunId, ToolName};
use t2m_core::tool::{Reply, ToolDescriptor, ToolFailure, Usage};
use t2m_core::workflow::{Expr, Node, Provenance, VerifiedWorkflow, Workflow, verify};
use t2m_runtime::{Cancel, MemoryJournal, RunOptions, run};

struct Nothing;

impl ToolBackend for Nothing {
    fn call(&self, _: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        let reply = Reply { content: vec![], structured: Some(json!({})), usage: Usage::default() };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

fn dispatcher(tool: &ToolName) -> Arc<Dispatcher> {
    let descriptor = ToolDescriptor {
        name: tool.clone(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        effect: Effect::Pure,
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
    Dispatcher::new(DispatcherParts::new(Registry::build([plugin], &Contracts::default()).unwrap()))
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
    let dispatcher = dispatcher(&tool);
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

criterion_group!(benches, scheduling);
criterion_main!(benches);
