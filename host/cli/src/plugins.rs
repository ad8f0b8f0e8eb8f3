//! Which plugins this process has, and what they are granted.
//!
//! Owns the embedded components and the choice between them, the configuration and the command line.
//! Refuses to run anything: loading gives tools for a registry.
//!
//! **Invariant:** only the embedded components are trusted without a review.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use t2m_core::code::Code;
use t2m_core::compiler::ToolFacts;
use t2m_core::contract::{Contract, Contracts};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{PluginTools, Registry, Trust};
use t2m_core::id::{PluginId, ToolName};
use t2m_core::tool::ToolDescriptor;
use t2m_core::workflow::VerifiedWorkflow;
use t2m_runtime::Blocked;
use t2m_sandbox::{
    Access, Date, DirGrant, Grants, HostRule, LeftOut, Limits, Plugin, PluginSource, Sandbox, SandboxConfig,
    SandboxError,
};
use tokio::task::JoinSet;

use crate::args::PluginArgs;
use crate::command::compile_component;
use crate::component::Component;
use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::manifest::{self, AskedAccess, Asks, Manifest};
use crate::out::Out;
use crate::workspace;

/// The first-party plugins, compiled by the build script.
pub(crate) const BUILT_IN: [BuiltIn; 6] = [
    BuiltIn {
        name: "fetch",
        wasm: include_bytes!(env!("T2M_PLUGIN_FETCH")),
        manifest: include_bytes!("../../../plugins/fetch/plugin.toml"),
    },
    BuiltIn {
        name: "files",
        wasm: include_bytes!(env!("T2M_PLUGIN_FILES")),
        manifest: include_bytes!("../../../plugins/files/plugin.toml"),
    },
    BuiltIn {
        name: "json",
        wasm: include_bytes!(env!("T2M_PLUGIN_JSON")),
        manifest: include_bytes!("../../../plugins/json/plugin.toml"),
    },
    BuiltIn {
        name: "math",
        wasm: include_bytes!(env!("T2M_PLUGIN_MATH")),
        manifest: include_bytes!("../../../plugins/math/plugin.toml"),
    },
    BuiltIn {
        name: "memory",
        wasm: include_bytes!(env!("T2M_PLUGIN_MEMORY")),
        manifest: include_bytes!("../../../plugins/memory/plugin.toml"),
    },
    BuiltIn {
        name: "time",
        wasm: include_bytes!(env!("T2M_PLUGIN_TIME")),
        manifest: include_bytes!("../../../plugins/time/plugin.toml"),
    },
];

/// An embedded plugin.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) wasm: &'static [u8],
    manifest: &'static [u8],
}

/// A loaded plugin.
pub(crate) struct Loaded {
    plugins: Vec<LoadedPlugin>,
    /// Plugins that stayed out because they lack a grant. They are asked what they offer only if it matters.
    left_out: Vec<Ungranted>,
}

impl Loaded {
    /// Says which plugins stayed out although somebody named them, and why.
    pub(crate) fn tell_left_out(&self, out: &mut Out) {
        for why in self.left_out.iter().filter_map(|left| left.why.as_ref()) {
            out.note(format!("{why}; until then its tools are not served"));
        }
    }

    /// Takes what these plugins say of their tools as reviewed, because the operator says so.
    pub(crate) fn trust(&mut self, trusted: &[PluginId], contracts: &mut Contracts) -> Result<()> {
        for name in trusted {
            if self.left_out.iter().any(|left| left.name == *name && left.why.is_some()) {
                continue;
            }
            let Some(found) = self.plugins.iter_mut().find(|loaded| loaded.plugin.id() == name) else {
                let known = self.plugins.iter().map(|loaded| loaded.plugin.id().as_str());
                let known = known.collect::<Vec<_>>().join(", ");
                let message = format!("`--trust {name}`: no such plugin is loaded; there are {known}");
                return Err(Failure::new(Code::PluginInvalid, message));
            };
            found.trust = Trust::BuiltIn;
            // An older review of the same tool would count as drift.
            found.plugin.tools().iter().for_each(|tool| contracts.remove(&tool.name));
        }
        Ok(())
    }
}

/// A plugin that stayed out because it lacks a grant.
struct Ungranted {
    name: PluginId,
    wasm: Arc<[u8]>,
    asks: Asks,
    /// What it lacks, if somebody named it.
    why: Option<String>,
}

