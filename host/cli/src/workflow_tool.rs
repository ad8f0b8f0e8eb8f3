//! A workflow as a tool of the MCP server.
//!
//! Owns the way from one call to one run and back. Refuses shortcuts: a run is checked as `t2m-host run` checks
//! it, and each of its nodes passes the dispatch.
//!
//! **Invariant:** nothing of a run starts unless every node could.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use t2m_core::code::Code;
use t2m_core::contract::Contract;
use t2m_core::dispatch::{Bound, Dispatcher};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::ToolName;
use t2m_core::problem::Problems;
use t2m_core::workflow::{self, VerifiedWorkflow};
use t2m_mcp::{RunFuture, WorkflowCall, WorkflowFailure, WorkflowRunner, WorkflowTool};
use t2m_runtime::{Blocked, Cancel, MemoryJournal, RunOptions, RunReport, preflight};

use crate::call_log::CallRecorder;
use crate::config::{RunConfig, WorkflowConfig};
use crate::failure::{Failure, Result};

/// A workflow that can be called.
pub(crate) struct ServedWorkflow {
    tool: WorkflowTool,
    workflow: Arc<VerifiedWorkflow>,
    dispatcher: Arc<Dispatcher>,
    run: RunConfig,
    recorder: Option<Arc<CallRecorder>>,
}

impl ServedWorkflow {
    /// A workflow of a file, under its own name or the file's.
    pub(crate) fn new(
        offer: &WorkflowConfig,
        workflow: VerifiedWorkflow,
        dispatcher: &Arc<Dispatcher>,
        run: RunConfig,
        recorder: Option<Arc<CallRecorder>>,
    ) -> Result<ServedWorkflow> {
        let name = match &offer.name {
            Some(name) => name.clone(),
            None => ToolName::new(offer.path.file_stem().unwrap_or_default().to_string_lossy()).map_err(
                |error| {
                    let message = format!("the file's name becomes the tool's: {error}");
                    Failure::of_file(&offer.path, Code::FieldValue, message)
                },
            )?,
        };
        let mut tool = describe(name, &workflow, dispatcher);
        if let Some(description) = &offer.description {
            tool.description.clone_from(description);
        }
        let (workflow, dispatcher) = (Arc::new(workflow), Arc::clone(dispatcher));
        Ok(ServedWorkflow { tool, workflow, dispatcher, run, recorder })
    }

    async fn call(&self, call: WorkflowCall) -> std::result::Result<Value, WorkflowFailure> {
        let Some(recorder) = &self.recorder else {
            return self.make(call).await;
        };
        let run = call.run.clone();
        recorder.workflow_began(&run, &self.tool.name, &call.inputs, self.workflow.digest());
        let outcome = self.make(call).await;
        recorder.workflow_ended(&run, outcome.as_ref());
        outcome
    }

    async fn make(&self, call: WorkflowCall) -> std::result::Result<Value, WorkflowFailure> {
        let inputs = workflow::bind_inputs(&self.workflow, call.inputs).map_err(|found| invalid(&found))?;
        let inputs = Arc::new(inputs);
        let blocked = preflight(&self.dispatcher, &self.workflow, &call.run, &inputs);
        if let Some(failure) = refused(&blocked) {
            return Err(failure);
        }
        let cancel = Cancel::default();
        let options = RunOptions {
            run: call.run,
            inputs,
            concurrency: usize::from(self.run.concurrency),
            timeout: Some(Duration::from_millis(self.run.timeout_ms)),
            cancel: cancel.clone(),
            events: call.events,
        };
        let mut journal = MemoryJournal::default();
        let run = t2m_runtime::run(&self.dispatcher, &self.workflow, &options, &mut journal);
        tokio::pin!(run);
        let report = tokio::select! {
            report = &mut run => report,
            () = call.cancelled => {
                cancel.cancel();
                run.await
            }
        };
        match report {
            Ok(RunReport { outcome: Ok(output), .. }) => Ok(output),
            Ok(report) => Err(failed(&self.workflow, &report)),
            Err(error) => {
                tracing::error!("a run could not be carried on: {error}");
                Err(failure(Code::Internal, "the run could not be carried on".to_owned()))
            }
        }
    }
}

