//! The guard: an outside program's last word before a handler runs.
//!
//! Owns what a guard is told and what its answers mean. Refuses to start processes; adapters do.
//!
//! **Invariant:** only [`GuardVerdict::Allow`] lets a call go on. No answer is a no.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::code::Code;
use crate::digest::Digest;
use crate::effect::Effect;
use crate::id::{NodeId, RunId, ToolName};

/// What a guard is told: a snapshot of the call that will run if it says yes.
#[derive(Debug, Clone)]
pub struct GuardRequest {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// 1 for the first attempt; the guard is asked again for each.
    pub attempt: u32,
    /// The tool.
    pub tool: ToolName,
    /// The effect of the reviewed contract, never what a trace says.
    pub effect: Effect,
    /// Digest of the verified workflow, if the call belongs to one.
    pub workflow: Option<Digest>,
    /// Digest of the reviewed contract.
    pub contract: Digest,
    /// Whether a person approved this call, where one had to.
    pub approved: bool,
    /// Whether another tool made the call.
    pub nested: bool,
    /// The resolved arguments.
    pub arguments: Arc<Value>,
    /// Time left for the call.
    pub deadline: Option<Duration>,
}

/// A guard's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardVerdict {
    /// Go on.
    Allow,
    /// Don't.
    Deny {
        /// Why, for people.
        reason: String,
    },
    /// A person has to look first.
    ReviewRequired {
        /// Why, for people.
        reason: String,
        /// The guard's handle for the pending review, if it gave one.
        handle: Option<String>,
    },
    /// The guard didn't answer in time.
    TimedOut,
    /// The guard failed, or its answer can't be understood.
    Failed {
        /// What went wrong, for people.
        reason: String,
    },
}

impl GuardVerdict {
    /// The refusal this answer means, or nothing if it allows the call.
    pub(crate) fn refusal(self) -> Option<(Code, String)> {
        match self {
            GuardVerdict::Allow => None,
            GuardVerdict::Deny { reason } => Some((Code::GuardDenied, reason)),
            GuardVerdict::ReviewRequired { reason, handle } => {
                let handle = handle.map(|handle| format!(" (review `{handle}`)")).unwrap_or_default();
                Some((Code::GuardReviewRequired, format!("{reason}{handle}")))
            }
            GuardVerdict::TimedOut => Some((Code::GuardTimeout, "the guard did not answer in time".into())),
            GuardVerdict::Failed { reason } => Some((Code::GuardError, reason)),
        }
    }
}
