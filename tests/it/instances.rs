//! Instances that serve several calls.
//!
//! Owns the proof of what such an instance may and may not carry on. Refuses grants, as the sandbox does.
//!
//! **Invariant:** nothing here depends on which thread an instance was left on.

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::dispatch::CallError;
use t2m_core::tool::{Reply, Usage};
use t2m_sandbox::{Access, DirGrant, Grants, Limits, PluginSource, Sandbox, SandboxError};

use crate::hostile_host::{self, config};

/// A host with the guest that remembers.
struct Host(hostile_host::Host);

fn source(calls_per_instance: u32, grants: Grants) -> PluginSource {
    let wasm = std::fs::read(env!("T2M_PLUGIN_COUNTER")).unwrap();
    PluginSource {
        grants,
        // Enough for the most rounds below once, not twice.
        limits: Limits { fuel: 30_000_000, ..Limits::default() },
        calls_per_instance,
        ..PluginSource::new("counter".parse().unwrap(), wasm.into())
    }
}

async fn load(source: PluginSource) -> Result<Host, SandboxError> {
    let plugin = Sandbox::new(config())?.load(source).await?;
    Ok(Host(hostile_host::Host::of(&plugin)))
}

impl Host {
    async fn call(&self, tool: &str, rounds: u32) -> Result<Reply, CallError> {
        self.0.call_with("run", tool, json!({"rounds": rounds})).await
    }

    async fn count(&self, rounds: u32) -> (u64, Usage) {
        let reply = self.call("count", rounds).await.unwrap();
        (
            reply.structured.as_ref().and_then(|found| found.get("count")).and_then(Value::as_u64).unwrap(),
            reply.usage,
        )
    }

    async fn counts<const N: usize>(&self) -> [u64; N] {
        let mut found = [0; N];
        for count in &mut found {
            *count = self.count(0).await.0;
        }
        found
    }
}

/// P03: without being asked for, no instance serves a second call.
#[tokio::test]
async fn an_instance_serves_one_call() {
    let host = load(source(1, Grants::default())).await.unwrap();
    assert_eq!(host.counts().await, [1, 1, 1]);
}

/// P02: an instance serves as many calls as the operator says, each with limits of its own.
#[tokio::test]
async fn an_instance_that_may_goes_on_to_the_next_call() {
    let host = load(source(3, Grants::default())).await.unwrap();
    assert_eq!(host.counts().await, [1, 2, 3, 1, 2, 3, 1]);
    let host = load(source(100, Grants::default())).await.unwrap();
    let mut used = Vec::new();
    for expected in 1..=5 {
        let (count, usage) = host.count(1_000_000).await;
        assert_eq!(count, expected);
        used.push(usage.fuel);
    }
    // The first call pays for the start of the instance too.
    assert!(used.iter().skip(1).all(|fuel| *fuel == used[1]), "{used:?}");
    assert!(used[1] > 15_000_000 / 2, "{used:?}");
}

/// P02: a call that didn't come to its own end leaves no instance; one that failed by its own words does.
#[tokio::test]
async fn an_instance_ends_with_a_call_that_was_stopped() {
    let host = load(source(100, Grants::default())).await.unwrap();
    assert_eq!(host.counts().await, [1, 2]);
    assert_eq!(host.call("trap", 0).await.unwrap_err().code, Code::SandboxTrap);
    assert_eq!(host.counts().await, [1, 2]);
    assert_eq!(host.call("fail", 0).await.unwrap_err().code, Code::ToolFailed);
    assert_eq!(host.counts().await, [4, 5]);
    assert_eq!(host.call("count", u32::MAX).await.unwrap_err().code, Code::SandboxFuel);
    assert_eq!(host.counts().await, [1, 2]);
}

/// P03: grants come with a call, so an instance that has any never serves a second one.
#[tokio::test]
async fn grants_and_used_instances_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = vec![DirGrant { path: folder.path().to_owned(), access: Access::ReadOnly }];
    let error = load(source(2, Grants { dirs, ..Grants::default() })).await.err().unwrap();
    assert_eq!(error.code(), Code::GrantInvalid);
}
