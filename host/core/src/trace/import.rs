//! Bringing recordings of other formats in.
//!
//! Owns the list of formats, the report of what came in and what didn't, and one module for each format. A
//! format finds calls and answers (`read`); matching them and making the trace is the same for all (`calls`). Refuses to invent: an effect, a dependency or an input that the recording doesn't
//! state stays unknown.
//!
//! **Invariant:** a file is imported with at least one call, or refused with a reason; every call found is
//! either an event of the trace or listed as skipped.

mod anthropic;
mod atif;
mod bytes;
mod calls;
mod chat;
mod claude;
mod codex;
mod content;
mod cursor;
mod detect;
mod gemini;
mod lines;
mod mcp_wire;
mod names;
mod otlp;
mod pi;
mod places;
mod read;
mod remap;
mod rename;
mod responses;
mod sts;
mod texts;
mod tree;

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use super::model::Trace;
use crate::code::Code;
use crate::id::MAX_ID_CHARS;
use crate::json::Limits;
use crate::problem::{Place, Problem, Problems};
use crate::workflow::{self, ImportedWorkflow};

pub use content::reply_of_mcp_result;

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Trace v1 JSON.
    TraceV1,
    /// JSON-RPC messages of an MCP connection, one a line or in one JSON document.
    McpWire,
    /// Hugging Face Session Trace.
    #[serde(rename = "hf-session-trace")]
    Sts,
    /// A session of Claude Code.
    ClaudeCode,
    /// A session of Codex.
    Codex,
    /// What `codex exec --json` prints.
    CodexExec,
    /// A session of Pi.
    Pi,
    /// Messages of OpenAI Chat Completions.
    OpenaiChat,
    /// Items of OpenAI Responses.
    OpenaiResponses,
    /// Messages of the Anthropic API.
    AnthropicMessages,
    /// Spans in OTLP/JSON.
    Otlp,
    /// An ATIF trajectory.
    Atif,
    /// A session of Gemini CLI.
    GeminiCli,
    /// What `cursor-agent --output-format stream-json` prints.
    CursorAgent,
    /// WorkflowIR of Trace2MCP: no recording, but a workflow already.
    #[serde(rename = "trace2mcp-workflow")]
    WorkflowIr,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 15] = [
        Format::TraceV1,
        Format::McpWire,
        Format::ClaudeCode,
        Format::Codex,
        Format::CodexExec,
        Format::Pi,
        Format::Sts,
        Format::OpenaiChat,
        Format::OpenaiResponses,
        Format::AnthropicMessages,
        Format::Otlp,
        Format::Atif,
        Format::GeminiCli,
        Format::CursorAgent,
        Format::WorkflowIr,
    ];

    /// The name used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Format::TraceV1 => "trace-v1",
            Format::McpWire => "mcp-wire",
            Format::Sts => "hf-session-trace",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::CodexExec => "codex-exec",
            Format::Pi => "pi",
            Format::OpenaiChat => "openai-chat",
            Format::OpenaiResponses => "openai-responses",
            Format::AnthropicMessages => "anthropic-messages",
            Format::Otlp => "otlp",
            Format::Atif => "atif",
            Format::GeminiCli => "gemini-cli",
            Format::CursorAgent => "cursor-agent",
            Format::WorkflowIr => "trace2mcp-workflow",
        }
    }

    /// Whether a recording is always one JSON document.
    const fn is_document(self) -> bool {
        matches!(self, Format::TraceV1 | Format::WorkflowIr)
    }

    /// Whether the format says that a call failed. Without that a success is inferred.
    const fn records_failures(self) -> bool {
        !matches!(self, Format::Sts | Format::Atif)
    }

    /// Under which key of an event's metadata stands what the format says of it.
    const fn notes(self) -> &'static str {
        match self {
            Format::McpWire => "mcp",
            _ => "source",
        }
    }

    /// What reads its recordings; nothing for our own format, which needs no import, and for workflows.
    fn reader(self) -> Option<Box<dyn read::Reader>> {
        match self {
            Format::TraceV1 | Format::WorkflowIr => None,
            Format::McpWire => Some(Box::<mcp_wire::Log>::default()),
            Format::Sts => Some(Box::<sts::Session>::default()),
            Format::ClaudeCode => Some(Box::<claude::Session>::default()),
            Format::Codex => Some(Box::<codex::Session>::default()),
            Format::CodexExec => Some(Box::<codex::Events>::default()),
            Format::Pi => Some(Box::<pi::Session>::default()),
            Format::OpenaiChat => Some(Box::<chat::Conversation>::default()),
            Format::OpenaiResponses => Some(Box::<responses::Items>::default()),
            Format::AnthropicMessages => Some(Box::<anthropic::Conversation>::default()),
            Format::Otlp => Some(Box::<otlp::Spans>::default()),
            Format::Atif => Some(Box::<atif::Trajectory>::default()),
            Format::GeminiCli => Some(Box::<gemini::Session>::default()),
            Format::CursorAgent => Some(Box::<cursor::Events>::default()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format; known are {known}", known = known_names())]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat(text.escape_debug().to_string()))
    }
}

fn known_names() -> String {
    Format::ALL.map(|format| format!("`{format}`")).join(", ")
}

/// How to import.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The format, if it isn't to be found from the content.
    pub from: Option<Format>,
    /// Path prefixes to replace: old and new.
    pub map: Vec<(String, String)>,
    /// Tool names to replace: old and new, each with at most one `*`. The first that fits counts.
    pub rename: Vec<(String, String)>,
    /// Which of several sessions in one file to take, counted from 1.
    pub session: Option<usize>,
    /// How large the input may be.
    pub limits: Limits,
    /// The longest line that is read; a longer one is skipped and reported. 16 MiB: the longest lines of
    /// real sessions without pictures have 160 kB, and a model's pictures end at some megabytes.
    pub line_bytes: usize,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            from: None,
            map: Vec::new(),
            rename: Vec::new(),
            session: None,
            limits: Limits::default(),
            line_bytes: 16 << 20,
        }
    }
}

