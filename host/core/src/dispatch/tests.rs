//! The order of checks, and that a no has no effect.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};

use super::*;
use crate::approval::{Approval, ApprovalBook, ApprovalRequest, Arguments, Unapproved};
use crate::audit::{AuditLog, DecisionKind, Entry, Kept};
use crate::code::Code;
use crate::contract::{Contract, Contracts, Review};
use crate::digest::Digest;
use crate::effect::{Effect, Idempotency};
use crate::event::{Event, Stage, StageOutcome};
use crate::guard::{GuardRequest, GuardVerdict};
use crate::id::{NodeId, PluginId, RunId, ToolName};
use crate::policy::{Action, Policy};
use crate::tool::{Content, Reply, ToolDescriptor, ToolFailure, Usage};
use crate::workflow::{Expr, Node, Provenance, VerifiedWorkflow, Workflow, verify};

/// Nothing here waits, so one poll is enough.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a test future waits"),
    }
}

/// A tool that counts how often it acts, and one that calls it.
#[derive(Default)]
struct Effects {
    acted: AtomicU32,
    result: Mutex<Option<Value>>,
}

impl ToolBackend for Effects {
    fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
        Box::pin(async move {
            if call.tool().as_str() == "outer" {
                let inner = call.arguments()["inner"].as_str().unwrap().to_owned();
                let reply = call.nested().call(&inner, json!({"n": 1})).await;
                return reply.map_err(|error| ToolFailure::host(error.code, error.message));
            }
            self.acted.fetch_add(1, Ordering::SeqCst);
            let structured = self.result.lock().unwrap().clone().or_else(|| Some(json!({"ok": true})));
            Ok(Reply {
                content: vec![Content::Text { text: "done".into() }],
                structured,
                usage: Usage::default(),
            })
        })
    }
}

#[derive(Default)]
struct Stages(Mutex<Vec<(String, u32, Stage, StageOutcome)>>);

impl EventSink for Stages {
    fn emit(&self, event: &Event) {
        if let Event::Stage { node, depth, stage, outcome, .. } = event {
            self.0.lock().unwrap().push((node.to_string(), *depth, *stage, *outcome));
        }
    }
}

struct Gate(Mutex<ApprovalBook>);

impl ApprovalGate for Gate {
    fn take<'a>(
        &'a self,
        requests: &'a [ApprovalRequest],
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Digest, Unapproved>> {
        Box::pin(std::future::ready(self.0.lock().unwrap().take(requests, run, 50)))
    }
    fn check(&self, requests: &[ApprovalRequest]) -> Result<(), Unapproved> {
        self.0.lock().unwrap().check(requests, 50)
    }
}

struct Answer(GuardVerdict, AtomicU32);

impl Guard for Answer {
    fn check(&self, request: GuardRequest) -> BoxFuture<'_, GuardVerdict> {
        self.1.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.effect, Effect::Write, "the effect comes from the contract");
        Box::pin(std::future::ready(self.0.clone()))
    }
}

/// Keeps records, unless it is told to refuse them: at once, or when they are waited for.
#[derive(Default)]
struct Records {
    entries: Mutex<Vec<Entry>>,
    refuses: bool,
    fails: bool,
}

impl AuditLog for Records {
    fn begin(&self, entry: Entry, _: bool) -> Kept {
        if self.refuses {
            return Kept::Refused("the disk is full".into());
        }
        self.end(entry);
        match self.fails {
            true => Kept::Waiting(Box::pin(std::future::ready(Err("the disk is full".into())))),
            false => Kept::Queued,
        }
    }
    fn end(&self, entry: Entry) {
        self.entries.lock().unwrap().push(entry);
    }
}

