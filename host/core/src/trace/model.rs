//! The parts of a trace.
//!
//! Owns plain data. Refuses checks across events: those are `parse`'s.
//!
//! **Invariant:** a [`Status`] is a success only if its text says so; whatever else it says counts as a
//! failure.

use serde_json::{Map, Value};

use super::time::Timestamp;
use crate::effect::{Effect, Idempotency};
use crate::id::NodeId;

/// Most events of one trace, Trace v1's limit.
pub const MAX_EVENTS: usize = 100_000;

/// One recorded session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The recorder's id of the session.
    pub run_id: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// What the session was given, by name.
    pub inputs: Map<String, Value>,
    /// The calls, in recorded order.
    pub events: Vec<Event>,
    /// Whatever else the recorder noted.
    pub metadata: Map<String, Value>,
}

/// The key of [`Trace::metadata`] under which importers keep, as a list of texts, where calls may be missing: a line
/// that couldn't be read, or that a recorder lost. Nothing that needs the whole session is concluded then.
pub const GAPS: &str = "calls_may_be_missing";

/// One recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Unique in its trace.
    pub id: NodeId,
    /// The tool's name as recorded. It may break the rule of MCP; the compiler refuses it then.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The result; null if there was none.
    pub result: Value,
    /// How it ended.
    pub status: Status,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// What the recorder says the call may do outside. A claim.
    pub effect: Effect,
    /// Whether the recorder says that it may be repeated. A claim.
    pub idempotency: Idempotency,
    /// Ids of events that it declares to need.
    pub dependencies: Vec<NodeId>,
    /// Keys of what it declares to read.
    pub reads: Vec<String>,
    /// Keys of what it declares to change.
    pub writes: Vec<String>,
    /// Whatever else the recorder noted.
    pub metadata: Map<String, Value>,
    /// Fields that Trace v1 doesn't know, kept as they were.
    pub other: Map<String, Value>,
}

impl Event {
    /// An event with its required fields, successful and without any claim.
    pub fn new(id: NodeId, tool: impl Into<String>, arguments: Map<String, Value>) -> Event {
        Event {
            id,
            tool: tool.into(),
            arguments,
            result: Value::Null,
            status: Status::success(),
            started_at: None,
            ended_at: None,
            duration_ms: None,
            effect: Effect::Unknown,
            idempotency: Idempotency::Unknown,
            dependencies: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            metadata: Map::new(),
            other: Map::new(),
        }
    }
}

/// How a call ended, in the recorder's own word, lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status(String);

impl Status {
    /// Keeps the word in lower case.
    pub fn new(text: &str) -> Status {
        Status(text.to_lowercase())
    }

    /// `success`.
    pub fn success() -> Status {
        Status("success".to_owned())
    }

    /// `failed`.
    pub fn failed() -> Status {
        Status("failed".to_owned())
    }

    /// `unanswered`: the recording ends before the answer.
    pub fn unanswered() -> Status {
        Status("unanswered".to_owned())
    }

    /// `cancelled`.
    pub fn cancelled() -> Status {
        Status("cancelled".to_owned())
    }

    /// Whether the call is known to have succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self.0.as_str(), "success" | "succeeded" | "ok")
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