/// What an import made.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The calls.
    pub trace: Trace,
    /// The format they came in.
    pub format: Format,
    /// What was found and what wasn't taken.
    pub report: ImportReport,
}

/// What an import found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ImportReport {
    /// Different calls in the recording: `answered`, `failed`, `unanswered` and `left_out` together.
    pub calls: usize,
    /// Calls with an answer that isn't a failure.
    pub answered: usize,
    /// Calls that failed.
    pub failed: usize,
    /// Calls without an answer, cancelled ones among them.
    pub unanswered: usize,
    /// Calls that are no events; `skipped` says why.
    pub left_out: usize,
    /// Exact repeats of calls and answers, each taken once.
    pub duplicates: usize,
    /// Bytes that were read.
    pub bytes: usize,
    /// Lines that were read, if the recording has lines.
    pub lines: usize,
    /// Lines that aren't JSON or can't be held without loss: `skipped` says why.
    pub unreadable: usize,
    /// About how many bytes of arguments and results were held, at most at once.
    pub kept_bytes: usize,
    /// Strings in which a path prefix was replaced.
    pub remapped: usize,
    /// Calls whose tool was renamed.
    pub renamed: usize,
    /// What was not taken.
    pub skipped: Vec<Skipped>,
    /// Further parts that were not taken, beyond those that are listed.
    pub unlisted: usize,
    /// What a person should know; lower case, no final period.
    pub warnings: Vec<String>,
}

/// A part of a recording that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Where it is.
    pub place: Place,
    /// Why; lower case, no final period.
    pub reason: String,
}

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A recording.
    Recording(Imported),
    /// A workflow of another program.
    Workflow(ImportedWorkflow),
}

/// Imports what a stream holds. A recording of lines is never held as a whole.
pub fn import_any(reader: impl BufRead, options: &ImportOptions) -> Result<Found, Problems> {
    let mapping = remap::Mapping::new(&options.map)?;
    let renaming = rename::Renaming::new(&options.rename)?;
    match read::read(reader, options)? {
        read::Content::Workflow(value) => {
            let mut made = workflow::from_workflow_ir(&value, &|name| renaming.tool(name))?;
            made.report.remapped = mapping.apply_to_workflow(&mut made.workflow);
            Ok(Found::Workflow(made))
        }
        read::Content::Recording(recording) => {
            Ok(Found::Recording(finished(*recording, &mapping, &renaming)))
        }
    }
}

/// Imports a recording from a stream, and refuses what is none.
pub fn import(reader: impl BufRead, options: &ImportOptions) -> Result<Imported, Problems> {
    let mapping = remap::Mapping::new(&options.map)?;
    let renaming = rename::Renaming::new(&options.rename)?;
    match read::read(reader, options)? {
        read::Content::Workflow(_) => {
            let message = "the content is a workflow of Trace2MCP, not a recording; \
                           `t2m-host import FILE --out workflow.json` makes one of it that runs here";
            Err(Problem::new(Code::FormatUnknown, Place::Whole, message).into())
        }
        read::Content::Recording(recording) => Ok(finished(*recording, &mapping, &renaming)),
    }
}

fn finished(
    (mut trace, format, mut report): (Trace, Format, ImportReport),
    mapping: &remap::Mapping,
    renaming: &rename::Renaming,
) -> Imported {
    report.remapped = mapping.apply(&mut trace);
    if report.remapped == 0 && !mapping.is_empty() {
        report.warnings.push("`--map` fits no recorded path".to_owned());
    }
    report.renamed = renaming.apply(&mut trace, &mut report.warnings);
    report.warnings.extend(rename::advice(&trace));
    Imported { trace, format, report }
}

/// Imports a recording that is in memory already.
pub fn import_bytes(bytes: &[u8], options: &ImportOptions) -> Result<Imported, Problems> {
    import(bytes, options)
}

fn native(value: &Value) -> Result<(Trace, ImportReport), Problems> {
    let trace = super::parse::from_value(value)?;
    let mut report = ImportReport { calls: trace.events.len(), ..ImportReport::default() };
    for event in &trace.events {
        match event.status.as_str() {
            _ if event.status.is_success() => report.answered += 1,
            "unanswered" | "cancelled" => report.unanswered += 1,
            _ => report.failed += 1,
        }
    }
    if trace.events.is_empty() {
        report.warnings.push("the trace has no events".to_owned());
    }
    Ok((trace, report))
}

/// Trace v1's rule for a recorded tool name, which is wider than MCP's.
pub(super) fn is_recordable_tool(text: &str) -> bool {
    crate::id::NodeId::new(text).is_ok()
}

/// Longest tool name that leaves room for the number in an event id.
const MAX_NAMED_CHARS: usize = MAX_ID_CHARS - 8;

/// A readable event id: the tool and which call of it this is. The last dash splits it, so ids of
/// different tools can't meet.
fn event_id(tool: &str, count: usize) -> Option<crate::id::NodeId> {
    if tool.chars().count() > MAX_NAMED_CHARS {
        return None;
    }
    crate::id::NodeId::new(format!("{tool}-{count}")).ok()
}
