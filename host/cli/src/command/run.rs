//! `t2m-host run`: a workflow runs.
//!
//! Owns the way from files and options to a run, and what is shown of it. Refuses to run what preflight
//! blocks: nothing starts unless every node could.
//!
//! **Invariant:** standard output holds the result of a run that succeeded, and nothing for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use t2m_core::approval::{Approval, ApprovalBook};
use t2m_core::audit::AuditLog;
use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::dispatch::{Clock, Dispatcher, DispatcherParts, EventSink};
use t2m_core::event::Event;
use t2m_core::id::RunId;
use t2m_core::journal::NodeState;
use t2m_core::json::Limits;
use t2m_core::schema::Schema;
use t2m_core::trace::{self, import::ImportOptions};
use t2m_core::workflow::{self, VerifiedWorkflow};
use t2m_runtime::{
    Blocked, Cancel, GivenApprovals, MemoryJournal, RunOptions, RunReport, SystemClock, preflight,
};

use crate::args::PluginArgs;
use crate::audit_log::OpenAudit;
use crate::config::Config;
use crate::contracts;
use crate::exit::Exit;
use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::out::{Out, one_line, pretty};
use crate::plugins;
use crate::progress::Progress;

/// Run a workflow.
///
/// Every node is checked before the first one runs: tools, contracts, policy and approvals. If one would be
/// refused, nothing runs, and the message says what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host run workflow.json --input owner=acme --input limit=10
  t2m-host run workflow.json --dir $PWD:rw --approve sha256:...
  t2m-host run workflow.json --approvals approvals.json --format json")]
pub(crate) struct Run {
    /// The workflow file
    workflow: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Reviewed contracts [default: `WORKFLOW.contracts.json` beside the workflow, if there is one]; they win
    /// over those of `t2m.contracts.json`, which hold for every workflow
    #[arg(long, value_name = "FILE")]
    contracts: Option<PathBuf>,
    /// Approve one request, by the id that an earlier attempt printed; repeat for more
    #[arg(long, value_name = "ID")]
    approve: Vec<Digest>,
    /// A file of approvals
    #[arg(long, value_name = "FILE")]
    approvals: Option<PathBuf>,
    /// Most calls at a time [default: `run.concurrency`]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: Option<u16>,
    /// Longest time for the run, in milliseconds [default: `run.timeout_ms`]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// The run's id [default: made from the time]. Clocks and randomness of the tools follow from it
    #[arg(long, value_name = "ID")]
    run_id: Option<RunId>,
    /// Write each event as a line of JSON to this file
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// What a workflow is given.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InputArgs {
    /// An input: JSON, or text where the input's schema wants a text; repeat for more
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// A JSON file with inputs by name
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
}

/// Writes each event as it happens.
struct EventFile(Mutex<File>);

impl EventFile {
    fn create(path: &Path) -> Result<EventFile> {
        files::create_private(path).map(|file| EventFile(Mutex::new(file)))
    }
}

impl EventSink for EventFile {
    fn emit(&self, event: &Event) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A watcher must not fail a call: an event that can't be written is missed.
        if let Err(error) = writeln!(file, "{}", json!(event)) {
            tracing::warn!("an event could not be written: {error}");
        }
    }
}

/// Tells several.
struct Fan(Vec<Arc<dyn EventSink>>);

impl EventSink for Fan {
    fn emit(&self, event: &Event) {
        self.0.iter().for_each(|sink| sink.emit(event));
    }
}

impl Run {
    pub(crate) async fn run(self, named: Option<&Path>, config: Config, out: &mut Out) -> Result<Exit> {
        let audit = OpenAudit::of(&config, &self.plugins)?;
        let log = audit.as_ref().map(OpenAudit::log);
        let exit = self.go(named, config, log, out).await?;
        audit.map_or(Ok(()), OpenAudit::close)?;
        Ok(exit)
    }