/// What becomes of a plugin that somebody named and that lacks a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// Nothing is loaded.
    Fails,
    /// It stays out, and so its tools are gone, whatever else is loaded.
    StaysOut,
}

struct LoadedPlugin {
    plugin: Arc<Plugin>,
    trust: Trust,
    /// It may use directories, and write in none of them.
    reads_only: bool,
}

/// A plugin that was chosen, before it is loaded.
pub(crate) struct Chosen {
    name: PluginId,
    wasm: Arc<[u8]>,
    trust: Trust,
    asks: Asks,
    allowed: Allowed,
    limits: Limits,
    tool_limits: BTreeMap<ToolName, Limits>,
    calls_per_instance: u32,
    /// It says that its calls leave nothing for each other.
    stateless: bool,
    /// Nobody named it, so it may stay out if it lacks a grant.
    by_default: bool,
}

/// What the operator allows a plugin, as it was written.
#[derive(Clone, Default)]
pub(crate) struct Allowed {
    dirs: Vec<String>,
    hosts: Vec<String>,
    secrets: Vec<String>,
    kv: bool,
    env: Vec<String>,
    clock: bool,
}

impl Allowed {
    /// What the configuration allows the plugin that lies there.
    pub(crate) fn of_component(config: &Config, component: &Component) -> Allowed {
        let is_it = |path: &PathBuf| {
            let found = Component::find(path).ok().and_then(|found| found.wasm.canonicalize().ok());
            found.is_some() && found == component.wasm.canonicalize().ok()
        };
        let plugin = config.plugin.iter().find(|plugin| plugin.path.as_ref().is_some_and(is_it));
        plugin.map(Allowed::by_config).unwrap_or_default()
    }

    fn by_config(plugin: &crate::config::PluginConfig) -> Allowed {
        let (dirs, hosts) = (plugin.dirs.clone(), plugin.hosts.clone());
        let (secrets, env) = (plugin.secrets.clone(), plugin.env.clone());
        Allowed { dirs, hosts, secrets, kv: plugin.kv, env, clock: plugin.clock }
    }

    /// Directories, hosts and the date, with those of the command line. Nothing is opened.
    fn places(&self, args: &PluginArgs) -> Result<Grants> {
        let dirs = self.dirs.iter().chain(&args.dirs).map(|dir| dir.parse());
        let hosts = self.hosts.iter().chain(&args.hosts).map(|host| host.parse());
        Ok(Grants {
            dirs: dirs.collect::<std::result::Result<Vec<DirGrant>, SandboxError>>()?,
            hosts: hosts.collect::<std::result::Result<Vec<HostRule>, SandboxError>>()?,
            clock: (self.clock || args.clock).then_some(Date::Now),
            ..Grants::default()
        })
    }

    /// With what the command line allows every plugin. Secrets that aren't asked for aren't read.
    pub(crate) fn with(
        &self,
        args: &PluginArgs,
        config: &Config,
        name: &PluginId,
        asks: &Asks,
    ) -> Result<Grants> {
        let env = self.env.iter().chain(&args.env).filter(|name| asks.env.contains(name));
        let env = env.map(|name| Ok((name.clone(), variable(name)?)));
        let keeps = asks.kv && (self.kv || args.kv);
        let secrets = self.secrets.iter().filter(|name| asks.asks_for_secret(name));
        let secrets = secrets.map(|name| config::secrets::read(config, name));
        Ok(Grants {
            secrets: secrets.collect::<Result<_>>()?,
            env: env.collect::<Result<_>>()?,
            kv: keeps.then(|| workspace::store(&config.folder, name)).transpose()?,
            ..self.places(args)?
        })
    }
}

/// A variable of this process that a plugin was granted.
fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|error| {
        let why = match error {
            std::env::VarError::NotPresent => "isn't set",
            std::env::VarError::NotUnicode(_) => "isn't UTF-8",
        };
        Failure::new(Code::GrantInvalid, format!("the variable `{name}`, which a plugin was granted, {why}"))
    })
}

/// The sandbox with the cache folder that was asked for, or the usual one.
pub(crate) fn sandbox(args: &PluginArgs, config: &Config) -> Result<Sandbox> {
    let cache_dir = cache_dir(args);
    // Each call of a run holds one slot, and so does each call nested in it.
    let slots = u32::from(config.run.concurrency).saturating_mul(2).max(16);
    let compiler = Some(compile_component::compiler()?);
    Ok(Sandbox::new(SandboxConfig { cache_dir, slots, compiler, ..SandboxConfig::default() })?)
}

