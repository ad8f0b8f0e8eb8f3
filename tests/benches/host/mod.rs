//! A host with one plugin, reviewed and with every effect allowed, as the benches call it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::dispatch::{CallRequest, Dispatcher, DispatcherParts, Origin, PluginTools, Registry, Trust};
use t2m_core::effect::Effect;
use t2m_core::policy::{Action, Policy};
use t2m_sandbox::Plugin;

/// The dispatch of a plugin's tools, which `change` may give another backend.
pub(crate) fn dispatcher(plugin: &Arc<Plugin>, change: impl FnOnce(&mut PluginTools)) -> Arc<Dispatcher> {
    let mut contracts = Contracts::default();
    for tool in plugin.tools() {
        let mut contract = Contract::candidate(tool, plugin.digest());
        contract.review =
            Some(Review { by: "bench".into(), at: "2026-01-01T00:00:00Z".into(), digest: contract.digest() });
        contracts.insert(contract);
    }
    let mut tools = plugin.registration(Trust::External);
    change(&mut tools);
    let effects: BTreeMap<_, _> = Effect::ALL.map(|effect| (effect, Action::Allow)).into();
    Dispatcher::new(DispatcherParts {
        policy: Policy { effects, ..Policy::default() },
        ..DispatcherParts::new(
            Registry::build([tools], &contracts).expect("the contracts are the plugin's own"),
        )
    })
}

/// A direct call of a tool.
pub(crate) fn request(tool: &str, arguments: &Value) -> CallRequest {
    CallRequest {
        origin: Origin::Direct,
        run: "run".parse().expect("a run id"),
        node: "node".parse().expect("a node id"),
        attempt: 1,
        tool: tool.parse().expect("a tool name"),
        arguments: arguments.clone(),
        timeout: None,
    }
}
