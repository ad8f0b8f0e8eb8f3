//! What happens while calls and runs proceed, for whoever watches.
//!
//! Owns the events and their order. Refuses to carry arguments or results: an event is safe to show.
//!
//! **Invariant:** for one attempt the stage events come in the order of [`Stage`], each at most once, and
//! nothing follows a refused one.

use serde::Serialize;

use crate::code::Code;
use crate::id::{NodeId, RunId, ToolName};

/// The checks of a call and its handler, in their fixed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The call belongs to a verified workflow, to a running call, or was asked for directly.
    Verify,
    /// The tool is registered, and its handler is the one that the reviewed contract names.
    Bind,
    /// The operator's rules.
    Policy,
    /// A person's approval, where the policy asks for one.
    Approval,
    /// The arguments match the contract's input schema.
    InputSchema,
    /// The guard's last word.
    Guard,
    /// What was decided is in the audit log.
    Audit,
    /// The tool itself.
    Handler,
    /// The result matches the contract's output schema.
    OutputSchema,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 9] = [
        Stage::Verify,
        Stage::Bind,
        Stage::Policy,
        Stage::Approval,
        Stage::InputSchema,
        Stage::Guard,
        Stage::Audit,
        Stage::Handler,
        Stage::OutputSchema,
    ];
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "code")]
pub enum StageOutcome {
    /// It said yes.
    Passed,
    /// There was nothing to ask: no approval needed, no guard configured, no audit log, no output schema.
    NotNeeded,
    /// It said no; nothing after it runs.
    Refused(Code),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
#[non_exhaustive]
pub enum Event {
    /// A stage of one call ended.
    Stage {
        /// The run.
        run: RunId,
        /// The node, or a name below one for a nested call.
        node: NodeId,
        /// 1 for the first attempt.
        attempt: u32,
        /// The tool.
        tool: ToolName,
        /// 0 for a call of a workflow, 1 for a call made by that call, and so on.
        depth: u32,
        /// The stage.
        stage: Stage,
        /// How it ended.
        #[serde(flatten)]
        outcome: StageOutcome,
    },
    /// A run began.
    RunStarted {
        /// The run.
        run: RunId,
        /// How many nodes it has.
        nodes: usize,
    },
    /// A node's call began.
    NodeStarted {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
        /// 1 for the first attempt.
        attempt: u32,
        /// The tool it calls.
        tool: ToolName,
    },
    /// A node's call ended.
    NodeFinished {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
        /// 1 for the first attempt.
        attempt: u32,
        /// The code, if it failed.
        code: Option<Code>,
        /// Time it took, in microseconds.
        micros: u64,
    },
    /// A run ended.
    RunFinished {
        /// The run.
        run: RunId,
        /// The code, if it failed.
        code: Option<Code>,
    },
}
