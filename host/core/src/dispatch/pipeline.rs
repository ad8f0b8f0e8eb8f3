//! The checks, one after the other.
//!
//! Owns the order. Refuses shortcuts: nested, retried, direct and workflow calls all come through
//! [`Dispatcher::dispatch`].
//!
//! **Invariant:** `ToolBackend::call` is called in one place, in `run_handler`, which takes what `clear`
//! returned.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use serde_json::{Map, Value};

use super::audited::{self, Found};
use super::call::{
    CallContext, CallError, CallRequest, Caller, ClearedCall, NestedCalls, NestedLimits, Origin,
};
use super::ports::{ApprovalGate, CallLog, EventSink, Guard, LoggedCall};
use super::registry::{Bound, Registered, Registry};
use crate::approval::{ApprovalRequest, Arguments, Unapproved};
use crate::audit::{AuditLog, Ending, GuardAnswer};
use crate::code::Code;
use crate::contract::Contract;
use crate::digest::Digest;
use crate::effect::{Effect, Idempotency};
use crate::event::{Event, Stage, StageOutcome};
use crate::guard::GuardRequest;
use crate::id::{NodeId, RunId};
use crate::policy::{Action, Policy, PolicyInput};
use crate::redact;
use crate::tool::Reply;
use crate::workflow::{Node, Scope, VerifiedWorkflow, write_expr};

/// What a dispatcher is made of.
pub struct DispatcherParts {
    /// The tools.
    pub registry: Registry,
    /// The operator's rules.
    pub policy: Policy,
    /// Who knows of approvals. Without one, whatever needs an approval is refused.
    pub approvals: Option<Arc<dyn ApprovalGate>>,
    /// The last word before a handler, if the operator wants one.
    pub guard: Option<Arc<dyn Guard>>,
    /// Who watches.
    pub events: Option<Arc<dyn EventSink>>,
    /// Who keeps the calls and their results.
    pub log: Option<Arc<dyn CallLog>>,
    /// Who keeps what was decided. Whatever can't be kept doesn't run.
    pub audit: Option<Arc<dyn AuditLog>>,
    /// How far calls from handlers may go.
    pub nested: NestedLimits,
}

impl DispatcherParts {
    /// These tools under the default policy and limits. Nobody approves, guards, watches or keeps anything.
    pub fn new(registry: Registry) -> DispatcherParts {
        DispatcherParts {
            registry,
            policy: Policy::default(),
            approvals: None,
            guard: None,
            events: None,
            log: None,
            audit: None,
            nested: NestedLimits::default(),
        }
    }
}

/// The one way to call a tool.
pub struct Dispatcher {
    parts: DispatcherParts,
}

/// A call on its way through the stages.
pub(super) struct InFlight<'a> {
    events: Option<&'a dyn EventSink>,
    pub(super) request: &'a CallRequest,
    pub(super) depth: u32,
    pub(super) workflow: Option<Digest>,
}

/// A call that passed, with what the rest of the way needs.
struct Cleared<'a> {
    call: ClearedCall,
    registered: &'a Registered,
    /// What the audit log is to hear of its end.
    ending: Option<Ending>,
}

