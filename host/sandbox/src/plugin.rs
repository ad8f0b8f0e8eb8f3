//! Loading a plugin: check, compile, link, ask what it offers.
//!
//! Owns the order of loading and the loaded plugin. Refuses to run a tool: [`crate::call`] does that.
//!
//! **Invariant:** a [`Plugin`] is linked to exactly what it was granted, and its list of tools was checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{PluginTools, ToolBackend, Trust};
use t2m_core::id::{PluginId, ToolName};
use t2m_core::tool::{ToolDescriptor, Usage};

use tokio::sync::Semaphore;

use crate::ahead::Ahead;
use crate::cache;
use crate::call;
use crate::entry::Entry;
use crate::error::SandboxError;
use crate::grants::{Grants, OpenGrants};
use crate::imports::{self, Capabilities};
use crate::limits::Limits;
use crate::sandbox::Shared;
use crate::sdk::{ComponentInfo, SdkVersion};
use crate::typed::{Functions, LeftOut};
use crate::workers::Pace;

/// A plugin to be loaded.
#[derive(Debug, Clone)]
pub struct PluginSource {
    /// The name it gets in this host.
    pub id: PluginId,
    /// The component.
    pub wasm: Arc<[u8]>,
    /// What the operator gives it.
    pub grants: Grants,
    /// What each of its calls may use.
    pub limits: Limits,
    /// The same for calls of single tools.
    pub tool_limits: BTreeMap<ToolName, Limits>,
    /// Calls that one instance may serve after each other. 1, for all plugins but those that say they are
    /// `stateless`: what an instance keeps in memory is there for the next call, whoever makes it. It begins anew
    /// after a call that didn't come to its own end. Not for a plugin with grants, which come with a call.
    pub calls_per_instance: u32,
    /// Whether it asks for the real date. Then it isn't loaded without one, if it can read any: that the date is
    /// another one would be seen by nobody.
    pub asks_for_date: bool,
}

impl PluginSource {
    /// A component with the usual limits and without grants.
    pub fn new(id: PluginId, wasm: Arc<[u8]>) -> PluginSource {
        let (grants, limits, tool_limits) = (Grants::default(), Limits::default(), BTreeMap::new());
        PluginSource { id, wasm, grants, limits, tool_limits, calls_per_instance: 1, asks_for_date: false }
    }
}

/// What a call of a plugin needs, on whichever thread it runs.
pub(crate) struct Linked {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Arc<PluginId>,
    pub(crate) pre: Entry,
    pub(crate) grants: OpenGrants,
    pub(crate) limits: Limits,
    pub(crate) tool_limits: BTreeMap<ToolName, Limits>,
    pub(crate) calls_per_instance: u32,
    /// This plugin's share of the sandbox's slots.
    pub(crate) share: Arc<Semaphore>,
    /// The instance for its next call, if there is one already.
    pub(crate) ahead: Ahead,
    /// How long its calls take.
    pub(crate) pace: Arc<Pace>,
}

/// A loaded plugin.
pub struct Plugin {
    pub(crate) linked: Arc<Linked>,
    digest: Digest,
    size: usize,
    sdk: Option<SdkVersion>,
    tools: Vec<ToolDescriptor>,
}

impl Plugin {
    /// The name it was loaded under.
    pub fn id(&self) -> &PluginId {
        &self.linked.id
    }

    /// Digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Size of the component, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the component says it was built with.
    pub fn sdk(&self) -> Option<&SdkVersion> {
        self.sdk.as_ref()
    }

    /// What the plugin offers, in its own order.
    pub fn tools(&self) -> &[ToolDescriptor] {
        &self.tools
    }

    /// Exported functions that are no tools, of a component that isn't written for this host.
    pub fn left_out(&self) -> &[LeftOut] {
        self.linked.pre.left_out()
    }

    /// What each call may use, after the sandbox's ceiling.
    pub fn limits(&self) -> Limits {
        self.linked.limits
    }

    /// Whether an instance was made ahead for the next call. One is, after a call that was alone, unless the plugin has
    /// grants or its start calls the host.
    pub fn has_instance_ahead(&self) -> bool {
        self.linked.ahead.is_there()
    }

    /// The plugin as the dispatch's registry wants it. What its tools lack is for the caller to say, who
    /// knows what was asked for and refused.
    pub fn registration(self: &Arc<Plugin>, trust: Trust) -> PluginTools {
        PluginTools {
            plugin: self.id().clone(),
            handler: self.digest,
            trust,
            tools: self.tools.clone(),
            lacking: BTreeMap::new(),
            backend: Arc::clone(self) as Arc<dyn ToolBackend>,
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({} {}, {} tools)", self.id(), self.digest, self.tools.len())
    }
}

/// What a component offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Digest of the component's bytes.
    pub digest: Digest,
    /// What the component says it was built with.
    pub sdk: Option<SdkVersion>,
    /// Its tools, in its own order.
    pub tools: Vec<ToolDescriptor>,
    /// Its exported functions that are no tools, if it isn't written for this host.
    pub left_out: Vec<LeftOut>,
    /// What saying so used.
    pub usage: Usage,
    /// How long it took, without compiling.
    pub time: Duration,
}