/// Where compiled plugins are kept.
pub(crate) fn cache_dir(args: &PluginArgs) -> Option<PathBuf> {
    args.cache_dir.clone().or_else(usual_cache_dir)
}

fn usual_cache_dir() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    cache.is_absolute().then(|| cache.join("t2m-host"))
}

/// Loads what the command line and the configuration name, or every built-in plugin whose grants suffice; all of
/// them at once, since each may have to be compiled.
pub(crate) async fn load(
    sandbox: &Sandbox,
    args: &PluginArgs,
    config: &Config,
    lacking: Lacking,
) -> Result<Loaded> {
    let mut loading = JoinSet::new();
    let mut names = BTreeSet::new();
    let mut loaded = Loaded { plugins: Vec::new(), left_out: Vec::new() };
    for (at, chosen) in choose(args, config)?.into_iter().enumerate() {
        if !names.insert(chosen.name.clone()) {
            // A name stands for one plugin: grants, limits and trust go by it.
            let message =
                format!("two plugins are named `{}`; a `plugin.toml` names its plugin", chosen.name);
            return Err(Failure::new(Code::IdDuplicate, message));
        }
        let allowed = match chosen.allowed.with(args, config, &chosen.name, &chosen.asks) {
            Ok(allowed) => allowed,
            Err(failure) if lacking == Lacking::StaysOut => {
                let why = format!("plugin `{}`: {}", chosen.name, failure.problems);
                loaded.left_out.push(chosen.ungranted(why));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let grants = chosen.asks.granted(allowed);
        let reads_only = reads_only(&grants.dirs);
        let source = PluginSource {
            id: chosen.name.clone(),
            wasm: Arc::clone(&chosen.wasm),
            grants,
            limits: chosen.limits,
            tool_limits: chosen.tool_limits.clone(),
            calls_per_instance: chosen.calls_per_instance,
            asks_for_date: chosen.asks.clock,
        };
        let sandbox = sandbox.clone();
        loading.spawn(async move { (at, chosen, reads_only, sandbox.load(source).await) });
    }
    let mut ended = loading.join_all().await;
    ended.sort_by_key(|(at, ..)| *at);
    for (_, chosen, reads_only, plugin) in ended {
        let error = match plugin {
            Ok(plugin) => {
                loaded.plugins.push(LoadedPlugin { plugin, trust: chosen.trust, reads_only });
                continue;
            }
            Err(error) => error,
        };
        let hint = grant_hint(&error, &chosen.asks);
        let message = format!("plugin `{}`: {}{hint}", chosen.name, error.message());
        let lacks = matches!(error.code(), Code::PluginGrantMissing | Code::GrantInvalid);
        if chosen.by_default && error.code() == Code::PluginGrantMissing
            || lacks && lacking == Lacking::StaysOut
        {
            loaded.left_out.push(chosen.ungranted(message));
        } else {
            return Err(Failure::new(error.code(), message));
        }
    }
    Ok(loaded)
}

impl Chosen {
    /// Whether it asks for something that it is allowed.
    pub(crate) fn has_grants(&self) -> bool {
        let (asks, allowed) = (&self.asks, &self.allowed);
        asks.dirs != AskedAccess::None && !allowed.dirs.is_empty()
            || !asks.hosts.is_empty() && !allowed.hosts.is_empty()
            || asks.kv && allowed.kv
            || asks.clock && allowed.clock
            || allowed.secrets.iter().any(|name| asks.asks_for_secret(name))
            || allowed.env.iter().any(|name| asks.env.contains(name))
    }

    /// Whether it asks for a secret.
    pub(crate) fn asks_for_secret(&self, name: &str) -> bool {
        self.asks.asks_for_secret(name)
    }

    fn ungranted(self, why: String) -> Ungranted {
        let why = (!self.by_default).then_some(why);
        Ungranted { name: self.name, wasm: self.wasm, asks: self.asks, why }
    }
}

/// What a plugin asks for, is allowed and has.
pub(crate) struct Granted {
    pub(crate) name: PluginId,
    pub(crate) asks: Asks,
    /// Directories, hosts and the date.
    pub(crate) allowed: Grants,
    pub(crate) has: Grants,
    /// What is allowed by name, and whether it may keep values.
    pub(crate) secrets: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) kv: bool,
}

/// The grants of the chosen plugins, as loading would give them. Nothing is loaded, read or made.
pub(crate) fn granted(args: &PluginArgs, config: &Config) -> Result<Vec<Granted>> {
    let granted = |chosen: Chosen| {
        let Chosen { name, asks, allowed: own, .. } = chosen;
        let allowed = own.places(args)?;
        let has = asks.granted(allowed.clone());
        let env = own.env.iter().chain(&args.env).cloned().collect();
        Ok(Granted { name, asks, allowed, has, secrets: own.secrets, env, kv: own.kv || args.kv })
    };
    choose(args, config)?.into_iter().map(granted).collect()
}

/// What a plugin offers, found without granting it anything.
pub(crate) struct Described {
    pub(crate) name: PluginId,
    pub(crate) digest: Digest,
    pub(crate) trust: Trust,
    pub(crate) asks: Asks,
    pub(crate) tools: Vec<ToolDescriptor>,
    /// Exported functions that are no tools.
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) wasm: Arc<[u8]>,
}

