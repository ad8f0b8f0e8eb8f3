//! What the benches need to compare with.
//!
//! Owns a call without dispatch, slots, threads or time limit. Refuses to be used for anything else: it goes round the dispatch.
//!
//! **Invariant:** it uses the plugin's own engine, pre-linked component, limits and grants, as an embedding by hand
//! would.

use std::time::{Duration, Instant};

use t2m_core::effect::Effect;

use crate::call::store;
use crate::entry::Entered;
use crate::plugin::Plugin;
use crate::state::Serving;
use crate::workers::Long;

/// Where the time of a bare call goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts {
    /// Making the store.
    pub store: Duration,
    /// Making the instance in it.
    pub instance: Duration,
    /// The guest's own work.
    pub guest: Duration,
    /// Taking both down.
    pub end: Duration,
}

/// Length of a tool's answer from a fresh instance; 0 if it failed. With `grants`, the plugin's folders are
/// opened for it as they are for a real call.
pub async fn bare(plugin: &Plugin, tool: &str, arguments: &str, grants: bool) -> usize {
    call(plugin, tool, arguments, grants, &mut |_| ()).await.unwrap_or(0)
}

/// The same, with the time of each part.
pub async fn parts(plugin: &Plugin, tool: &str, arguments: &str) -> Parts {
    let mut at = Instant::now();
    let mut times = [Duration::ZERO; 4];
    let mut took = |part: usize| {
        let now = Instant::now();
        if let Some(time) = times.get_mut(part) {
            *time = now - at;
        }
        at = now;
    };
    let _ = call(plugin, tool, arguments, false, &mut took).await;
    let [store, instance, guest, end] = times;
    Parts { store, instance, guest, end }
}

async fn call(
    plugin: &Plugin,
    tool: &str,
    arguments: &str,
    grants: bool,
    took: &mut impl FnMut(usize),
) -> wasmtime::Result<usize> {
    let linked = &plugin.linked;
    let limits = linked.limits;
    let grants = grants.then_some((&linked.grants, Effect::Read));
    let mut store = store(linked, limits)?;
    let running = linked.shared.ticker.running();
    let serving = Serving::Describe(plugin.digest());
    store.data_mut().begin(serving, Instant::now(), limits.wall, grants, Long::default(), running)?;
    took(0);
    let instance = linked.pre.instantiate_async(&mut store).await?;
    took(1);
    let Entered::Handler(instance) = instance else { return Ok(0) };
    let answer = instance.t2m_plugin_handler().call_call(&mut store, tool, arguments).await?;
    let length = answer.ok().and_then(|result| result.structured).map_or(0, |text| text.len());
    took(2);
    drop(store);
    took(3);
    Ok(length)
}