fn tool(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

fn descriptor(name: &str, effect: Effect) -> ToolDescriptor {
    ToolDescriptor {
        name: tool(name),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        output_schema: Some(json!({"type": "object", "required": ["ok"]})),
        effect,
        idempotency: Idempotency::Unknown,
        reads: vec![],
        writes: vec![],
    }
}

type Change<T> = Box<dyn Fn(&mut T)>;

/// How one case differs from a call that succeeds.
struct Setup {
    tool: &'static str,
    /// The effect of the tool `outer`, which calls others.
    outer: Effect,
    node: &'static str,
    assumed: Effect,
    repeats: Idempotency,
    arguments: Value,
    contract: Option<Change<Contract>>,
    lacks: Option<&'static str>,
    trust: Trust,
    policy: Policy,
    approve: Option<Change<Approval>>,
    guard: Option<GuardVerdict>,
    result: Option<Value>,
    /// The audit log can't be written: it says so at once.
    unaudited: bool,
    /// The same, found when the record is waited for.
    audit_fails: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            tool: "write_it",
            outer: Effect::Write,
            node: "w",
            assumed: Effect::Write,
            repeats: Idempotency::Unknown,
            arguments: json!({"n": 1}),
            contract: Some(Box::new(|_| {})),
            lacks: None,
            trust: Trust::External,
            policy: Policy::default(),
            approve: Some(Box::new(|_| {})),
            guard: Some(GuardVerdict::Allow),
            result: None,
            unaudited: false,
            audit_fails: false,
        }
    }
}

struct Ran {
    result: Result<Reply, CallError>,
    stages: Vec<(String, u32, Stage, StageOutcome)>,
    acted: u32,
    guarded: u32,
    /// What the audit log holds.
    records: Vec<Value>,
}

fn workflow(tool_name: &str, effect: Effect, idempotency: Idempotency) -> Arc<VerifiedWorkflow> {
    let node = Node {
        id: NodeId::new("w").unwrap(),
        tool: tool(tool_name),
        arguments: Expr::Object(BTreeMap::new()),
        after: vec![],
        effect,
        idempotency,
        timeout_ms: None,
        recorded: None,
        decisions: vec![],
    };
    let workflow = Workflow {
        name: "w".into(),
        inputs: BTreeMap::new(),
        nodes: vec![node],
        output: Expr::Literal(Value::Null),
        source: Provenance::default(),
    };
    Arc::new(verify(workflow, None).unwrap())
}

fn run(setup: Setup) -> Ran {
    let handler = Digest::of_bytes(b"component");
    let tools = vec![descriptor("write_it", Effect::Write), descriptor("outer", setup.outer)];
    let mut contracts = Contracts::default();
    let mut digest = Digest::of_bytes(b"");
    for descriptor in &tools {
        let mut contract = Contract::candidate(descriptor, handler);
        let reviewed = contract.digest();
        contract.review =
            Some(Review { by: "ann".into(), at: "2026-01-01T00:00:00Z".into(), digest: reviewed });
        if descriptor.name.as_str() == "write_it" {
            digest = reviewed;
            match &setup.contract {
                Some(change) => change(&mut contract),
                None => continue,
            }
        }
        contracts.insert(contract);
    }
    let effects = Arc::new(Effects::default());
    *effects.result.lock().unwrap() = setup.result;
    let plugin = PluginTools {
        plugin: PluginId::new("p").unwrap(),
        handler,
        trust: setup.trust,
        tools,
        backend: Arc::clone(&effects) as Arc<dyn ToolBackend>,
        lacking: setup.lacks.map(|lacks| (tool("write_it"), lacks.to_owned())).into_iter().collect(),
    };
    let workflow = workflow(setup.tool, setup.assumed, setup.repeats);
    let request = ApprovalRequest {
        workflow: Some(workflow.digest()),
        node: NodeId::new(if setup.tool == "outer" { "w/write_it#1" } else { "w" }).unwrap(),
        depth: u32::from(setup.tool == "outer"),
        tool: tool("write_it"),
        contract: digest,
        arguments: Arguments::Exact(Digest::of_json(&json!({"n": 1}))),
    };
    let approvals = setup.approve.map(|change| {
        let mut approval =
            Approval { request: request.id(), approver: "ann".into(), expires_at_ms: None, uses: 1 };
        change(&mut approval);
        approval
    });
    let stages = Arc::new(Stages::default());
    let records =
        Arc::new(Records { refuses: setup.unaudited, fails: setup.audit_fails, ..Records::default() });
    let guard = setup.guard.map(|verdict| Arc::new(Answer(verdict, AtomicU32::new(0))));
    let dispatcher = Dispatcher::new(DispatcherParts {
        policy: setup.policy,
        approvals: Some(Arc::new(Gate(Mutex::new(ApprovalBook::new(approvals))))),
        // `outer` only reads, and the guard of these tests expects writes.
        guard: guard.clone().filter(|_| setup.tool != "outer").map(|guard| guard as Arc<dyn Guard>),
        events: Some(Arc::clone(&stages) as Arc<dyn EventSink>),
        audit: Some(Arc::clone(&records) as Arc<dyn AuditLog>),
        ..DispatcherParts::new(Registry::build([plugin], &contracts).unwrap())
    });
    let request = CallRequest {
        origin: Origin::Workflow { workflow, inputs: Arc::default() },
        run: RunId::new("r").unwrap(),
        node: NodeId::new(setup.node).unwrap(),
        attempt: 1,
        tool: tool(setup.tool),
        arguments: setup.arguments,
        timeout: None,
    };
    let result = now(dispatcher.dispatch(request));
    let stages = std::mem::take(&mut *stages.0.lock().unwrap());
    let guarded = guard.map_or(0, |guard| guard.1.load(Ordering::SeqCst));
    let records = records.entries.lock().unwrap().iter().map(|entry| json!(entry)).collect();
    Ran { result, stages, records, acted: effects.acted.load(Ordering::SeqCst), guarded }
}