impl Dispatcher {
    /// Puts the parts together.
    pub fn new(parts: DispatcherParts) -> Arc<Dispatcher> {
        Arc::new(Dispatcher { parts })
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    /// The rules.
    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    /// Who keeps what was decided.
    pub fn audit(&self) -> Option<&Arc<dyn AuditLog>> {
        self.parts.audit.as_ref()
    }

    pub(super) fn nested_limits(&self) -> NestedLimits {
        self.parts.nested
    }

    /// Makes one call, if every check allows it.
    pub async fn dispatch(self: &Arc<Self>, mut request: CallRequest) -> Result<Reply, CallError> {
        let arguments = Arc::new(std::mem::take(&mut request.arguments));
        let (depth, workflow) = match &request.origin {
            Origin::Workflow { workflow, .. } => (0, Some(workflow.digest())),
            Origin::Direct => (0, None),
            Origin::Nested(origin) => (origin.depth, origin.workflow),
        };
        let flight = InFlight { events: self.parts.events.as_deref(), request: &request, depth, workflow };
        let Some(log) = self.parts.log.as_deref() else {
            return self.make(&flight, arguments).await;
        };
        let kept = Arc::clone(&arguments);
        let call = flight.logged(&kept);
        log.began(call);
        let outcome = self.make(&flight, arguments).await;
        log.ended(call, outcome.as_ref());
        outcome
    }

    async fn make(
        self: &Arc<Self>,
        flight: &InFlight<'_>,
        arguments: Arc<Value>,
    ) -> Result<Reply, CallError> {
        let mut cleared = self.clear(flight, arguments).await?;
        let ending = cleared.ending.take();
        let outcome = self.run_handler(flight, cleared).await;
        if let Some(ending) = ending {
            audited::ended(ending, outcome.as_ref());
        }
        outcome
    }

    /// Says what would stop a node of a workflow, before anything of it runs: the same stages, as far as they
    /// go without the results of other nodes. No event is emitted and no approval is used; what stops it is
    /// recorded.
    pub fn preflight(
        &self,
        workflow: &Arc<VerifiedWorkflow>,
        inputs: &Arc<Map<String, Value>>,
        node: &Node,
        run: &RunId,
    ) -> Result<(), CallError> {
        let request = CallRequest {
            origin: Origin::Workflow { workflow: Arc::clone(workflow), inputs: Arc::clone(inputs) },
            run: run.clone(),
            node: node.id.clone(),
            attempt: 1,
            tool: node.tool.clone(),
            arguments: Value::Null,
            timeout: None,
        };
        let flight =
            InFlight { events: None, request: &request, depth: 0, workflow: Some(workflow.digest()) };
        let mut found = Found::default();
        let outcome = self.look_ahead(&flight, inputs, node, &mut found);
        if let (Some(log), Err(refusal)) = (&self.parts.audit, &outcome) {
            audited::blocked(log, &flight, &found, refusal);
        }
        outcome
    }

    fn look_ahead(
        &self,
        flight: &InFlight<'_>,
        inputs: &Map<String, Value>,
        node: &Node,
        found: &mut Found,
    ) -> Result<(), CallError> {
        let arguments = node.arguments.fill_inputs(inputs).map_err(|missing| {
            let message = format!("node `{}`, tool `{}`: {missing}", node.id, node.tool);
            flight.refuse(Stage::Verify, Code::InputInvalid, message)
        })?;
        let assumed = flight.verify(arguments.find_in_literals(&redact::find_marker))?;
        let (registered, contract, contract_digest) = flight.bind(&self.parts.registry, assumed)?;
        (found.effect, found.contract) = (Some(contract.effect), Some(contract_digest));
        let nothing = BTreeMap::new();
        let known = if node.arguments.depends_on_results() {
            None
        } else {
            node.arguments.resolve(Scope { inputs, results: &nothing }).ok()
        };
        if self.parts.audit.is_some() {
            found.arguments = known.as_ref().map(Digest::of_json);
        }
        if flight.policy(&self.parts.policy, contract.effect)? {
            let requests = flight.approval_requests(contract_digest, known.as_ref());
            let answer = match &self.parts.approvals {
                Some(gate) => gate.check(&requests),
                None => Err(Unapproved::Missing),
            };
            if let Err(refusal) = answer {
                return Err(flight.unapproved(refusal, requests));
            }
        }
        match known {
            Some(arguments) => flight.input_schema(registered, &arguments),
            None => Ok(()),
        }
    }

    /// Every check before the handler, and the record of what they decided. The only place that makes a
    /// [`ClearedCall`].
    async fn clear<'a>(
        self: &'a Arc<Self>,
        flight: &InFlight<'_>,
        arguments: Arc<Value>,
    ) -> Result<Cleared<'a>, CallError> {
        let request = flight.request;
        let mut found = Found::default();
        let checked = self.check(flight, &arguments, &mut found).await;
        let ending = match &self.parts.audit {
            None => None,
            Some(log) => {
                found.arguments = Some(Digest::of_json(&arguments));
                match audited::decide(log, flight, &found, checked.as_ref().err()).await {
                    Ok(ending) => ending,
                    // What is refused anyway keeps its own reason.
                    Err(why) if checked.is_ok() => {
                        return Err(flight.refuse(Stage::Audit, Code::AuditUnwritable, why));
                    }
                    Err(_) => None,
                }
            }
        };
        let (registered, contract) = checked?;
        match &ending {
            Some(_) => flight.passed(Stage::Audit),
            None => flight.not_needed(Stage::Audit),
        }