impl Described {
    /// Whether the contracts allow calling a tool as the plugin describes it.
    pub(crate) fn review_state(&self, tool: &ToolDescriptor, contracts: &Contracts) -> &'static str {
        let offered = Contract::candidate(tool, self.digest);
        match contracts.get(&tool.name) {
            None if self.trust == Trust::BuiltIn => "built-in",
            None => "missing",
            Some(contract) if !contract.differences(&offered).is_empty() => "drifted",
            Some(contract) if !contract.is_reviewed() => "unreviewed",
            Some(_) => "reviewed",
        }
    }
}

/// Asks the chosen plugins what they offer.
pub(crate) async fn describe(
    sandbox: &Sandbox,
    args: &PluginArgs,
    config: &Config,
) -> Result<Vec<Described>> {
    let mut described = Vec::new();
    for chosen in choose(args, config)? {
        let (trust, asks) = (chosen.trust, chosen.asks.clone());
        let wasm = Arc::clone(&chosen.wasm);
        let found = sandbox.describe(chosen.name.clone(), chosen.wasm).await.map_err(|error| {
            Failure::new(error.code(), format!("plugin `{}`: {}", chosen.name, error.message()))
        })?;
        described.push(Described {
            name: chosen.name,
            digest: found.digest,
            trust,
            asks,
            tools: found.tools,
            left_out: found.left_out,
            wasm,
        });
    }
    Ok(described)
}

fn choose(args: &PluginArgs, config: &Config) -> Result<Vec<Chosen>> {
    let limits = config.limits.to_limits();
    if let Some((at, tool)) =
        args.tools.iter().enumerate().find(|(at, tool)| args.tools.iter().take(*at).any(|t| t == *tool))
    {
        let message = format!("`--tool {tool}` is given twice (place {})", at + 1);
        return Err(Failure::new(Code::ToolDuplicate, message));
    }
    if !args.tools.is_empty() {
        return args.tools.iter().map(|tool| named(tool, config, limits)).collect();
    }
    for (at, plugin) in config.plugin.iter().enumerate() {
        if config.plugin.iter().take(at).any(|earlier| earlier.name == plugin.name) {
            let message = format!("the configuration has two plugins named `{}`", plugin.name);
            return Err(Failure::new(Code::IdDuplicate, message));
        }
    }
    if !config.plugin.is_empty() {
        return config.plugin.iter().map(|plugin| configured(plugin, limits)).collect();
    }
    BUILT_IN.iter().map(|known| Ok(Chosen { by_default: true, ..built_in(known.name, limits)? })).collect()
}

/// What plugins state of their tools, for the compiler.
pub(crate) fn facts(described: &[Described]) -> BTreeMap<ToolName, ToolFacts> {
    let tools = described.iter().flat_map(|plugin| &plugin.tools);
    tools
        .map(|tool| {
            let facts = ToolFacts {
                effect: tool.effect,
                idempotency: tool.idempotency,
                reads: tool.reads.clone(),
                writes: tool.writes.clone(),
            };
            (tool.name.clone(), facts)
        })
        .collect()
}

/// The files on disk that the chosen plugins are loaded from.
pub(crate) fn files(args: &PluginArgs, config: &Config) -> Vec<PathBuf> {
    let configured = config.plugin.iter().filter_map(|plugin| plugin.path.clone());
    let named = args.tools.iter().filter(|tool| !is_built_in(tool)).map(PathBuf::from);
    let found = configured.chain(named).filter_map(|path| Component::find(&path).ok());
    found.flat_map(|found| [found.wasm, found.manifest_file]).collect()
}

