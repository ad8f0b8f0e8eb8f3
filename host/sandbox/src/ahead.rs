//! Instances that are made before they are asked for.
//!
//! Owns the one instance that waits for a plugin's next call. Refuses a plugin whose start calls the host: what
//! it was told then could depend on a call that hasn't come yet.
//!
//! **Invariant:** an instance serves one call at most, and what it holds when the call begins is what a new one
//! would hold. Both hold for every plugin of which nobody said that it may keep its instance
//! ([`PluginSource::calls_per_instance`](crate::PluginSource)); such an instance serves a call only if the one
//! before came to its own end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use wasmtime::Store;

use crate::call;
use crate::entry::Entered;
use crate::plugin::Linked;
use crate::state::State;
use crate::workers::{Begin, Long};

/// Most instances that wait at once, each for another plugin. 8: an instance that waits keeps up to 2 MiB
/// resident.
pub(crate) const MOST_WAITING: u32 = 8;

/// A store, with an instance in it or none yet.
pub(crate) struct Ready {
    pub(crate) store: Store<State>,
    pub(crate) instance: Option<Entered>,
    /// Calls that it has served.
    pub(crate) calls: u32,
    /// Room in the pool beyond that of the slots, given back after the store.
    room: Option<OwnedSemaphorePermit>,
}

impl Ready {
    /// A store whose instance is made within the call, and whose room is that of the call's slot.
    pub(crate) fn new(store: Store<State>) -> Ready {
        Ready { store, instance: None, calls: 0, room: None }
    }
}

/// A plugin's place for the instance that waits.
#[derive(Default)]
pub(crate) struct Ahead {
    allowed: AtomicBool,
    waiting: Mutex<Option<Ready>>,
}

impl Ahead {
    /// Says whether the plugin's start leaves the host alone.
    pub(crate) fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// The instance that waits, if there is one.
    pub(crate) fn take(&self) -> Option<Ready> {
        self.place().take()
    }

    /// Whether one waits.
    pub(crate) fn is_there(&self) -> bool {
        self.place().is_some()
    }

    fn is_wanted(&self) -> bool {
        self.allowed.load(Ordering::Relaxed) && !self.is_there()
    }

    fn place(&self) -> MutexGuard<'_, Option<Ready>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a used instance for the plugin's next call, if it may serve one more and there is room. It takes the place
/// of one that is there, whose making is paid for.
pub(crate) fn keep(plugin: &Linked, mut used: Ready) {
    if used.calls >= plugin.calls_per_instance {
        return;
    }
    if used.room.is_none() {
        used.room = Arc::clone(&plugin.shared.waiting).try_acquire_owned().ok();
    }
    if used.room.is_some() {
        let before = plugin.ahead.place().replace(used);
        // Not while others wait for the place.
        drop(before);
    }
}

/// Makes an instance for the plugin's next call, unless one is there. What goes wrong here goes wrong
/// again in the call, which reports it.
pub(crate) async fn prepare(plugin: &Arc<Linked>) {
    let shared = &plugin.shared;
    if !plugin.ahead.is_wanted() {
        return;
    }
    let Ok(room) = Arc::clone(&shared.waiting).try_acquire_owned() else { return };
    let long = Long::default();
    let work = Box::pin(make(Arc::clone(plugin), long.clone(), room));
    if let Ok(Some(ready)) = shared.workers.run(Begin::Here, long, work).await {
        // A used one may have been kept meanwhile.
        plugin.ahead.place().get_or_insert(ready);
    }
}

async fn make(plugin: Arc<Linked>, long: Long, room: OwnedSemaphorePermit) -> Option<Ready> {
    let mut store = call::store(&plugin, plugin.limits).ok()?;
    store.data_mut().start(long, plugin.shared.ticker.running());
    let made = timeout(plugin.limits.wall, plugin.pre.instantiate_async(&mut store)).await;
    let instance = made.ok()?.ok()?;
    let state = store.data_mut();
    state.rest();
    let as_new = !state.host_was_used();
    as_new.then_some(Ready { store, instance: Some(instance), calls: 0, room: Some(room) })
}

#[cfg(test)]
mod tests {
    use t2m_core::id::PluginId;
    use wasmtime::component::Component;

    use super::*;
    use crate::limits::Limits;
    use crate::{SandboxConfig, engine, imports};

    /// P14: a start that asks the host for anything is seen, so that it never runs ahead of its call.
    #[tokio::test]
    async fn a_start_that_uses_the_host_is_seen() {
        let module = |body: &str| {
            format!(
                r#"(component
                    (import "wasi:random/random@0.2.0" (instance $random (export "get-random-u64" (func (result u64)))))
                    (core func $lowered (canon lower (func $random "get-random-u64")))
                    (core module $m
                        (import "" "random" (func $random (result i64)))
                        (func $start {body})
                        (start $start))
                    (core instance (instantiate $m (with "" (instance (export "random" (func $lowered)))))))"#
            )
        };
        let config = SandboxConfig { pooling: Some(false), ..SandboxConfig::default() };
        let (engine, _) = engine::open(&config).unwrap();
        let linker = imports::linker(&engine, imports::Capabilities::default()).unwrap();
        let plugin: Arc<PluginId> = Arc::new("early".parse().unwrap());
        for (body, used) in [("nop", false), ("(drop (call $random))", true)] {
            let component = Component::new(&engine, wat::parse_str(module(body)).unwrap()).unwrap();
            let mut store = Store::new(&engine, State::new(&plugin, Limits::default()));
            store.set_fuel(1_000).unwrap();
            store.set_epoch_deadline(u64::MAX >> 1);
            linker.instantiate_async(&mut store, &component).await.unwrap();
            assert_eq!(store.data().host_was_used(), used, "{body}");
        }
    }
}
