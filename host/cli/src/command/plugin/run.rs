//! `t2m-host plugin run`: one tool, once.
//!
//! Owns arguments from the command line and what is shown of a call. Refuses effects that nobody switched
//! on: only the review of the contract is taken as given.
//!
//! **Invariant:** standard output holds the result of a call that succeeded, and nothing for people.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use t2m_core::approval::{Approval, ApprovalRequest, Unapproved};
use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{ApprovalGate, BoxFuture, CallError};
use t2m_core::id::{NodeId, RunId, ToolName};
use t2m_core::json::Limits;
use t2m_core::tool::Reply;
use t2m_runtime::{GivenApprovals, SystemClock};
use t2m_sandbox::{DirGrant, HostRule};

use super::super::run::{input_value, shorten};
use crate::args::PluginArgs;
use crate::audit_log;
use crate::author::bench::{self, Bench, Setup};
use crate::component::Component;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::out::{Out, one_line, pretty};
use crate::plugins::{self, Allowed};

/// Call one tool once.
///
/// The plugin's own description counts as reviewed, because you name it here; the policy applies as always.
/// It isn't built: see `plugin build`. What a `[[plugin]]` of t2m.toml with its path allows it, secrets too, it has
/// here as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host plugin run hello greet --arg name=Ada
  t2m-host plugin run hello greet --args '{\"name\": \"Ada\"}' --format json
  t2m-host plugin run notes save --args @note.json --dir notes:rw --allow-effects")]
pub(crate) struct Run {
    /// The plugin's folder, or a component file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// The tool
    tool: ToolName,
    /// All arguments as a JSON object, or `@FILE` to read it from there
    #[arg(long, value_name = "JSON|@FILE")]
    args: Option<String>,
    /// One argument: JSON, or text where the tool's schema wants a text; repeat for more
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    arg: Vec<String>,
    /// Grant a directory, as far as the plugin asks for directories; `DIR:rw` lets it write there
    #[arg(long = "dir", value_name = "DIR[:rw]")]
    dirs: Vec<DirGrant>,
    /// Grant a host, as far as the plugin asks for it: `[METHOD,... ]SCHEME://HOST[:PORT][ private]`
    #[arg(long = "host", value_name = "RULE")]
    hosts: Vec<HostRule>,
    /// Let the plugin keep values between calls, if it asks for that, in `.t2m` beside t2m.toml or in the current folder
    #[arg(long)]
    kv: bool,
    /// Grant a variable of the environment, if the plugin asks for it; repeat for more
    #[arg(long = "env", value_name = "NAME")]
    env: Vec<String>,
    /// Let the plugin read the real date, if it asks for that
    #[arg(long)]
    clock: bool,
    /// Approve one request, by the id that an earlier attempt printed; repeat for more
    #[arg(long, value_name = "ID")]
    approve: Vec<Digest>,
    /// Approve whatever the policy wants an approval for; what it denies stays denied
    #[arg(long, conflicts_with = "approve")]
    allow_effects: bool,
    /// The run's id; clocks and randomness follow from it
    #[arg(long, value_name = "ID", default_value = "run")]
    run_id: RunId,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

/// The switch `--allow-effects`.
struct Everything;

impl ApprovalGate for Everything {
    fn take<'a>(
        &'a self,
        requests: &'a [ApprovalRequest],
        _run: &'a RunId,
    ) -> BoxFuture<'a, std::result::Result<Digest, Unapproved>> {
        let first = requests.first().map(ApprovalRequest::id).ok_or(Unapproved::Missing);
        Box::pin(std::future::ready(first))
    }

    fn check(&self, _requests: &[ApprovalRequest]) -> std::result::Result<(), Unapproved> {
        Ok(())
    }
}

