//! What the benches need to compare with.
//!
//! Owns a call without any check or limit. Refuses to be used for anything else: it goes round the dispatch.
//!
//! **Invariant:** it uses the plugin's own engine and pre-linked component, so that only the checks differ.

use t2m_core::effect::Effect;
use wasmtime::Store;

use crate::entry::Entered;
use crate::plugin::Plugin;
use crate::state::{Serving, State};
use crate::workers::Long;

/// Length of a tool's answer from a fresh instance; 0 if it failed. With `grants`, the plugin's folders are
/// opened for it as they are for a real call.
pub async fn bare(plugin: &Plugin, tool: &str, arguments: &str, grants: bool) -> usize {
    call(plugin, tool, arguments, grants).await.unwrap_or(0)
}

async fn call(plugin: &Plugin, tool: &str, arguments: &str, grants: bool) -> wasmtime::Result<usize> {
    let linked = &plugin.linked;
    let limits = linked.limits;
    let grants = grants.then_some((&linked.grants, Effect::Read));
    let mut state = State::new(&linked.id, limits);
    let running = linked.shared.ticker.running();
    state.begin(Serving::Describe(plugin.digest()), limits.wall, grants, Long::default(), running)?;
    let mut store = Store::new(&linked.shared.engine, state);
    store.set_fuel(u64::MAX >> 1)?;
    store.set_epoch_deadline(u64::MAX >> 1);
    let instance = linked.pre.instantiate_async(&mut store).await?;
    let Entered::Handler(instance) = instance else { return Ok(0) };
    let answer = instance.t2m_plugin_handler().call_call(&mut store, tool, arguments).await?;
    Ok(answer.ok().and_then(|result| result.structured).map_or(0, |text| text.len()))
}
