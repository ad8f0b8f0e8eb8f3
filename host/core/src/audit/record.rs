//! What is recorded.
//!
//! Owns the kinds of records and their fields. Refuses values of calls: there is no field that could hold one.
//!
//! **Invariant:** a decision that allows a call is followed by exactly one end of it, unless the program was
//! killed between the two.

use serde::Serialize;

use crate::code::Code;
use crate::digest::Digest;
use crate::effect::Effect;
use crate::event::Stage;
use crate::id::{NodeId, RunId, ToolName};
use crate::tool::Usage;

/// Format of the log, named by the first record of each file.
pub const AUDIT_FORMAT: &str = "t2m/audit@1";

/// One record, without its place in the chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// A program began to write here: first in every file, and after every start.
    LogOpened {
        /// [`AUDIT_FORMAT`] of the writer.
        format: &'static str,
        /// The program and its version.
        program: String,
        /// What a writer that was killed left between the record before and this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        torn: Option<Torn>,
    },
    /// A run begins; each of its nodes was found to be possible.
    RunStarted {
        /// The run.
        run: RunId,
        /// The workflow.
        workflow: Digest,
        /// Digest of the inputs, defaults filled in.
        inputs: Digest,
        /// How many nodes it has.
        nodes: usize,
    },
    /// A run ended.
    RunFinished {
        /// The run.
        run: RunId,
        /// Why it failed, if it did.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// Digest of its output.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Digest>,
    },
    /// The checks of a call ended.
    CallDecided(Box<Decision>),
    /// An allowed call ended.
    CallEnded(Box<CallEnded>),
}

/// Bytes of a record that was never finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Torn {
    /// How many, without the line break that follows them.
    pub bytes: u64,
    /// Their digest.
    pub digest: Digest,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionKind {
    /// Every check said yes; the handler runs next.
    Allowed,
    /// A check said no.
    Denied,
    /// A person has to approve or look first; nothing ran.
    Asked,
}

/// When the checks were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before a run, of which nothing ran then.
    Preflight,
    /// For a call.
    Call,
}

/// What a guard said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardAnswer {
    /// Go on.
    Allow,
    /// Don't, or no usable answer; `code` says which.
    Refuse,
}

/// The checks of one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The run.
    pub run: RunId,
    /// The node, or a name below one for a nested call.
    pub node: NodeId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// 0 for a call of a workflow or client, 1 for a call made by that call, and so on.
    pub depth: u32,
    /// The node of the call that made this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<NodeId>,
    /// The workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Digest>,
    /// The tool; absent if what was asked for can't be a tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// When the checks were made.
    pub phase: Phase,
    /// What was decided.
    pub decision: DecisionKind,
    /// The stage that said no; the last check of an allowed call.
    pub stage: Stage,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The effect of the reviewed contract, if the call came that far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The reviewed contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Digest>,
    /// Digest of the resolved arguments; absent before a run, where they aren't known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Digest>,
    /// The request that an approval was used for, or that needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Digest>,
    /// Whether an approval was used.
    pub approved: bool,
    /// What the guard said, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardAnswer>,
}

/// How an allowed call ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallEnded {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The tool.
    pub tool: ToolName,
    /// Why it failed; `run-cancelled` if it was stopped from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Where it ended.
    pub stage: Stage,
    /// Digest of the value that later nodes refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Digest>,
    /// What it used, as far as the backend can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Entry {
    /// Whether another record will follow that ends what this one began.
    pub fn is_followed(&self) -> bool {
        match self {
            Entry::RunStarted { .. } => true,
            Entry::CallDecided(decision) => decision.decision == DecisionKind::Allowed,
            Entry::LogOpened { .. } | Entry::RunFinished { .. } | Entry::CallEnded(_) => false,
        }
    }
}

impl DecisionKind {
    /// What a refusal with this code is.
    pub fn of_refusal(code: Code) -> DecisionKind {
        if code.class() == crate::code::Class::Approval { DecisionKind::Asked } else { DecisionKind::Denied }
    }
}
