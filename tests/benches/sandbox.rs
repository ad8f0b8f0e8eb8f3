//! What the dispatch and the limits cost on top of a bare instance.
//!
//! `bare` makes a store, an instance and a call on the same engine with the same limits and the same folder opened;
//! `dispatched` is the same tool through every stage.

#![expect(clippy::expect_used, reason = "a bench may stop at once")]

mod host;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use host::{dispatcher, request};
use serde_json::{Value, json};
use t2m_sandbox::{Access, DirGrant, Grants, PluginSource, Sandbox, SandboxConfig};

/// One guest and the call made to it.
struct Case {
    name: &'static str,
    wasm: &'static str,
    tool: &'static str,
    arguments: Value,
    /// A folder is granted, and opened anew for each call.
    folder: bool,
    pooling: bool,
}

fn calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    let (math, hostile) = (env!("T2M_PLUGIN_MATH"), env!("T2M_PLUGIN_HOSTILE"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("a file");
    let (sum, read) = (json!({"a": 1, "b": 2}), json!({"arg": file.to_string_lossy()}));
    let cases = [
        Case { name: "add", wasm: math, tool: "add", arguments: sum.clone(), folder: false, pooling: true },
        Case {
            name: "read a file",
            wasm: hostile,
            tool: "read",
            arguments: read,
            folder: true,
            pooling: true,
        },
        Case {
            name: "add on demand",
            wasm: math,
            tool: "add",
            arguments: sum,
            folder: false,
            pooling: false,
        },
    ];
    for case in cases {
        let config = SandboxConfig { pooling: Some(case.pooling), ..SandboxConfig::default() };
        let sandbox = Sandbox::new(config).expect("a sandbox");
        let grant = DirGrant { path: folder.path().into(), access: Access::ReadOnly };
        let source = PluginSource {
            grants: Grants { dirs: if case.folder { vec![grant] } else { vec![] }, ..Grants::default() },
            ..PluginSource::new(
                "guest".parse().expect("a plugin name"),
                std::fs::read(case.wasm).expect("the guest").into(),
            )
        };
        let plugin = runtime.block_on(sandbox.load(source)).expect("the guest loads");
        let dispatcher = dispatcher(&plugin, |_| ());
        let arguments = case.arguments.to_string();
        let mut group = criterion.benchmark_group(case.name);
        group.bench_function("bare", |bencher| {
            bencher.iter(|| {
                let call = t2m_sandbox::bench::bare(&plugin, case.tool, &arguments, case.folder);
                black_box(runtime.block_on(call))
            });
        });
        group.bench_function("dispatched", |bencher| {
            bencher.iter(|| {
                let call = dispatcher.dispatch(request(case.tool, &case.arguments));
                black_box(runtime.block_on(call))
            });
        });
        group.finish();
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
