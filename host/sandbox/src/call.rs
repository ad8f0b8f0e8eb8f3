//! Running a plugin: once to ask what it offers, and once for each call.
//!
//! Owns the life of an instance from its slot to its end. Refuses to use one twice: after a trap or a dropped
//! future an instance is of no use, and after a success it may hold what the next caller must not see.
//!
//! **Invariant:** instantiating and calling lie inside the wall limit, and dropping the future drops the
//! instance.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{BoxFuture, ClearedCall, ToolBackend};
use t2m_core::tool::{Reply, ToolFailure, Usage};
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::task::JoinError;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use wasmtime::{Store, UpdateDeadline};

use crate::ahead::{self, Ready};
use crate::bindings::Tool;
use crate::entry::{Entered, Input, Output};
use crate::error::SandboxError;
use crate::left::{Asked, Left};
use crate::limits::Limits;
use crate::outcome;
use crate::plugin::{Linked, Plugin};
use crate::state::{Serving, State};
use crate::workers::{Begin, Long};

/// Ticks of the epoch that a call may compute before it counts as long. 1: most calls are done within a
/// millisecond, and the others pay 20 µs for the move.
const PROMPT_TICKS: u64 = 1;

/// Ticks that a long call computes before it gives way to another one: 2 ms, so that with every slot in an
/// endless loop on two cores a cancelled one is found within 16 ms.
const LONG_TICKS: u64 = 2;

impl ToolBackend for Plugin {
    fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        Box::pin(async move {
            // Calls that all end at once would keep their caller's runtime from everything else.
            consume_budget().await;
            let plugin = &self.linked;
            let shared = &plugin.shared;
            // A nested call runs within the slot of the first one, or a tool that calls a tool could wait
            // for itself. The pool has room for every level.
            let first = call.nested().depth() == 0;
            let slots = if first { Some(take_slots(plugin).await?) } else { None };
            let long = Long::of(&plugin.pace);
            let may_block = !(plugin.pace.is_quick() || shared.ticker.is_idle());
            // Opening a granted directory may take as long as the disk likes.
            let begin = if may_block || !plugin.grants.is_empty() { Begin::Away } else { Begin::Here };
            let work = Box::pin(run(Arc::clone(plugin), call, begin, long.clone()));
            let (result, used) = match shared.workers.run(begin, long, work).await {
                Ok(ended) => ended,
                Err(error) => return Err(lost(&error)),
            };
            if let (Some(used), Some(slots)) = (used, slots) {
                afterwards(plugin, Left::new(used, slots));
            }
            result
        })
    }
}

/// Takes down what a call left and makes the plugin's next instance, while the answer is on its way: yielding lets
/// the caller's runtime send it first. A caller that goes on at once has no such time: what its calls leave is taken
/// down here, and the next one finds its memory warm.
fn afterwards(plugin: &Arc<Linked>, left: Left) {
    let Some(asked) = Asked::this_thread() else { return };
    let shared = &plugin.shared;
    shared.left.put(left);
    if plugin.share.available_permits() == 0 || shared.slots.available_permits() == 0 {
        // Somebody may wait for the slot, and this caller's runtime need not go on before it has it.
        shared.left.take_down();
    }
    let plugin = Arc::clone(plugin);
    tokio::spawn(async move {
        tokio::task::yield_now().await;
        drop(asked);
        plugin.shared.left.take_down();
        if plugin.shared.ticker.is_idle() {
            Box::pin(ahead::prepare(&plugin)).await;
        }
    });
}

