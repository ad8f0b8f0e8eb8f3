//! `t2m-host review`: a person looks at what tools may do, and agrees.
//!
//! Owns showing and signing off. Refuses to agree by itself: an agreement is typed at a terminal or names
//! the digest that was looked at.
//!
//! **Invariant:** what is written as reviewed is exactly what was shown.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{Clock, Trust};
use t2m_core::id::ToolName;
use t2m_core::policy::{Action, PolicyInput};
use t2m_core::problem::hint;
use t2m_runtime::SystemClock;

use super::run::read_workflow;
use crate::args::PluginArgs;
use crate::config::Config;
use crate::contracts;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files;
use crate::out::{Out, one_line, pretty};
use crate::plugins;

/// Look at what tools may do, and agree to it.
///
/// Shows effect, schemas, handler and policy of every tool that the workflow calls or, without a workflow,
/// that the plugins named by `--tool` offer, and what changed since an earlier review. At a terminal it asks
/// about each; otherwise `--approve TOOL@DIGEST` agrees to what the digest stands for. The exit status is 5 as
/// long as a tool can't run without a review, and 0 if none is left: built-in tools run without one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host review workflow.json
  t2m-host review --tool ./my-plugin
  t2m-host review workflow.json --approve add@sha256:... --approve divide@sha256:...")]
pub(crate) struct ReviewCommand {
    /// The workflow file; without one, every tool of the plugins named by `--tool` or by the configuration
    workflow: Option<PathBuf>,
    /// Where contracts are kept [default: `WORKFLOW.contracts.json` beside the workflow or, without one,
    /// `t2m.contracts.json` beside the configuration in use or in the current folder]
    #[arg(long, value_name = "FILE")]
    contracts: Option<PathBuf>,
    /// Agree to a tool's contract, by the digest that `review` shows; repeat for more
    #[arg(long, value_name = "TOOL@DIGEST", value_parser = agreement)]
    approve: Vec<(ToolName, Digest)>,
    /// Who agrees [default: the user's name]
    #[arg(long, env = "USER", value_name = "NAME", hide_env_values = true)]
    reviewer: Option<String>,
    #[command(flatten)]
    plugins: PluginArgs,
}

fn agreement(text: &str) -> std::result::Result<(ToolName, Digest), String> {
    let (tool, digest) = text.split_once('@').ok_or("expected TOOL@DIGEST")?;
    Ok((tool.parse().map_err(|e| format!("{e}"))?, digest.parse().map_err(|e| format!("{e}"))?))
}

/// One tool as it is shown.
struct Entry {
    contract: Contract,
    digest: Digest,
    plugin: String,
    built_in: bool,
    asks: String,
    /// Differences to the contract on file; nothing if there is none on file.
    changes: Option<Vec<String>>,
    reviewed: bool,
}

