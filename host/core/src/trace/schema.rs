//! The published JSON Schema of Trace v1.
//!
//! Owns the schema's text. Refuses rules that JSON Schema can't say: unique ids, no self reference and
//! case-folded names are `parse`'s alone.
//!
//! **Invariant:** whatever `parse` accepts in its canonical spelling the schema allows.

use serde_json::{Value, json};

use super::model::MAX_EVENTS;
use crate::effect::{Effect, Idempotency};

/// The published JSON Schema of the trace file.
pub fn json_schema() -> Value {
    let id = json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\r\\n\\u0000]*$"});
    let time = json!({
        "description": "seconds or milliseconds since 1970, or ISO 8601 text",
        "type": ["number", "string", "null"],
    });
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trace, version 1",
        "type": "object",
        "required": ["inputs", "events"],
        "properties": {
            "version": {"enum": ["1", "1.0"], "default": "1"},
            "trace_version": {"description": "another name of `version`", "enum": ["1", "1.0"]},
            "trace_ir_version": {"enum": ["1", 1]},
            "run_id": {"type": ["string", "null"]},
            "name": {"type": ["string", "null"]},
            "inputs": {"type": "object"},
            "events": {"type": "array", "maxItems": MAX_EVENTS, "items": {"$ref": "#/$defs/event"}},
            "metadata": {"type": "object"},
        },
        "$defs": {
            "event": {
                "type": "object",
                "required": ["id", "tool", "arguments"],
                "properties": {
                    "id": id,
                    "tool": id,
                    "arguments": {"type": "object"},
                    "result": {},
                    "status": {
                        "description": "successful only if `success`, `succeeded` or `ok`",
                        "type": "string", "default": "success",
                    },
                    "started_at": time,
                    "ended_at": time,
                    "duration_ms": {"type": ["number", "null"], "minimum": 0},
                    "side_effect": {"enum": Effect::ALL, "default": Effect::Unknown},
                    "idempotency": {"enum": Idempotency::ALL, "default": Idempotency::Unknown},
                    "dependencies": {"type": "array", "items": id},
                    "depends_on": {"description": "another name of `dependencies`", "type": "array", "items": id},
                    "reads": texts,
                    "writes": texts,
                    "metadata": {"type": "object"},
                },
            },
        },
    })
}
