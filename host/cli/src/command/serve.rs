//! `t2m-host serve`: tools and workflows for an MCP client.
//!
//! Owns the way from files and options to a catalog, and its reload. Refuses to speak the protocol: that is
//! the door's.
//!
//! **Invariant:** standard output carries MCP and nothing else; a reload that fails changes nothing.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use t2m_core::code::Code;
use t2m_core::contract::Contracts;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{Bound, Clock, Dispatcher, DispatcherParts, NestedLimits};
use t2m_core::id::{PluginId, RunId};
use t2m_mcp::{Catalog, ToolServer, WorkflowRunner};
use t2m_runtime::{GivenApprovals, SystemClock};
use t2m_sandbox::Sandbox;

use super::run::{given_approvals, read_contracts, read_workflow};
use crate::args::PluginArgs;
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::out::Out;
use crate::plugins;
use crate::workflow_tool::ServedWorkflow;

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
    /// Offer a workflow as a tool, named after the file; repeat for more
    #[arg(long = "workflow", value_name = "FILE")]
    workflows: Vec<PathBuf>,
    /// Reviewed contracts, besides `WORKFLOW.contracts.json` beside each workflow; repeat for more
    #[arg(long, value_name = "FILE")]
    contracts: Vec<PathBuf>,
    /// Take what this plugin says of its tools as reviewed, whatever its component holds: for a plugin of your
    /// own while you write it. Repeat for more
    #[arg(long, value_name = "PLUGIN")]
    trust: Vec<PluginId>,
    /// Approve one request, by the id that a refused call named; repeat for more
    #[arg(long, value_name = "ID")]
    approve: Vec<Digest>,
    /// A file of approvals
    #[arg(long, value_name = "FILE")]
    approvals: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
}

impl Serve {
    pub(crate) async fn run(self, config_path: Option<&Path>, out: &mut Out) -> Result<Exit> {
        if std::io::stdin().is_terminal() {
            out.note("waiting for an MCP client on standard input; Ctrl-D ends");
        }
        let config = config::load(config_path, out)?;
        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let session = RunId::new(format!("mcp-{}-{}", SystemClock.now_ms(), std::process::id()))
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let server = ToolServer::new(self.catalog(&sandbox, &config, out).await?, session);
        let (input, output) = t2m_mcp::standard_streams();
        let serving = t2m_mcp::serve(server.clone(), input, output);
        tokio::pin!(serving);
        let mut reloads = Reloads::new()?;
        loop {
            tokio::select! {
                served = &mut serving => {
                    return match served {
                        Ok(()) => Ok(Exit::Done),
                        Err(message) => Err(Failure::new(Code::Internal, message)),
                    };
                }
                () = reloads.next() => {
                    let config = config::load(config_path, out);
                    let reloaded = match config {
                        Ok(config) => self.catalog(&sandbox, &config, out).await,
                        Err(failure) => Err(failure),
                    };
                    match reloaded {
                        Ok(catalog) => server.replace(catalog),
                        Err(failure) => {
                            out.error("the reload failed; serving what was there before");
                            out.failure(&failure);
                        }
                    }
                }
            }
        }
    }

    /// Everything that a client can list and call.
    async fn catalog(&self, sandbox: &Sandbox, config: &Config, out: &mut Out) -> Result<Catalog> {
        let workflows = self.workflows.iter().map(|path| read_workflow(path)).collect::<Result<Vec<_>>>()?;
        let contracts = self.read_contracts()?;
        let mut loaded = plugins::load(sandbox, &self.plugins, config).await?;
        loaded.trust(&self.trust)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let approvals = given_approvals(&self.approve, self.approvals.as_deref())?;
        let dispatcher = Dispatcher::new(DispatcherParts {
            registry: plugins::registry(&loaded, &contracts)?,
            policy: config.policy.clone(),
            approvals: Some(Arc::new(GivenApprovals::new(approvals, clock))),
            guard: None,
            events: None,
            nested: NestedLimits::default(),
        });
        tell_hidden(&dispatcher, out);
        let mut runners: Vec<Arc<dyn WorkflowRunner>> = Vec::new();
        for (path, workflow) in self.workflows.iter().zip(workflows) {
            runners.push(Arc::new(ServedWorkflow::new(path, workflow, &dispatcher, config.run.clone())?));
        }
        Ok(Catalog::new(dispatcher, runners)?)
    }

    /// The contracts that were named, then those beside the workflows; the first one of a tool counts.
    fn read_contracts(&self) -> Result<Contracts> {
        let mut contracts = Contracts::default();
        let named = self.contracts.iter().map(|path| read_contracts(path, Some(path)));
        let beside = self.workflows.iter().map(|path| read_contracts(path, None));
        for file in named.chain(beside) {
            for contract in file?.iter() {
                if contracts.get(&contract.tool).is_none() {
                    contracts.insert(contract.clone());
                }
            }
        }
        Ok(contracts)
    }
}

/// Says which tools a client won't see, and why.
fn tell_hidden(dispatcher: &Dispatcher, out: &mut Out) {
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
    }
}

/// Requests to read everything again: SIGHUP, as service managers send it.
struct Reloads {
    #[cfg(unix)]
    hangups: tokio::signal::unix::Signal,
}

impl Reloads {
    fn new() -> Result<Reloads> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let hangups = signal(SignalKind::hangup())
                .map_err(|error| Failure::new(Code::Internal, format!("no signal handler: {error}")))?;
            Ok(Reloads { hangups })
        }
        #[cfg(not(unix))]
        Ok(Reloads {})
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if self.hangups.recv().await.is_some() {
            return;
        }
        std::future::pending().await
    }
}
