//! A plugin on the author's bench: one call at a time, through the dispatcher.
//!
//! Owns loading a plugin whose own description counts as reviewed, because its author named it. Refuses a
//! way round the other checks.
//!
//! **Invariant:** nothing here is used for a plugin that a command didn't name as the one to try.

use std::sync::Arc;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{
    ApprovalGate, CallError, CallRequest, Dispatcher, DispatcherParts, Origin, Registry, Trust,
};
use t2m_core::id::{NodeId, PluginId, RunId, ToolName};
use t2m_core::policy::Policy;
use t2m_core::tool::{Content, Reply, ToolDescriptor};
use t2m_sandbox::{Grants, Limits, Plugin, PluginSource, Sandbox};

use crate::component::Component;
use crate::failure::{Failure, Result};
use crate::manifest::Asks;
use crate::plugins;

/// A component that can be loaded again and again.
pub(crate) struct Bench {
    pub(crate) sandbox: Sandbox,
    pub(crate) name: PluginId,
    pub(crate) wasm: Arc<[u8]>,
    pub(crate) asks: Asks,
}

/// What one call is given.
pub(crate) struct Setup {
    pub(crate) allowed: Grants,
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
    pub(crate) approvals: Option<Arc<dyn ApprovalGate>>,
}

impl Bench {
    /// Reads a component that is there.
    pub(crate) fn new(sandbox: Sandbox, component: &Component) -> Result<Bench> {
        let wasm = component.read()?;
        let invalid = |error: t2m_core::id::InvalidName| {
            Failure::of_file(&component.wasm, Code::PluginInvalid, error.to_string())
        };
        let name = PluginId::new(component.name()).map_err(invalid)?;
        let asks = component.manifest.as_ref().map(|manifest| manifest.asks.clone()).unwrap_or_default();
        Ok(Bench { sandbox, name, wasm, asks })
    }

    /// Loads the plugin and gives it what it asks for of what it may have.
    pub(crate) async fn load(&self, setup: Setup) -> Result<Loaded> {
        let grants = self.asks.granted(setup.allowed);
        let reads_only = plugins::reads_only(&grants.dirs);
        let source = PluginSource {
            grants,
            limits: setup.limits,
            asks_for_date: self.asks.clock,
            ..PluginSource::new(self.name.clone(), Arc::clone(&self.wasm))
        };
        let plugin = self.sandbox.load(source).await.map_err(|error| {
            let hint = plugins::grant_hint(&error, &self.asks);
            Failure::new(error.code(), format!("{}{hint}", error.message()))
        })?;
        let tools = plugins::registration(&plugin, Trust::External, reads_only);
        let registry = Registry::build([tools], &own_contracts(&plugin))?;
        let dispatcher = Dispatcher::new(DispatcherParts {
            policy: setup.policy,
            approvals: setup.approvals,
            ..DispatcherParts::new(registry)
        });
        Ok(Loaded { dispatcher, plugin })
    }
}

/// A plugin that is ready for a call.
pub(crate) struct Loaded {
    dispatcher: Arc<Dispatcher>,
    plugin: Arc<Plugin>,
}

impl Loaded {
    /// A tool by name.
    pub(crate) fn tool(&self, name: &ToolName) -> Option<&ToolDescriptor> {
        self.plugin.tools().iter().find(|tool| tool.name == *name)
    }

    /// Makes one call.
    pub(crate) async fn call(
        &self,
        run: RunId,
        node: NodeId,
        tool: &ToolName,
        arguments: Value,
    ) -> std::result::Result<Reply, CallError> {
        let request = CallRequest {
            origin: Origin::Direct,
            run,
            node,
            attempt: 1,
            tool: tool.clone(),
            arguments,
            timeout: None,
        };
        self.dispatcher.dispatch(request).await
    }
}

/// The contracts that a plugin's own description makes.
fn own_contracts(plugin: &Plugin) -> Contracts {
    let mut contracts = Contracts::default();
    for tool in plugin.tools() {
        let mut contract = Contract::candidate(tool, plugin.digest());
        let digest = contract.digest();
        contract.review =
            Some(Review { by: "the plugin's author".into(), at: "1970-01-01T00:00:00Z".into(), digest });
        contracts.insert(contract);
    }
    contracts
}

/// Blocks of a result as JSON. Bytes count by media type, size and digest.
pub(crate) fn content(reply: &Reply) -> Vec<Value> {
    let bytes = |kind: &str, mime: &str, data: &[u8]| json!({"type": kind, "mime_type": mime, "bytes": data.len(), "digest": Digest::of_bytes(data)});
    let block = |block: &Content| match block {
        Content::Text { text } => json!({"type": "text", "text": text}),
        Content::Image { mime_type, data } => bytes("image", mime_type, data),
        Content::Audio { mime_type, data } => bytes("audio", mime_type, data),
        Content::Resource { uri, mime_type, data } => {
            let mut value = bytes("resource", mime_type, data);
            if let Some(map) = value.as_object_mut() {
                map.insert("uri".into(), json!(uri));
            }
            value
        }
        // A kind of block that is newer than this command.
        other => json!(other),
    };
    reply.content.iter().map(block).collect()
}
