//! A call before and after its checks.
//!
//! Owns the request, the cleared call and the failure. Refuses public ways to make a [`ClearedCall`].
//!
//! **Invariant:** a `ClearedCall` holds exactly the arguments that were approved, validated and guarded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::pipeline::Dispatcher;
use super::ports::BoxFuture;
use crate::approval::ApprovalRequest;
use crate::code::Code;
use crate::digest::Digest;
use crate::effect::Effect;
use crate::event::Stage;
use crate::id::{NodeId, RunId, ToolName};
use crate::schema::Fault;
use crate::tool::{Reply, ToolFailure};
use crate::workflow::VerifiedWorkflow;

/// Why a call may be made at all.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A node of a verified workflow.
    Workflow {
        /// The workflow.
        workflow: Arc<VerifiedWorkflow>,
        /// The inputs of the run.
        inputs: Arc<Map<String, Value>>,
    },
    /// A person or client named the tool.
    Direct,
    /// A running call made it; only [`NestedCalls`] can say so.
    Nested(NestedOrigin),
}

/// The running call behind a nested one.
#[derive(Debug, Clone)]
pub struct NestedOrigin {
    pub(super) workflow: Option<Digest>,
    /// The node of the call that makes the call.
    pub(super) node: NodeId,
    /// The effect of the contract of the tool that makes the call.
    pub(super) effect: Effect,
    pub(super) depth: u32,
    pub(super) budget: Arc<AtomicU32>,
}

/// A call that wants to be made.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// Why it may be made.
    pub origin: Origin,
    /// The run it belongs to.
    pub run: RunId,
    /// The node, or a name below one.
    pub node: NodeId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The tool.
    pub tool: ToolName,
    /// The arguments, fully resolved.
    pub arguments: Value,
    /// Longest time for the handler; the backend's own limit applies as well.
    pub timeout: Option<Duration>,
}

/// What a handler may know about the call it serves.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Longest time for the handler.
    pub timeout: Option<Duration>,
}

impl CallContext {
    /// A text that is equal for every attempt at one node of one run, and for nothing else.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run, self.node)
    }
}

/// How far calls from handlers may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedLimits {
    /// Levels below the first call. 4: a tool, a helper, its helper, and one to spare.
    pub depth: u32,
    /// Nested calls under one first call, all levels together. 64 is plenty for a tool and little for a bomb.
    pub calls: u32,
}

impl Default for NestedLimits {
    fn default() -> NestedLimits {
        NestedLimits { depth: 4, calls: 64 }
    }
}

/// A call that passed every check. It can't be made outside the dispatch.
pub struct ClearedCall {
    pub(super) tool: ToolName,
    pub(super) effect: Effect,
    pub(super) arguments: Arc<Value>,
    pub(super) context: CallContext,
    pub(super) nested: NestedCalls,
}

impl ClearedCall {
    /// The tool to run.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// What it may do outside, by its reviewed contract. A backend must give the handler no more than that.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Its arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// What the handler may know.
    pub fn context(&self) -> &CallContext {
        &self.context
    }

    /// The way for the handler to call other tools.
    pub fn nested(&self) -> &NestedCalls {
        &self.nested
    }
}

impl fmt::Debug for ClearedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClearedCall({} of {})", self.tool, self.context.node)
    }
}

/// A running handler's way to call other tools. Every such call passes the whole pipeline.
pub struct NestedCalls {
    pub(super) caller: Caller,
    /// Numbers the calls of this handler.
    pub(super) made: AtomicU32,
}

/// Who makes nested calls.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) run: RunId,
    pub(super) node: NodeId,
    pub(super) workflow: Option<Digest>,
    pub(super) effect: Effect,
    pub(super) depth: u32,
    /// What is left for the whole tree of calls under the first one.
    pub(super) budget: Arc<AtomicU32>,
}

impl NestedCalls {
    /// Calls a tool on behalf of the handler that holds this.
    pub fn call(&self, tool: &str, arguments: Value) -> BoxFuture<'static, Result<Reply, CallError>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let (caller, tool) = (self.caller.clone(), tool.to_owned());
        Box::pin(async move { caller.make(number, tool, arguments).await })
    }

    /// How many calls this handler made so far.
    pub fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Levels above the handler that holds this: 0 for a first call.
    pub fn depth(&self) -> u32 {
        self.caller.depth
    }
}

impl Caller {
    async fn make(self, number: u32, tool: String, arguments: Value) -> Result<Reply, CallError> {
        let limits = self.dispatcher.nested_limits();
        let name = ToolName::new(tool.as_str());
        let refuse = |code, message: String| {
            let error = CallError::new(Stage::Verify, code, message);
            self.dispatcher.refused_nested(&self, number, name.as_ref().ok().cloned(), &arguments, &error);
            error
        };
        let depth = self.depth + 1;
        if depth > limits.depth {
            let message = format!("nested calls go at most {} levels deep", limits.depth);
            return Err(refuse(Code::NestedTooDeep, message));
        }
        let taken =
            self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            let message = format!("one call may make at most {} nested calls", limits.calls);
            return Err(refuse(Code::NestedTooMany, message));
        }
        let tool = match &name {
            Ok(tool) => tool.clone(),
            Err(error) => return Err(refuse(Code::ToolUnknown, error.to_string())),
        };
        // A node id may be 256 characters long; a nested one keeps its own end readable.
        let parent = self.node.as_str();
        let head = if parent.chars().count() <= 100 {
            parent.to_owned()
        } else {
            let start: String = parent.chars().take(34).collect();
            format!("{start}~{}", Digest::of_bytes(parent.as_bytes()).hex())
        };
        let node = NodeId::new(format!("{head}/{tool}#{number}"))
            .map_err(|error| refuse(Code::Internal, error.to_string()))?;
        let origin = Origin::Nested(NestedOrigin {
            workflow: self.workflow,
            node: self.node.clone(),
            effect: self.effect,
            depth,
            budget: Arc::clone(&self.budget),
        });
        let request =
            CallRequest { origin, run: self.run.clone(), node, attempt: 1, tool, arguments, timeout: None };
        self.dispatcher.dispatch(request).await
    }
}

impl fmt::Debug for NestedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NestedCalls(depth {})", self.depth())
    }
}

/// Why a call gave no result.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CallError {
    /// Stable code.
    pub code: Code,
    /// Where it ended. Before [`Stage::Handler`] nothing ran.
    pub stage: Stage,
    /// What happened, for the caller.
    pub message: String,
    /// The tool's own code, if the tool failed by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_code: Option<String>,
    /// Whether the tool says that a later call may succeed.
    pub retryable: bool,
    /// More from the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// What the schema doesn't allow, for the schema stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What has to be approved, and under which id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalRequest>>,
}

impl CallError {
    pub(super) fn new(stage: Stage, code: Code, message: impl Into<String>) -> CallError {
        CallError {
            code,
            stage,
            message: message.into(),
            tool_code: None,
            retryable: false,
            details: None,
            faults: Vec::new(),
            approval: None,
        }
    }

    /// A refusal that was found before the run, for checks that only the host's wiring can make.
    pub fn before_run(stage: Stage, code: Code, message: impl Into<String>) -> CallError {
        CallError::new(stage, code, message)
    }

    pub(super) fn of_handler(failure: ToolFailure) -> CallError {
        CallError {
            tool_code: failure.tool_code,
            retryable: failure.retryable,
            details: failure.details,
            ..CallError::new(Stage::Handler, failure.code, failure.message)
        }
    }

    /// Whether the handler may have acted.
    pub fn may_have_acted(&self) -> bool {
        self.stage >= Stage::Handler
    }
}
