//! What a tool says of itself, and what it returns.
//!
//! Owns the descriptor, the result and the failure that every backend shares. Refuses protocol shapes:
//! the sandbox and the MCP door convert at their own edge.
//!
//! **Invariant:** [`Reply::value`] is the only rule for turning a result into the value that workflows
//! refer to, used for recordings and for live calls alike.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::effect::{Effect, Idempotency};
use crate::id::ToolName;

/// What a backend says of one tool. A claim, until a contract was reviewed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDescriptor {
    /// The name it is called by.
    pub name: ToolName,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// What it may do outside.
    pub effect: Effect,
    /// Whether it may be repeated.
    pub idempotency: Idempotency,
    /// Keys of what it reads; `{name}` stands for an argument.
    pub reads: Vec<String>,
    /// Keys of what it changes, in the same form.
    pub writes: Vec<String>,
}

/// One block of a result, after MCP's content blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Media type.
        mime_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Sound.
    Audio {
        /// Media type.
        mime_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Other bytes with the URI they belong to.
    Resource {
        /// URI of the resource.
        uri: String,
        /// Media type.
        mime_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// What a call used, as far as the backend can tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Fuel: about one unit for each Wasm instruction.
    pub fuel: u64,
    /// Highest sum of all linear memories, in bytes.
    pub memory_bytes: u64,
    /// Bytes of log messages.
    pub log_bytes: u64,
    /// Nested calls made.
    pub nested_calls: u32,
    /// Bytes written in granted folders.
    pub written_bytes: u64,
    /// HTTP requests, refused ones included.
    pub http_requests: u32,
    /// Bytes sent over HTTP.
    pub http_sent_bytes: u64,
    /// Bytes received over HTTP.
    pub http_received_bytes: u64,
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Blocks for people and models.
    pub content: Vec<Content>,
    /// The result for programs.
    pub structured: Option<Value>,
    /// What the call used.
    pub usage: Usage,
}

impl Reply {
    /// The value that later nodes refer to: the structured result, or the text if that is all there is.
    ///
    /// A result of text blocks only becomes `{"text": "..."}`, the blocks joined by line breaks. Blocks of
    /// bytes count by media type and size.
    pub fn value(&self) -> Value {
        if let Some(value) = &self.structured {
            return value.clone();
        }
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for block in &self.content {
            match block {
                Content::Text { text } => texts.push(text.as_str()),
                Content::Image { mime_type, data }
                | Content::Audio { mime_type, data }
                | Content::Resource { mime_type, data, .. } => {
                    others.push(json!({"mime_type": mime_type, "bytes": data.len()}));
                }
            }
        }
        let mut map = Map::new();
        map.insert("text".into(), Value::String(texts.join("\n")));
        if !others.is_empty() {
            map.insert("blocks".into(), Value::Array(others));
        }
        Value::Object(map)
    }
}

/// Why a backend returned nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// Stable code of the host's table.
    pub code: Code,
    /// The tool's own code, if the tool failed by itself.
    pub tool_code: Option<String>,
    /// For the caller: no host path, secret or stack.
    pub message: String,
    /// Whether the tool says that a later call may succeed.
    pub retryable: bool,
    /// More, in the tool's own shape.
    pub details: Option<Value>,
}

impl ToolFailure {
    /// A failure that the host found.
    pub fn host(code: Code, message: impl Into<String>) -> ToolFailure {
        ToolFailure { code, tool_code: None, message: message.into(), retryable: false, details: None }
    }
}
