//! Workflows as tools: what the door needs of whoever runs them.
//!
//! Owns the port. Refuses to run anything: the runtime does, and each node of a run passes the dispatch.
//!
//! **Invariant:** a workflow shows no milder annotations than the worst of its tools' contracts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use t2m_core::code::Code;
use t2m_core::dispatch::EventSink;
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::{RunId, ToolName};

/// What a client sees of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowTool {
    /// The name it is called by.
    pub name: ToolName,
    /// What it does.
    pub description: String,
    /// JSON Schema of its inputs.
    pub input_schema: Value,
    /// JSON Schema of its result, as far as its tools' contracts say.
    pub output_schema: Option<Value>,
    /// The worst effect of its tools.
    pub effect: Effect,
    /// Idempotent if all of its tools are.
    pub idempotency: Idempotency,
}

/// One call of a workflow.
pub struct WorkflowCall {
    /// The run that the call becomes.
    pub run: RunId,
    /// The inputs as the client gave them.
    pub inputs: Map<String, Value>,
    /// Who watches.
    pub events: Option<Arc<dyn EventSink>>,
    /// Resolves when the client no longer wants the result. The run then ends as a cancelled one does.
    pub cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why a workflow gave no result.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowFailure {
    /// Stable code.
    pub code: Code,
    /// What happened, for the model and the person behind it; may have several lines.
    pub message: String,
    /// More, for programs: an object.
    pub details: Map<String, Value>,
}

/// A run on its way.
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, WorkflowFailure>> + Send + 'a>>;

/// Something that runs one workflow.
pub trait WorkflowRunner: Send + Sync {
    /// What a client sees of it.
    fn tool(&self) -> &WorkflowTool;

    /// How many nodes it has, for progress.
    fn nodes(&self) -> usize;

    /// Runs it.
    fn run(&self, call: WorkflowCall) -> RunFuture<'_>;
}
