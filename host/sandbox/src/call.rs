//! Running a plugin: once to ask what it offers, and once for each call.
//!
//! Owns the life of an instance from its slot to its end. Refuses to keep one: after a trap or a dropped
//! future an instance is of no use, and after a success it may hold what the next caller must not see.
//!
//! **Invariant:** instantiating and calling lie inside the wall limit, and dropping the future drops the
//! instance.

use std::time::{Duration, Instant};

use t2m_core::code::Code;
use t2m_core::dispatch::{BoxFuture, ClearedCall, ToolBackend};
use t2m_core::tool::{Reply, ToolFailure, Usage};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;
use wasmtime::Store;

use crate::bindings::Tool;
use crate::clock::Seed;
use crate::convert;
use crate::error::SandboxError;
use crate::outcome;
use crate::plugin::Plugin;
use crate::sandbox::Shared;
use crate::state::{Serving, State};

impl ToolBackend for Plugin {
    fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        Box::pin(async move {
            // A nested call runs within the slot of the first one, or a tool that calls a tool could wait
            // for itself. The pool has room for every level.
            let first = call.nested().depth() == 0;
            let _slot = if first { Some(take_slot(&self.shared).await?) } else { None };
            run(self, call).await
        })
    }
}

async fn take_slot(shared: &Shared) -> Result<SemaphorePermit<'_>, ToolFailure> {
    match timeout(shared.config.wait, shared.slots.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        _ => {
            let message = format!("no slot within {} ms", shared.config.wait.as_millis());
            Err(ToolFailure::host(Code::SandboxBusy, message))
        }
    }
}

async fn run(plugin: &Plugin, call: ClearedCall) -> Result<Reply, ToolFailure> {
    let limits = plugin.limits;
    let about = call.context();
    let wall = about.timeout.map_or(limits.wall, |limit| limit.min(limits.wall));
    let seed = Seed::of_call(about.run.as_str(), about.node.as_str(), about.attempt);
    let tool = call.tool().clone();
    let arguments = call.arguments().to_string();
    let mut store = store(plugin, Serving::Call(call), seed, wall).map_err(internal)?;
    let work = async {
        let instance = plugin.pre.instantiate_async(&mut store).await?;
        let handler = instance.t2m_plugin_handler();
        handler.call_call(&mut store, tool.as_str(), &arguments).await
    };
    let ended = timeout(wall, work).await;
    store.data().report_output();
    match ended {
        Err(_) => Err(outcome::timed_out(wall)),
        Ok(Err(error)) => Err(outcome::failure_of(&error, store.data())),
        Ok(Ok(Err(error))) => Err(convert::failure(error, limits.transfer_bytes)),
        Ok(Ok(Ok(result))) => convert::reply(result, usage(plugin, &store), limits.transfer_bytes),
    }
}

/// What a plugin said when it was asked what it offers.
pub(crate) struct Described {
    pub(crate) tools: Vec<Tool>,
    pub(crate) usage: Usage,
    pub(crate) time: Duration,
}

/// Asks a plugin what it offers, without any of its grants.
pub(crate) async fn describe(plugin: &Plugin) -> Result<Described, SandboxError> {
    let failed = |failure: ToolFailure| {
        let message = format!("`describe` failed: {}", failure.message);
        SandboxError::new(failure.code, message)
    };
    let wall = plugin.limits.wall;
    let seed = Seed::of_component(plugin.digest());
    let _slot = take_slot(&plugin.shared).await.map_err(failed)?;
    let mut store = store(plugin, Serving::Describe, seed, wall).map_err(|error| failed(internal(error)))?;
    let work = async {
        let instance = plugin.pre.instantiate_async(&mut store).await?;
        instance.t2m_plugin_handler().call_describe(&mut store).await
    };
    let start = Instant::now();
    let ended = timeout(wall, work).await;
    store.data().report_output();
    match ended {
        Err(_) => Err(failed(outcome::timed_out(wall))),
        Ok(Err(error)) => Err(failed(outcome::failure_of(&error, store.data()))),
        Ok(Ok(tools)) => Ok(Described { tools, usage: usage(plugin, &store), time: start.elapsed() }),
    }
}

fn store(plugin: &Plugin, serving: Serving, seed: Seed, wall: Duration) -> wasmtime::Result<Store<State>> {
    let limits = plugin.limits;
    let grants = match &serving {
        Serving::Describe => None,
        Serving::Call(call) => Some((&plugin.grants, call.effect())),
    };
    let state = State::new(&plugin.id, serving, seed, limits, wall, grants)?;
    let mut store = Store::new(&plugin.shared.engine, state);
    store.limiter(|state| &mut state.meter);
    store.set_fuel(limits.fuel)?;
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(limits.transfer_bytes);
    store.set_max_component_handles(limits.handles);
    Ok(store)
}

fn usage(plugin: &Plugin, store: &Store<State>) -> Usage {
    let state = store.data();
    Usage {
        fuel: plugin.limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory_bytes: state.meter.peak as u64,
        log_bytes: state.log_bytes,
        nested_calls: state.nested_calls(),
    }
}

/// The log learns what went wrong with a store; the caller, whose fault it isn't, only that it did.
fn internal(error: wasmtime::Error) -> ToolFailure {
    tracing::error!(target: "t2m_sandbox", "no store for a call: {error:#}");
    ToolFailure::host(Code::Internal, "the sandbox could not be set up for this call")
}
