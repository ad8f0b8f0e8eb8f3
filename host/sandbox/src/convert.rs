//! Between the types of `wit/` and those of the core.
//!
//! Owns every translation, including the check of what a component says it offers. Refuses to change a
//! value: numbers keep their text, bytes stay bytes.
//!
//! **Invariant:** JSON from a guest is read once, by the core's strict reader.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::dispatch::CallError;
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::ToolName;
use t2m_core::json::{Limits, parse};
use t2m_core::tool::{Content, Reply, ToolDescriptor, ToolFailure, Usage};

use crate::bindings::{Tool, types};
use crate::state::printable;

/// Most tools of one plugin: more than that no client lists with patience.
pub(crate) const MAX_TOOLS: usize = 1_000;

/// Longest code of a tool's own, in characters.
const MAX_TOOL_CODE: usize = 64;

/// Longest message of a failed tool, in characters.
const MAX_MESSAGE: usize = 16 << 10;

fn json_limits(bytes: usize) -> Limits {
    Limits { bytes, ..Limits::default() }
}

/// Checks what `describe` returned and reports everything that is wrong with it.
pub(crate) fn descriptors(tools: Vec<Tool>, bytes: usize) -> Result<Vec<ToolDescriptor>, Vec<String>> {
    let mut problems = Vec::new();
    if tools.len() > MAX_TOOLS {
        problems.push(format!("{} tools, at most {MAX_TOOLS} are taken", tools.len()));
        return Err(problems);
    }
    let mut names = BTreeSet::new();
    let mut list = Vec::new();
    for tool in tools {
        let schema = |which: &str, text: &str, problems: &mut Vec<String>| match parse(
            text.as_bytes(),
            json_limits(bytes),
        ) {
            Ok(schema @ (Value::Object(_) | Value::Bool(_))) => Some(schema),
            Ok(_) => {
                problems.push(format!(
                    "{which} schema of `{}` is neither an object nor a boolean",
                    printable(&tool.name)
                ));
                None
            }
            Err(found) => {
                let first = found.iter().next().map(ToString::to_string).unwrap_or_default();
                problems
                    .push(format!("{which} schema of `{}` can't be read: {first}", printable(&tool.name)));
                None
            }
        };
        let input = schema("input", &tool.input_schema, &mut problems);
        let output = tool.output_schema.as_deref().map(|text| schema("output", text, &mut problems));
        let name = match ToolName::new(tool.name.as_str()) {
            Ok(name) if !names.insert(name.clone()) => {
                problems.push(format!("tool `{name}` is described twice"));
                continue;
            }
            Ok(name) => name,
            Err(error) => {
                problems.push(error.to_string());
                continue;
            }
        };
        let Some(input_schema) = input else { continue };
        list.push(ToolDescriptor {
            name,
            title: tool.title,
            description: tool.description,
            input_schema,
            output_schema: output.flatten(),
            effect: effect(tool.effect),
            idempotency: idempotency(tool.idempotency),
            reads: tool.reads,
            writes: tool.writes,
        });
    }
    if problems.is_empty() { Ok(list) } else { Err(problems) }
}

fn effect(effect: types::Effect) -> Effect {
    match effect {
        types::Effect::Pure => Effect::Pure,
        types::Effect::Read => Effect::Read,
        types::Effect::Write => Effect::Write,
        types::Effect::Delete => Effect::Delete,
        types::Effect::ExternalSideEffect => Effect::ExternalSideEffect,
        types::Effect::Unknown => Effect::Unknown,
    }
}

fn idempotency(idempotency: types::Idempotency) -> Idempotency {
    match idempotency {
        types::Idempotency::Idempotent => Idempotency::Idempotent,
        types::Idempotency::NonIdempotent => Idempotency::NonIdempotent,
        types::Idempotency::Unknown => Idempotency::Unknown,
    }
}

/// What a tool returned, as the core sees it.
pub(crate) fn reply(result: types::ToolResult, usage: Usage, bytes: usize) -> Result<Reply, ToolFailure> {
    let structured = match result.structured {
        None => None,
        Some(text) => match parse(text.as_bytes(), json_limits(bytes)) {
            Ok(value) => Some(value),
            Err(problems) => {
                let first = problems.iter().next().map(ToString::to_string).unwrap_or_default();
                let message = format!("the structured result can't be read: {first}");
                return Err(ToolFailure::host(Code::ResultNotJson, message));
            }
        },
    };
    Ok(Reply { content: result.content.into_iter().map(content).collect(), structured, usage })
}