/// Loads a plugin.
pub(crate) async fn load(shared: &Arc<Shared>, source: PluginSource) -> Result<Arc<Plugin>, SandboxError> {
    let granted = source.grants.capabilities();
    let (plugin, _) = open(shared, source, granted).await?;
    for LeftOut { function, reason } in plugin.left_out() {
        tracing::info!(target: "t2m_sandbox", plugin = %plugin.id(), "`{function}` is no tool: {reason}");
    }
    Ok(Arc::new(plugin))
}

/// Asks a component what it offers. It is linked as if it had every grant and gets none of them.
pub(crate) async fn describe(
    shared: &Arc<Shared>,
    id: PluginId,
    wasm: Arc<[u8]>,
) -> Result<Description, SandboxError> {
    let source = PluginSource::new(id, wasm);
    let (plugin, call::Described { usage, time, .. }) = open(shared, source, Capabilities::all()).await?;
    let left_out = plugin.left_out().to_vec();
    let Plugin { digest, sdk, tools, .. } = plugin;
    Ok(Description { digest, sdk, tools, left_out, usage, time })
}

async fn open(
    shared: &Arc<Shared>,
    source: PluginSource,
    granted: Capabilities,
) -> Result<(Plugin, call::Described), SandboxError> {
    let PluginSource { id, wasm, grants, limits, tool_limits, calls_per_instance, asks_for_date } = source;
    let lacks_date = asks_for_date && grants.clock.is_none();
    let most = shared.config.compile.wasm_bytes;
    if wasm.len() > most {
        let message = format!("{} bytes, at most {most} are compiled", wasm.len());
        return Err(SandboxError::new(Code::FileTooLarge, message));
    }
    let grants = OpenGrants::open(&grants, &shared.outside)?;
    if calls_per_instance > 1 && !grants.is_empty() {
        let message =
            "a plugin with grants gets a new instance for each call: its grants are those of the call";
        return Err(SandboxError::new(Code::GrantInvalid, message));
    }
    let size = wasm.len();
    let here = Arc::clone(shared);
    let turn = shared.preparing.acquire().await;
    // Cancelling the load doesn't stop the thread: compiling can't be interrupted.
    let prepared = tokio::task::spawn_blocking(move || prepare(&here, &wasm, granted, lacks_date)).await;
    // Whatever the guest does when it is asked, the next one is compiled meanwhile.
    drop(turn);
    let prepared = prepared
        .map_err(|error| SandboxError::new(Code::Internal, format!("compiling failed: {error}")))??;
    let linked = Arc::new(Linked {
        shared: Arc::clone(shared),
        id: Arc::new(id),
        pre: prepared.pre,
        grants,
        limits: limits.min(shared.config.ceiling),
        tool_limits: tool_limits
            .into_iter()
            .map(|(tool, limits)| (tool, limits.min(shared.config.ceiling)))
            .collect(),
        calls_per_instance,
        share: Arc::new(Semaphore::new(shared.config.share())),
        ahead: Ahead::default(),
        pace: Arc::default(),
    });
    let mut described = call::describe(&linked, prepared.digest).await?;
    let tools = std::mem::take(&mut described.tools);
    let tools = linked
        .pre
        .tools(tools, linked.limits.transfer_bytes)
        .map_err(|problems| SandboxError::new(Code::PluginInvalid, problems.join("; ")))?;
    let missing = linked.tool_limits.keys().find(|name| !tools.iter().any(|tool| tool.name == **name));
    if let Some(name) = missing {
        let message = format!("limits are set for `{name}`, and it has no such tool");
        return Err(SandboxError::new(Code::ToolUnknown, message));
    }
    let plugin = Plugin { linked, digest: prepared.digest, size, sdk: prepared.sdk, tools };
    Ok((plugin, described))
}

struct Prepared {
    sdk: Option<SdkVersion>,
    digest: Digest,
    pre: Entry,
}

/// Everything that needs a core and no runtime.
fn prepare(
    shared: &Shared,
    wasm: &[u8],
    granted: Capabilities,
    lacks_date: bool,
) -> Result<Prepared, SandboxError> {
    let info = ComponentInfo::read(wasm)?;
    let mut problems = info.problems(granted);
    if lacks_date && info.may_read_date() {
        let message = "asks for the real date, which isn't granted: grant the clock";
        problems.push(SandboxError::new(Code::PluginGrantMissing, message));
    }
    if let Some(first) = problems.first() {
        let texts: Vec<&str> = problems.iter().map(SandboxError::message).collect();
        return Err(SandboxError::new(first.code(), texts.join("; ")));
    }
    let invalid = |error: wasmtime::Error| SandboxError::new(Code::PluginInvalid, format!("{error:#}"));
    let digest = Digest::of_bytes(wasm);
    let component = cache::compile(&shared.engine, &shared.config, shared.cache.as_ref(), wasm, digest)?;
    let functions = match info.has_handler() {
        true => None,
        false => Some(Functions::find(&shared.engine, &component, info.docs(), info.named_types())?),
    };
    let linker = imports::linker(&shared.engine, granted)
        .map_err(|error| SandboxError::new(Code::Internal, format!("{error:#}")))?;
    let pre = Entry::link(&linker, &component, functions).map_err(invalid)?;
    Ok(Prepared { sdk: info.sdk, digest, pre })
}
