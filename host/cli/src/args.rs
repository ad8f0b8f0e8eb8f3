//! The command line's shape.
//!
//! Owns options that several commands share. Refuses meaning: commands give it.
//!
//! **Invariant:** every option that takes a value says in its help what the value means.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use t2m_core::code::Code;

use crate::command::Command;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// Run recorded agent procedures again, each tool call in a sandbox.
///
/// A recording of tool calls becomes a workflow (`import`, `compile`), a person reviews what its tools may
/// do (`review`), and `run` runs it: every call passes policy, approval and schema checks, and every handler
/// is a WebAssembly component with nothing but what it was granted.
#[derive(Debug, Parser)]
#[command(name = "t2m-host", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Output for people or for programs
    #[arg(long, global = true, value_enum, default_value_t = Format::Human)]
    pub(crate) format: Format,
    /// Say nothing on standard error but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Log more on standard error; repeat for still more. The variable T2M_LOG takes a filter in its place, as in
    /// `T2M_LOG=t2m_sandbox=debug`
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Configuration file [default: `t2m.toml` in the current folder, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Why there are no arguments: they aren't valid, or help was asked for.
pub(crate) struct Refused {
    error: clap::Error,
    json: bool,
}

/// Reads the command line.
pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<Args, Refused> {
    let args: Vec<OsString> = args.collect();
    Args::try_parse_from(&args).map_err(|error| Refused { error, json: wants_json(&args) })
}

/// Whether a command line that can't be read asks for JSON. What stands behind `--` is another program's.
fn wants_json(args: &[OsString]) -> bool {
    let own: Vec<&str> = args.iter().map_while(|arg| arg.to_str().filter(|arg| *arg != "--")).collect();
    own.contains(&"--format=json") || own.windows(2).any(|pair| pair == ["--format", "json"])
}

impl Refused {
    /// Says why, and gives the exit status.
    pub(crate) fn show(&self) -> ExitCode {
        if !self.json || !self.error.use_stderr() {
            let _ = self.error.print();
            return ExitCode::from(u8::try_from(self.error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
        let text = self.error.render().to_string();
        let text = text.split("\n\nUsage:").next().unwrap_or(&text);
        let text = text.strip_prefix("error: ").unwrap_or(text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let failure = Failure::new(Code::UsageInvalid, lines.join("; "));
        Out::new(Format::Json, false).failure(&failure);
        failure.exit().into()
    }
}

const AFTER_HELP: &str = "Examples:
  t2m-host import session.jsonl --map /home/ann/repo=$PWD --out trace.json
  t2m-host compile trace.json --out workflow.json
  t2m-host review workflow.json --dir $PWD
  t2m-host run workflow.json --dir $PWD

Standard output is data, standard error is talk. Exit statuses are listed in the README.";

/// Output for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Human,
    /// For programs: one JSON value on standard output, errors as JSON on standard error
    Json,
}

/// Which plugins to load, and what they get.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PluginArgs {
    /// Load this plugin: a built-in one by name, a component file, or a plugin's folder. Repeat for more
    /// [default: those of the configuration or, without any, every built-in one]
    #[arg(long = "tool", value_name = "NAME|FILE|DIR")]
    pub(crate) tools: Vec<String>,
    /// Grant a directory to the plugins that ask for directories; `DIR:rw` lets them write there.
    /// A write needs an approval as well, unless the policy allows it
    #[arg(long = "dir", value_name = "DIR[:rw]")]
    pub(crate) dirs: Vec<String>,
    /// Grant a host to the plugins that ask for it: `[METHOD,... ]SCHEME://HOST[:PORT][ private]`, such as
    /// `https://api.example.com`, `GET https://*.example.com` or `http://localhost:8080`. Repeat for more
    #[arg(long = "host", value_name = "RULE")]
    pub(crate) hosts: Vec<String>,
    /// Grant a variable of the environment to the plugins that ask for it. Repeat for more
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Let the plugins that ask for it keep values between calls, in `.t2m` beside t2m.toml or in the current folder
    #[arg(long)]
    pub(crate) kv: bool,
    /// Let the plugins that ask for it read the real date; any other one sees a date that follows from the run
    #[arg(long)]
    pub(crate) clock: bool,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
}
