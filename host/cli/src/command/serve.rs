//! `t2m-host serve`: tools and workflows for an MCP client.
//!
//! Owns the way from files and options to a catalog, and its reload. Refuses to speak the protocol: that is
//! the door's.
//!
//! **Invariant:** standard output carries MCP and nothing else; a reload that fails changes nothing, and one
//! that succeeds leaves no plugin with a grant that its file took away.

mod reload;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use t2m_core::audit::AuditLog;
use t2m_core::code::Code;
use t2m_core::contract::Contracts;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{ApprovalGate, Bound, CallLog, Clock, Dispatcher, DispatcherParts};
use t2m_core::id::{PluginId, RunId, ToolName};
use t2m_core::workflow::VerifiedWorkflow;
use t2m_mcp::{Catalog, ToolServer, WorkflowRunner};
use t2m_runtime::{GivenApprovals, SystemClock};
use t2m_sandbox::Sandbox;

use self::reload::Reloads;
use super::run::{given_approvals, read_workflow};
use crate::args::PluginArgs;
use crate::audit_log::{self, OpenAudit};
use crate::call_log::CallRecorder;
use crate::config::{self, AuditConfig, Config, WorkflowConfig};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files::reason;
use crate::out::Out;
use crate::plugins::Lacking;
use crate::tape::{self, Closer, Tape};
use crate::workflow_tool::ServedWorkflow;
use crate::{contracts, plugins};

/// Serve tools and workflows to an MCP client over standard input and output.
///
/// An MCP client starts this program; docs/clients.md says how to set one up. Without a configuration file the
/// built-in plugins are served: reading is allowed, and a call that writes is refused with the approval or
/// grant that it lacks. The server ends when the client closes standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host serve --tool files --dir $PWD
  t2m-host serve --workflow report.json --dir $PWD
  t2m-host --config team/t2m.toml serve")]
pub(crate) struct Serve {
    /// Offer a workflow as a tool, named after the file; repeat for more. Those of the configuration are offered
    /// as well
    #[arg(long = "workflow", value_name = "FILE")]
    workflows: Vec<PathBuf>,
    /// Reviewed contracts; they win over those of `t2m.contracts.json` and of `WORKFLOW.contracts.json` beside
    /// each workflow
    #[arg(long, value_name = "FILE")]
    contracts: Option<PathBuf>,
    /// Take what this plugin says of its tools as reviewed, whatever its component holds and whatever was reviewed
    /// before: for a plugin of your own while you write it. Repeat for more
    #[arg(long, value_name = "PLUGIN")]
    trust: Vec<PluginId>,
    /// Offer only this tool or workflow; repeat for more. A workflow may still call tools that aren't offered
    #[arg(long, value_name = "NAME")]
    offer: Vec<ToolName>,
    /// Approve one request, by the id that a refused call named; repeat for more
    #[arg(long, value_name = "ID")]
    approve: Vec<Digest>,
    /// A file of approvals
    #[arg(long, value_name = "FILE")]
    approvals: Option<PathBuf>,
    /// Read everything again when a file changes: configuration, contracts, workflows, components. SIGHUP does so
    /// at any time
    #[arg(long)]
    watch: bool,
    /// Record the calls while they are made, those of workflows and tools as parts of the call that makes
    /// them; an existing file is refused. It holds arguments and results, secrets too; only you can read it.
    /// `import` and `compile` read it
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// What calls are recorded with, once there is a catalog to call.
struct Recording {
    recorder: Arc<CallRecorder>,
    closer: Closer,
}

impl Serve {
    pub(crate) async fn run(self, config_path: Option<&Path>, out: &mut Out) -> Result<Exit> {
        let recording = self.start_recording()?;
        let recorder = recording.as_ref().map(|recording| Arc::clone(&recording.recorder));
        let served = self.serve(config_path, recorder, out).await;
        let (Some(recording), Some(path)) = (recording, &self.record) else { return served };
        let summary = recording
            .closer
            .close()
            .map_err(|error| Failure::of_file(path, Code::FileUnwritable, reason(&error)))?;
        if served.is_err() && summary.calls() == 0 {
            // Nothing was recorded: the name is free for the next try.
            let _ = std::fs::remove_file(path);
        }
        summary.warnings().iter().for_each(|warning| out.note(format!("warning: {warning}")));
        served
    }

    /// Makes the file before anything takes time, so that a name that is taken is said at once.
    fn start_recording(&self) -> Result<Option<Recording>> {
        let Some(path) = &self.record else { return Ok(None) };
        let file = tape::create(path)?;
        let (tape, closer) = Tape::start(file);
        Ok(Some(Recording { recorder: Arc::new(CallRecorder::new(tape)), closer }))
    }