/// One of the plugin's own slots, and one of the sandbox's. Both queues keep their order.
async fn take_slots(plugin: &Linked) -> Result<[OwnedSemaphorePermit; 2], ToolFailure> {
    let (own, all) = (&plugin.share, &plugin.shared.slots);
    let at_once =
        || Some([Arc::clone(own).try_acquire_owned().ok()?, Arc::clone(all).try_acquire_owned().ok()?]);
    if let Some(slots) = at_once() {
        return Ok(slots);
    }
    plugin.shared.left.take_down();
    let both = async {
        let own = Arc::clone(own).acquire_owned().await?;
        Ok::<_, AcquireError>([own, Arc::clone(all).acquire_owned().await?])
    };
    let wait = plugin.shared.config.wait;
    match timeout(wait, both).await {
        Ok(Ok(slots)) => Ok(slots),
        _ => {
            let message = format!("no slot within {} ms", wait.as_millis());
            Err(ToolFailure::host(Code::SandboxBusy, message))
        }
    }
}

/// Runs a call to its end. One that began on the caller's thread also gives back what it leaves, since taking
/// that down costs a tenth of a short call, and the answer needn't wait for it.
async fn run(
    plugin: Arc<Linked>,
    call: ClearedCall,
    begin: Begin,
    long: Long,
) -> (Result<Reply, ToolFailure>, Option<Ready>) {
    let start = Instant::now();
    let own = plugin.tool_limits.get(call.tool());
    let limits = own.copied().unwrap_or(plugin.limits);
    let about = call.context();
    let wall = about.timeout.map_or(limits.wall, |limit| limit.min(limits.wall));
    let input = match plugin.pre.input(&call, limits.transfer_bytes) {
        Ok(input) => input,
        Err(failure) => return (Err(failure), None),
    };
    // The instance that waits has the plugin's limits.
    let mut ready = match own.is_none().then(|| plugin.ahead.take()).flatten() {
        Some(ready) => ready,
        None => match store(&plugin, limits) {
            Ok(store) => Ready::new(store),
            Err(error) => return (Err(internal(&error)), None),
        },
    };
    let is_used = ready.calls > 0;
    ready.calls += 1;
    let Ready { store, instance, .. } = &mut ready;
    store.set_epoch_deadline(PROMPT_TICKS);
    if is_used {
        if let Err(error) = store.set_fuel(limits.fuel) {
            return (Err(internal(&error)), None);
        }
        store.data_mut().renew();
    }
    let running = plugin.shared.ticker.serving();
    let grants = Some((&plugin.grants, call.effect()));
    if let Err(error) = store.data_mut().begin(Serving::Call(call), start, wall, grants, long, running) {
        return (Err(internal(&error)), None);
    }
    let ended = timeout(wall, enter(&plugin, store, instance, input)).await;
    store.data_mut().report_output();
    let breach = store.data().http_breach();
    let came_to_its_end = matches!(&ended, Ok(Ok(_))) && breach.is_none();
    let result = match ended {
        // Whatever the guest made of it.
        _ if breach.is_some() => Err(outcome::http_limit(breach, limits)),
        Err(_) => Err(outcome::timed_out(wall, limits)),
        Ok(Err(error)) => Err(outcome::failure_of(&error, store.data())),
        Ok(Ok(output)) => plugin.pre.reply(output, usage(limits, store), limits.transfer_bytes),
    };
    store.data_mut().rest();
    plugin.pace.took(start.elapsed());
    if came_to_its_end && own.is_none() && plugin.calls_per_instance > 1 {
        ahead::keep(&plugin, ready);
        return (result, None);
    }
    (result, (begin == Begin::Here).then_some(ready))
}

/// Makes the instance, if there is none yet, and calls it, until it ends or has broken a limit of HTTP.
async fn enter(
    plugin: &Linked,
    store: &mut Store<State>,
    instance: &mut Option<Entered>,
    input: Input,
) -> wasmtime::Result<Output> {
    let meter = store.data().http_meter().map(Arc::clone);
    // Pinned where it is: it is large, and each future that took it would copy it.
    let work = pin!(async {
        let instance = match instance {
            Some(instance) => instance,
            None => instance.insert(plugin.pre.instantiate_async(&mut *store).await?),
        };
        plugin.pre.call(store, instance, input).await
    });
    let Some(meter) = meter else { return work.await };
    tokio::select! {
        ended = work => ended,
        () = meter.until_broken() => Err(wasmtime::Error::msg("a limit of HTTP is broken")),
    }
}

