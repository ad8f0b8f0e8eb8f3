//! `t2m-host compile`: a recording becomes a workflow.
//!
//! Owns reading, the facts of loaded tools, and the summary. Refuses to guess: what the compiler left open
//! is shown, with the way to settle it.
//!
//! **Invariant:** the workflow that is written reproduces every recorded argument.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use t2m_core::catalog::Catalog;
use t2m_core::compiler::{self, Accept, Claims, Compiled, Options, ToolFacts};
use t2m_core::id::ToolName;
use t2m_core::workflow::{self, OptionalCall, RepeatedCall};

use super::import::{ImportArgs, note_report, readable, write_or_print};
use crate::args::PluginArgs;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::{InFile, Result};
use crate::out::{Out, one_line};
use crate::{files, plugins, toml_file};

/// Largest catalogue, in bytes: some thousand tools.
const MAX_CATALOG: usize = 1 << 20;

/// Turn a recording into a workflow.
///
/// Arguments that come from inputs or earlier results become references, repeated safe reads become one,
/// and calls that change something keep their order. What a call may do is known of tools loaded with `--tool`
/// (by default the built-in ones), and else of catalogues: yours, then the built-in one, which knows the official
/// MCP servers and the tools of coding agents. Every other call is unknown and keeps its place. The order is all
/// that this decides: what may run is decided by reviewed contracts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host compile trace.json --out workflow.json
  t2m-host compile session.jsonl --map /home/ann/repo=/srv/repo --out workflow.json
  t2m-host compile monday.json tuesday.json --out workflow.json
  t2m-host compile trace.json --accept 'get_user-2:/id' --out workflow.json
  t2m-host compile trace.json --hint 'get_user-2:/id=search-1.users[0].id' --out workflow.json
  t2m-host compile trace.json --hint 'fetch-1:/path=template /repos/{input owner}/issues' --out workflow.json
  t2m-host compile trace.json --catalog tools.toml --out workflow.json")]
pub(crate) struct Compile {
    /// The recording, in any format that `import` reads; `-` reads standard input. Several recordings of one task
    /// settle what one leaves open: the calls that all of them have are the workflow, a reference has to hold in
    /// each, and a value that differs becomes an input. Calls that only some have are suggestions (`explain` shows
    /// them), and the exit status is 10
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    import: ImportArgs,
    /// The workflow's name [default: the recording's]
    #[arg(long)]
    name: Option<String>,
    /// Say where an argument value comes from: an event, a JSON Pointer into its arguments, and a reference or
    /// template, as `explain` writes them; the first suggestion if none is named, no source if it is empty. It has
    /// to give what was recorded
    #[arg(long, visible_alias = "hint", value_name = "EVENT:POINTER[=REFERENCE]", value_parser = accept)]
    accept: Vec<Accept>,
    /// What is known of tools that aren't loaded, as TOML (`config schema --kind catalog`). Repeat for more;
    /// the first that knows a call decides
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Believe the effects and keys that the recording states itself, where nothing else is known; for
    /// recordings whose recorder you trust
    #[arg(long)]
    trust_effects: bool,
    /// Where to write the workflow, readable by you alone [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
}

fn accept(text: &str) -> std::result::Result<Accept, String> {
    let wrong = || "expected EVENT:POINTER or EVENT:POINTER=REFERENCE".to_owned();
    let (place, reference) = match text.split_once('=') {
        Some((place, reference)) => (place, Some(reference.to_owned())),
        None => (text, None),
    };
    let (event, pointer) = place.split_once(":/").ok_or_else(wrong)?;
    Ok(Accept { event: event.to_owned(), pointer: format!("/{pointer}"), reference })
}

