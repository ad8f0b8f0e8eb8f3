//! Matching calls and answers, without any format.

use serde_json::json;

use super::*;

fn calls() -> Calls {
    Calls::new(Format::McpWire)
}

fn call(line: usize, tool: &str, arguments: Value) -> Call {
    Call::new(&Place::Line(line), tool, Arguments::of(Some(arguments)))
}

fn answer(line: usize, text: &str) -> Answer {
    Answer::new(&Place::Line(line), json!({"text": text}), Status::success())
}

fn finished(calls: Calls) -> (Vec<(String, String, Value)>, ImportReport) {
    let (trace, report) = calls.finish(Map::new()).unwrap();
    let events = trace.events.into_iter();
    let events =
        events.map(|e| (e.id.to_string(), e.status.as_str().to_owned(), e.result["text"].clone())).collect();
    (events, report)
}

fn counts(report: &ImportReport) -> [usize; 6] {
    [report.calls, report.answered, report.failed, report.unanswered, report.left_out, report.duplicates]
}

fn skipped(report: &ImportReport) -> Vec<String> {
    report.skipped.iter().map(|skipped| format!("{}: {}", skipped.place, skipped.reason)).collect()
}

/// T02: answers before calls, out of order, twice, differing, for nobody, and never.
#[test]
fn answers_find_their_calls_in_any_order() {
    let mut calls = calls();
    calls.answer("early", answer(1, "E"));
    calls.answer("nobody", answer(2, "N"));
    calls.call("a", call(3, "t", json!({"x": 1})));
    calls.call("b", call(4, "t", json!({"x": 2})));
    calls.call("early", call(5, "t", json!({})));
    calls.call("never", call(6, "u", json!({})));
    calls.answer("b", answer(7, "B"));
    calls.answer("a", answer(8, "A"));
    calls.call("a", call(9, "t", json!({"x": 1})));
    calls.answer("a", answer(10, "A"));
    calls.answer("b", answer(11, "other"));
    let (events, report) = finished(calls);
    let expected =
        [("t-1", "success", json!("A")), ("t-2", "success", json!("B")), ("t-3", "success", json!("E"))];
    let expected = expected.into_iter().chain([("u-1", "unanswered", Value::Null)]);
    assert_eq!(events, expected.map(|(a, b, c)| (a.into(), b.into(), c)).collect::<Vec<_>>());
    assert_eq!(counts(&report), [4, 3, 0, 1, 0, 2]);
    assert_eq!(
        skipped(&report),
        [
            "line 2: an answer to `nobody`, which nothing asked",
            "line 11: another answer to `b`, which differs from the first"
        ]
    );
    assert_eq!(report.warnings, ["2 exact repeats of calls or answers were taken once"]);
}

/// T02: some models count their ids from the start in every turn.
#[test]
fn an_id_that_is_used_again_names_the_latest_call() {
    let mut calls = calls();
    for (line, x) in [(1, 1), (3, 2)] {
        calls.call("call_0", call(line, "t", json!({"x": x})));
        calls.answer("call_0", answer(line + 1, &x.to_string()));
    }
    let (events, report) = finished(calls);
    assert_eq!(events.iter().map(|event| event.2.clone()).collect::<Vec<_>>(), [json!("1"), json!("2")]);
    assert_eq!(report.warnings, ["1 calls have the id of an earlier one: answers belong to the latest"]);
}

/// T04: a call whose arguments can't be read is kept as it is and can't become a step.
#[test]
fn arguments_that_are_no_json_object_are_kept_raw() {
    let mut calls = calls();
    for (line, text) in [(1, "{\"x\": "), (2, "[1]"), (3, "{\"x\":1,\"x\":2}"), (4, ""), (5, "{\"x\":1}")] {
        let key = line.to_string();
        let arguments = Arguments::of_text(Some(json!(text)));
        calls.call(&key, Call::new(&Place::Line(line), "t", arguments));
        calls.answer(&key, answer(line + 10, "done"));
    }
    let (trace, report) = calls.finish(Map::new()).unwrap();
    let statuses: Vec<&str> = trace.events.iter().map(|event| event.status.as_str()).collect();
    assert_eq!(
        statuses,
        ["arguments-invalid", "arguments-invalid", "arguments-invalid", "success", "success"]
    );
    assert_eq!(counts(&report), [5, 2, 3, 0, 0, 0]);
    let notes = &trace.events[0].metadata["mcp"];
    assert_eq!(notes["recorded_arguments"], json!("{\"x\": "));
    assert_eq!(notes["recorded_status"], json!("success"));
    assert_eq!(
        skipped(&report),
        [
            "line 1: the arguments of a call of `t` aren't usable JSON: EOF while parsing a value",
            "line 2: the arguments of a call of `t` are a list, not an object",
            "line 3: the arguments of a call of `t` aren't usable JSON: key `x` stands twice",
        ]
    );
}

#[test]
fn what_is_left_out_changes_no_id_of_the_rest_and_is_listed() {
    let mut calls = calls();
    let gone = calls.call("a", call(1, "t", json!({}))).unwrap();
    let inner = Call { parent: Some("b".into()), ..call(3, "u", json!({})) };
    calls.call("b", call(2, "t", json!({})));
    calls.call("c", inner);
    calls.refuse(Place::Line(4), "a call without a name");
    calls.leave_out(gone, "on a branch that was given up");
    let (trace, report) = calls.finish(Map::new()).unwrap();
    assert_eq!(trace.events.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["t-1", "u-1"]);
    assert_eq!(trace.events[1].metadata["parent"], json!("t-1"));
    assert_eq!(counts(&report), [4, 0, 0, 2, 2, 0]);
    assert_eq!(
        skipped(&report),
        ["line 1: a call of `t` on a branch that was given up", "line 4: a call without a name"]
    );
    assert_eq!(
        report.warnings,
        ["none of 2 calls succeeded, so nothing can be compiled from this recording"]
    );
}

#[test]
fn a_report_lists_no_more_than_a_person_reads() {
    let mut calls = calls();
    calls.call("a", call(1, "t", json!({})));
    (0..MAX_LISTED + 5).for_each(|line| calls.skip(Place::Line(line), "nothing"));
    let (_, report) = finished(calls);
    assert_eq!((report.skipped.len(), report.unlisted), (MAX_LISTED, 5));
}