/// What a plugin said when it was asked what it offers.
pub(crate) struct Described {
    pub(crate) tools: Vec<Tool>,
    pub(crate) usage: Usage,
    pub(crate) time: Duration,
}

/// Asks a plugin what it offers, without any of its grants.
pub(crate) async fn describe(plugin: &Arc<Linked>, digest: Digest) -> Result<Described, SandboxError> {
    let failed = |failure: ToolFailure| {
        let message = format!("{}: {}", plugin.pre.failed(), failure.message);
        SandboxError::new(failure.code, message)
    };
    let shared = &plugin.shared;
    let _slots = take_slots(plugin).await.map_err(failed)?;
    let long = Long::of(&plugin.pace);
    let work = Box::pin(ask(Arc::clone(plugin), digest, long.clone()));
    let asked = shared.workers.run(Begin::Away, long, work).await;
    asked.unwrap_or_else(|error| Err(lost(&error))).map_err(failed)
}

async fn ask(plugin: Arc<Linked>, digest: Digest, long: Long) -> Result<Described, ToolFailure> {
    let (start, wall) = (Instant::now(), plugin.limits.wall);
    let mut store = store(&plugin, plugin.limits).map_err(|error| internal(&error))?;
    let running = plugin.shared.ticker.serving();
    store
        .data_mut()
        .begin(Serving::Describe(digest), start, wall, None, long, running)
        .map_err(|error| internal(&error))?;
    let work = async {
        let instance = plugin.pre.instantiate_async(&mut store).await?;
        plugin.ahead.allow(!store.data().host_was_used());
        plugin.pre.describe(&mut store, &instance).await
    };
    let ended = timeout(wall, work).await;
    store.data_mut().report_output();
    match ended {
        Err(_) => Err(outcome::timed_out(wall, plugin.limits)),
        Ok(Err(error)) => Err(outcome::failure_of(&error, store.data())),
        Ok(Ok(tools)) => Ok(Described { tools, usage: usage(plugin.limits, &store), time: start.elapsed() }),
    }
}

/// A store with these limits, for which nothing has begun yet.
pub(crate) fn store(plugin: &Linked, limits: Limits) -> wasmtime::Result<Store<State>> {
    let mut store = Store::new(&plugin.shared.engine, State::new(&plugin.id, limits));
    store.limiter(|state| &mut state.meter);
    store.set_fuel(limits.fuel)?;
    store.set_epoch_deadline(PROMPT_TICKS);
    store.epoch_deadline_callback(|context| {
        if let Some(long) = &context.data().long {
            long.set();
        }
        Ok(UpdateDeadline::Yield(LONG_TICKS))
    });
    store.set_hostcall_fuel(limits.transfer_bytes);
    store.set_max_component_handles(limits.handles);
    Ok(store)
}

fn usage(limits: Limits, store: &Store<State>) -> Usage {
    let state = store.data();
    let (http_requests, http_sent_bytes, http_received_bytes) =
        state.http_meter().map(|meter| meter.counts()).unwrap_or_default();
    Usage {
        fuel: limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory_bytes: state.meter.peak as u64,
        log_bytes: state.log_bytes,
        nested_calls: state.nested_calls(),
        written_bytes: state.written_bytes(),
        http_requests,
        http_sent_bytes,
        http_received_bytes,
    }
}

/// The log learns what went wrong with a store; the caller, whose fault it isn't, only that it did.
fn internal(error: &wasmtime::Error) -> ToolFailure {
    tracing::error!(target: "t2m_sandbox", "no store for a call: {error:#}");
    ToolFailure::host(Code::Internal, "the sandbox could not be set up for this call")
}

/// The task of a call ended without a result: a fault of the host, or the host is ending.
fn lost(error: &JoinError) -> ToolFailure {
    tracing::error!(target: "t2m_sandbox", "a call's task ended: {error}");
    ToolFailure::host(Code::Internal, "the sandbox lost this call")
}
