//! Tools and results in MCP's shape (2025-11-25 and 2026-07-28, server/tools).
//!
//! Owns the conversion. Refuses to drop anything: what MCP has no field for goes under `_meta`.
//!
//! **Invariant:** annotations are made from reviewed contracts alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents};
use serde_json::{Map, Value, json};
use t2m_core::code::Code;
use t2m_core::contract::Contract;
use t2m_core::dispatch::{CallError, Registered};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::tool::{Content, Reply};

use crate::workflow::{WorkflowFailure, WorkflowTool};

/// Where a failed result carries its code and details.
pub(crate) const ERROR_META: &str = "t2m-host/error";

/// A tool as `tools/list` shows it.
pub(crate) fn tool(registered: &Registered, contract: &Contract) -> Value {
    let descriptor = &registered.descriptor;
    let mut value = json!({
        "name": descriptor.name,
        "description": descriptor.description,
        "inputSchema": contract.input_schema,
        "annotations": annotations(contract.effect, contract.idempotency),
    });
    if let Some(map) = value.as_object_mut() {
        if let Some(title) = &descriptor.title {
            map.insert("title".into(), json!(title));
        }
        if let Some(schema) = &contract.output_schema {
            map.insert("outputSchema".into(), schema.clone());
        }
    }
    value
}

/// A workflow as `tools/list` shows it.
pub(crate) fn workflow(tool: &WorkflowTool) -> Value {
    let mut value = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": annotations(tool.effect, tool.idempotency),
    });
    if let (Some(map), Some(schema)) = (value.as_object_mut(), &tool.output_schema) {
        map.insert("outputSchema".into(), schema.clone());
    }
    value
}

fn annotations(effect: Effect, idempotency: Idempotency) -> Value {
    json!({
        "readOnlyHint": effect.is_read_only(),
        // A write may replace what was there; no contract says that it only adds.
        "destructiveHint": !effect.is_read_only(),
        "idempotentHint": idempotency == Idempotency::Idempotent,
        "openWorldHint": matches!(effect, Effect::ExternalSideEffect | Effect::Unknown),
    })
}

/// A result as `tools/call` returns it.
pub(crate) fn result(reply: Reply) -> CallToolResult {
    let mut result = CallToolResult::success(reply.content.into_iter().map(block).collect());
    result.structured_content = reply.structured;
    result
}

/// A workflow's result: structured, and as text for clients that read only that.
pub(crate) fn output(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}

/// The result of a tool's call, for a recording.
pub fn result_json(outcome: Result<&Reply, &CallError>) -> Value {
    json_of(match outcome {
        Ok(reply) => result(reply.clone()),
        Err(error) => described(error),
    })
}

/// The result of a workflow's call, for a recording.
pub fn workflow_result_json(outcome: Result<&Value, &WorkflowFailure>) -> Value {
    json_of(match outcome {
        Ok(value) => output(value.clone()),
        Err(failure) => workflow_failure(failure.clone()),
    })
}

fn json_of(result: CallToolResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

/// A failed or refused call: a result with `isError`, so that the model sees why.
pub(crate) fn error(error: &CallError) -> CallToolResult {
    if error.approval.is_some() {
        // The person who can approve reads the log; the client's user reads the result. Arguments stay out.
        tracing::warn!(
            "{}; to approve it, add the id to the file of `--approvals` and reload",
            error.message
        );
    }
    described(error)
}

fn described(error: &CallError) -> CallToolResult {
    let mut details = Map::new();
    let mut put = |name: &str, value: Value| {
        details.insert(name.to_owned(), value);
    };
    put("stage", json!(error.stage));
    if let Some(code) = &error.tool_code {
        put("toolCode", json!(code));
    }
    if let Some(more) = &error.details {
        put("details", more.clone());
    }
    if !error.faults.is_empty() {
        put("faults", json!(error.faults));
    }
    if let Some(request) = &error.approval {
        put("approval", json!(request.id()));
    }
    // All that a model can act on is in the text; most clients show it nothing else.
    let mut message = error.message.clone();
    for fault in error.faults.iter().skip(1) {
        let place = if fault.pointer.is_empty() { "the top level" } else { &fault.pointer };
        message.push_str(&format!("; at {place}: {}", fault.message));
    }
    if let Some(code) = &error.tool_code {
        message.push_str(&format!(" (the tool's own code: {code})"));
    }
    failed(error.code, &message, details)
}

/// A workflow that gave no result.
pub(crate) fn workflow_failure(failure: WorkflowFailure) -> CallToolResult {
    failed(failure.code, &failure.message, failure.details)
}

fn failed(code: Code, message: &str, mut details: Map<String, Value>) -> CallToolResult {
    let next = code.next_action();
    details.insert("code".into(), json!(code));
    details.insert("message".into(), json!(message));
    details.insert("retry".into(), json!(code.retry()));
    details.insert("next".into(), json!(next));
    let text = format!("{code}: {message}\nnext: {next}");
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let mut meta = MetaObject::default();
    meta.0.insert(ERROR_META.to_owned(), Value::Object(details));
    result.meta = Some(meta);
    result
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::text(text),
        Content::Image { mime_type, data } => ContentBlock::image(STANDARD.encode(data), mime_type),
        Content::Audio { mime_type, data } => ContentBlock::audio(STANDARD.encode(data), mime_type),
        Content::Resource { uri, mime_type, data } => {
            let blob = ResourceContents::blob(STANDARD.encode(data), uri);
            ContentBlock::resource(blob.with_mime_type(mime_type))
        }
        // Content grows with MCP; what this door can't show yet is named instead of lost.
        other => ContentBlock::text(format!("(a block of a kind that is not known here: {other:?})")),
    }
}