/// What `--tool` names: a configured plugin, a built-in one, a component file, or a plugin's folder.
fn named(tool: &str, config: &Config, limits: Limits) -> Result<Chosen> {
    if let Some(plugin) = config.plugin.iter().find(|plugin| plugin.name.as_str() == tool) {
        return configured(plugin, limits);
    }
    let path = Path::new(tool);
    let is_file = path.extension().is_some_and(|extension| extension == "wasm");
    let is_folder = !is_built_in(tool) && path.join(manifest::FILE).exists();
    if is_file || is_folder || path.components().count() > 1 || tool == "." {
        return from_disk(None, path, Allowed::default(), limits);
    }
    built_in(tool, limits)
}

/// Whether a name is that of an embedded plugin.
pub(crate) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|known| known.name == name)
}

/// A plugin as the configuration has it. Nothing is loaded.
pub(crate) fn configured(plugin: &crate::config::PluginConfig, limits: Limits) -> Result<Chosen> {
    let limits = plugin.limits.over(limits);
    let chosen = match &plugin.path {
        Some(path) => from_disk(Some(plugin.name.clone()), path, Allowed::by_config(plugin), limits)?,
        None => Chosen { allowed: Allowed::by_config(plugin), ..built_in(plugin.name.as_str(), limits)? },
    };
    if plugin.calls_per_instance > 1 && !chosen.stateless {
        let message = format!(
            "plugin `{}`: `calls_per_instance` is for plugins that say `stateless = true` in their `plugin.toml`",
            plugin.name
        );
        return Err(Failure::new(Code::GrantInvalid, message));
    }
    let own = plugin.tool_limits.iter().map(|(tool, own)| (tool.clone(), own.over(limits)));
    Ok(Chosen { tool_limits: own.collect(), calls_per_instance: plugin.calls_per_instance, ..chosen })
}

fn built_in(name: &str, limits: Limits) -> Result<Chosen> {
    let Some(known) = BUILT_IN.iter().find(|known| known.name == name) else {
        let known = BUILT_IN.map(|known| known.name);
        let hint = t2m_core::problem::hint(name, known);
        let message = format!(
            "there is no built-in plugin `{name}`{}; there are {}, component files end in `.wasm`, and a plugin's folder has a `plugin.toml`",
            hint,
            known.join(", ")
        );
        return Err(Failure::new(Code::PluginInvalid, message));
    };
    let name = PluginId::new(name).map_err(|error| Failure::new(Code::PluginInvalid, error.to_string()))?;
    let manifest = Manifest::embedded(known.manifest)?;
    Ok(Chosen {
        name,
        wasm: Arc::from(known.wasm),
        trust: Trust::BuiltIn,
        asks: manifest.asks,
        stateless: manifest.stateless,
        allowed: Allowed::default(),
        limits,
        tool_limits: BTreeMap::new(),
        calls_per_instance: 1,
        by_default: false,
    })
}

fn from_disk(name: Option<PluginId>, path: &Path, allowed: Allowed, limits: Limits) -> Result<Chosen> {
    let found = Component::find(path)?;
    let wasm = found.read()?;
    let invalid = |message: String| Failure::of_file(path, Code::PluginInvalid, message);
    let own = PluginId::new(found.name()).map_err(|error| invalid(error.to_string()))?;
    let asks = found.manifest.as_ref().map(|manifest| manifest.asks.clone()).unwrap_or_default();
    let name = match name {
        // The operator's grants, limits and trust are for the plugin of that name.
        Some(name) if found.manifest.is_some() && name != own => {
            let message = format!("the configuration names it `{name}` and its `plugin.toml` `{own}`");
            return Err(invalid(message));
        }
        Some(name) => name,
        None => own,
    };
    if is_built_in(name.as_str()) {
        return Err(invalid(format!("`{name}` is the name of a built-in plugin; give it another one")));
    }
    Ok(Chosen {
        name,
        wasm,
        trust: Trust::External,
        asks,
        allowed,
        limits,
        tool_limits: BTreeMap::new(),
        calls_per_instance: 1,
        stateless: found.manifest.is_some_and(|manifest| manifest.stateless),
        by_default: false,
    })
}

