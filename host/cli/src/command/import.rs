//! `t2m-host import`: a recording becomes Trace v1, a workflow of another program one of ours.
//!
//! Owns reading the file, bit by bit, and showing what was found. Refuses to change what was recorded, apart from the
//! path prefixes that `--map` names.
//!
//! **Invariant:** every call of the recording is in the trace or in the report, and a workflow is written only if it
//! can be read again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use t2m_core::json::Limits;
use t2m_core::problem::Problems;
use t2m_core::trace;
use t2m_core::trace::import::{Format, Found, ImportOptions, Imported, import, import_any};
use t2m_core::workflow::{self, ImportedWorkflow, Workflow};

use crate::exit::Exit;
use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::out::{Out, pretty};
use crate::progress::reading;

/// How much is read of a file at once: enough that no line of a usual session is read in two parts.
const BUFFER: usize = 256 << 10;

/// Most skipped parts that are shown to a person.
const MAX_SHOWN: usize = 20;

/// Read a recording and write it as Trace v1.
///
/// Reads logs of MCP connections and sessions of coding agents; `--from` lists the formats. A workflow of Trace2MCP
/// (WorkflowIR) becomes a workflow, which `review` and `run` take; it needs no `compile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host import session.jsonl --out trace.json
  t2m-host import session.jsonl --map /home/ann/repo=/srv/repo --out trace.json
  t2m-host import workflow_ir.json --out workflow.json")]
pub(crate) struct Import {
    /// The recording; `-` reads standard input
    file: PathBuf,
    #[command(flatten)]
    options: ImportArgs,
    /// Where to write the trace or workflow, readable by you alone [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How to read a recording.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImportArgs {
    /// The format [default: found from the content]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// Replace a recorded path prefix by another one; repeat for more
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    map: Vec<(String, String)>,
    /// Replace a recorded tool name by another one, each with at most one `*`; repeat for more
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    rename: Vec<(String, String)>,
    /// Which of several sessions in one file to take, counted from 1
    #[arg(long, value_name = "N")]
    session: Option<usize>,
    /// Largest recording that is read
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().bytes)]
    max_bytes: usize,
    /// Longest line that is read; a longer one is skipped and listed
    #[arg(long, value_name = "BYTES", default_value_t = ImportOptions::default().line_bytes)]
    max_line_bytes: usize,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str)).try_map(|name| name.parse::<Format>())
}

fn mapping(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("expected OLD=NEW".to_owned()),
    }
}

impl ImportArgs {
    /// Largest file that is read.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Reads a recording in any known format.
    pub(crate) fn read(&self, file: &Path, out: &Out) -> Result<Imported> {
        import(self.open(file, out)?, &self.options())
            .in_file(file)
            .map_err(|failure| better_next(failure, file))
    }

    /// The same, or a workflow of another program.
    fn read_any(&self, file: &Path, out: &Out) -> Result<Found> {
        import_any(self.open(file, out)?, &self.options())
            .in_file(file)
            .map_err(|failure| better_next(failure, file))
    }

    fn open(&self, file: &Path, out: &Out) -> Result<impl BufRead> {
        let (mut reader, length) = files::open(file)?;
        if out.shows_progress() {
            reader = reading(reader, length);
        }
        Ok(BufReader::with_capacity(BUFFER, reader))
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            from: self.from,
            map: self.map.clone(),
            rename: self.rename.clone(),
            session: self.session,
            limits: Limits { bytes: self.max_bytes, ..Limits::default() },
            line_bytes: self.max_line_bytes,
        }
    }
}

/// Names the command for a file of ours that is no recording.
fn better_next(failure: Failure, file: &Path) -> Failure {
    match files::own_format(file) {
        Some(format) if format.starts_with("t2m/workflow") => {
            failure.with_next("this is a workflow: `explain`, `check`, `replay` and `run` read it")
        }
        Some(format) => failure.with_next(format!("this is a file of `{format}`, no recording")),
        None => failure,
    }
}