impl Run {
    pub(crate) async fn run(self, config: Config, out: &mut Out) -> Result<Exit> {
        let component = Component::find(&self.path)?;
        let args = PluginArgs {
            kv: self.kv,
            env: self.env.clone(),
            clock: self.clock,
            cache_dir: self.cache_dir.clone(),
            ..PluginArgs::default()
        };
        let bench = Bench::new(plugins::sandbox(&args, &config)?, &component)?;
        let approvals: Arc<dyn ApprovalGate> = if self.allow_effects {
            Arc::new(Everything)
        } else {
            Arc::new(GivenApprovals::new(self.given_approvals(), Arc::new(SystemClock)))
        };
        let limits = config.limits.to_limits();
        let own = Allowed::of_component(&config, &component);
        let mut allowed = own.with(&args, &config, &bench.name, &bench.asks)?;
        allowed.dirs.extend(self.dirs.iter().cloned());
        allowed.hosts.extend(self.hosts.iter().cloned());
        if let Some(folder) = &config.audit.dir {
            audit_log::refuse_overlap(folder, allowed.dirs.iter().cloned())?;
        }
        let setup = Setup { allowed, limits, policy: config.policy, approvals: Some(approvals) };
        let loaded = bench.load(setup).await?;
        let schema = loaded.tool(&self.tool).map(|tool| tool.input_schema.clone());
        let arguments = self.arguments(schema.as_ref())?;
        let node = NodeId::new(self.tool.as_str())
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let start = Instant::now();
        let outcome = loaded.call(self.run_id.clone(), node, &self.tool, arguments.clone()).await;
        Ok(match outcome {
            Ok(reply) => show(&reply, start.elapsed(), out),
            Err(error) => show_error(&error, &arguments, out),
        })
    }

    fn given_approvals(&self) -> Vec<Approval> {
        let approval = |request: &Digest| Approval {
            request: *request,
            approver: "command line".to_owned(),
            expires_at_ms: None,
            uses: 1,
        };
        self.approve.iter().map(approval).collect()
    }

    fn arguments(&self, schema: Option<&Value>) -> Result<Value> {
        let mut given = match &self.args {
            None => Map::new(),
            Some(text) => match text.strip_prefix('@') {
                Some(path) => object(&files::read(Path::new(path), Limits::default().bytes)?)
                    .in_file(Path::new(path))?,
                None => object(text.as_bytes())?,
            },
        };
        for text in &self.arg {
            let Some((name, value)) = text.split_once('=') else {
                let message = format!("`--arg {text}`: expected NAME=VALUE");
                return Err(Failure::new(Code::ArgumentsInvalid, message));
            };
            let declared = schema.and_then(|schema| schema.get("properties")?.get(name));
            given.insert(name.to_owned(), input_value(value, declared));
        }
        Ok(Value::Object(given))
    }
}

fn object(bytes: &[u8]) -> std::result::Result<Map<String, Value>, t2m_core::problem::Problems> {
    match t2m_core::json::parse(bytes, Limits::default())? {
        Value::Object(map) => Ok(map),
        other => {
            let message = format!("expected an object, found {}", t2m_core::json::kind(&other));
            Err(t2m_core::problem::Problem::at(Code::FieldType, "", message).into())
        }
    }
}

fn show(reply: &Reply, time: Duration, out: &mut Out) -> Exit {
    let usage = reply.usage;
    out.note(format!(
        "used {} fuel, {} KiB of memory, {:.1} ms",
        usage.fuel,
        usage.memory_bytes / 1024,
        time.as_secs_f64() * 1000.0
    ));
    let content = || Value::Array(bench::content(reply));
    out.data(
        || pretty(&reply.structured.clone().unwrap_or_else(content)),
        || {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            json!({
                "status": "done", "structured": reply.structured, "content": content(), "usage": usage,
                "micros": micros,
            })
        },
    );
    Exit::Done
}

fn show_error(error: &CallError, arguments: &Value, out: &mut Out) -> Exit {
    let id = error.approval.as_ref().map(|request| request.id());
    if out.is_json() {
        let next = error.code.next_action();
        out.raw(&pretty(&json!({"status": "failed", "error": error, "approval_id": id, "next": next})));
        return Exit::of(error.code);
    }
    out.error(one_line(&format!("error[{}]: {}", error.code, error.message)));
    for fault in &error.faults {
        out.error(one_line(&format!("  at {}: {}", fault.pointer, fault.message)));
    }
    if let Some(tool_code) = &error.tool_code {
        out.error(one_line(&format!("  the tool's own code: {tool_code}")));
    }
    if let Some(details) = &error.details {
        out.error(format!("  details: {}", shorten(details)));
    }
    match id {
        Some(id) => {
            out.error(format!("  arguments: {}", shorten(arguments)));
            out.error(format!("  next: add `--approve {id}`, or `--allow-effects`"));
        }
        None => out.error(format!("  next: {}", error.code.next_action())),
    }
    Exit::of(error.code)
}
