//! A host with one guest, mostly the hostile one, for the tests of the sandbox.
//!
//! Owns setting it up and calling it. Refuses to expect anything.
//!
//! **Invariant:** every call passes the dispatch, like everybody's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::dispatch::{CallError, CallRequest, Dispatcher, DispatcherParts, Origin, Registry, Trust};
use t2m_core::effect::Effect;
use t2m_core::id::ToolName;
use t2m_core::policy::{Action, Policy};
use t2m_core::tool::{Content, Reply};
use t2m_sandbox::{
    Access, DirGrant, Grants, Limits, Plugin, PluginSource, Sandbox, SandboxConfig, SandboxError,
};

/// The sandbox of these tests: small, and with a cache so that each test process compiles nothing.
pub(crate) fn config() -> SandboxConfig {
    SandboxConfig {
        cache_dir: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox-cache")),
        slots: 4,
        ..SandboxConfig::default()
    }
}

pub(crate) fn grant(path: &Path, access: Access) -> Grants {
    Grants { dirs: vec![DirGrant { path: path.to_owned(), access }], ..Grants::default() }
}

pub(crate) async fn load(
    sandbox: &Sandbox,
    grants: Grants,
    limits: Limits,
) -> Result<Arc<Plugin>, SandboxError> {
    load_bytes(sandbox, hostile(), grants, limits).await
}

pub(crate) fn hostile() -> Vec<u8> {
    std::fs::read(env!("T2M_PLUGIN_HOSTILE")).unwrap()
}

pub(crate) async fn load_bytes(
    sandbox: &Sandbox,
    wasm: Vec<u8>,
    grants: Grants,
    limits: Limits,
) -> Result<Arc<Plugin>, SandboxError> {
    let id = "hostile".parse().unwrap();
    sandbox.load(PluginSource { grants, limits, ..PluginSource::new(id, wasm.into()) }).await
}

/// A host with a plugin, reviewed, every effect allowed.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) dispatcher: Arc<Dispatcher>,
}

impl Host {
    pub(crate) fn of(plugin: &Arc<Plugin>) -> Host {
        let mut contracts = Contracts::default();
        for tool in plugin.tools() {
            let mut contract = Contract::candidate(tool, plugin.digest());
            contract.review = Some(Review {
                by: "test".into(),
                at: "2026-01-01T00:00:00Z".into(),
                digest: contract.digest(),
            });
            contracts.insert(contract);
        }
        let registry = Registry::build([plugin.registration(Trust::External)], &contracts).unwrap();
        let effects: BTreeMap<_, _> = Effect::ALL.map(|effect| (effect, Action::Allow)).into();
        let policy = Policy { effects, ..Policy::default() };
        let dispatcher = Dispatcher::new(DispatcherParts { policy, ..DispatcherParts::new(registry) });
        Host { dispatcher }
    }

    pub(crate) async fn new(config: SandboxConfig, limits: Limits) -> Host {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(config).unwrap();
        let grants = grant(folder.path(), Access::ReadOnly);
        Host::of(&load(&sandbox, grants, limits).await.unwrap())
    }

    pub(crate) async fn with_folder(path: &Path, access: Access) -> Host {
        let sandbox = Sandbox::new(config()).unwrap();
        Host::of(&load(&sandbox, grant(path, access), Limits::default()).await.unwrap())
    }

    pub(crate) async fn call(&self, tool: &str, arg: &str) -> Result<Reply, CallError> {
        self.call_in("run", tool, arg).await
    }

    pub(crate) async fn call_in(&self, run: &str, tool: &str, arg: &str) -> Result<Reply, CallError> {
        self.call_with(run, tool, json!({"arg": arg})).await
    }

    pub(crate) async fn call_with(
        &self,
        run: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<Reply, CallError> {
        let request = CallRequest {
            origin: Origin::Direct,
            run: run.parse().unwrap(),
            node: "node".parse().unwrap(),
            attempt: 1,
            tool: ToolName::new(tool).unwrap(),
            arguments,
            timeout: None,
        };
        self.dispatcher.dispatch(request).await
    }

    pub(crate) async fn text(&self, tool: &str, arg: &str) -> Result<String, Code> {
        text_of(self.call(tool, arg).await)
    }

    pub(crate) async fn serves(&self) {
        let reply = self.call("echo", "still here").await.unwrap();
        assert_eq!(reply.structured, Some(json!({"arg": "still here"})));
    }
}

pub(crate) fn text_of(answer: Result<Reply, CallError>) -> Result<String, Code> {
    let reply = answer.map_err(|error| error.code)?;
    match reply.content.first() {
        Some(Content::Text { text }) => Ok(text.clone()),
        _ => Ok(reply.structured.map(|value| value.to_string()).unwrap_or_default()),
    }
}