impl ReviewCommand {
    pub(crate) async fn run(self, named: Option<&Path>, config: Config, out: &mut Out) -> Result<Exit> {
        if self.workflow.is_none() && self.plugins.tools.is_empty() && config.plugin.is_empty() {
            let message =
                "nothing to review: name a workflow or a plugin (`--tool`), or list plugins in t2m.toml";
            return Err(Failure::new(Code::InputMissing, message)
                .with_next("see `t2m-host review --help` for examples"));
        }
        let workflow = self.workflow.as_deref().map(read_workflow).transpose()?;
        let path = match (&self.workflow, &self.contracts) {
            (Some(workflow), given) => contracts::workflow_file(workflow, given.as_deref()),
            (None, Some(given)) => given.clone(),
            (None, None) => contracts::shared_file(named),
        };
        let own = Some(path.as_path()).filter(|path| path.exists());
        let in_force = contracts::default_contracts(named, own)?;
        let mut contracts = own.map(contracts::read).transpose()?.unwrap_or_default();
        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let described = plugins::describe(&sandbox, &self.plugins, &config).await?;
        let tools: BTreeSet<ToolName> = match &workflow {
            Some(workflow) => workflow.workflow().nodes.iter().map(|node| node.tool.clone()).collect(),
            None => described.iter().flat_map(|plugin| &plugin.tools).map(|tool| tool.name.clone()).collect(),
        };
        let mut entries = Vec::new();
        for tool in &tools {
            let found = described
                .iter()
                .find_map(|plugin| plugin.tools.iter().find(|t| t.name == *tool).map(|t| (plugin, t)));
            let Some((plugin, descriptor)) = found else {
                let message = format!("no loaded plugin has a tool `{tool}`, which the workflow calls");
                return Err(Failure::new(Code::ToolUnknown, message));
            };
            let contract = Contract::candidate(descriptor, plugin.digest);
            let on_file = in_force.get(tool);
            entries.push(Entry {
                digest: contract.digest(),
                plugin: plugin.name.to_string(),
                built_in: plugin.trust == Trust::BuiltIn,
                asks: plugin.asks.describe(),
                changes: on_file.map(|old| old.differences(&contract)),
                reviewed: on_file
                    .is_some_and(|old| old.is_reviewed() && old.differences(&contract).is_empty()),
                contract,
            });
        }
        for (tool, digest) in &self.approve {
            let mut called = entries.iter().filter(|entry| entry.contract.tool == *tool).peekable();
            if called.peek().is_none() {
                let known = entries.iter().map(|entry| entry.contract.tool.as_str());
                let message = format!("nothing here calls `{tool}`{}", hint(tool.as_str(), known));
                return Err(Failure::new(Code::ToolUnknown, message));
            }
            if !called.any(|entry| entry.digest == *digest) {
                let message = format!("`{tool}@{digest}` is not what would be called; look at it again");
                return Err(Failure::new(Code::ContractDrift, message));
            }
        }
        let asks = self.approve.is_empty() && std::io::stdin().is_terminal() && !out.is_json();
        if self.reviewer.is_none() && (asks || !self.approve.is_empty()) {
            // Before anybody reads and answers in vain.
            let message = "who agrees isn't known: `--reviewer NAME`, or the variable USER, says it";
            return Err(Failure::new(Code::InputMissing, message).with_next("give `--reviewer NAME`"));
        }
        let now = now()?;
        let mut changed = false;
        for entry in &mut entries {
            let shown = describe(entry, &config);
            if asks {
                out.note(shown);
            } else if !out.is_json() {
                out.raw(&shown);
            }
            let agreed = !entry.reviewed
                && (self.approve.iter().any(|(_, digest)| *digest == entry.digest) || (asks && ask(entry)?));
            if agreed {
                let by = self.reviewer.clone().unwrap_or_default();
                let review = Review { by, at: now.clone(), digest: entry.digest };
                entry.contract.review = Some(review);
                contracts.insert(entry.contract.clone());
                entry.reviewed = true;
                changed = true;
                // Each answer is kept at once: a person may stop in the middle.
                write(&path, &contracts)?;
            }
        }
        if changed {
            out.note(format!("wrote {}", path.display()));
            if workflow.is_none() && self.contracts.is_none() && named.is_none() {
                let full = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
                out.note(format!(
                    "it counts in this folder; elsewhere, and for MCP clients, add `--contracts {}`",
                    full.display()
                ));
            }
        }
        Ok(finish(&entries, &path, out))
    }
}

/// Now, RFC 3339 in UTC, to the second.
fn now() -> Result<String> {
    let seconds = i64::try_from(SystemClock.now_ms() / 1000).unwrap_or_default();
    let now = jiff::Timestamp::from_second(seconds);
    now.map(|now| now.to_string()).map_err(|error| Failure::new(Code::Internal, error.to_string()))
}

fn write(path: &Path, contracts: &Contracts) -> Result<()> {
    let mut text = pretty(&contracts.to_json());
    text.push('\n');
    files::write_private(path, text.as_bytes())
}

