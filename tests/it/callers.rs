//! How the callers of one sandbox share it: runtimes that stand still, and calls that end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use t2m_sandbox::{Grants, Limits, Sandbox, SandboxConfig};
use tokio::runtime::{Builder, Runtime};

use crate::hostile_host::{Host, config, load_bytes};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn counter(config: SandboxConfig) -> Host {
    let wasm = std::fs::read(env!("T2M_PLUGIN_COUNTER")).unwrap();
    let sandbox = Sandbox::new(config).unwrap();
    Host::of(&load_bytes(&sandbox, wasm, Grants::default(), Limits::default()).await.unwrap())
}

/// P02: what a call leaves behind holds no slot that another one needs, even if the caller never runs again.
#[test]
fn a_caller_that_stands_still_holds_no_slot() {
    let (stands_still, goes_on) = (runtime(), runtime());
    let host = stands_still.block_on(async {
        let host = counter(SandboxConfig { slots: 2, wait: Duration::ZERO, ..config() }).await;
        host.call_with("run", "count", json!({"rounds": 0})).await.unwrap();
        host
    });
    goes_on.block_on(async {
        let long = {
            let host = host.clone();
            tokio::spawn(async move { host.call_with("run", "count", json!({"rounds": u32::MAX})).await })
        };
        tokio::task::yield_now().await;
        for _ in 0..3 {
            host.call_with("run", "count", json!({"rounds": 0})).await.unwrap();
        }
        assert!(!long.is_finished());
        long.abort();
    });
}

/// P02: a caller whose calls all end at once gives its runtime time for others.
#[test]
fn calls_that_end_at_once_give_way() {
    runtime().block_on(async {
        let host = counter(config()).await;
        let heard = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&heard);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        for _ in 0..1_000 {
            host.call_with("run", "count", json!({"rounds": 0})).await.unwrap();
            if heard.load(Ordering::Relaxed) {
                return;
            }
        }
        panic!("1,000 calls, and nothing else was done");
    });
}