impl WorkflowRunner for ServedWorkflow {
    fn tool(&self) -> &WorkflowTool {
        &self.tool
    }

    fn nodes(&self) -> usize {
        self.workflow.workflow().nodes.len()
    }

    fn run(&self, call: WorkflowCall) -> RunFuture<'_> {
        Box::pin(self.call(call))
    }
}

/// What a client sees. A tool without a reviewed contract counts as the worst: its node can't run anyway.
fn describe(name: ToolName, workflow: &VerifiedWorkflow, dispatcher: &Dispatcher) -> WorkflowTool {
    let contract = |tool: &ToolName| match dispatcher.registry().get(tool).map(|tool| &tool.bound) {
        Some(Bound::Reviewed { contract, .. }) => Some(contract),
        _ => None,
    };
    let workflow = workflow.workflow();
    let contracts = || workflow.nodes.iter().map(|node| contract(&node.tool));
    let effect = contracts().map(|found| found.map_or(Effect::Unknown, |found| found.effect)).max();
    let repeatable = |contract: &Arc<Contract>| contract.idempotency == Idempotency::Idempotent;
    let idempotent = contracts().all(|found| found.is_some_and(repeatable));
    let mut tools: Vec<&str> = workflow.nodes.iter().map(|node| node.tool.as_str()).collect();
    tools.dedup();
    let more = if tools.len() > 8 { ", ..." } else { "" };
    let tools = tools.into_iter().take(8).collect::<Vec<_>>().join(", ");
    WorkflowTool {
        name,
        description: format!(
            "Runs the recorded procedure `{}`: {} calls ({tools}{more}).",
            plain(&workflow.name),
            workflow.nodes.len()
        ),
        input_schema: workflow::input_schema(workflow),
        output_schema: workflow::output_schema(workflow, |tool| {
            contract(tool).and_then(|contract| contract.output_schema.as_ref())
        }),
        effect: effect.unwrap_or(Effect::Pure),
        idempotency: if idempotent { Idempotency::Idempotent } else { Idempotency::NonIdempotent },
    }
}

/// The start of somebody's name for a workflow, without what could pass for more than a name: the model reads it.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | ':'))
        .take(80)
        .collect()
}

fn failure(code: Code, message: String) -> WorkflowFailure {
    WorkflowFailure { code, message, details: Map::new() }
}

fn invalid(problems: &Problems) -> WorkflowFailure {
    let lines: Vec<String> =
        problems.iter().map(|found| format!("{}: {}", found.place, found.message)).collect();
    let mut failure = failure(problems.code(), lines.join("\n"));
    failure.details.insert("problems".to_owned(), json!(problems));
    failure
}

/// Every node that can't run, so that one answer is enough to make the run possible.
fn refused(blocked: &[Blocked]) -> Option<WorkflowFailure> {
    let first = blocked.first()?;
    let lines: Vec<String> = blocked
        .iter()
        .map(|entry| format!("{}: {}; arguments {}", entry.error.code, entry.error.message, entry.arguments))
        .collect();
    let message = format!("nothing ran: {} nodes can't run\n{}", blocked.len(), lines.join("\n"));
    let mut failure = failure(first.error.code, message);
    let listed = blocked.iter().map(|entry| {
        let approval = entry.error.approval.as_ref().map(|request| request.id());
        json!({"node": entry.node, "code": entry.error.code, "message": entry.error.message, "approval": approval})
    });
    failure.details.insert("blocked".to_owned(), listed.collect());
    Some(failure)
}

fn failed(workflow: &VerifiedWorkflow, report: &RunReport) -> WorkflowFailure {
    let (code, message) = match &report.outcome {
        Err((code, message)) => (*code, message.clone()),
        Ok(_) => (Code::Internal, String::new()),
    };
    let states: Map<String, Value> = workflow
        .workflow()
        .nodes
        .iter()
        .map(|node| {
            let state = report.state.nodes().get(&node.id);
            (node.id.to_string(), state.map_or_else(|| json!({"state": "not-started"}), |state| json!(state)))
        })
        .collect();
    let mut failure = failure(code, message);
    failure.details.insert("nodes".to_owned(), Value::Object(states));
    if let Some((_, call)) = &report.failure {
        failure.details.insert("call".to_owned(), json!(call));
    }
    failure
}