/// T17: the stages of a plain call come in the fixed order.
#[test]
fn a_plain_call_passes_every_stage_in_order() {
    let ran = run(Setup::default());
    assert_eq!(ran.result.unwrap().structured, Some(json!({"ok": true})));
    let order: Vec<Stage> = ran.stages.iter().map(|(_, _, stage, _)| *stage).collect();
    assert_eq!(order, Stage::ALL);
    assert!(
        ran.stages.iter().all(|(node, depth, _, outcome)| {
            node == "w" && *depth == 0 && *outcome == StageOutcome::Passed
        })
    );
    assert_eq!((ran.acted, ran.guarded), (1, 1));
}

/// T27, F65: an allowed call leaves what was decided, before its handler, and how it ended; digests and no values.
#[test]
fn an_allowed_call_is_recorded_with_its_end() {
    let ran = run(Setup::default());
    let [decided, ended] = ran.records.as_slice() else { panic!("{:?}", ran.records) };
    let arguments = Digest::of_json(&json!({"n": 1}));
    for (name, value) in [
        ("record", json!("call-decided")),
        ("decision", json!("allowed")),
        ("stage", json!("guard")),
        ("guard", json!("allow")),
        ("approved", json!(true)),
        ("effect", json!("write")),
        ("arguments", json!(arguments)),
    ] {
        assert_eq!(decided[name], value, "{name}: {decided}");
    }
    for name in ["workflow", "contract", "approval"] {
        assert!(decided[name].as_str().unwrap().starts_with("sha256:"), "{name}: {decided}");
    }
    assert_eq!((&ended["record"], &ended["stage"]), (&json!("call-ended"), &json!("output-schema")));
    assert_eq!(ended["result"], json!(Digest::of_json(&json!({"ok": true}))));
    assert!(ended["usage"].is_object() && ended["code"].is_null());
    let failed = run(Setup { result: Some(json!({"no": 1})), ..Setup::default() });
    assert_eq!(failed.records[1]["code"], "result-invalid");
}

