//! What has to hold for any bytes.
//!
//! Owns the laws that the fuzz targets and the replay of their corpus check, through the public interface of
//! the core. Refuses to choose inputs.
//!
//! **Invariant:** a check ends by returning, or by a panic that says which law is broken.

use t2m_core::compiler;
use t2m_core::json::Limits;
use t2m_core::redact;
use t2m_core::trace::import::{Format, Found, ImportOptions, Imported, import_any, import_bytes};
use t2m_core::trace::{self, Trace};
use t2m_core::workflow::{self, Workflow};

/// A check by the name of its target.
pub fn by_name(target: &str) -> Option<fn(&[u8])> {
    Some(match target {
        "import" => import,
        "workflow" => workflow,
        "redact" => redact,
        "compile" => compile,
        _ => return None,
    })
}

/// Lines are cut short, so that a few kilobytes hold lines that are too long.
fn options(from: Option<Format>) -> ImportOptions {
    ImportOptions { from, line_bytes: 4 << 10, ..ImportOptions::default() }
}

/// Every call is an event or left out, and the trace is one that can be read again; in the format that the
/// content has, and in one that the length chooses.
pub fn import(bytes: &[u8]) {
    let formats: Vec<Option<Format>> = Format::ALL.into_iter().map(Some).collect();
    let chosen = formats.get(bytes.len() % formats.len()).copied().flatten();
    for from in [None, chosen] {
        match import_any(bytes, &options(from)) {
            Ok(Found::Recording(imported)) => check_recording(&imported),
            Ok(Found::Workflow(made)) => check_workflow(&made.workflow),
            Err(problems) => assert!(problems.iter().next().is_some(), "refused without a reason"),
        }
    }
}

fn check_recording(imported: &Imported) {
    let (trace, report) = (&imported.trace, &imported.report);
    let outcomes = report.answered + report.failed + report.unanswered;
    assert_eq!(report.calls, outcomes + report.left_out, "calls are lost: {report:?}");
    assert_eq!(trace.events.len(), outcomes, "events and counts differ: {report:?}");
    let file = trace::to_json(trace).to_string();
    match trace::parse(file.as_bytes(), Limits::default()) {
        Ok(read) => assert_eq!(read, *trace, "the trace changes when it is written and read"),
        Err(problems) => panic!("the trace can't be read again: {problems}"),
    }
}

fn check_workflow(workflow: &Workflow) {
    let file = workflow::to_json(workflow).to_string();
    // An argument may nest so deep that its expression doesn't fit; whoever writes the file checks that.
    let limits = Limits { depth: 1024, ..Limits::default() };
    match workflow::parse(file.as_bytes(), limits) {
        Ok((read, digest)) => {
            assert_eq!(read, *workflow, "the workflow changes when it is written and read");
            assert_eq!(digest, workflow::digest(workflow), "two digests of one workflow");
        }
        Err(problems) => panic!("the workflow can't be read again: {problems}"),
    }
    let verified = match workflow::verify(workflow.clone(), None) {
        Ok(verified) => verified,
        Err(problems) => panic!("a made workflow is refused: {problems}"),
    };
    let placed: usize = verified.layers().iter().map(Vec::len).sum();
    assert_eq!(placed, workflow.nodes.len(), "each node is in one layer");
}

/// A workflow that is read can be written, read again and shown.
pub fn workflow(bytes: &[u8]) {
    let Ok((workflow, digest)) = workflow::parse(bytes, Limits::default()) else {
        return;
    };
    let file = workflow::to_json(&workflow).to_string();
    let read = workflow::parse(file.as_bytes(), Limits::default()).map(|(read, _)| read);
    assert_eq!(read, Ok(workflow.clone()), "the workflow changes when it is written and read");
    let explained = workflow::explain(&workflow);
    assert_eq!(explained.nodes.len(), workflow.nodes.len());
    if let Ok(verified) = workflow::verify(workflow.clone(), None) {
        let claimed = workflow::verify(workflow, Some(digest));
        assert_eq!(claimed.is_ok(), verified.digest() == digest, "a digest counts that isn't the content's");
        let _ = (workflow::svg::svg(&verified), workflow::graph::dot(verified.workflow()));
        let _ = workflow::bind_inputs(&verified, serde_json::Map::new());
    }
}

fn recording(bytes: &[u8]) -> Option<Trace> {
    import_bytes(bytes, &options(None)).ok().map(|imported| imported.trace)
}

/// What was redacted once has nothing more to redact.
pub fn redact(bytes: &[u8]) {
    let Some(trace) = recording(bytes) else { return };
    let Ok(redacted) = redact::redact(&trace, &redact::Options::default()) else {
        return;
    };
    assert_eq!(redacted.trace.events.len(), trace.events.len(), "an event is lost");
    match redact::redact(&redacted.trace, &redact::Options::default()) {
        Ok(again) => assert_eq!(again.trace, redacted.trace, "redacting a copy changes it"),
        Err(problems) => panic!("a copy can't be redacted: {problems}"),
    }
}

/// A recording that compiles makes a workflow that runs.
pub fn compile(bytes: &[u8]) {
    let Some(trace) = recording(bytes) else { return };
    match compiler::compile(trace, &compiler::Options::default()) {
        Ok(compiled) => check_workflow(&compiled.workflow),
        Err(problems) => {
            let broken = problems.iter().find(|problem| problem.code.blame() == t2m_core::code::Blame::Host);
            assert!(broken.is_none(), "a fault of the compiler itself: {problems}");
        }
    }
}