fn finish(entries: &[Entry], path: &Path, out: &mut Out) -> Exit {
    let open: Vec<&Entry> = entries.iter().filter(|entry| !entry.reviewed).collect();
    // Built-in plugins are part of this program and run without a review, unless the file on disk disagrees.
    let needed = open.iter().any(|entry| !entry.built_in || entry.changes.is_some());
    if out.is_json() {
        let list: Vec<Value> = entries
            .iter()
            .map(|entry| {
                json!({
                    "tool": entry.contract.tool, "digest": entry.digest, "plugin": entry.plugin,
                    "built_in": entry.built_in, "asks": entry.asks, "reviewed": entry.reviewed, "changes": entry.changes, "contract": entry.contract,
                })
            })
            .collect();
        out.raw(&pretty(&json!({"contracts_file": path.display().to_string(), "contracts": list})));
    } else if open.is_empty() {
        out.note(format!("all {} tools are reviewed", entries.len()));
    } else {
        let flags: String = open
            .iter()
            .map(|entry| format!(" \\\n    --approve {}@{}", entry.contract.tool, entry.digest))
            .collect();
        let (open, all) = (open.len(), entries.len());
        out.error(if needed {
            format!("{open} of {all} tools are not reviewed; to agree, add:{flags}")
        } else {
            format!("built in, so none of {all} tools needs a review; to pin this version all the same, add:{flags}")
        });
    }
    if needed { Exit::ApprovalNeeded } else { Exit::Done }
}

fn describe(entry: &Entry, config: &Config) -> String {
    let contract = &entry.contract;
    let decision = config.policy.decide(PolicyInput { tool: &contract.tool, effect: contract.effect });
    let action = match decision.action {
        Action::Allow => "runs without asking",
        Action::Approval => "each call needs an approval",
        Action::Deny => "denied",
    };
    let state = match (&entry.changes, entry.reviewed) {
        (_, true) => "reviewed".to_owned(),
        (None, _) => "new".to_owned(),
        (Some(changes), _) if changes.is_empty() => "on file, not reviewed".to_owned(),
        (Some(changes), _) => format!("changed since it was reviewed:\n    {}", changes.join("\n    ")),
    };
    let keys = |keys: &[String]| {
        if keys.is_empty() { "not declared".to_owned() } else { one_line(&keys.join(", ")) }
    };
    format!(
        "{} (plugin {}{}, asks {})\n  effect: {}, {}; {} ({})\n  reads: {}; writes: {}\n  arguments: {}\n  handler: {}\n  contract: {}\n  state: {state}",
        contract.tool,
        entry.plugin,
        if entry.built_in { ", built in" } else { "" },
        entry.asks,
        contract.effect,
        contract.idempotency,
        action,
        decision.rule,
        keys(&contract.reads),
        keys(&contract.writes),
        arguments(&contract.input_schema),
        contract.handler,
        entry.digest,
    )
}

/// The arguments of a schema in one line: name, type, and `?` where one may be left out.
pub(super) fn arguments(schema: &Value) -> String {
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let list: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let kind = property.get("type").map_or_else(
                || "any".to_owned(),
                |kind| match kind {
                    Value::String(kind) => kind.clone(),
                    other => other.to_string(),
                },
            );
            format!("{name}{}: {kind}", if required.contains(name.as_str()) { "" } else { "?" })
        })
        .collect();
    if list.is_empty() { "none".to_owned() } else { one_line(&list.join(", ")) }
}

fn ask(entry: &Entry) -> Result<bool> {
    let failed = |error: std::io::Error| Failure::new(Code::FileUnreadable, files::reason(&error));
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "agree to {}? [y/N] ", entry.contract.tool).map_err(failed)?;
    stderr.flush().map_err(failed)?;
    let mut answer = String::new();
    if std::io::stdin().lock().read_line(&mut answer).map_err(failed)? == 0 {
        writeln!(stderr).map_err(failed)?;
    }
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_on_one_line() {
        let schema = json!({"required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": ["number", "null"]}}});
        assert_eq!(arguments(&schema), "a: string, b?: [\"number\",\"null\"]");
        assert_eq!(arguments(&json!({})), "none");
    }
}