/// T27, F65: whatever can't be recorded doesn't run; what is refused anyway keeps its own reason.
#[test]
fn a_call_that_can_not_be_recorded_does_not_run() {
    let ran = run(Setup { unaudited: true, ..Setup::default() });
    let error = ran.result.unwrap_err();
    assert_eq!((error.stage, error.code), (Stage::Audit, Code::AuditUnwritable));
    assert!(!error.may_have_acted());
    assert_eq!(ran.acted, 0);
    assert_eq!(ran.stages.last().unwrap().3, StageOutcome::Refused(Code::AuditUnwritable));
    let ran = run(Setup { unaudited: true, approve: None, ..Setup::default() });
    assert_eq!(ran.result.unwrap_err().code, Code::ApprovalRequired);

    // What was to be written when the disk was full may be written later: then it has its end.
    let ran = run(Setup { audit_fails: true, ..Setup::default() });
    assert_eq!((ran.result.unwrap_err().code, ran.acted), (Code::AuditUnwritable, 0));
    let ends: Vec<_> = ran.records.iter().map(|record| (&record["record"], &record["code"])).collect();
    assert_eq!(ends[1], (&json!("call-ended"), &json!("audit-unwritable")));
    let ran = run(Setup { audit_fails: true, approve: None, ..Setup::default() });
    assert_eq!((ran.result.unwrap_err().code, ran.records.len()), (Code::ApprovalRequired, 1));
}

/// A dispatcher with one tool, what it records, and a direct call of that tool.
fn audited(
    tool: ToolDescriptor,
    backend: Arc<dyn ToolBackend>,
) -> (Arc<Dispatcher>, Arc<Records>, CallRequest) {
    let request = CallRequest {
        origin: Origin::Direct,
        run: RunId::new("r").unwrap(),
        node: NodeId::new("n").unwrap(),
        attempt: 1,
        tool: tool.name.clone(),
        arguments: json!({}),
        timeout: None,
    };
    let plugin = PluginTools {
        plugin: PluginId::new("p").unwrap(),
        handler: Digest::of_bytes(tool.name.as_str().as_bytes()),
        trust: Trust::BuiltIn,
        tools: vec![tool],
        backend,
        lacking: BTreeMap::new(),
    };
    let records = Arc::new(Records::default());
    let dispatcher = Dispatcher::new(DispatcherParts {
        audit: Some(Arc::clone(&records) as Arc<dyn AuditLog>),
        ..DispatcherParts::new(Registry::build([plugin], &Contracts::default()).unwrap())
    });
    (dispatcher, records, request)
}

