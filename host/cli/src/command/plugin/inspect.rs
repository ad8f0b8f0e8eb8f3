//! `t2m-host plugin inspect`: what a plugin is.
//!
//! Owns showing. Refuses to call a tool or to judge: `plugin check` does that.
//!
//! **Invariant:** nothing is granted to the plugin.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_core::contract::{Contract, Contracts};
use t2m_core::dispatch::Trust;
use t2m_sandbox::ComponentInfo;

use crate::args::PluginArgs;
use crate::config::Config;
use crate::contracts;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, one_line};
use crate::plugins::{self, Described};

/// Show what a plugin is, offers and asks for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host plugin inspect math
  t2m-host plugin inspect ./my-plugin
  t2m-host plugin inspect my-plugin.wasm --format json")]
pub(crate) struct Inspect {
    /// A built-in or configured plugin by name, a component file, or a plugin's folder
    #[arg(value_name = "NAME|FILE|DIR")]
    plugin: String,
    /// Reviewed contracts; they win over those of `t2m.contracts.json` beside the configuration
    #[arg(long, value_name = "FILE")]
    contracts: Option<PathBuf>,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Inspect {
    pub(crate) async fn run(self, named: Option<&Path>, config: &Config, out: &mut Out) -> Result<Exit> {
        let contracts = contracts::default_contracts(named, self.contracts.as_deref())?;
        let args =
            PluginArgs { tools: vec![self.plugin], cache_dir: self.cache_dir, ..PluginArgs::default() };
        let sandbox = plugins::sandbox(&args, config)?;
        for plugin in plugins::describe(&sandbox, &args, config).await? {
            let info = ComponentInfo::read(&plugin.wasm)?;
            out.data(|| text(&plugin, &info, &contracts), || machine(&plugin, &info, &contracts));
        }
        Ok(Exit::Done)
    }
}

fn text(plugin: &Described, info: &ComponentInfo, contracts: &Contracts) -> String {
    let built_in = if plugin.trust == Trust::BuiltIn { ", built in" } else { "" };
    let built_with = match &info.sdk {
        None if !info.has_handler() => "plain functions, not for this host".to_owned(),
        Some(sdk) => {
            format!("WIT {}, SDK {}", sdk.wit, if sdk.sdk.is_empty() { "not named" } else { &sdk.sdk })
        }
        None => "not named".to_owned(),
    };
    let mut lines = vec![
        format!("{}{built_in}", plugin.name),
        format!("  digest: {}", plugin.digest),
        format!("  size: {} bytes", plugin.wasm.len()),
        one_line(&format!("  built with: {built_with}")),
        format!("  asks: {}", plugin.asks.describe()),
        format!("  imports:{}", listed(&info.imports)),
        format!("  exports:{}", listed(&info.exports)),
    ];
    for tool in &plugin.tools {
        lines.push(format!("{}  ({})", tool.name, plugin.review_state(tool, contracts)));
        if !tool.description.trim().is_empty() {
            lines.push(format!("  {}", one_line(tool.description.trim())));
        }
        lines.push(format!("  effect: {}, {}", tool.effect, tool.idempotency));
        for (what, keys) in [("reads", &tool.reads), ("writes", &tool.writes)] {
            if !keys.is_empty() {
                lines.push(one_line(&format!("  {what}: {}", keys.join(", "))));
            }
        }
        lines.push(format!("  arguments: {}", super::super::review::arguments(&tool.input_schema)));
        if let Some(schema) = &tool.output_schema {
            lines.push(format!("  result: {}", super::super::review::arguments(schema)));
        }
    }
    for out in &plugin.left_out {
        lines.push(one_line(&format!("{}  (no tool)", out.function)));
        lines.push(one_line(&format!("  {}", out.reason)));
    }
    lines.join("\n")
}

/// Names under each other.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return " none".to_owned();
    }
    names.iter().map(|name| format!("\n    {}", one_line(name))).collect()
}

fn machine(plugin: &Described, info: &ComponentInfo, contracts: &Contracts) -> Value {
    let tools: Vec<Value> = plugin
        .tools
        .iter()
        .map(|tool| {
            let mut value = json!(tool);
            if let Some(map) = value.as_object_mut() {
                map.insert("review".into(), json!(plugin.review_state(tool, contracts)));
                map.insert("contract".into(), json!(Contract::candidate(tool, plugin.digest).digest()));
            }
            value
        })
        .collect();
    let left_out: Vec<Value> =
        plugin.left_out.iter().map(|out| json!({"function": out.function, "reason": out.reason})).collect();
    json!({
        "left_out": left_out,
        "plugin": plugin.name, "built_in": plugin.trust == Trust::BuiltIn, "digest": plugin.digest,
        "bytes": plugin.wasm.len(), "debug_bytes": info.debug_bytes,
        "wit": info.sdk.as_ref().map(|sdk| &sdk.wit), "sdk": info.sdk.as_ref().map(|sdk| &sdk.sdk),
        "imports": info.imports, "exports": info.exports, "asks": plugin.asks, "tools": tools,
    })
}
