//! Tools and results in MCP's shape (2025-11-25, server/tools).
//!
//! Owns the conversion. Refuses to drop anything: what MCP has no field for goes under `_meta`.
//!
//! **Invariant:** annotations are made from the reviewed contract alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use t2m_core::contract::Contract;
use t2m_core::dispatch::{CallError, Registered};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::tool::{Content, Reply};

/// A tool as `tools/list` shows it.
pub(crate) fn tool(registered: &Registered, contract: &Contract) -> Value {
    let descriptor = &registered.descriptor;
    let mut value = json!({
        "name": descriptor.name,
        "description": descriptor.description,
        "inputSchema": contract.input_schema,
        "annotations": {
            "readOnlyHint": contract.effect.is_read_only(),
            "destructiveHint": matches!(contract.effect, Effect::Delete | Effect::Unknown),
            "idempotentHint": contract.idempotency == Idempotency::Idempotent,
            "openWorldHint": matches!(contract.effect, Effect::ExternalSideEffect | Effect::Unknown),
        },
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

/// A result as `tools/call` returns it.
pub(crate) fn result(reply: Reply) -> Value {
    let content: Vec<Value> = reply.content.into_iter().map(block).collect();
    let mut value = json!({"content": content, "isError": false});
    if let (Some(structured), Some(map)) = (reply.structured, value.as_object_mut()) {
        map.insert("structuredContent".into(), structured);
    }
    value
}

/// A failed or refused call: a result with `isError`, so that the model sees why.
pub(crate) fn error(error: &CallError) -> Value {
    let details = json!({
        "code": error.code,
        "message": error.message,
        "toolCode": error.tool_code,
        "retry": error.code.retry(),
        "next": error.code.next_action(),
        "faults": error.faults,
        "approval": error.approval.as_ref().map(|request| request.id()),
    });
    json!({
        "content": [{"type": "text", "text": format!("{}: {}", error.code, error.message)}],
        "isError": true,
        "_meta": {"t2m-host/error": details},
    })
}

fn block(content: Content) -> Value {
    match content {
        Content::Text { text } => json!({"type": "text", "text": text}),
        Content::Image { mime_type, data } => {
            json!({"type": "image", "mimeType": mime_type, "data": STANDARD.encode(data)})
        }
        Content::Audio { mime_type, data } => {
            json!({"type": "audio", "mimeType": mime_type, "data": STANDARD.encode(data)})
        }
        Content::Resource { uri, mime_type, data } => json!({
            "type": "resource",
            "resource": {"uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(data)},
        }),
        // Content grows with MCP; what this door can't show yet is named instead of lost.
        other => {
            json!({"type": "text", "text": format!("(a block of a kind that is not known here: {other:?})")})
        }
    }
}
