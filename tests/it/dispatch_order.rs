//! A guest that would write, at each stage that says no: nothing is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use t2m_core::code::Code;
use t2m_core::contract::{Contract, Contracts, Review};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{
    BoxFuture, CallError, CallRequest, Dispatcher, DispatcherParts, EventSink, Guard, Origin, Registry, Trust,
};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::event::{Event, Stage, StageOutcome};
use t2m_core::guard::{GuardRequest, GuardVerdict};
use t2m_core::policy::{Action, Policy};
use t2m_core::workflow::{Expr, Node, Provenance, Workflow, verify};
use t2m_sandbox::{Access, DirGrant, Grants, PluginSource, Sandbox, SandboxConfig};
use t2m_tests::cache_dir;

struct Says(GuardVerdict);

impl Guard for Says {
    fn check(&self, _: GuardRequest) -> BoxFuture<'_, GuardVerdict> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[derive(Default)]
struct Stages(Mutex<Vec<(u32, Stage, StageOutcome)>>);

impl EventSink for Stages {
    fn emit(&self, event: &Event) {
        if let Event::Stage { depth, stage, outcome, .. } = event {
            self.0.lock().unwrap().push((*depth, *stage, *outcome));
        }
    }
}

/// What differs from a write that is allowed.
#[derive(Clone)]
struct Case {
    tool: &'static str,
    node: &'static str,
    reviewed: bool,
    handler: Option<Digest>,
    effects: BTreeMap<Effect, Action>,
    guard: Option<GuardVerdict>,
    arguments: serde_json::Value,
}

struct Ran {
    result: Result<(), CallError>,
    stages: Vec<(u32, Stage, StageOutcome)>,
    written: bool,
}

async fn run(change: impl FnOnce(&mut Case, &str)) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().canonicalize().unwrap().join("effect");
    let target_text = target.to_string_lossy().into_owned();
    let mut case = Case {
        tool: "write",
        node: "node",
        reviewed: true,
        handler: None,
        effects: Effect::ALL.map(|effect| (effect, Action::Allow)).into(),
        guard: None,
        arguments: json!({"arg": target_text}),
    };
    change(&mut case, &target_text);

    let config = SandboxConfig { cache_dir: Some(cache_dir()), slots: 4, ..SandboxConfig::default() };
    let wasm = std::fs::read(env!("T2M_PLUGIN_HOSTILE")).unwrap();
    let dirs = vec![DirGrant { path: folder.path().to_owned(), access: Access::ReadWrite }];
    let source = PluginSource {
        grants: Grants { dirs, ..Grants::default() },
        ..PluginSource::new("hostile".parse().unwrap(), wasm.into())
    };
    let plugin = Sandbox::new(config).unwrap().load(source).await.unwrap();
    let mut contracts = Contracts::default();
    for tool in plugin.tools() {
        let mut contract = Contract::candidate(tool, case.handler.unwrap_or(plugin.digest()));
        let digest = contract.digest();
        contract.review =
            case.reviewed.then(|| Review { by: "test".into(), at: "2026-01-01T00:00:00Z".into(), digest });
        contracts.insert(contract);
    }
    let stages = Arc::new(Stages::default());
    let dispatcher = Dispatcher::new(DispatcherParts {
        policy: Policy { effects: case.effects, ..Policy::default() },
        guard: case.guard.map(|verdict| Arc::new(Says(verdict)) as Arc<dyn Guard>),
        events: Some(Arc::clone(&stages) as Arc<dyn EventSink>),
        ..DispatcherParts::new(Registry::build([plugin.registration(Trust::External)], &contracts).unwrap())
    });
    let node = Node {
        id: "node".parse().unwrap(),
        tool: case.tool.parse().unwrap(),
        arguments: Expr::Literal(case.arguments.clone()),
        after: vec![],
        effect: Effect::Write,
        idempotency: Idempotency::Unknown,
        timeout_ms: None,
        recorded: None,
        decisions: vec![],
    };
    let workflow = Workflow {
        name: "one write".into(),
        inputs: BTreeMap::new(),
        nodes: vec![node],
        output: Expr::Literal(json!(null)),
        source: Provenance::default(),
    };
    let request = CallRequest {
        origin: Origin::Workflow {
            workflow: Arc::new(verify(workflow, None).unwrap()),
            inputs: Arc::default(),
        },
        run: "run".parse().unwrap(),
        node: case.node.parse().unwrap(),
        attempt: 1,
        tool: case.tool.parse().unwrap(),
        arguments: case.arguments,
        timeout: None,
    };
    let result = dispatcher.dispatch(request).await.map(|_| ());
    let stages = std::mem::take(&mut *stages.0.lock().unwrap());
    Ran { result, stages, written: target.exists() }
}

