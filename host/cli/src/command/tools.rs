//! `t2m-host tools`: what is loaded and what the policy says of it.
//!
//! Owns the list. Refuses to call anything.
//!
//! **Invariant:** the policy shown is the one that runs use.

mod why;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_core::policy::{Action, PolicyInput};

use crate::args::PluginArgs;
use crate::config::Config;
use crate::contracts;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, one_line};
use crate::plugins;

/// List the tools of the loaded plugins.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host tools
  t2m-host tools --tool math --format json
  t2m-host tools --tool ./my-plugin
  t2m-host tools --why --dir notes")]
pub(crate) struct Tools {
    /// Only tools whose name contains this
    filter: Option<String>,
    /// Show what each plugin asks for, has and lacks instead
    #[arg(long, conflicts_with = "filter")]
    why: bool,
    /// Reviewed contracts; they win over those of `t2m.contracts.json` beside the configuration
    #[arg(long, value_name = "FILE")]
    contracts: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// What a tool does, in one line of a list.
fn first_sentence(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.');
    if sentence.chars().count() <= 72 {
        return sentence.to_owned();
    }
    format!("{}...", sentence.chars().take(69).collect::<String>())
}

impl Tools {
    pub(crate) async fn run(self, named: Option<&Path>, config: Config, out: &mut Out) -> Result<Exit> {
        if self.why {
            let granted = plugins::granted(&self.plugins, &config)?;
            out.data(|| why::text(&granted), || why::machine(&granted));
            return Ok(Exit::Done);
        }
        let contracts = contracts::default_contracts(named, self.contracts.as_deref())?;
        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let described = plugins::describe(&sandbox, &self.plugins, &config).await?;
        let mut lines = Vec::new();
        let mut entries: Vec<Value> = Vec::new();
        for plugin in &described {
            if !plugin.left_out.is_empty() {
                let count = plugin.left_out.len();
                out.note(format!(
                    "{count} functions of `{}` are no tools; `plugin inspect` says why",
                    plugin.name
                ));
            }
            for tool in &plugin.tools {
                if self.filter.as_ref().is_some_and(|part| !tool.name.as_str().contains(part.as_str())) {
                    continue;
                }
                let decision = config.policy.decide(PolicyInput { tool: &tool.name, effect: tool.effect });
                let review = plugin.review_state(tool, &contracts);
                let action = match decision.action {
                    Action::Deny => "denied",
                    _ if !matches!(review, "built-in" | "reviewed") => "not reviewed",
                    Action::Approval => "needs approval",
                    Action::Allow => "allowed",
                };
                let first = first_sentence(&tool.description);
                lines.push(one_line(&format!(
                    "{:<28} {:<8} {:<10} {:<15} {first}",
                    tool.name.as_str(),
                    plugin.name.as_str(),
                    tool.effect.as_str(),
                    action
                )));
                let mut entry = json!(tool);
                if let Some(map) = entry.as_object_mut() {
                    map.insert("plugin".into(), json!(plugin.name));
                    map.insert("handler".into(), json!(plugin.digest));
                    map.insert("contract".into(), json!(review));
                    map.insert(
                        "policy".into(),
                        json!({"action": decision.action, "rule": decision.rule.to_string()}),
                    );
                }
                entries.push(entry);
            }
        }
        if lines.is_empty() {
            out.note("no tool matches");
        }
        if out.is_json() || !lines.is_empty() {
            out.data(|| lines.join("\n"), || Value::Array(entries));
        }
        Ok(Exit::Done)
    }
}