    async fn go(
        self,
        named: Option<&Path>,
        config: Config,
        audit: Option<Arc<dyn AuditLog>>,
        out: &mut Out,
    ) -> Result<Exit> {
        let workflow = Arc::new(read_workflow(&self.workflow)?);
        let given = self.inputs.given(&workflow)?;
        for name in workflow.workflow().unused_inputs().into_iter().filter(|name| given.contains_key(*name)) {
            out.note(format!(
                "nothing in the workflow uses input `{name}`: what was given for it changes nothing"
            ));
        }
        let inputs = workflow::bind_inputs(&workflow, given)?;
        let contracts = contracts::workflow_contracts(named, &self.workflow, self.contracts.as_deref())?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let run = match &self.run_id {
            Some(run) => run.clone(),
            None => RunId::new(format!("run-{}-{}", clock.now_ms(), std::process::id()))
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?,
        };
        files::refuse_overwrite(self.events.as_deref(), &[&self.workflow])?;
        let progress = out.shows_progress().then(|| Arc::new(Progress::new()));
        let event_file = self.events.as_deref().map(EventFile::create).transpose()?.map(Arc::new);
        let mut sinks: Vec<Arc<dyn EventSink>> = Vec::new();
        sinks.extend(progress.clone().map(|sink| sink as Arc<dyn EventSink>));
        sinks.extend(event_file.map(|sink| sink as Arc<dyn EventSink>));
        let events: Option<Arc<dyn EventSink>> =
            if sinks.is_empty() { None } else { Some(Arc::new(Fan(sinks))) };

        let sandbox = plugins::sandbox(&self.plugins, &config)?;
        let loaded = plugins::load(&sandbox, &self.plugins, &config, plugins::Lacking::Fails).await?;
        let dispatcher = Dispatcher::new(DispatcherParts {
            policy: config.policy.clone(),
            approvals: Some(Arc::new(GivenApprovals::new(
                given_approvals(&self.approve, self.approvals.as_deref())?,
                clock,
            ))),
            events: events.clone(),
            audit,
            ..DispatcherParts::new(plugins::registry(&loaded, &contracts)?)
        });
        let inputs = Arc::new(inputs);
        let mut blocked = preflight(&dispatcher, &workflow, &run, &inputs);
        plugins::explain_missing_grants(&sandbox, &loaded, &workflow, &mut blocked).await?;
        if let Some(first) = blocked.first() {
            let code = first.error.code;
            show_blocked(&self.workflow, &workflow, &blocked, out);
            return Ok(Exit::of(code));
        }
        let cancel = Cancel::default();
        let on_signal = cancel.clone();
        tokio::spawn(async move {
            asked_to_stop().await;
            on_signal.cancel();
        });
        let options = RunOptions {
            run,
            inputs,
            concurrency: usize::from(self.concurrency.unwrap_or(config.run.concurrency)),
            timeout: Some(Duration::from_millis(self.timeout_ms.unwrap_or(config.run.timeout_ms))),
            cancel,
            events,
        };
        let mut journal = MemoryJournal::default();
        let report = t2m_runtime::run(&dispatcher, &workflow, &options, &mut journal).await;
        if let Some(progress) = progress {
            progress.clear();
        }
        let report = report.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        Ok(show(&options.run, &workflow, &report, out))
    }
}

impl InputArgs {
    /// The inputs as given; what is missing isn't filled in.
    pub(crate) fn given(&self, workflow: &VerifiedWorkflow) -> Result<Map<String, Value>> {
        let mut given = Map::new();
        if let Some(path) = &self.inputs {
            let bytes = files::read(path, Limits::default().bytes)?;
            match t2m_core::json::parse(&bytes, Limits::default()).in_file(path)? {
                Value::Object(map) => given = map,
                other => {
                    let message = format!("expected an object, found {}", t2m_core::json::kind(&other));
                    return Err(Failure::of_file(path, Code::FieldType, message));
                }
            }
        }
        let mut named = BTreeSet::new();
        for text in &self.input {
            let Some((name, value)) = text.split_once('=') else {
                let message = format!("`--input {text}`: expected NAME=VALUE");
                return Err(Failure::new(Code::UsageInvalid, message));
            };
            if !named.insert(name) {
                // Which of the two is meant can't be told.
                let message = format!("`--input {name}=...` is given twice");
                return Err(Failure::new(Code::UsageInvalid, message));
            }
            let declared = workflow.workflow().inputs.get(name).map(|input| &input.schema);
            given.insert(name.to_owned(), input_value(value, declared));
        }
        Ok(given)
    }
}

/// The approvals of the command line: single ids, each for one call, and a file.
pub(crate) fn given_approvals(ids: &[Digest], file: Option<&Path>) -> Result<Vec<Approval>> {
    let mut given: Vec<Approval> = ids
        .iter()
        .map(|request| Approval {
            request: *request,
            approver: "command line".to_owned(),
            expires_at_ms: None,
            uses: 1,
        })
        .collect();
    if let Some(path) = file {
        let bytes = files::read(path, Limits::default().bytes)?;
        given.extend(ApprovalBook::parse(&bytes, Limits::default()).in_file(path)?);
    }
    Ok(given)
}

/// A value on the command line is JSON if it is JSON that the schema allows, and text otherwise. So `5` is a
/// number where a number is wanted and the text `5` where a text is.
pub(super) fn input_value(text: &str, schema: Option<&Value>) -> Value {
    let as_text = Value::String(text.to_owned());
    let Ok(parsed) = serde_json::from_str::<Value>(text) else { return as_text };
    let allows = |value: &Value| {
        schema.and_then(|schema| Schema::compile(schema).ok()).is_some_and(|schema| schema.allows(value))
    };
    if !allows(&parsed) && allows(&as_text) { as_text } else { parsed }
}

/// Reads and verifies a workflow file.
pub(crate) fn read_workflow(path: &Path) -> Result<VerifiedWorkflow> {
    let bytes = files::read(path, Limits::default().bytes)?;
    let parsed = workflow::parse(&bytes, Limits::default()).in_file(path);
    let (workflow, digest) = parsed.map_err(|failure| {
        let recording = trace::import::import_bytes(&bytes, &ImportOptions::default()).is_ok();
        if !recording {
            return failure;
        }
        let shown = one_line(&path.display().to_string());
        failure.with_next(format!(
            "this is a recording: `t2m-host compile {shown} --out FILE` makes a workflow of it"
        ))
    })?;
    workflow::verify(workflow, Some(digest)).in_file(path)
}