/// T17: what is allowed is done, so the refusals below have something to prevent.
#[tokio::test]
async fn an_allowed_write_writes() {
    let ran = run(|_, _| ()).await;
    ran.result.unwrap();
    assert!(ran.written);
    assert_eq!(ran.stages.iter().map(|s| s.1).collect::<Vec<_>>(), Stage::ALL);
}

/// T17, P07: a guest's nested write passes all stages inside its caller's handler stage.
#[tokio::test]
async fn a_nested_call_of_a_guest_passes_every_stage() {
    let ran = run(|case, _| {
        case.tool = "nested";
        case.arguments = json!({"arg": "echo"});
    })
    .await;
    ran.result.unwrap();
    let depths: Vec<(u32, Stage)> = ran.stages.iter().map(|(depth, stage, _)| (*depth, *stage)).collect();
    let mut expected: Vec<(u32, Stage)> = Stage::ALL[..7].iter().map(|stage| (0, *stage)).collect();
    expected.extend(Stage::ALL.map(|stage| (1, stage)));
    expected.extend(Stage::ALL[7..].iter().map(|stage| (0, *stage)));
    assert_eq!(depths, expected);
}

/// T13, T17, T19, T22, T23, T24: at each stage that says no, the file is not there.
#[tokio::test]
async fn a_write_that_any_stage_refuses_leaves_no_file() {
    type Change = Box<dyn Fn(&mut Case)>;
    let guard =
        |verdict: GuardVerdict| -> Change { Box::new(move |case| case.guard = Some(verdict.clone())) };
    let policy = |action: Action| -> Change {
        Box::new(move |case| {
            case.effects.insert(Effect::Write, action);
        })
    };
    let cases: Vec<(Stage, Code, Change)> = vec![
        (Stage::Verify, Code::CallUnverified, Box::new(|case| case.node = "elsewhere")),
        (
            Stage::Verify,
            Code::SecretUnbound,
            Box::new(|case| case.arguments["name"] = json!("Bearer [T2M-REDACTED:token:1]")),
        ),
        (Stage::Verify, Code::SecretUnbound, Box::new(|case| case.arguments["name"] = json!("[REDACTED]"))),
        (Stage::Bind, Code::ContractUnreviewed, Box::new(|case| case.reviewed = false)),
        (Stage::Bind, Code::ContractDrift, Box::new(|case| case.handler = Some(Digest::of_bytes(b"other")))),
        (Stage::Bind, Code::ToolUnknown, Box::new(|case| case.tool = "wrte")),
        (Stage::Policy, Code::PolicyDenied, policy(Action::Deny)),
        (Stage::Approval, Code::ApprovalRequired, policy(Action::Approval)),
        (Stage::InputSchema, Code::ArgumentsInvalid, Box::new(|case| case.arguments = json!([1]))),
        (Stage::Guard, Code::GuardDenied, guard(GuardVerdict::Deny { reason: "no".into() })),
        (
            Stage::Guard,
            Code::GuardReviewRequired,
            guard(GuardVerdict::ReviewRequired { reason: "look".into(), handle: None }),
        ),
        (Stage::Guard, Code::GuardTimeout, guard(GuardVerdict::TimedOut)),
        (Stage::Guard, Code::GuardError, guard(GuardVerdict::Failed { reason: "broken".into() })),
    ];
    for (stage, code, change) in cases {
        let ran = run(|case, _| change(case)).await;
        let error = ran.result.unwrap_err();
        assert_eq!((error.stage, error.code), (stage, code), "{error}");
        assert!(!ran.written, "{code}");
        assert_eq!(ran.stages.last().map(|s| s.2), Some(StageOutcome::Refused(code)));
    }
}