impl Compile {
    pub(crate) async fn run(self, config: Config, out: &mut Out) -> Result<Exit> {
        let given: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        files::refuse_overwrite(self.out.as_deref(), &given)?;
        let file = self.files.first().map_or(Path::new("-"), PathBuf::as_path);
        let mut traces = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let imported = self.import.read(file, out)?;
            note_report(&imported, out);
            traces.push(imported.trace);
        }
        let options = Options {
            name: self.name,
            known_tools: known_tools(&self.plugins, &config).await?,
            catalogs: catalogs(&self.catalog)?,
            claims: if self.trust_effects { Claims::Believe } else { Claims::Raise },
            accept: self.accept,
            ..Options::default()
        };
        let compiled = compiler::compile_all(traces, &options).in_file(file)?;
        let report = &compiled.report;
        out.note(format!(
            "{} nodes from {} events: {} references, {} inputs, {} repeated reads removed, {} left out, {} order edges, {} ambiguous",
            report.nodes, report.events, report.references, report.inputs, report.deduplicated,
            report.left_out, report.order_edges, report.ambiguous
        ));
        for suggestion in &report.suggestions {
            let (event, pointer) = (&suggestion.event, &suggestion.pointer);
            let first = suggestion.candidates.first().map_or("", String::as_str);
            out.note(if suggestion.acceptable {
                let accept = workflow::accept_option(event, pointer, first);
                format!("  to settle: {accept} ({})", suggestion.reason)
            } else {
                format!("  kept as recorded: {event}:{pointer} ({})", suggestion.reason)
            });
        }
        note_recordings(&compiled, out);
        for note in &report.notes {
            out.note(format!("  note: {note}"));
        }
        let document = readable(&compiled.workflow).in_file(file)?;
        write_or_print(
            self.out.as_deref(),
            &document,
            out,
            |path| json!({"workflow": path, "digest": document.get("digest"), "report": report}),
        )?;
        Ok(Exit::of_comparison(!report.is_partial()))
    }
}

/// Says which calls of which recording the workflow doesn't make, and what would explain them.
fn note_recordings(compiled: &Compiled, out: &mut Out) {
    for recording in &compiled.report.recordings {
        let lists = [
            ("optional", &recording.optional),
            ("repeated", &recording.repeated),
            ("repeats", &recording.repeats),
        ];
        let lists = lists.iter().filter(|(_, list)| !list.is_empty());
        let lists: Vec<String> = lists.map(|(kind, list)| format!("{kind}: {}", list.join(", "))).collect();
        if !lists.is_empty() {
            out.note(format!(
                "  recording {}: {} of {} calls aren't in the workflow ({})",
                recording.recording,
                recording.optional.len() + recording.repeated.len() + recording.repeats.len(),
                recording.events - recording.left_out,
                lists.join("; ")
            ));
        }
    }
    let source = &compiled.workflow.source;
    for line in source.optional.iter().flat_map(OptionalCall::lines) {
        out.note(format!("  optional: {}", one_line(&line)));
    }
    for line in source.repeated.iter().flat_map(RepeatedCall::lines) {
        out.note(format!("  repeated: {}", one_line(&line)));
    }
}

/// The user's own catalogues, then the built-in one.
fn catalogs(files: &[PathBuf]) -> Result<Vec<Catalog>> {
    let mut catalogs = Vec::with_capacity(files.len() + 1);
    for path in files {
        let bytes = files::read(path, MAX_CATALOG)?;
        let value = toml_file::read(&bytes, &Catalog::json_schema()).in_file(path)?;
        let catalog = Catalog::own(value).map_err(|problems| toml_file::placed(&bytes, problems));
        catalogs.push(catalog.in_file(path)?);
    }
    catalogs.push(Catalog::built_in()?);
    Ok(catalogs)
}

/// What the loaded plugins say of their tools. A plugin needs no grant for that.
async fn known_tools(args: &PluginArgs, config: &Config) -> Result<BTreeMap<ToolName, ToolFacts>> {
    let sandbox = plugins::sandbox(args, config)?;
    Ok(plugins::facts(&plugins::describe(&sandbox, args, config).await?))
}
