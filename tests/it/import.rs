//! Recordings of other formats, through the real program.
//!
//! Owns one golden case for each folder of `tests/data/import`: what was recorded, and what became of it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_core::trace::import::{ImportOptions, import, import_bytes};
use t2m_tests::{HostCli, Outcome, TestEnv, golden};

/// The recording of a case: the one file whose name begins with `input.`.
fn input(case: &Path) -> Outcome<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(case)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("input.") {
            found.push(entry.path());
        }
    }
    assert_eq!(found.len(), 1, "{} needs one input", case.display());
    Ok(found.remove(0))
}

/// What else the command line says in a case: a list of texts in `args.json`, or nothing.
fn more_args(case: &Path) -> Outcome<Vec<String>> {
    let path = case.join("args.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// What a person would check by hand: every event, and the report without sizes.
fn summary(trace: &Value, about: &Value) -> Value {
    let mut report = about["report"].clone();
    for size in ["bytes", "kept_bytes", "lines"] {
        report.as_object_mut().unwrap().remove(size);
    }
    let events: Vec<Value> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let mut event = event.clone();
            // Nothing that is imported states an effect, so every event must be of the same two words.
            assert_eq!(event["side_effect"], "unknown", "{event}");
            assert_eq!(event["idempotency"], "unknown", "{event}");
            let map = event.as_object_mut().unwrap();
            map.remove("side_effect");
            map.remove("idempotency");
            event
        })
        .collect();
    json!({"format": about["format"], "report": report, "events": events, "metadata": trace["metadata"]})
}

/// T02, T04, T08, T14: each format becomes the events that a person would make of it, or is refused with a reason.
#[test]
fn recordings_become_the_events_that_stand_beside_them() -> Outcome<()> {
    for case in golden::cases("import")? {
        let env = TestEnv::new()?;
        let input = input(&case)?;
        let args = ["--out", "trace.json", "--format", "json"];
        let command = HostCli::new(&env)?.arg("import").arg(&input).args(args);
        let out = command.args(more_args(&case)?).output()?;
        let got = if out.code == Some(0) {
            let made: Value = serde_json::from_str(&env.read("trace.json")?)?;
            let about = out.json()?;
            match made["format"] {
                Value::Null => summary(&made, &about),
                // A workflow of another program becomes one of ours, of which every field counts.
                _ => json!({"format": about["format"], "report": about["report"], "workflow": made}),
            }
        } else {
            let error: Value = serde_json::from_str(&out.stderr)?;
            json!({"exit": out.code, "code": error["error"]["code"], "problems": error["error"]["problems"]})
        };
        golden::check(&case, "expected.json", &format!("{got:#}\n"))?;
    }
    Ok(())
}

/// T02: a recording that breaks off anywhere is imported or refused with a reason, and no call gets lost.
#[test]
fn a_recording_that_breaks_off_anywhere_is_accounted_for() -> Outcome<()> {
    let options = ImportOptions::default();
    for case in golden::cases("import")? {
        let bytes = std::fs::read(input(&case)?)?;
        // Odd, so that every part of a line is met in some line.
        for end in (0..bytes.len()).step_by(17) {
            let part = &bytes[..end];
            match import_bytes(part, &options) {
                Err(problems) => assert!(problems.iter().next().is_some(), "{}", case.display()),
                Ok(made) => {
                    let report = &made.report;
                    let events = report.answered + report.failed + report.unanswered;
                    assert_eq!(made.trace.events.len(), events, "{} at {end}", case.display());
                    assert_eq!(report.calls, events + report.left_out, "{} at {end}", case.display());
                    // The size of the pieces that a stream comes in changes nothing.
                    let pieces = std::io::BufReader::with_capacity(1 + end % 50, part);
                    assert_eq!(import(pieces, &options).as_ref(), Ok(&made), "{} at {end}", case.display());
                }
            }
        }
    }
    Ok(())
}

/// T02: what is held doesn't grow with the lines that hold no call.
#[test]
fn lines_without_calls_are_not_kept() -> Outcome<()> {
    let case = golden::cases("import")?.into_iter().find(|case| case.ends_with("claude-code-parallel"));
    let text = std::fs::read_to_string(input(&case.unwrap())?)?;
    let (first, rest) = text.split_once('\n').unwrap();
    let kept = |copies: usize| {
        let filler = format!("{{\"type\":\"progress\",\"data\":\"{}\"}}\n", "x".repeat(2000)).repeat(copies);
        import_bytes(format!("{first}\n{filler}{rest}").as_bytes(), &ImportOptions::default()).unwrap().report
    };
    let (few, many) = (kept(1), kept(1000));
    assert_eq!((few.calls, few.kept_bytes), (many.calls, many.kept_bytes));
    assert_eq!(many.lines - few.lines, 999);
    Ok(())
}
