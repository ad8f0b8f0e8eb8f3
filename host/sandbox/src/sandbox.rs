//! The sandbox as a whole.
//!
//! Owns its configuration and what all plugins share: engine, slots, cache. Refuses state that outlives a
//! call.
//!
//! **Invariant:** a nested call never waits for the slot of the call above it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use t2m_core::id::PluginId;
use tokio::sync::Semaphore;
use wasmtime::Engine;

use crate::ahead::MOST_WAITING;
use crate::cache::Cache;
use crate::compile::{CompileLimits, Compiler};
use crate::engine::{self, EngineInfo};
use crate::error::SandboxError;
use crate::http::{Network, Outside, SystemNetwork};
use crate::left::Leftover;
use crate::limits::Limits;
use crate::plugin::{self, Description, Plugin, PluginSource};
use crate::ticker::Ticker;
use crate::workers::Workers;

/// How a sandbox is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Where compiled components are kept. Without a folder every load compiles.
    pub cache_dir: Option<PathBuf>,
    /// Whether to take instances from a pool made at start; `None` does so if the machine has room.
    pub pooling: Option<bool>,
    /// Calls that run at once, without nested ones. 16: more than two cores can serve, and few enough that
    /// all of them at the default memory limit need 1 GiB.
    pub slots: u32,
    /// Levels of nested calls that must find room without waiting; at least the dispatch's own limit, which
    /// is 4 by default.
    pub nested_depth: u32,
    /// Longest wait for a slot; after that a call fails with `sandbox-busy`. 30 s.
    pub wait: Duration,
    /// The most that any plugin's limits can give.
    pub ceiling: Limits,
    /// What compiling one component may use.
    pub compile: CompileLimits,
    /// What compiles components, in a process of its own. Without one this process does, and of the limits only
    /// the component's size counts: only for components that are trusted.
    pub compiler: Option<Compiler>,
}

impl Default for SandboxConfig {
    fn default() -> SandboxConfig {
        SandboxConfig {
            cache_dir: None,
            pooling: None,
            slots: 16,
            nested_depth: 4,
            wait: Duration::from_secs(30),
            ceiling: Limits::ceiling(),
            compile: CompileLimits::default(),
            compiler: None,
        }
    }
}

impl SandboxConfig {
    /// Slots that the calls of one plugin may hold: three quarters, so that one whose calls never end leaves
    /// room for every other.
    pub(crate) fn share(&self) -> usize {
        let slots = usize::try_from(self.slots.max(1)).unwrap_or(Semaphore::MAX_PERMITS);
        (slots - slots / 4).max(1)
    }

    /// Instances that may live at once: each call that holds a slot, with the nested calls below it, and those
    /// that wait for a call.
    pub(crate) fn instances(&self) -> u32 {
        self.slots.max(1).saturating_mul(self.nested_depth.saturating_add(1)).saturating_add(MOST_WAITING)
    }
}

/// What every plugin of one sandbox shares.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) slots: Arc<Semaphore>,
    /// Room in the pool for instances that wait for a call.
    pub(crate) waiting: Arc<Semaphore>,
    pub(crate) cache: Option<Cache>,
    /// Components that are compiled, or read from the cache, at once: as many as the machine has cores.
    pub(crate) preparing: Semaphore,
    pub(crate) config: SandboxConfig,
    pub(crate) workers: Workers,
    pub(crate) ticker: Ticker,
    pub(crate) outside: Arc<Outside>,
    /// What the last call left to be taken down.
    pub(crate) left: Leftover,
}

/// Loads plugins. Cheap to clone; all clones are the same sandbox.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
    info: EngineInfo,
}

impl Sandbox {
    /// Sets a sandbox up.
    pub fn new(config: SandboxConfig) -> Result<Sandbox, SandboxError> {
        Sandbox::with_network(config, Arc::new(SystemNetwork))
    }

    /// Sets a sandbox up whose plugins reach granted hosts by another way than this machine's.
    pub fn with_network(config: SandboxConfig, network: Arc<dyn Network>) -> Result<Sandbox, SandboxError> {
        let cache = config.cache_dir.as_deref().map(Cache::open).transpose()?;
        let (engine, info) = engine::open(&config)?;
        let ticker = Ticker::start(&engine)?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = Workers::start(cores)?;
        let semaphore =
            |room: u32| Arc::new(Semaphore::new(usize::try_from(room).unwrap_or(Semaphore::MAX_PERMITS)));
        let (slots, waiting) = (semaphore(config.slots.max(1)), semaphore(MOST_WAITING));
        let shared = Arc::new(Shared {
            engine,
            slots,
            waiting,
            cache,
            preparing: Semaphore::new(cores),
            config,
            workers,
            ticker,
            outside: Arc::new(Outside::new(network)),
            left: Leftover::default(),
        });
        Ok(Sandbox { shared, info })
    }

    /// Checks, compiles and describes a plugin. It must be called on a tokio runtime with time enabled, and
    /// the same holds for the calls of the plugin. Guests run on threads of the sandbox, not of that runtime.
    pub async fn load(&self, source: PluginSource) -> Result<Arc<Plugin>, SandboxError> {
        plugin::load(&self.shared, source).await
    }

    /// Asks a component what it offers, without granting it anything. Needs the same runtime as [`Sandbox::load`].
    pub async fn describe(&self, id: PluginId, wasm: Arc<[u8]>) -> Result<Description, SandboxError> {
        plugin::describe(&self.shared, id, wasm).await
    }

    /// How this sandbox runs on this machine.
    pub fn info(&self) -> EngineInfo {
        self.info
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("info", &self.info).finish_non_exhaustive()
    }
}