/// Waits for Ctrl-C or, as service managers send it, SIGTERM.
pub(super) async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a handler the system ends the process by itself.
    let _ = tokio::signal::ctrl_c().await;
}

/// Says what stops the run, and how to go on.
fn show_blocked(path: &Path, workflow: &VerifiedWorkflow, blocked: &[Blocked], out: &mut Out) {
    let requests: Vec<_> = blocked.iter().filter_map(|blocked| blocked.error.approval.as_ref()).collect();
    if out.is_json() {
        let blocked: Vec<Value> = blocked
            .iter()
            .map(|blocked| {
                let mut value = json!(blocked);
                if let (Some(map), Some(request)) = (value.as_object_mut(), &blocked.error.approval) {
                    map.insert("approval_id".into(), json!(request.id()));
                }
                value
            })
            .collect();
        out.raw(&pretty(&json!({"status": "blocked", "workflow": workflow.digest(), "blocked": blocked})));
        return;
    }
    out.error(format!(
        "nothing ran: {} of {} nodes can't run",
        blocked.len(),
        workflow.workflow().nodes.len()
    ));
    for entry in blocked {
        out.error(one_line(&format!("error[{}]: {}", entry.error.code, entry.error.message)));
        out.error(format!("  arguments: {}", shorten(&entry.arguments)));
        if !entry.follows_from.is_empty() {
            let sources = one_line(&entry.follows_from.join(", "));
            out.error(format!("  an approval covers whatever these turn out to be: {sources}"));
        }
        if entry.error.approval.is_none() {
            out.error(format!("  next: {}", entry.error.code.next_action()));
        }
    }
    if !requests.is_empty() {
        let flags: String =
            requests.iter().map(|request| format!(" \\\n    --approve {}", request.id())).collect();
        out.error(format!(
            "to approve these calls, add to your command:\n  t2m-host run {} ...{flags}",
            path.display()
        ));
    }
}

pub(super) fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 300 {
        text
    } else {
        format!("{}...", text.chars().take(297).collect::<String>())
    }
}

/// Shows how a run went and gives its exit status.
fn show(run: &RunId, workflow: &VerifiedWorkflow, report: &RunReport, out: &mut Out) -> Exit {
    let states = report.state.nodes();
    let exit = match &report.outcome {
        Ok(_) => Exit::Done,
        Err((code, _)) => Exit::of(*code),
    };
    if out.is_json() {
        let nodes: Vec<Value> = workflow
            .workflow()
            .nodes
            .iter()
            .map(|node| {
                let mut value =
                    json!({"node": node.id, "tool": node.tool, "micros": report.micros.get(&node.id)});
                let state = states
                    .get(&node.id)
                    .map_or_else(|| json!({"state": "not-started"}), |state| json!(state));
                if let (Some(map), Value::Object(state)) = (value.as_object_mut(), state) {
                    map.extend(state);
                }
                value
            })
            .collect();
        let (status, output, error) = match &report.outcome {
            Ok(output) => ("done", Some(output), None),
            Err((code, message)) => {
                let call = report.failure.as_ref().map(|(_, error)| error);
                (
                    "failed",
                    None,
                    Some(json!({"code": code, "message": message, "next": code.next_action(), "call": call})),
                )
            }
        };
        out.raw(&pretty(&json!({
            "run": run, "workflow": workflow.digest(), "status": status, "output": output, "error": error,
            "nodes": nodes,
        })));
        return exit;
    }
    match &report.outcome {
        Ok(output) => {
            let micros: u64 = report.micros.values().sum();
            out.note(format!("{} calls done, {:.1} ms in tools", states.len(), to_ms(micros)));
            out.raw(&pretty(output));
        }
        Err((code, message)) => {
            out.error(one_line(&format!("error[{code}]: {message}")));
            if let Some((_, error)) = &report.failure {
                for fault in &error.faults {
                    out.error(one_line(&format!("  at {}: {}", fault.pointer, fault.message)));
                }
                if let Some(tool_code) = &error.tool_code {
                    out.error(one_line(&format!("  the tool's own code: {tool_code}")));
                }
            }
            out.error(format!("  next: {}", code.next_action()));
            show_states(workflow, report, out);
        }
    }
    exit
}

/// What is done, failed, cancelled, in doubt and never started, one line each.
fn show_states(workflow: &VerifiedWorkflow, report: &RunReport, out: &mut Out) {
    let mut by_state: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &workflow.workflow().nodes {
        let state = match report.state.nodes().get(&node.id) {
            None => "not started",
            Some(NodeState::Running { .. }) => "running",
            Some(NodeState::Done) => "done",
            Some(NodeState::Failed { .. }) => "failed",
            Some(NodeState::Cancelled) => "cancelled",
            Some(NodeState::InDoubt) => "in doubt",
        };
        by_state.entry(state).or_default().push(node.id.as_str());
    }
    for (state, nodes) in by_state {
        out.error(format!("  {state}: {}", nodes.join(", ")));
    }
}

fn to_ms(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64() * 1000.0
}
