//! The date that a plugin may be granted, in the sandbox.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_sandbox::{Date, Grants, Plugin, PluginSource, Sandbox, SandboxError};

use crate::hostile_host::{Host, config};

/// 2033-05-18T03:33:20.199Z.
const DATE: Duration = Duration::from_millis(2_000_000_000_199);

fn source(clock: Option<Date>) -> PluginSource {
    let wasm = std::fs::read(env!("T2M_PLUGIN_DATED")).unwrap();
    let grants = Grants { clock, ..Grants::default() };
    PluginSource { grants, ..PluginSource::new("dated".parse().unwrap(), wasm.into()) }
}

async fn load(source: PluginSource) -> Result<Arc<Plugin>, SandboxError> {
    Sandbox::new(config())?.load(source).await
}

async fn clocks(host: &Host, run: &str, tool: &str) -> Value {
    host.call_with(run, tool, json!({})).await.unwrap().structured.unwrap()
}

/// P03, P14: a tool that isn't pure reads the granted date, to a tenth of a second; nothing else changes.
#[tokio::test]
async fn a_granted_date_is_read_and_measures_nothing() {
    let host = Host::of(&load(source(Some(Date::Fixed(DATE)))).await.unwrap());
    let virtual_host = Host::of(&load(source(None)).await.unwrap());
    let look = clocks(&host, "a", "look").await;
    assert_eq!(look["date"], 2_000_000_000_100_000_000_u64);
    assert_eq!(clocks(&host, "b", "look").await, look, "the date follows from no run");
    for run in ["a", "b"] {
        // Without the grant, and in a pure tool with it, everything is as it always was.
        let guess = clocks(&virtual_host, run, "guess").await;
        assert_eq!(clocks(&host, run, "guess").await, guess);
        assert_eq!(clocks(&virtual_host, run, "look").await, guess);
        assert!(guess["date"].as_u64().is_some_and(|date| date < 1_800_000_000_000_000_000), "{guess}");
    }
    let both = [clocks(&virtual_host, "a", "look").await, clocks(&virtual_host, "b", "look").await];
    assert_ne!(both[0]["date"], both[1]["date"], "a virtual date follows from its run");
    // The other clock counts readings with and without the grant.
    assert!(look["passed"].as_u64().is_some_and(|passed| passed > 0 && passed < 10_000), "{look}");
}

/// P03, P14: an instance that is kept or made ahead can't hold a date of before.
#[tokio::test]
async fn an_instance_with_a_date_is_made_for_its_call() {
    let kept = PluginSource { calls_per_instance: 2, ..source(Some(Date::Now)) };
    assert_eq!(load(kept).await.unwrap_err().code(), Code::GrantInvalid);
    let plugin = load(source(Some(Date::Fixed(DATE)))).await.unwrap();
    let host = Host::of(&plugin);
    for _ in 0..3 {
        clocks(&host, "run", "look").await;
        tokio::task::yield_now().await;
        assert!(!plugin.has_instance_ahead());
    }
}

/// P03: a plugin that wants the real date isn't loaded with another one, which nobody would see.
#[tokio::test]
async fn a_plugin_that_asks_for_the_date_needs_it() {
    let asks = |clock| PluginSource { asks_for_date: true, ..source(clock) };
    let error = load(asks(None)).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginGrantMissing);
    assert!(error.message().contains("real date"), "{error}");
    assert!(load(asks(Some(Date::Now))).await.is_ok());
    // One that can't read any has no use for it.
    let wasm = std::fs::read(env!("T2M_PLUGIN_MATH")).unwrap().into();
    assert!(load(PluginSource { wasm, ..asks(None) }).await.is_ok());
}