    async fn serve(
        &self,
        config_path: Option<&Path>,
        recorder: Option<Arc<CallRecorder>>,
        out: &mut Out,
    ) -> Result<Exit> {
        if std::io::stdin().is_terminal() {
            out.note("waiting for an MCP client on standard input; Ctrl-D ends");
        }
        let config = config::load(config_path, out)?;
        let audit = OpenAudit::of(&config, &self.plugins)?;
        let log = audit.as_ref().map(OpenAudit::log);
        self.serve_config(config_path, config, Records { recorder, audit: log }, out).await?;
        audit.map_or(Ok(Exit::Done), |audit| audit.close().map(|()| Exit::Done))
    }

    async fn serve_config(
        &self,
        config_path: Option<&Path>,
        config: Config,
        records: Records,
        out: &mut Out,
    ) -> Result<()> {
        // Before anything takes time: until then a signal would end the process.
        let mut reloads = Reloads::new(self.watch.then(|| self.files(config_path, &config)))?;
        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let session = RunId::new(format!("mcp-{}-{}", SystemClock.now_ms(), std::process::id()))
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let approvals = Arc::new(GivenApprovals::new([], Arc::new(SystemClock)));
        let parts = Parts { sandbox, approvals, records, audit: config.audit.clone() };
        let catalog = self.catalog(config_path, &parts, &config, Lacking::Fails, out).await?;
        let server = ToolServer::new(catalog, session);
        let stopped = stop_signal(parts.records.is_kept())?;
        tokio::pin!(stopped);
        let (input, output) = t2m_mcp::standard_streams();
        let serving = t2m_mcp::serve(server.clone(), input, output);
        tokio::pin!(serving);
        let served = loop {
            tokio::select! {
                served = &mut serving => break served,
                () = &mut stopped => break Ok(()),
                () = reloads.next() => {}
            }
            // The client may go while this compiles something.
            let reloaded = tokio::select! {
                served = &mut serving => break served,
                () = &mut stopped => break Ok(()),
                reloaded = self.reload(config_path, &parts, &server, out) => reloaded,
            };
            match reloaded {
                Ok(config) => reloads.look_at(|| self.files(config_path, &config)),
                Err(failure) => {
                    out.error("the reload failed; serving what was there before");
                    out.failure(&failure);
                }
            }
        };
        served.map_err(|message| Failure::new(Code::FormatUnknown, message))
    }

    async fn reload(
        &self,
        config_path: Option<&Path>,
        parts: &Parts,
        server: &ToolServer,
        out: &mut Out,
    ) -> Result<Config> {
        let config = config::load(config_path, out)?;
        if config.audit != parts.audit {
            // A client that could change the file must not end its own record.
            out.note("`[audit]` counts from the next start on; the log is written as before");
        }
        // The log that is written, and the one that the next start would write.
        for folder in parts.audit.dir.iter().chain(&config.audit.dir) {
            audit_log::check_grants(folder, &config, &self.plugins)?;
        }
        // What the file takes away from a plugin is gone, even if the plugin can't do without.
        let catalog = self.catalog(config_path, parts, &config, Lacking::StaysOut, out).await?;
        server.replace(catalog);
        Ok(config)
    }

    /// Everything that a client can list and call.
    async fn catalog(
        &self,
        config_path: Option<&Path>,
        parts: &Parts,
        config: &Config,
        lacking: Lacking,
        out: &mut Out,
    ) -> Result<Catalog> {
        let Parts { sandbox, approvals, records: Records { recorder, audit }, .. } = parts;
        let offered = self.workflows(config);
        let workflows = offered.iter().map(|offer| read_workflow(&offer.path)).collect::<Result<Vec<_>>>()?;
        let mut contracts = self.read_contracts(config_path, &offered, &workflows)?;
        let mut loaded = plugins::load(sandbox, &self.plugins, config, lacking).await?;
        loaded.tell_left_out(out);
        loaded.trust(&self.trust, &mut contracts)?;
        let given = given_approvals(&self.approve, self.approvals.as_deref())?;
        let dispatcher = Dispatcher::new(DispatcherParts {
            policy: config.policy.clone(),
            approvals: Some(Arc::clone(approvals) as Arc<dyn ApprovalGate>),
            log: recorder.clone().map(|recorder| recorder as Arc<dyn CallLog>),
            audit: audit.clone(),
            ..DispatcherParts::new(plugins::registry(&loaded, &contracts)?)
        });
        tell_hidden(&dispatcher, &self.plugins, out);
        let mut runners: Vec<Arc<dyn WorkflowRunner>> = Vec::new();
        for (offer, workflow) in offered.iter().zip(workflows) {
            tell_unbound(&offer.path, &workflow, &dispatcher, out);
            let run = config.run.clone();
            let served = ServedWorkflow::new(offer, workflow, &dispatcher, run, recorder.clone())?;
            runners.push(Arc::new(served));
        }
        let catalog = Catalog::new(dispatcher, runners, &self.offer)?;
        // Nothing can fail any more, and a reload that fails must change nothing.
        approvals.replace(given);
        Ok(catalog)
    }

