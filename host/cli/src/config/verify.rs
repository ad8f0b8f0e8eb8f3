//! Whether what a configuration names is there.
//!
//! Owns looking at plugins and directories. Refuses to change or load anything for a run.
//!
//! **Invariant:** every problem of the file is reported at once, with its line.

use std::collections::BTreeSet;
use std::path::Path;

use t2m_core::code::Code;
use t2m_core::id::{PluginId, ToolName};
use t2m_core::problem::{Problem, Problems};
use t2m_sandbox::DirGrant;

use super::Config;
use crate::args::PluginArgs;
use crate::command::run::read_workflow;
use crate::component::Component;
use crate::failure::{InFile, Result};
use crate::{audit_log, files, manifest, plugins, toml_file};

/// Checks a configuration that was read, and returns what is doubtful. `named` is the file that the command
/// line names.
pub(crate) async fn check(named: Option<&Path>, config: &Config) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut lent = BTreeSet::new();
    for (at, plugin) in config.plugin.iter().enumerate() {
        problems.extend(manifest::host_problems(&plugin.hosts, &format!("/plugin/{at}/hosts")));
        let mut add = |code, field: &str, message: String| {
            problems.push(Problem::at(code, format!("/plugin/{at}{field}"), message));
        };
        if config.plugin.iter().take(at).any(|earlier| earlier.name == plugin.name) {
            add(Code::IdDuplicate, "/name", format!("an earlier plugin is named `{}` as well", plugin.name));
        }
        match &plugin.path {
            Some(path) => match Component::find(path).and_then(|found| found.read().map(|_| ())) {
                Err(failure) => {
                    for problem in failure.problems.iter() {
                        add(problem.code, "/path", format!("`{}`: {}", path.display(), problem.message));
                    }
                }
                Ok(()) => match plugins::configured(plugin, config.limits.to_limits()) {
                    Err(failure) => {
                        for problem in failure.problems.iter() {
                            add(problem.code, "", problem.message.clone());
                        }
                    }
                    Ok(chosen) if plugin.calls_per_instance > 1 && chosen.has_grants() => {
                        let message = "a plugin with grants gets a new instance for each call: its grants are those of the call";
                        add(Code::GrantInvalid, "/calls_per_instance", message.to_owned());
                    }
                    Ok(chosen) => {
                        lent.extend(plugin.secrets.iter().filter(|name| chosen.asks_for_secret(name)));
                    }
                },
            },
            None if !plugins::is_built_in(plugin.name.as_str()) => {
                add(
                    Code::PluginInvalid,
                    "/name",
                    format!("there is no built-in plugin `{}`; another one needs a `path`", plugin.name),
                );
            }
            None => {}
        }
        for (index, secret) in plugin.secrets.iter().enumerate() {
            if !config.secrets.contains_key(secret) {
                let message = format!("there is no `[secrets.{secret}]`");
                add(Code::ReferenceUnknown, &format!("/secrets/{index}"), message);
            }
        }
        for (index, dir) in plugin.dirs.iter().enumerate() {
            let field = format!("/dirs/{index}");
            match dir.parse::<DirGrant>() {
                Ok(grant) if !grant.path.is_dir() => {
                    add(Code::GrantInvalid, &field, format!("`{}` is no directory", grant.path.display()));
                }
                Ok(_) => {}
                Err(error) => add(error.code(), &field, error.message().to_owned()),
            }
        }
    }
    for (name, secret) in &config.secrets {
        let place = format!("/secrets/{name}");
        let hosts = manifest::host_problems(&secret.hosts, &format!("{place}/hosts"));
        let found = if hosts.is_empty() { secret.problem(name) } else { None };
        problems.extend(hosts);
        problems.extend(found.map(|message| Problem::at(Code::GrantInvalid, place, message)));
    }
    if let Some(dir) = &config.audit.dir {
        let found = match dir.exists() {
            false => None,
            true if !dir.is_dir() => {
                Some((Code::FileUnwritable, format!("`{}` is no directory", dir.display())))
            }
            true => t2m_runtime::audit_head(dir).err().map(|error| (error.code, error.message)),
        };
        let check = |folder: &std::path::PathBuf| {
            audit_log::check_grants(folder, config, &PluginArgs::default()).err()
        };
        let lent = config.audit.dir.as_ref().and_then(check);
        let lent = lent.into_iter().flat_map(|failure| failure.problems.into_list());
        let found = found.into_iter().chain(lent.map(|problem| (problem.code, problem.message)));
        problems.extend(found.map(|(code, message)| Problem::at(code, "/audit/dir", message)));
    }
    for (at, workflow) in config.workflow.iter().enumerate() {
        if let Err(failure) = read_workflow(&workflow.path) {
            for problem in failure.problems.iter() {
                let message = format!("`{}`: {}", workflow.path.display(), problem.message);
                problems.push(Problem::at(problem.code, format!("/workflow/{at}/path"), message));
            }
        }
    }
    if let Err(problems) = Problems::from_list(problems) {
        let Some(path) = super::file_in_use(named) else { return Err(problems.into()) };
        let bytes = files::read(path, super::MAX_BYTES)?;
        return Err(toml_file::placed(&bytes, problems)).in_file(path);
    }
    let unread = lent.into_iter().filter_map(|name| super::secrets::read(config, name).err());
    let mut doubtful: Vec<String> = unread.map(|failure| failure.problems.to_string()).collect();
    if config.policy.tools.is_empty() && config.plugin.iter().all(|plugin| plugin.tool_limits.is_empty()) {
        return Ok(doubtful);
    }
    let args = PluginArgs::default();
    let sandbox = plugins::sandbox(&args, config)?;
    let described = plugins::describe(&sandbox, &args, config).await?;
    let has = |name: Option<&PluginId>, tool: &ToolName| {
        let plugins = described.iter().filter(|plugin| name.is_none_or(|name| *name == plugin.name));
        plugins.flat_map(|plugin| &plugin.tools).any(|offered| offered.name == *tool)
    };
    let unknown = config.policy.tools.keys().filter(|tool| !has(None, tool));
    doubtful
        .extend(unknown.map(|tool| format!("policy.tools names `{tool}`, which no configured plugin has")));
    for plugin in &config.plugin {
        let unknown = plugin.tool_limits.keys().filter(|tool| !has(Some(&plugin.name), tool));
        let name = &plugin.name;
        doubtful.extend(
            unknown
                .map(|tool| format!("tool_limits of plugin `{name}` names `{tool}`, which it doesn't have")),
        );
    }
    Ok(doubtful)
}