/// A registry over loaded plugins.
pub(crate) fn registry(loaded: &Loaded, contracts: &Contracts) -> Result<Registry> {
    let plugins =
        loaded.plugins.iter().map(|loaded| registration(&loaded.plugin, loaded.trust, loaded.reads_only));
    Ok(Registry::build(plugins, contracts)?)
}

/// A plugin for a registry, with what its tools lack. `reads_only`: it may write in none of its directories.
pub(crate) fn registration(plugin: &Arc<Plugin>, trust: Trust, reads_only: bool) -> PluginTools {
    let mut tools = plugin.registration(trust);
    if reads_only {
        tools.lacking = tools.tools.iter().filter_map(lacks_writable_dir).collect();
    }
    tools
}

/// Whether there are directories, and none to write in.
pub(crate) fn reads_only(dirs: &[DirGrant]) -> bool {
    !dirs.is_empty() && dirs.iter().all(|dir| dir.access == Access::ReadOnly)
}

/// How each of the capabilities that a plugin was refused for lacking can be had: asked for in its manifest, if it
/// isn't, and granted.
pub(crate) fn grant_hint(error: &SandboxError, asks: &Asks) -> String {
    let capabilities = [
        ("wasi:filesystem/", asks.dirs != AskedAccess::None, "dirs = \"read\"", "`--dir DIR`"),
        ("wasi:http/", !asks.hosts.is_empty(), "hosts = [RULE]", "`--host RULE`"),
        ("t2m:plugin/secrets", !asks.secrets.is_empty(), "secrets = [NAME]", "`secrets` of its `[[plugin]]`"),
        ("t2m:plugin/kv", asks.kv, "kv = true", "`--kv`"),
        ("the real date", asks.clock, "clock = true", "`--clock`"),
    ];
    if error.code() != Code::PluginGrantMissing {
        return String::new();
    }
    let lacking: Vec<_> =
        capabilities.into_iter().filter(|(interface, ..)| error.message().contains(interface)).collect();
    let unasked: Vec<_> =
        lacking.iter().filter(|(_, asked, ..)| !asked).map(|(.., ask, _)| format!("`{ask}`")).collect();
    let mut hint = String::new();
    if !unasked.is_empty() {
        hint = format!("; let its `plugin.toml` ask for that with {} under `[asks]`", unasked.join(" and "));
    }
    let grants: Vec<_> = lacking.iter().map(|(.., grant)| *grant).collect();
    if !grants.is_empty() {
        let grants = grants.join(" and ");
        hint.push_str(&format!("; grant it with {grants}, or in its `[[plugin]]` in t2m.toml"));
    }
    hint
}

/// What to grant to a tool that writes files and would only find directories that it may read.
fn lacks_writable_dir(tool: &ToolDescriptor) -> Option<(ToolName, String)> {
    let writes_files = !tool.effect.is_read_only() && tool.writes.iter().any(|key| key.starts_with("file:"));
    let name = &tool.name;
    let message = format!(
        "`{name}` writes, and its plugin was granted no directory to write in; grant one with `--dir DIR:rw`"
    );
    writes_files.then(|| (name.clone(), message))
}

/// Says what to grant where a tool is missing because its plugin was granted nothing.
pub(crate) async fn explain_missing_grants(
    sandbox: &Sandbox,
    loaded: &Loaded,
    workflow: &VerifiedWorkflow,
    blocked: &mut [Blocked],
) -> Result<()> {
    if blocked.iter().any(|entry| entry.error.code == Code::ToolUnknown) {
        for Ungranted { name: plugin, wasm, asks, .. } in &loaded.left_out {
            let offered = sandbox.describe(plugin.clone(), Arc::clone(wasm)).await?.tools;
            for entry in blocked.iter_mut().filter(|entry| entry.error.code == Code::ToolUnknown) {
                let tool = workflow.node(&entry.node).map(|node| &node.tool);
                let Some(tool) = tool.filter(|tool| offered.iter().any(|offer| offer.name == **tool)) else {
                    continue;
                };
                entry.error.code = Code::PluginGrantMissing;
                let (kinds, options) = asks.lacking();
                entry.error.message =
                    format!("plugin `{plugin}`, which has `{tool}`, was granted no {kinds}; add {options}");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P01: what is read of an embedded manifest without its schema is what the schema allows.
    #[test]
    fn embedded_manifests_match_their_schema() {
        for known in &BUILT_IN {
            assert_eq!(Manifest::parse(known.manifest).unwrap(), Manifest::embedded(known.manifest).unwrap());
        }
    }
}