    /// The workflows of the command line and of the configuration.
    fn workflows(&self, config: &Config) -> Vec<WorkflowConfig> {
        let named = |path: &PathBuf| WorkflowConfig { path: path.clone(), name: None, description: None };
        self.workflows.iter().map(named).chain(config.workflow.iter().cloned()).collect()
    }

    /// The contracts in force. For a tool in several files, the first of these counts: the named file, the shared
    /// one, those beside the workflows. What lies beside a workflow counts for the tools that it calls and for no
    /// others: it may come from whoever wrote the workflow.
    fn read_contracts(
        &self,
        config: Option<&Path>,
        offered: &[WorkflowConfig],
        workflows: &[VerifiedWorkflow],
    ) -> Result<Contracts> {
        let mut found = contracts::default_contracts(config, self.contracts.as_deref())?;
        for (offer, workflow) in offered.iter().zip(workflows) {
            let calls = |tool: &ToolName| workflow.workflow().nodes.iter().any(|node| node.tool == *tool);
            let beside = contracts::workflow_file(&offer.path, None);
            if !beside.exists() {
                continue;
            }
            for contract in contracts::read(&beside)?.iter() {
                if calls(&contract.tool) && found.get(&contract.tool).is_none() {
                    found.insert(contract.clone());
                }
            }
        }
        Ok(found)
    }

    /// Every file that what is served was made from.
    fn files(&self, config_path: Option<&Path>, config: &Config) -> Vec<PathBuf> {
        let mut files = vec![config::file_in_use(config_path).unwrap_or(Path::new(config::USUAL)).to_owned()];
        files.push(contracts::shared_file(config_path));
        files.extend(self.contracts.clone());
        files.extend(self.approvals.clone());
        for offer in self.workflows(config) {
            files.push(contracts::workflow_file(&offer.path, None));
            files.push(offer.path);
        }
        files.extend(plugins::files(&self.plugins, config));
        files
    }
}

/// What outlives a reload.
struct Parts {
    sandbox: Sandbox,
    approvals: Arc<GivenApprovals>,
    records: Records,
    /// As the log was opened.
    audit: AuditConfig,
}

/// Where calls are written down.
struct Records {
    recorder: Option<Arc<CallRecorder>>,
    audit: Option<Arc<dyn AuditLog>>,
}

impl Records {
    fn is_kept(&self) -> bool {
        self.recorder.is_some() || self.audit.is_some()
    }
}

/// Resolves when somebody asks the server to end, if it has something to finish then: a recording or a log.
#[cfg(unix)]
fn stop_signal(records: bool) -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::new(Code::Internal, format!("no signal handler: {error}")))
    };
    let signals = match records {
        true => Some((listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?)),
        false => None,
    };
    Ok(async move {
        match signals {
            Some((mut terminate, mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
    })
}

#[cfg(not(unix))]
fn stop_signal(_: bool) -> Result<impl Future<Output = ()>> {
    Ok(std::future::pending())
}

/// Says which nodes of a workflow can't run because of their tool, and why. The workflow is offered all the same:
/// a reload may bring the tool.
fn tell_unbound(path: &Path, workflow: &VerifiedWorkflow, dispatcher: &Dispatcher, out: &mut Out) {
    let tools: BTreeSet<&ToolName> = workflow.workflow().nodes.iter().map(|node| &node.tool).collect();
    for tool in tools {
        let why = match dispatcher.registry().get(tool) {
            None => dispatcher.registry().unknown(tool),
            Some(found) => match &found.bound {
                Bound::Reviewed { .. } => continue,
                _ => format!("`{tool}` is not reviewed"),
            },
        };
        out.note(format!("calls of workflow `{}` will fail: {why}", path.display()));
    }
}

/// Says which tools a client won't see, and why.
fn tell_hidden(dispatcher: &Dispatcher, args: &PluginArgs, out: &mut Out) {
    let mut hidden = false;
    for registered in dispatcher.registry().iter() {
        let (plugin, tool) = (&registered.plugin, &registered.descriptor.name);
        let why = match &registered.bound {
            Bound::Reviewed { .. } => continue,
            Bound::Missing | Bound::Unreviewed => "nobody has reviewed it".to_owned(),
            Bound::Drifted { differences } => {
                format!("it is not what was reviewed: {}", differences.join("; "))
            }
        };
        out.note(format!("tool `{tool}` of plugin `{plugin}` is not offered: {why}"));
        hidden = true;
    }
    if hidden {
        let tools: String = args.tools.iter().map(|tool| format!(" --tool {tool}")).collect();
        out.note(format!(
            "contracts count from `--contracts`, beside workflows, and from `t2m.contracts.json` beside the \
             configuration or in this folder; `t2m-host review{tools}` writes that"
        ));
    }
}