/// T27: a call that is stopped from outside has an end as well.
#[test]
fn a_call_that_is_dropped_is_recorded_as_cancelled() {
    struct Never;
    impl ToolBackend for Never {
        fn call(&self, _: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
            Box::pin(std::future::pending())
        }
    }
    let (dispatcher, records, request) = audited(descriptor("never", Effect::Pure), Arc::new(Never));
    {
        let mut call = pin!(dispatcher.dispatch(request));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let entries = records.entries.lock().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(json!(entries[1])["code"], "run-cancelled");
}

/// P07, T17: a nested call passes all stages under its own node id, inside its parent's handler stage.
#[test]
fn a_nested_call_passes_every_stage_inside_its_parents_handler() {
    let ran = run(Setup {
        tool: "outer",
        policy: allow_outer(),
        arguments: json!({"inner": "write_it"}),
        ..Setup::default()
    });
    ran.result.unwrap();
    let mut expected: Vec<(&str, u32, Stage)> =
        Stage::ALL.iter().take(7).map(|stage| ("w", 0, *stage)).collect();
    expected.extend(Stage::ALL.iter().map(|stage| ("w/write_it#1", 1, *stage)));
    expected.extend(Stage::ALL.iter().skip(7).map(|stage| ("w", 0, *stage)));
    let seen: Vec<_> =
        ran.stages.iter().map(|(node, depth, stage, _)| (node.as_str(), *depth, *stage)).collect();
    assert_eq!(seen, expected);
    assert_eq!(ran.acted, 1);
}

fn allow_outer() -> Policy {
    Policy { tools: BTreeMap::from([(tool("outer"), Action::Allow)]), ..Policy::default() }
}

/// P07, T21: a tool that was reviewed as reading can't write through another one, whatever is approved.
#[test]
fn a_nested_call_does_no_more_than_its_callers_contract() {
    let ran = run(Setup {
        tool: "outer",
        outer: Effect::Read,
        assumed: Effect::Read,
        arguments: json!({"inner": "write_it"}),
        ..Setup::default()
    });
    assert_eq!(ran.result.unwrap_err().code, Code::NestedEffect);
    assert_eq!(ran.acted, 0);
}

/// P07: a nested call needs its own approval; the parent's permission doesn't carry over.
#[test]
fn a_nested_write_without_its_own_approval_has_no_effect() {
    let ran = run(Setup {
        tool: "outer",
        policy: allow_outer(),
        arguments: json!({"inner": "write_it"}),
        approve: None,
        ..Setup::default()
    });
    assert_eq!(ran.result.unwrap_err().code, Code::ApprovalRequired);
    assert_eq!(ran.acted, 0);
}

/// P07: a tool that calls itself without end stops at the depth limit.
#[test]
fn nested_calls_stop_at_their_depth() {
    struct Deep;
    impl ToolBackend for Deep {
        fn call(&self, call: ClearedCall) -> BoxFuture<'_, Result<Reply, ToolFailure>> {
            Box::pin(async move {
                let inner = call.nested().call("deep", json!({})).await;
                inner.map_err(|error| ToolFailure::host(error.code, error.message))
            })
        }
    }
    let mut deep = descriptor("deep", Effect::Pure);
    deep.output_schema = None;
    let (dispatcher, records, request) = audited(deep, Arc::new(Deep));
    assert_eq!(now(dispatcher.dispatch(request)).unwrap_err().code, Code::NestedTooDeep);
    // T27: what was refused before it could be asked for stands in the log too.
    let entries = records.entries.lock().unwrap();
    let refused: Vec<Value> =
        entries.iter().map(|entry| json!(entry)).filter(|entry| entry["decision"] == "denied").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((&refused[0]["code"], &refused[0]["depth"]), (&json!("nested-too-deep"), &json!(5)));
}