        let budget = match &request.origin {
            Origin::Nested(origin) => Arc::clone(&origin.budget),
            _ => Arc::new(AtomicU32::new(self.parts.nested.calls)),
        };
        let context = CallContext {
            run: request.run.clone(),
            node: request.node.clone(),
            attempt: request.attempt,
            timeout: request.timeout,
        };
        let caller = Caller {
            dispatcher: Arc::clone(self),
            run: request.run.clone(),
            node: request.node.clone(),
            workflow: flight.workflow,
            effect: contract.effect,
            depth: flight.depth,
            budget,
        };
        let nested = NestedCalls { caller, made: AtomicU32::new(0) };
        let call =
            ClearedCall { tool: request.tool.clone(), effect: contract.effect, arguments, context, nested };
        Ok(Cleared { call, registered, ending })
    }

    /// The checks, one after the other.
    async fn check<'a>(
        &'a self,
        flight: &InFlight<'_>,
        arguments: &Arc<Value>,
        found: &mut Found,
    ) -> Result<(&'a Registered, &'a Contract), CallError> {
        let request = flight.request;
        let assumed = flight.verify(redact::find_marker(arguments))?;
        let (registered, contract, contract_digest) = flight.bind(&self.parts.registry, assumed)?;
        (found.effect, found.contract) = (Some(contract.effect), Some(contract_digest));
        let needs_approval = flight.policy(&self.parts.policy, contract.effect)?;
        found.approval = flight
            .approval(self.parts.approvals.as_deref(), needs_approval, contract_digest, arguments)
            .await?;
        flight.input_schema(registered, arguments)?;
        let Some(guard) = &self.parts.guard else {
            flight.not_needed(Stage::Guard);
            return Ok((registered, contract));
        };
        let question = GuardRequest {
            run: request.run.clone(),
            node: request.node.clone(),
            attempt: request.attempt,
            tool: request.tool.clone(),
            effect: contract.effect,
            workflow: flight.workflow,
            contract: contract_digest,
            approved: needs_approval,
            nested: flight.depth > 0,
            arguments: Arc::clone(arguments),
            deadline: request.timeout,
        };
        let refusal = guard.check(question).await.refusal();
        found.guard = Some(if refusal.is_some() { GuardAnswer::Refuse } else { GuardAnswer::Allow });
        if let Some((code, message)) = refusal {
            return Err(flight.refuse(Stage::Guard, code, message));
        }
        flight.passed(Stage::Guard);
        Ok((registered, contract))
    }

    async fn run_handler(&self, flight: &InFlight<'_>, cleared: Cleared<'_>) -> Result<Reply, CallError> {
        let reply = match cleared.registered.backend.call(cleared.call).await {
            Ok(reply) => reply,
            Err(failure) => {
                flight.emit(Stage::Handler, StageOutcome::Refused(failure.code));
                return Err(CallError::of_handler(failure));
            }
        };
        flight.passed(Stage::Handler);
        let Some(schema) = &cleared.registered.output else {
            flight.not_needed(Stage::OutputSchema);
            return Ok(reply);
        };
        let faults = match &reply.structured {
            Some(value) => schema.faults(value),
            None => {
                let message = "the tool declares an output schema and returned no structured result";
                return Err(flight.refuse(Stage::OutputSchema, Code::ResultInvalid, message));
            }
        };
        if !faults.is_empty() {
            let first = faults.first().map(|f| format!("{}: {}", place(&f.pointer), f.message));
            let message = format!("the result doesn't match the schema at {}", first.unwrap_or_default());
            let mut error = flight.refuse(Stage::OutputSchema, Code::ResultInvalid, message);
            error.faults = faults;
            return Err(error);
        }
        flight.passed(Stage::OutputSchema);
        Ok(reply)
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the top level" } else { pointer }
}

