//! Telling formats apart.
//!
//! Owns the choice of a format from content, and the words for what was seen instead. Refuses names of
//! files: they say nothing certain.
//!
//! **Invariant:** content that fits no format is refused with a description, never read as something else.

use serde_json::Value;

use super::{Format, mcp_wire, names, sts};
use crate::code::Code;
use crate::json::kind;
use crate::problem::{Place, Problem, Problems};

/// The format of one JSON document.
pub(super) fn of_document(value: &Value) -> Result<Format, Problems> {
    if value.get("events").is_some() {
        return Ok(Format::TraceV1);
    }
    if mcp_wire::is_log(value) {
        return Ok(Format::McpWire);
    }
    let format = value.get("format").and_then(Value::as_str);
    Err(match format {
        Some(format) if format.starts_with("t2m/workflow@") => unknown("a workflow, ready to run"),
        Some(format) if format.starts_with("t2m/") => unknown(&format!("a file of the format `{format}`")),
        _ => match of_lines(&[(1, value.clone())], true) {
            Some(format) => return Ok(format),
            None => unknown(&describe(value)),
        },
    })
}

/// The format of lines that begin with these, if they say. `complete` says that no more will be looked at.
pub(super) fn of_lines(head: &[(usize, Value)], complete: bool) -> Option<Format> {
    let first = |is: fn(&Value) -> bool| head.iter().any(|(_, value)| is(value));
    let _ = complete;
    if first(sts::is_header) {
        return Some(Format::Sts);
    }
    first(mcp_wire::is_log).then_some(Format::McpWire)
}

/// The problem with lines that fit no format.
pub(super) fn unknown_lines(head: &[(usize, Value)]) -> Problems {
    let first = head.first().map_or_else(|| "nothing".to_owned(), |(_, value)| describe(value));
    unknown(&format!("{} lines, first {first}", head.len()))
}

fn unknown(seen: &str) -> Problems {
    let message = format!("the content is {seen}; known formats are {}", names());
    Problem::new(Code::FormatUnknown, Place::Whole, message).into()
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
