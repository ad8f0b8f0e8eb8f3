//! Telling formats apart.
//!
//! Owns the choice of a format from content, and the words for what was seen instead. Refuses names of
//! files: they say nothing certain.
//!
//! **Invariant:** content that fits no format is refused with a description, never read as something else.

use serde_json::Value;

use super::{
    Format, anthropic, atif, chat, claude, codex, cursor, gemini, known_names, mcp_wire, otlp, responses,
};
use crate::code::Code;
use crate::json::kind;
use crate::problem::{Place, Problem, Problems};

/// The format of one JSON document.
pub(super) fn of_document(value: &Value) -> Result<Format, Problems> {
    if crate::workflow::is_workflow_ir(value) {
        return Ok(Format::WorkflowIr);
    }
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
    let (first, last) = (&head.first()?.1, &head.last()?.1);
    if is_session_header(first) {
        return of_session(first, head.iter().map(|(_, value)| value), complete);
    }
    // The lines before the last one have been asked already.
    match last {
        value if claude::is_record(value) => Some(Format::ClaudeCode),
        value if codex::is_line(value) => Some(Format::Codex),
        value if codex::is_event(value) => Some(Format::CodexExec),
        value if mcp_wire::is_log(value) => Some(Format::McpWire),
        value if cursor::is_event(value) => Some(Format::CursorAgent),
        value => of_api(value),
    }
}

/// The format of what an API takes or gives, or a recorder made of it.
fn of_api(value: &Value) -> Option<Format> {
    // A file may hold several sessions, each of them a value of a list.
    if let Value::Array(list) = value {
        return list.iter().find_map(of_api);
    }
    if otlp::is_export(value) {
        return Some(Format::Otlp);
    }
    if atif::is_trajectory(value) {
        return Some(Format::Atif);
    }
    if gemini::is_session(value) {
        return Some(Format::GeminiCli);
    }
    let messages = value.get("messages").and_then(Value::as_array);
    let mut inside = messages.into_iter().flatten();
    if anthropic::is_telling(value) || inside.any(anthropic::is_telling) {
        return Some(Format::AnthropicMessages);
    }
    if chat::is_telling(value) || chat::is_conversation(value) {
        return Some(Format::OpenaiChat);
    }
    (responses::is_item(value) || responses::is_holder(value)).then_some(Format::OpenaiResponses)
}

fn is_session_header(value: &Value) -> bool {
    let has = |key: &str| value.get(key).is_some();
    value.get("type").and_then(Value::as_str) == Some("session")
        && value.get("id").is_some_and(Value::is_string)
        && (has("harness") || has("version") || has("cwd"))
}

/// Two formats begin with a line of the type `session`, and a header of Pi may name a harness too. Then the
/// messages tell: one has calls beside the content, the other has them in it.
fn of_session<'v>(header: &Value, values: impl Iterator<Item = &'v Value>, complete: bool) -> Option<Format> {
    if header.get("harness").is_none() {
        return Some(Format::Pi);
    }
    for value in values {
        let message = value.get("message").unwrap_or(&Value::Null);
        let role = message.get("role").and_then(Value::as_str);
        if value.get("parentId").is_some()
            || message.get("content").is_some_and(Value::is_array)
            || matches!(role, Some("toolResult" | "bashExecution"))
        {
            return Some(Format::Pi);
        }
        if role == Some("tool") || message.get("toolCalls").is_some() {
            return Some(Format::Sts);
        }
    }
    let is_pi = header.get("version").is_some() || header.get("cwd").is_some();
    complete.then_some(if is_pi { Format::Pi } else { Format::Sts })
}

/// The problem with lines that fit no format.
pub(super) fn unknown_lines(head: &[(usize, Value)]) -> Problems {
    if head.iter().any(|(_, value)| cursor::is_transcript(value)) {
        return unknown("a transcript of Cursor, which holds calls without ids and no results at all");
    }
    let first = head.first().map_or_else(|| "nothing".to_owned(), |(_, value)| describe(value));
    unknown(&format!("{} lines, first {first}", head.len()))
}

fn unknown(seen: &str) -> Problems {
    let message = format!("the content is {seen}; known formats are {}", known_names());
    Problem::new(Code::FormatUnknown, Place::Whole, message).into()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) if map.contains_key("$schema") || map.contains_key("$defs") => {
            "a JSON Schema, which holds no calls".to_owned()
        }
        Value::Object(map) if map.contains_key("resourceLogs") || map.contains_key("resourceMetrics") => {
            "logs or metrics in OTLP/JSON; only spans tell of calls with results".to_owned()
        }
        Value::Object(map) if map.get("_type").is_some_and(|kind| kind == "log") => {
            "a log event, which tells that a tool ran but neither its arguments nor its result".to_owned()
        }
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