impl InFlight<'_> {
    fn logged<'c>(&'c self, arguments: &'c Value) -> LoggedCall<'c> {
        LoggedCall {
            run: &self.request.run,
            node: &self.request.node,
            tool: &self.request.tool,
            arguments,
            caller: self.caller(),
            workflow: self.workflow,
        }
    }

    pub(super) fn caller(&self) -> Option<&NodeId> {
        match &self.request.origin {
            Origin::Nested(origin) => Some(&origin.node),
            Origin::Workflow { .. } | Origin::Direct => None,
        }
    }

    /// The call is one that its origin has, and none of its arguments stands for a secret that was redacted;
    /// gives what a workflow assumes of it. `marked` is where a marker stands.
    fn verify(&self, marked: Option<String>) -> Result<Option<(Effect, Idempotency)>, CallError> {
        let request = self.request;
        let assumed = match &request.origin {
            Origin::Direct | Origin::Nested(_) => None,
            Origin::Workflow { workflow, .. } => match workflow.node(&request.node) {
                Some(node) if node.tool == request.tool => Some((node.effect, node.idempotency)),
                _ => {
                    let message = format!(
                        "node `{}` with tool `{}` is not in the verified workflow",
                        request.node, request.tool
                    );
                    return Err(self.refuse(Stage::Verify, Code::CallUnverified, message));
                }
            },
        };
        if let Some(pointer) = marked {
            let message = format!(
                "node `{}`, tool `{}`: the argument at {} holds the marker of a redacted secret",
                request.node,
                request.tool,
                place(&pointer)
            );
            return Err(self.refuse(Stage::Verify, Code::SecretUnbound, message));
        }
        self.passed(Stage::Verify);
        Ok(assumed)
    }

    fn bind<'r>(
        &self,
        registry: &'r Registry,
        assumed: Option<(Effect, Idempotency)>,
    ) -> Result<(&'r Registered, &'r Contract, Digest), CallError> {
        let tool = &self.request.tool;
        let refuse = |code, message: String| Err(self.refuse(Stage::Bind, code, message));
        let Some(registered) = registry.get(tool) else {
            return refuse(Code::ToolUnknown, registry.unknown(tool));
        };
        let (contract, digest) = match &registered.bound {
            Bound::Reviewed { contract, digest } => (contract, *digest),
            Bound::Missing => return refuse(Code::ContractMissing, format!("`{tool}` has no contract")),
            Bound::Unreviewed => {
                return refuse(Code::ContractUnreviewed, format!("the contract of `{tool}` is not reviewed"));
            }
            Bound::Drifted { differences } => {
                let message = format!("`{tool}` is not what was reviewed: {}", differences.join("; "));
                return refuse(Code::ContractDrift, message);
            }
        };
        if let Some((assumed, _)) = assumed.filter(|(effect, _)| *effect < contract.effect) {
            let message = format!(
                "the workflow orders `{tool}` as `{assumed}`, its contract says `{}`; compile again with the plugin loaded",
                contract.effect
            );
            return refuse(Code::ContractDrift, message);
        }
        // Repeats of what may be repeated were left out. What is pure has no effect that could repeat.
        if let Some((_, Idempotency::Idempotent)) = assumed
            && contract.idempotency != Idempotency::Idempotent
            && contract.effect != Effect::Pure
        {
            let message = format!(
                "the workflow repeats `{tool}` as `idempotent`, its contract says `{}`; compile again with the plugin loaded",
                contract.idempotency
            );
            return refuse(Code::ContractDrift, message);
        }
        if let Origin::Nested(caller) = &self.request.origin
            && contract.effect > caller.effect
        {
            let message = format!(
                "`{tool}` has effect `{}`, and the tool that calls it was reviewed as `{}`",
                contract.effect, caller.effect
            );
            return refuse(Code::NestedEffect, message);
        }
        if let Some(lacks) = &registered.lacks {
            return refuse(Code::PluginGrantMissing, lacks.clone());
        }
        self.passed(Stage::Bind);
        Ok((registered, contract, digest))
    }

    /// Whether the call needs an approval.
    fn policy(&self, policy: &Policy, effect: Effect) -> Result<bool, CallError> {
        let tool = &self.request.tool;
        let decision = policy.decide(PolicyInput { tool, effect });
        if decision.action == Action::Deny {
            let message = format!("`{tool}` has effect `{effect}`; {} denies it", decision.rule);
            return Err(self.refuse(Stage::Policy, Code::PolicyDenied, message));
        }
        self.passed(Stage::Policy);
        Ok(decision.action == Action::Approval)
    }

    /// The ways in which the call may have been approved: by its exact arguments if they are known, and by
    /// what was known of them before the run if they follow from results.
    fn approval_requests(&self, contract: Digest, arguments: Option<&Value>) -> Vec<ApprovalRequest> {
        let request = |arguments| ApprovalRequest {
            workflow: self.workflow,
            node: self.request.node.clone(),
            depth: self.depth,
            tool: self.request.tool.clone(),
            contract,
            arguments,
        };
        let exact = arguments.map(|arguments| Arguments::Exact(Digest::of_json(arguments)));
        let follow = match &self.request.origin {
            Origin::Workflow { workflow, inputs } => workflow
                .node(&self.request.node)
                .filter(|node| node.arguments.depends_on_results())
                .and_then(|node| node.arguments.fill_inputs(inputs).ok())
                .map(|known| Arguments::Follow(Digest::of_json(&write_expr(&known)))),
            _ => None,
        };
        exact.into_iter().chain(follow).map(request).collect()
    }

    /// The request whose approval is used, where one is needed.
    async fn approval(
        &self,
        gate: Option<&dyn ApprovalGate>,
        needed: bool,
        contract: Digest,
        arguments: &Value,
    ) -> Result<Option<Digest>, CallError> {
        if !needed {
            self.not_needed(Stage::Approval);
            return Ok(None);
        }
        let requests = self.approval_requests(contract, Some(arguments));
        let answer = match gate {
            Some(gate) => gate.take(&requests, &self.request.run).await,
            None => Err(Unapproved::Missing),
        };
        match answer {
            Ok(used) => {
                self.passed(Stage::Approval);
                Ok(Some(used))
            }
            Err(refusal) => Err(self.unapproved(refusal, requests)),
        }
    }

    /// The refusal names the first way to approve the call.
    fn unapproved(&self, refusal: Unapproved, requests: Vec<ApprovalRequest>) -> CallError {
        let why = match refusal {
            Unapproved::Missing => "needs an approval",
            Unapproved::Expired => "had an approval that has expired",
            Unapproved::UsedUp => "had an approval that is used up",
        };
        let approval = requests.into_iter().next();
        let id = approval.as_ref().map(|approval| approval.id().to_string()).unwrap_or_default();
        let message = format!("node `{}`, tool `{}` {why}: {id}", self.request.node, self.request.tool);
        let mut error = self.refuse(Stage::Approval, refusal.code(), message);
        error.approval = approval.map(Box::new);
        error
    }

    fn input_schema(&self, registered: &Registered, arguments: &Value) -> Result<(), CallError> {
        let faults = registered.input.faults(arguments);
        if faults.is_empty() {
            self.passed(Stage::InputSchema);
            return Ok(());
        }
        let first = faults.first().map(|f| format!("{}: {}", place(&f.pointer), f.message));
        let message = format!("the arguments don't match the schema at {}", first.unwrap_or_default());
        let mut error = self.refuse(Stage::InputSchema, Code::ArgumentsInvalid, message);
        error.faults = faults;
        Err(error)
    }

    fn refuse(&self, stage: Stage, code: Code, message: impl Into<String>) -> CallError {
        self.emit(stage, StageOutcome::Refused(code));
        CallError::new(stage, code, message)
    }

    fn passed(&self, stage: Stage) {
        self.emit(stage, StageOutcome::Passed);
    }

    fn not_needed(&self, stage: Stage) {
        self.emit(stage, StageOutcome::NotNeeded);
    }

    fn emit(&self, stage: Stage, outcome: StageOutcome) {
        let Some(sink) = self.events else {
            return;
        };
        sink.emit(&Event::Stage {
            run: self.request.run.clone(),
            node: self.request.node.clone(),
            attempt: self.request.attempt,
            tool: self.request.tool.clone(),
            depth: self.depth,
            stage,
            outcome,
        });
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("registry", &self.parts.registry).finish_non_exhaustive()
    }
}