/// T17, T19, T22, T23, T24, T27, F65: whichever stage says no, the code is its own, nothing after it runs and the
/// tool has had no effect.
#[test]
fn a_refused_call_stops_at_its_stage_and_has_no_effect() {
    let deny = |action| Policy { tools: BTreeMap::from([(tool("write_it"), action)]), ..Policy::default() };
    let guard = |verdict| Setup { guard: Some(verdict), ..Setup::default() };
    let reason = || "because".to_owned();
    let cases: Vec<(Stage, Code, Setup)> = vec![
        (Stage::Verify, Code::CallUnverified, Setup { node: "other", ..Setup::default() }),
        (Stage::Bind, Code::ToolUnknown, Setup { tool: "write_itt", ..Setup::default() }),
        (Stage::Bind, Code::ContractMissing, Setup { contract: None, ..Setup::default() }),
        (Stage::Bind, Code::ContractDrift, Setup { repeats: Idempotency::Idempotent, ..Setup::default() }),
        (
            Stage::Bind,
            Code::ContractUnreviewed,
            Setup { contract: Some(Box::new(|c| c.review = None)), ..Setup::default() },
        ),
        (
            Stage::Bind,
            Code::ContractDrift,
            Setup {
                contract: Some(Box::new(|c| c.handler = Digest::of_bytes(b"other"))),
                ..Setup::default()
            },
        ),
        (
            Stage::Bind,
            Code::ContractDrift,
            Setup { contract: Some(Box::new(|c| c.effect = Effect::Pure)), ..Setup::default() },
        ),
        (
            Stage::Verify,
            Code::SecretUnbound,
            Setup { arguments: json!({"n": 1, "deep": ["[T2M-REDACTED:token:1]"]}), ..Setup::default() },
        ),
        (Stage::Bind, Code::ContractDrift, Setup { assumed: Effect::Read, ..Setup::default() }),
        (Stage::Bind, Code::PluginGrantMissing, Setup { lacks: Some("a folder"), ..Setup::default() }),
        (Stage::Policy, Code::PolicyDenied, Setup { policy: deny(Action::Deny), ..Setup::default() }),
        (Stage::Approval, Code::ApprovalRequired, Setup { approve: None, ..Setup::default() }),
        (Stage::Approval, Code::ApprovalRequired, Setup { arguments: json!({"n": 2}), ..Setup::default() }),
        (
            Stage::Approval,
            Code::ApprovalExpired,
            Setup { approve: Some(Box::new(|a| a.expires_at_ms = Some(50))), ..Setup::default() },
        ),
        (
            Stage::Approval,
            Code::ApprovalUsedUp,
            Setup { approve: Some(Box::new(|a| a.uses = 0)), ..Setup::default() },
        ),
        (
            Stage::InputSchema,
            Code::ArgumentsInvalid,
            Setup { arguments: json!({"n": "x"}), policy: deny(Action::Allow), ..Setup::default() },
        ),
        (Stage::Guard, Code::GuardDenied, guard(GuardVerdict::Deny { reason: reason() })),
        (
            Stage::Guard,
            Code::GuardReviewRequired,
            guard(GuardVerdict::ReviewRequired { reason: reason(), handle: Some("h".into()) }),
        ),
        (Stage::Guard, Code::GuardTimeout, guard(GuardVerdict::TimedOut)),
        (Stage::Guard, Code::GuardError, guard(GuardVerdict::Failed { reason: reason() })),
    ];
    for (index, (stage, code, setup)) in cases.into_iter().enumerate() {
        let ran = run(setup);
        let error = ran.result.unwrap_err();
        assert_eq!((error.stage, error.code), (stage, code), "case {index}: {error}");
        assert!(!error.may_have_acted());
        assert_eq!(ran.acted, 0, "case {index}");
        let before: Vec<Stage> = Stage::ALL.into_iter().take_while(|s| *s < stage).collect();
        let (last, passed) = ran.stages.split_last().unwrap();
        assert_eq!((last.2, last.3), (stage, StageOutcome::Refused(code)), "case {index}");
        assert_eq!(passed.iter().map(|s| s.2).collect::<Vec<_>>(), before, "case {index}");
        let [record] = ran.records.as_slice() else { panic!("case {index}: {:?}", ran.records) };
        let kind = DecisionKind::of_refusal(code);
        assert_eq!(
            (&record["decision"], &record["stage"], &record["code"]),
            (&json!(kind), &json!(stage), &json!(code)),
            "case {index}"
        );
        assert!(stage >= Stage::Guard || ran.guarded == 0, "case {index}: a refused call reached the guard");
    }
}

/// T26: a result is checked before anybody sees it.
#[test]
fn a_result_that_breaks_its_schema_is_not_returned() {
    let ran = run(Setup { result: Some(json!({"no": 1})), ..Setup::default() });
    let error = ran.result.unwrap_err();
    assert_eq!((error.stage, error.code), (Stage::OutputSchema, Code::ResultInvalid));
    assert!(error.may_have_acted());
}

/// T16: two plugins can't offer one name.
#[test]
fn a_name_offered_twice_is_refused_when_the_registry_is_built() {
    let plugin = |name: &str| PluginTools {
        plugin: PluginId::new(name).unwrap(),
        handler: Digest::of_bytes(b"component"),
        trust: Trust::BuiltIn,
        tools: vec![descriptor("same", Effect::Read)],
        backend: Arc::new(Effects::default()),
        lacking: BTreeMap::new(),
    };
    let error = Registry::build([plugin("a"), plugin("b")], &Contracts::default()).unwrap_err();
    assert_eq!(error.code(), Code::ToolDuplicate);
}
