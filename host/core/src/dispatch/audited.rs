//! What the audit log is told of a call.
//!
//! Owns the way from checks and outcomes to records. Refuses to make checks, and to hand over arguments or
//! results: digests are taken here, on the caller's thread, so that no value waits in a queue.
//!
//! **Invariant:** every call that the dispatch lets through, refuses or asks about is recorded in
//! `Dispatcher::clear`, before its handler runs.

use std::sync::Arc;

use serde_json::Value;

use super::call::{CallError, Caller};
use super::pipeline::{Dispatcher, InFlight};
use crate::audit::{AuditLog, CallEnded, Decision, DecisionKind, Ending, Entry, GuardAnswer, Kept, Phase};
use crate::code::Code;
use crate::digest::Digest;
use crate::effect::Effect;
use crate::event::Stage;
use crate::id::{NodeId, ToolName};
use crate::tool::Reply;

/// What the checks came upon.
#[derive(Default)]
pub(super) struct Found {
    pub(super) arguments: Option<Digest>,
    pub(super) effect: Option<Effect>,
    pub(super) contract: Option<Digest>,
    /// The request whose approval was used.
    pub(super) approval: Option<Digest>,
    pub(super) guard: Option<GuardAnswer>,
}

impl Found {
    /// Whether what follows has to wait for the record: what only reads can't do harm that nobody knows of.
    fn is_grave(&self) -> bool {
        self.effect.is_none_or(|effect| !effect.is_read_only())
    }
}

/// Records a decision. Gives the end that an allowed call is to have, or why the record can't be kept.
pub(super) async fn decide(
    log: &Arc<dyn AuditLog>,
    flight: &InFlight<'_>,
    found: &Found,
    refusal: Option<&CallError>,
) -> Result<Option<Ending>, String> {
    let entry = Entry::CallDecided(Box::new(decision(flight, found, refusal, Phase::Call)));
    let waiting = match log.begin(entry, found.is_grave()) {
        Kept::Refused(why) => return Err(why),
        Kept::Queued => None,
        Kept::Waiting(waiting) => Some(waiting),
    };
    let Some(mut ending) = refusal.is_none().then(|| Ending::new(log, if_stopped(flight))) else {
        return match waiting {
            Some(waiting) => waiting.await.map(|()| None),
            None => Ok(None),
        };
    };
    if let Some(waiting) = waiting
        && let Err(why) = waiting.await
    {
        // The decision may be written later all the same.
        ending.is(|entry| {
            if let Entry::CallEnded(end) = entry {
                end.code = Some(Code::AuditUnwritable);
            }
        });
        return Err(why);
    }
    ending.would_be(|entry| {
        if let Entry::CallEnded(end) = entry {
            end.stage = Stage::Handler;
        }
    });
    Ok(Some(ending))
}

/// The end of an allowed call that is stopped before its handler begins.
fn if_stopped(flight: &InFlight<'_>) -> Entry {
    let request = flight.request;
    Entry::CallEnded(Box::new(CallEnded {
        run: request.run.clone(),
        node: request.node.clone(),
        attempt: request.attempt,
        tool: request.tool.clone(),
        code: Some(Code::RunCancelled),
        stage: Stage::Audit,
        result: None,
        usage: None,
    }))
}

/// Records what would stop a node, found before its run.
pub(super) fn blocked(log: &Arc<dyn AuditLog>, flight: &InFlight<'_>, found: &Found, refusal: &CallError) {
    let entry = decision(flight, found, Some(refusal), Phase::Preflight);
    // Nothing runs, whether or not this can be kept.
    drop(log.begin(Entry::CallDecided(Box::new(entry)), false));
}

/// Records how an allowed call ended.
pub(super) fn ended(ending: Ending, outcome: Result<&Reply, &CallError>) {
    ending.is(|entry| {
        let Entry::CallEnded(end) = entry else { return };
        match outcome {
            Ok(reply) => {
                end.code = None;
                end.stage = Stage::OutputSchema;
                end.result = Some(match &reply.structured {
                    Some(value) => Digest::of_json(value),
                    None => Digest::of_json(&reply.value()),
                });
                end.usage = Some(reply.usage);
            }
            Err(error) => {
                end.code = Some(error.code);
                end.stage = error.stage;
            }
        }
    });
}

fn decision(flight: &InFlight<'_>, found: &Found, refusal: Option<&CallError>, phase: Phase) -> Decision {
    let request = flight.request;
    let asked = refusal.and_then(|error| error.approval.as_ref()).map(|approval| approval.id());
    Decision {
        run: request.run.clone(),
        node: request.node.clone(),
        attempt: request.attempt,
        depth: flight.depth,
        caller: flight.caller().cloned(),
        workflow: flight.workflow,
        tool: Some(request.tool.clone()),
        phase,
        decision: refusal.map_or(DecisionKind::Allowed, |error| DecisionKind::of_refusal(error.code)),
        stage: refusal.map_or(Stage::Guard, |error| error.stage),
        code: refusal.map(|error| error.code),
        effect: found.effect,
        contract: found.contract,
        arguments: found.arguments,
        approval: found.approval.or(asked),
        approved: found.approval.is_some(),
        guard: found.guard,
    }
}

impl Dispatcher {
    /// Records a nested call that can't even be asked for: too deep, too many, no tool's name. A handler that
    /// goes on trying is recorded only as often as it may call, so that it can't fill the log.
    pub(super) fn refused_nested(
        &self,
        from: &Caller,
        number: u32,
        tool: Option<ToolName>,
        arguments: &Value,
        error: &CallError,
    ) {
        let Some(log) = self.audit().filter(|_| number <= self.nested_limits().calls.saturating_add(1))
        else {
            return;
        };
        // A node's name may be as long as a name can be already.
        let node = NodeId::new(format!("{}/?#{number}", from.node)).unwrap_or_else(|_| from.node.clone());
        let decision = Decision {
            run: from.run.clone(),
            node,
            attempt: 1,
            depth: from.depth.saturating_add(1),
            caller: Some(from.node.clone()),
            workflow: from.workflow,
            tool,
            phase: Phase::Call,
            decision: DecisionKind::Denied,
            stage: error.stage,
            code: Some(error.code),
            effect: None,
            contract: None,
            arguments: Some(Digest::of_json(arguments)),
            approval: None,
            approved: false,
            guard: None,
        };
        drop(log.begin(Entry::CallDecided(Box::new(decision)), false));
    }
}