/// Says what an import found, on standard error.
pub(crate) fn note_report(imported: &Imported, out: &mut Out) {
    let report = &imported.report;
    out.note(format!(
        "{}: {} calls: {} answered, {} failed, {} unanswered, {} left out; {} parts skipped",
        imported.format,
        report.calls,
        report.answered,
        report.failed,
        report.unanswered,
        report.left_out,
        report.skipped.len() + report.unlisted
    ));
    if report.unreadable > 0 {
        out.note(format!("  {} lines can't be read, and what they hold is missing", report.unreadable));
    }
    if report.lines > 0 {
        out.note(format!(
            "  {} bytes in {} lines were read, about {} kept",
            report.bytes, report.lines, report.kept_bytes
        ));
    }
    for skipped in report.skipped.iter().take(MAX_SHOWN) {
        out.note(format!("  skipped at {}: {}", skipped.place, skipped.reason));
    }
    if report.skipped.len() > MAX_SHOWN {
        let more = report.skipped.len() - MAX_SHOWN;
        out.note(format!("  and {more} more; `import --out FILE --format json` lists them"));
    }
    for warning in &report.warnings {
        out.note(format!("  note: {warning}"));
    }
}

impl Import {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        files::refuse_overwrite(self.out.as_deref(), &[&self.file])?;
        let imported = match self.options.read_any(&self.file, out)? {
            Found::Recording(imported) => imported,
            Found::Workflow(made) => return self.write_workflow(&made, out),
        };
        note_report(&imported, out);
        if !self.options.map.is_empty() {
            out.note(format!("  {} strings mapped", imported.report.remapped));
        }
        let trace = trace::to_json(&imported.trace);
        write_or_print(
            self.out.as_deref(),
            &trace,
            out,
            |path| json!({"trace": path, "format": imported.format, "report": imported.report}),
        )?;
        Ok(Exit::Done)
    }

    fn write_workflow(&self, made: &ImportedWorkflow, out: &mut Out) -> Result<Exit> {
        let (report, format) = (&made.report, Format::WorkflowIr);
        out.note(format!(
            "{format}: a workflow of {} nodes, {} references, {} inputs, {} waits added",
            report.nodes, report.references, report.inputs, report.order_edges
        ));
        for warning in &report.warnings {
            out.note(format!("  note: {warning}"));
        }
        if !self.options.map.is_empty() {
            out.note(format!("  {} strings mapped", report.remapped));
        }
        let document = readable(&made.workflow).in_file(&self.file)?;
        write_or_print(
            self.out.as_deref(),
            &document,
            out,
            |path| json!({"workflow": path, "format": format, "digest": document.get("digest"), "report": report}),
        )?;
        if let Some(path) = self.out.as_deref().filter(|path| *path != Path::new("-")) {
            let path = path.display();
            out.note(format!("next: `t2m-host review {path}`, then `t2m-host run {path}`"));
        }
        Ok(Exit::Done)
    }
}

/// The file of a workflow, which must be readable: an argument may nest so deep that its expression doesn't.
pub(crate) fn readable(workflow: &Workflow) -> std::result::Result<Value, Problems> {
    let document = workflow::to_json(workflow);
    let bytes = document.to_string().into_bytes();
    let (read, digest) = workflow::parse(&bytes, Limits { bytes: usize::MAX, ..Limits::default() })?;
    workflow::verify(read, Some(digest)).map(|_| document)
}

/// Writes a document to the file that was named, or to standard output if none was. With a file, standard
/// output tells programs about it.
pub(crate) fn write_or_print(
    file: Option<&Path>,
    document: &Value,
    out: &mut Out,
    about: impl FnOnce(&str) -> Value,
) -> Result<()> {
    let Some(path) = file.filter(|path| *path != Path::new("-")) else {
        out.raw(&pretty(document));
        return Ok(());
    };
    let mut text = pretty(document);
    text.push('\n');
    files::write_private(path, text.as_bytes())?;
    let shown = path.display().to_string();
    if out.is_json() {
        out.raw(&pretty(&about(&shown)));
    } else {
        out.note(format!("wrote {shown}"));
    }
    Ok(())
}