fn content(block: types::Content) -> Content {
    match block {
        types::Content::Text(text) => Content::Text { text },
        types::Content::Image(types::Media { mime_type, data }) => Content::Image { mime_type, data },
        types::Content::Audio(types::Media { mime_type, data }) => Content::Audio { mime_type, data },
        types::Content::Resource(types::EmbeddedResource { uri, media }) => {
            Content::Resource { uri, mime_type: media.mime_type, data: media.data }
        }
    }
}

/// What a tool says of its own failure, as the core sees it.
pub(crate) fn failure(error: types::ToolError, bytes: usize) -> ToolFailure {
    let details = error.details.map(|text| {
        // A failure is reported even if its details are no JSON.
        parse(text.as_bytes(), json_limits(bytes)).unwrap_or(Value::String(text))
    });
    ToolFailure {
        code: Code::ToolFailed,
        tool_code: Some(tool_code(&error.code)),
        message: message(&error.message),
        retryable: error.retryable,
        details,
    }
}

/// A tool's own code, no longer than one may be.
pub(crate) fn tool_code(code: &str) -> String {
    code.chars().take(MAX_TOOL_CODE).collect()
}

/// A tool's own words, no longer than they may be.
pub(crate) fn message(words: &str) -> String {
    words.chars().take(MAX_MESSAGE).collect()
}

/// What a nested call returned, as the guest sees it.
pub(crate) fn to_guest(reply: Reply) -> types::ToolResult {
    let content = reply.content.into_iter().filter_map(|block| {
        let media = |mime_type, data| types::Media { mime_type, data };
        Some(match block {
            Content::Text { text } => types::Content::Text(text),
            Content::Image { mime_type, data } => types::Content::Image(media(mime_type, data)),
            Content::Audio { mime_type, data } => types::Content::Audio(media(mime_type, data)),
            Content::Resource { uri, mime_type, data } => {
                types::Content::Resource(types::EmbeddedResource { uri, media: media(mime_type, data) })
            }
            // A kind of block that this version of `wit/` has no word for.
            _ => return None,
        })
    });
    types::ToolResult {
        content: content.collect(),
        structured: reply.structured.map(|value| value.to_string()),
    }
}

/// Why a nested call failed, as the guest sees it: the host's code, and the other tool's own below it.
pub(crate) fn error_to_guest(error: CallError) -> types::ToolError {
    let details = if error.tool_code.is_some() || error.details.is_some() {
        Some(json!({"tool_code": error.tool_code, "details": error.details}).to_string())
    } else {
        None
    };
    types::ToolError {
        code: error.code.as_str().to_owned(),
        message: error.message,
        retryable: error.retryable,
        details,
    }
}

/// A nested call that the host turns down by itself.
pub(crate) fn refusal(code: Code, message: &str) -> types::ToolError {
    types::ToolError {
        code: code.as_str().to_owned(),
        message: message.to_owned(),
        retryable: false,
        details: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, input: &str) -> Tool {
        Tool {
            name: name.into(),
            title: None,
            description: String::new(),
            input_schema: input.into(),
            output_schema: None,
            effect: types::Effect::Pure,
            idempotency: types::Idempotency::Idempotent,
            reads: vec![],
            writes: vec![],
        }
    }

    /// P01: everything that is wrong with a description is reported at once.
    #[test]
    fn every_fault_of_a_description_is_reported() {
        let tools =
            vec![tool("a", "{}"), tool("a", "{}"), tool("b c", "{}"), tool("d", "{"), tool("e", "[1]")];
        let problems = descriptors(tools, 1 << 20).unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(descriptors(vec![tool("a", "{}")], 1 << 20).unwrap()[0].effect, Effect::Pure);
        assert_eq!(descriptors(vec![tool("a", "{}"); MAX_TOOLS + 1], 9).unwrap_err().len(), 1);
    }

    /// P01: a structured result that isn't JSON, or has a key twice, is a failure of the plugin.
    #[test]
    fn a_result_that_is_not_json_has_its_own_code() {
        let result = |text: &str| types::ToolResult { content: vec![], structured: Some(text.into()) };
        for bad in ["{", "nan", r#"{"a":1,"a":2}"#, "[1,2,3]"] {
            let failure = reply(result(bad), Usage::default(), 20).map(|r| r.structured).map_err(|f| f.code);
            let expected =
                if bad == "[1,2,3]" { Ok(Some(json!([1, 2, 3]))) } else { Err(Code::ResultNotJson) };
            assert_eq!(failure, expected, "{bad}");
        }
    }
}
