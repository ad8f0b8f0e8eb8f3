//! What the dispatch and the limits cost on top of a bare instance.
//!
//! `bare` makes a store, an instance and a call on the same engine, with no limit, grant or check; `dispatched`
//! is the same tool through every stage, with one folder granted. `bare with folder` opens that folder too, so
//! that what remains is the checks and limits. The goal is 1.5 times at most.

#![expect(clippy::expect_used, reason = "a bench may stop at once")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::dispatch::{CallRequest, Dispatcher, DispatcherParts, NestedLimits, Origin, Registry, Trust};
use t2m_core::effect::Effect;
use t2m_core::policy::{Action, Policy};
use t2m_sandbox::{Access, DirGrant, Grants, Limits, Plugin, PluginSource, Sandbox, SandboxConfig};

fn dispatcher(plugin: &Arc<Plugin>) -> Arc<Dispatcher> {
    let mut contracts = Contracts::default();
    for tool in plugin.tools() {
        let mut contract = Contract::candidate(tool, plugin.digest());
        contract.review =
            Some(Review { by: "bench".into(), at: "2026-01-01T00:00:00Z".into(), digest: contract.digest() });
        contracts.insert(contract);
    }
    let effects: BTreeMap<_, _> = Effect::ALL.map(|effect| (effect, Action::Allow)).into();
    Dispatcher::new(DispatcherParts {
        registry: Registry::build([plugin.registration(Trust::External)], &contracts)
            .expect("the contracts are the plugin's own"),
        policy: Policy { effects, ..Policy::default() },
        approvals: None,
        guard: None,
        events: None,
        nested: NestedLimits::default(),
    })
}

fn request() -> CallRequest {
    CallRequest {
        origin: Origin::Direct,
        run: "run".parse().expect("a run id"),
        node: "node".parse().expect("a node id"),
        attempt: 1,
        tool: "echo".parse().expect("a tool name"),
        arguments: json!({"arg": "x"}),
        timeout: None,
    }
}

fn calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    for (name, pooling) in [("pool", true), ("on-demand", false)] {
        let config = SandboxConfig { pooling: Some(pooling), ..SandboxConfig::default() };
        let sandbox = Sandbox::new(config).expect("a sandbox");
        // The guest can use files, so it has to be given a folder.
        let folder = tempfile::tempdir().expect("a folder");
        let dirs = vec![DirGrant { path: folder.path().into(), access: Access::ReadOnly }];
        let source = PluginSource {
            id: "hostile".parse().expect("a plugin name"),
            wasm: std::fs::read(env!("T2M_PLUGIN_HOSTILE")).expect("the guest").into(),
            grants: Grants { dirs },
            limits: Limits::default(),
        };
        let plugin = runtime.block_on(sandbox.load(source)).expect("the guest loads");
        let dispatcher = dispatcher(&plugin);
        let mut group = criterion.benchmark_group(name);
        for (name, grants) in [("bare", false), ("bare with folder", true)] {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let call = t2m_sandbox::bench::bare(&plugin, "echo", r#"{"arg":"x"}"#, grants);
                    black_box(runtime.block_on(call))
                });
            });
        }
        group.bench_function("dispatched", |bencher| {
            bencher.iter(|| black_box(runtime.block_on(dispatcher.dispatch(request()))));
        });
        group.finish();
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
