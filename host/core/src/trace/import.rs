//! Bringing recordings of other formats in.
//!
//! Owns the detection of formats from content, the report of what came in and what didn't, and one module
//! for each format. Refuses to invent: an effect, a dependency or an input that the recording doesn't
//! state stays unknown.
//!
//! **Invariant:** a file is imported with at least one call, or refused with a reason; every call found is
//! either an event of the trace or listed as skipped.

mod content;
mod mcp_wire;
mod remap;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use super::model::Trace;
use crate::code::Code;
use crate::id::MAX_ID_CHARS;
use crate::json::{Limits, kind};
use crate::problem::{Place, Problem, Problems};

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
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 2] = [Format::TraceV1, Format::McpWire];

    /// The name used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Format::TraceV1 => "trace-v1",
            Format::McpWire => "mcp-wire",
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
#[error("`{0}` is not a format; known are {known}", known = names())]
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

fn names() -> String {
    Format::ALL.map(|format| format!("`{format}`")).join(", ")
}

/// How to import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The format, if it isn't to be found from the content.
    pub from: Option<Format>,
    /// Path prefixes to replace: old and new.
    pub map: Vec<(String, String)>,
    /// How large the input may be.
    pub limits: Limits,
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
    /// Calls in the recording; all but the skipped ones are events.
    pub calls: usize,
    /// Calls with an answer that isn't a failure.
    pub answered: usize,
    /// Calls that failed.
    pub failed: usize,
    /// Calls without an answer, cancelled ones among them.
    pub unanswered: usize,
    /// Strings in which a path prefix was replaced.
    pub remapped: usize,
    /// What was not taken.
    pub skipped: Vec<Skipped>,
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

/// Imports a recording.
pub fn import(bytes: &[u8], options: &ImportOptions) -> Result<Imported, Problems> {
    if bytes.len() > options.limits.bytes {
        let message = format!("{} bytes, at most {} are read", bytes.len(), options.limits.bytes);
        return Err(Problem::new(Code::FileTooLarge, Place::Whole, message).into());
    }
    let mapping = remap::Mapping::new(&options.map)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let document = Document::read(bytes, options.limits);
    let format = match options.from {
        Some(format) => format,
        None => detect(&document)?,
    };
    let (mut trace, mut report) = match format {
        Format::TraceV1 => native(bytes, document, options.limits)?,
        Format::McpWire => mcp_wire::read(document)?,
    };
    report.remapped = mapping.apply(&mut trace);
    Ok(Imported { trace, format, report })
}

fn native(bytes: &[u8], document: Document, limits: Limits) -> Result<(Trace, ImportReport), Problems> {
    let trace = match document {
        Document::Whole(value) => super::parse::from_value(&value)?,
        Document::Lines { .. } | Document::Broken(_) => super::parse::parse(bytes, limits)?,
    };
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

/// The bytes as JSON, however they are laid out.
enum Document {
    /// One JSON text.
    Whole(Value),
    /// One JSON text a line.
    Lines {
        /// Line number and value.
        entries: Vec<(usize, Value)>,
        /// Lines that aren't JSON.
        problems: Vec<Problem>,
        /// The number of a last line that breaks off.
        partial: Option<usize>,
    },
    /// Neither.
    Broken(Problems),
}

impl Document {
    fn read(bytes: &[u8], limits: Limits) -> Document {
        let mut lines = numbered_lines(bytes);
        let first = lines.next().map(|(_, line)| line);
        let several = lines.next().is_some();
        if several && first.is_some_and(|line| starts_json_lines(line, limits)) {
            return Document::read_lines(bytes, limits);
        }
        match crate::json::parse(bytes, limits) {
            Ok(value) => Document::Whole(value),
            Err(problems) => Document::Broken(problems),
        }
    }

    fn read_lines(bytes: &[u8], limits: Limits) -> Document {
        let (mut entries, mut problems, mut partial) = (Vec::new(), Vec::new(), None);
        let complete = bytes.ends_with(b"\n");
        let mut lines = numbered_lines(bytes).peekable();
        while let Some((number, line)) = lines.next() {
            let Some(json) = payload(line) else { continue };
            match crate::json::parse(json, limits) {
                Ok(value) => entries.push((number, value)),
                // A file that is still being written ends in the middle of a line.
                Err(found) if lines.peek().is_none() && !complete && found.code() == Code::JsonSyntax => {
                    partial = Some(number);
                }
                Err(found) => problems.extend(found.into_list().into_iter().map(|p| on_line(number, p))),
            }
        }
        Document::Lines { entries, problems, partial }
    }
}

/// Lines that hold something, counted from 1.
fn numbered_lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty())
}

fn starts_json_lines(line: &[u8], limits: Limits) -> bool {
    payload(line).is_none_or(|json| {
        let open = matches!(json.first(), Some(b'{' | b'['));
        // A pretty-printed document may begin with a line like `[`, which is no value by itself.
        open && crate::json::parse(json, limits).map_or_else(|p| p.code() != Code::JsonSyntax, |_| true)
    })
}

/// The JSON of a line; a recorded event stream has it behind `data:` and other fields beside it.
fn payload(line: &[u8]) -> Option<&[u8]> {
    if let Some(data) = line.strip_prefix(b"data:") {
        return Some(data.trim_ascii());
    }
    let noise: [&[u8]; 4] = [b"event:", b"id:", b"retry:", b":"];
    (!noise.iter().any(|prefix| line.starts_with(prefix))).then_some(line)
}

fn on_line(number: usize, problem: Problem) -> Problem {
    let place = match problem.place {
        Place::LineColumn(_, column) => Place::LineColumn(number, column),
        Place::Pointer(pointer) => Place::LinePointer(number, pointer),
        _ => Place::Line(number),
    };
    Problem { place, ..problem }
}

fn detect(document: &Document) -> Result<Format, Problems> {
    let seen = match document {
        Document::Broken(problems) => {
            // A text that begins like JSON is a damaged file of ours rather than another format.
            return Err(problems.clone());
        }
        Document::Whole(value) => {
            if value.get("events").is_some() {
                return Ok(Format::TraceV1);
            }
            if mcp_wire::is_log(value) {
                return Ok(Format::McpWire);
            }
            match value.get("format").and_then(Value::as_str) {
                Some(format) if format.starts_with("t2m/workflow@") => "a workflow, ready to run".to_owned(),
                Some(format) if format.starts_with("t2m/") => format!("a file of the format `{format}`"),
                _ => describe(value),
            }
        }
        Document::Lines { entries, .. } => {
            if entries.iter().any(|(_, value)| mcp_wire::is_log(value)) {
                return Ok(Format::McpWire);
            }
            let first = entries.first().map_or_else(|| "nothing".to_owned(), |(_, value)| describe(value));
            format!("{} lines, first {first}", entries.len())
        }
    };
    let message = format!("the content is {seen}; known formats are {}", names());
    Err(Problem::new(Code::FormatUnknown, Place::Whole, message).into())
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let keys: Vec<String> =
                map.keys().take(6).map(|key| format!("`{}`", key.escape_debug())).collect();
            format!("an object with {}", keys.join(", "))
        }
        Value::Array(list) => match list.first() {
            Some(first @ Value::Object(_)) => format!("a list of {}, first {}", list.len(), describe(first)),
            Some(first) => format!("a list of {}, first {}", list.len(), kind(first)),
            None => "an empty list".to_owned(),
        },
        other => kind(other).to_owned(),
    }
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
