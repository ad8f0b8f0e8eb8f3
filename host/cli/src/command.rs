//! The commands.
//!
//! Owns the list and the dispatch to one file per command. Refuses shared state: each command gets its
//! options and the output.
//!
//! **Invariant:** every command returns an [`Exit`] or a [`Failure`](crate::failure::Failure) with a code; only
//! `record` returns the status of the program that it runs.

mod audit;
mod bench;
mod check;
mod compile;
pub(crate) mod compile_component;
mod completions;
mod config;
mod diff;
mod doctor;
mod explain;
mod graph;
mod import;
mod plugin;
mod record;
mod redact;
mod replay;
mod review;
pub(crate) mod run;
mod serve;
mod tools;

use std::process::ExitCode;

use clap::Subcommand;

use crate::args::Args;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::out::Out;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a session between an MCP client and an MCP server
    Record(record::Record),
    /// Read a recording and write it as Trace v1
    Import(import::Import),
    /// Make a copy of a recording without its secrets
    Redact(redact::Redact),
    /// Turn a recording into a workflow
    Compile(compile::Compile),
    /// Compare a workflow with further recordings of the same task
    Check(check::Check),
    /// Say why a workflow is as it is
    Explain(explain::Explain),
    /// Draw a workflow
    Graph(graph::Graph),
    /// Compare two recordings, or two workflows
    Diff(diff::Diff),
    /// Go through a workflow with its recorded results; nothing runs
    Replay(replay::Replay),
    /// Look at what tools may do, and agree to it
    Review(review::ReviewCommand),
    /// Run a workflow
    Run(run::Run),
    /// Serve tools and workflows to an MCP client over standard input and output
    Serve(serve::Serve),
    /// Show, verify or export the audit log
    Audit(audit::AuditCommand),
    /// Measure this program
    Bench(bench::BenchCommand),
    /// Write, build, check and test a plugin
    Plugin(plugin::PluginCommand),
    /// List the tools of the loaded plugins
    Tools(tools::Tools),
    /// Show, check or describe the configuration
    Config(config::ConfigCommand),
    /// Say what this machine and program can do
    Doctor(doctor::Doctor),
    /// Write shell completions to standard output
    Completions(completions::Completions),
    /// Compile the component on standard input; this program starts itself so
    #[command(hide = true)]
    CompileComponent(compile_component::CompileComponent),
}

impl Command {
    /// Whether it serves others until they end it.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Command::Serve(_))
    }
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<ExitCode> {
    let named = args.config.as_deref();
    let exit = match args.command {
        Command::Record(command) => return command.run(out),
        Command::Import(command) => command.run(out),
        Command::Redact(command) => command.run(out),
        Command::Compile(command) => block_on(command.run(crate::config::load(named, out)?, out)),
        Command::Check(command) => command.run(out),
        Command::Explain(command) => command.run(out),
        Command::Graph(command) => command.run(out),
        Command::Diff(command) => command.run(out),
        Command::Replay(command) => command.run(out),
        Command::Review(command) => block_on(command.run(named, crate::config::load(named, out)?, out)),
        Command::Run(command) => block_on(command.run(named, crate::config::load(named, out)?, out)),
        Command::Serve(command) => block_on(command.run(named, out)),
        Command::Tools(command) => block_on(command.run(named, crate::config::load(named, out)?, out)),
        Command::Audit(command) => command.run(named, out),
        Command::Bench(command) => command.run(&crate::config::load(named, out)?, out),
        Command::Plugin(command) => block_on(command.run(named, crate::config::load(named, out)?, out)),
        Command::Config(command) => block_on(command.run(named, out)),
        Command::Doctor(command) => block_on(command.run(crate::config::load(named, out)?, out)),
        Command::Completions(command) => command.run(out),
        Command::CompileComponent(command) => return Ok(command.run()),
    };
    exit.map(ExitCode::from)
}

fn block_on(command: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let runtime = runtime()?;
    let result = runtime.block_on(command);
    // A guest that is being stopped must not hold up the exit.
    runtime.shutdown_background();
    result
}

/// One thread is enough: guests have their own.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(t2m_core::code::Code::Internal, format!("no async runtime: {error}")))
}
