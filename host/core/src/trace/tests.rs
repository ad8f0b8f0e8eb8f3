//! Traces and recordings, good and malformed.

use serde_json::{Value, json};

use super::import::{Format, ImportOptions, Imported, import_bytes};
use super::*;
use crate::code::Code;
use crate::json::Limits;
use crate::problem::Problems;

/// One event with what is given laid over it.
fn with_event(fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    format!(r#"{{"inputs":{{}},"events":[{{"id":"a","tool":"t","arguments":{{}}{comma}{fields}}}]}}"#)
}

fn found(problems: &Problems) -> Vec<String> {
    problems.iter().map(|p| format!("{} {}", p.code, p.place)).collect()
}

/// T03: every field rule, with the code and the place it is reported at.
#[test]
fn malformed_traces_name_the_code_and_the_place() {
    let long = "x".repeat(257);
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "json-syntax line 1, column 0"),
        ("{".into(), "json-syntax line 1, column 1"),
        ("[]".into(), "field-type the top level"),
        ("null".into(), "field-type the top level"),
        ("{}".into(), "field-missing the top level"),
        (r#"{"inputs":{}}"#.into(), "field-missing the top level"),
        (r#"{"inputs":null,"events":[]}"#.into(), "field-type /inputs"),
        (r#"{"inputs":{},"events":{}}"#.into(), "field-type /events"),
        (r#"{"inputs":{},"events":[7]}"#.into(), "field-type /events/0"),
        (r#"{"inputs":{},"events":[],"version":"2"}"#.into(), "version-unsupported /version"),
        (r#"{"inputs":{},"events":[],"version":1}"#.into(), "field-type /version"),
        (r#"{"inputs":{},"events":[],"trace_version":"0"}"#.into(), "version-unsupported /trace_version"),
        (r#"{"inputs":{},"events":[],"trace_ir_version":2}"#.into(), "version-unsupported /trace_ir_version"),
        (r#"{"inputs":{},"events":[],"run_id":3}"#.into(), "field-type /run_id"),
        (r#"{"inputs":{},"events":[],"metadata":[]}"#.into(), "field-type /metadata"),
        (r#"{"inputs":{},"events":[],"inputs":{}}"#.into(), "json-duplicate-key /inputs"),
        (r#"{"inputs":{"x":NaN},"events":[]}"#.into(), "json-syntax line 1, column 16"),
        (r#"{"inputs":{"x":"\ud800"},"events":[]}"#.into(), "json-syntax line 1, column 23"),
        (format!(r#"{{"inputs":{{"x":{}}},"events":[]}}"#, "[".repeat(200)), "json-too-deep line 1, column 142"),
        (r#"{"inputs":{},"events":[{"tool":"t","arguments":{}}]}"#.into(), "field-missing /events/0"),
        (r#"{"inputs":{},"events":[{"id":"a","arguments":{}}]}"#.into(), "field-missing /events/0"),
        (r#"{"inputs":{},"events":[{"id":"a","tool":"t"}]}"#.into(), "field-missing /events/0"),
        (r#"{"inputs":{},"events":[{"id":" ","tool":"t","arguments":{}}]}"#.into(), "field-value /events/0/id"),
        (r#"{"inputs":{},"events":[{"id":4,"tool":"t","arguments":{}}]}"#.into(), "field-type /events/0/id"),
        (
            format!(r#"{{"inputs":{{}},"events":[{{"id":"{long}","tool":"t","arguments":{{}}}}]}}"#),
            "field-value /events/0/id",
        ),
        (r#"{"inputs":{},"events":[{"id":"a","tool":"t\n","arguments":{}}]}"#.into(), "field-value /events/0/tool"),
        (r#"{"inputs":{},"events":[{"id":"a","tool":"t","arguments":[]}]}"#.into(), "field-type /events/0/arguments"),
        (
            r#"{"inputs":{},"events":[{"id":"a","tool":"t","arguments":{}},{"id":"a","tool":"t","arguments":{}}]}"#
                .into(),
            "id-duplicate /events/1/id",
        ),
        (with_event(r#""status":1"#), "field-type /events/0/status"),
        (with_event(r#""started_at":"yesterday""#), "field-value /events/0/started_at"),
        (with_event(r#""ended_at":true"#), "field-type /events/0/ended_at"),
        (with_event(r#""duration_ms":true"#), "field-type /events/0/duration_ms"),
        (with_event(r#""duration_ms":-1"#), "field-value /events/0/duration_ms"),
        (with_event(r#""duration_ms":1e999"#), "json-number line 1, column 78"),
        (with_event(r#""side_effect":"delte""#), "field-value /events/0/side_effect"),
        (with_event(r#""idempotency":"maybe""#), "field-value /events/0/idempotency"),
        (with_event(r#""depends_on":"resolve""#), "field-type /events/0/depends_on"),
        (with_event(r#""dependencies":[1]"#), "field-type /events/0/dependencies/0"),
        (with_event(r#""dependencies":["a"]"#), "field-value /events/0/dependencies/0"),
        (with_event(r#""reads":"x""#), "field-type /events/0/reads"),
        (with_event(r#""writes":[null]"#), "field-type /events/0/writes/0"),
        (with_event(r#""metadata":1"#), "field-type /events/0/metadata"),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let problems = parse(text.as_bytes(), Limits::default()).expect_err(&text);
        let first = found(&problems).into_iter().next().unwrap_or_default();
        if first != expected {
            wrong.push(format!("{text}\n  expected {expected}\n  found    {problems}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// T03: all problems of one file at once.
#[test]
fn every_problem_of_a_file_is_reported_at_once() {
    let text = r#"{"inputs":[],"version":"3","events":[
        {"id":"a","tool":"","arguments":{},"duration_ms":-2,"depends_on":["a"]}, 5, {"id":"a"}]}"#;
    let problems = parse(text.as_bytes(), Limits::default()).unwrap_err();
    let expected = [
        "version-unsupported /version",
        "field-type /inputs",
        "field-value /events/0/tool",
        "field-value /events/0/duration_ms",
        "field-value /events/0/depends_on/0",
        "field-type /events/1",
        "id-duplicate /events/2/id",
        "field-missing /events/2",
        "field-missing /events/2",
    ];
    assert_eq!(found(&problems), expected);
}

/// T03: the limits of Trace v1.
#[test]
fn too_many_events_are_refused_and_many_are_read_in_linear_time() {
    let event = |index: usize| json!({"id": format!("e{index}"), "tool": "t", "arguments": {}});
    let trace = |count: usize| json!({"inputs": {}, "events": (0..count).map(event).collect::<Vec<_>>()});
    assert_eq!(from_value(&trace(MAX_EVENTS)).unwrap().events.len(), MAX_EVENTS);
    assert_eq!(from_value(&trace(MAX_EVENTS + 1)).unwrap_err().code(), Code::TooMany);
    let limits = Limits { bytes: 10, ..Limits::default() };
    assert_eq!(parse(&[b' '; 11], limits).unwrap_err().code(), Code::FileTooLarge);
}

#[test]
fn what_was_recorded_comes_back_unchanged() {
    let text = r#"{"trace_version":"1.0","trace_ir_version":1,"name":"n","description":"ignored","run_id":null,
        "inputs":{"q":1.0},"metadata":{"m":1},"events":[{"id":"b","tool":"t x","arguments":{"a":{"$ref":"inputs.q"}},
        "result":[1,{"x":null}],"status":"Succeeded","started_at":1767225600,"ended_at":"2026-01-01T00:00:01Z",
        "duration_ms":1000.5,"side_effect":"READ","idempotency":"Idempotent","dependencies":["x"],"depends_on":["y"],
        "reads":["file:/a"],"writes":[],"metadata":{"k":"v"},"cost":0.5}]}"#;
    let trace = parse(text.as_bytes(), Limits::default()).unwrap();
    let event = &trace.events[0];
    assert_eq!(event.effect, crate::effect::Effect::Read);
    assert!(event.status.is_success());
    assert_eq!(event.dependencies[0].as_str(), "x", "`dependencies` wins over `depends_on`");
    assert_eq!(event.other.get("cost"), Some(&json!(0.5)));
    let written = to_json(&trace);
    assert_eq!(from_value(&written).unwrap(), trace);
    let schema = crate::schema::Schema::compile(&json_schema()).unwrap();
    assert_eq!(schema.faults(&written), vec![]);
    assert!(!schema.allows(&json!({"inputs": {}, "events": [{"id": "a"}]})));
}

/// T03: the other names that Trace v1 allows, each where the first name is missing.
#[test]
fn aliases_of_trace_v1_are_read() {
    let event = with_event(r#""depends_on":["x","y"]"#);
    let trace = parse(event.as_bytes(), Limits::default()).unwrap();
    let names: Vec<&str> = trace.events[0].dependencies.iter().map(|id| id.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    for version in ["", r#""version":"1","#, r#""version":"1.0","#, r#""trace_version":"1","#] {
        for ir in ["", r#""trace_ir_version":1,"#, r#""trace_ir_version":"1","#] {
            let text = format!(r#"{{{version}{ir}"inputs":{{}},"events":[]}}"#);
            assert!(parse(text.as_bytes(), Limits::default()).is_ok(), "{text}");
        }
    }
}

/// T03: depth is checked while reading, so that no input exhausts the stack.
#[test]
fn very_deep_input_is_refused() {
    for open in ["[", "{\"a\":"] {
        let text = format!(r#"{{"inputs":{{}},"events":{}"#, open.repeat(100_000));
        assert_eq!(parse(text.as_bytes(), Limits::default()).unwrap_err().code(), Code::JsonTooDeep);
        let imported = import_bytes(text.as_bytes(), &ImportOptions::default());
        assert_eq!(imported.unwrap_err().code(), Code::JsonTooDeep);
    }
}

/// T04: only three words mean success.
#[test]
fn a_status_is_a_success_only_if_it_says_so() {
    for (word, expected) in [("ok", true), ("OK", true), ("success", true), ("Succeeded", true)]
        .into_iter()
        .chain(["running", "failed", "", "okay", "true", "unanswered"].map(|word| (word, false)))
    {
        assert_eq!(Status::new(word).is_success(), expected, "{word}");
    }
}

fn imported(text: &str) -> Imported {
    import_bytes(text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn refused(text: &str) -> Vec<String> {
    found(&import_bytes(text.as_bytes(), &ImportOptions::default()).unwrap_err())
}

/// T02: ids by direction and connection, answers out of order, failures of both kinds, cancellation.
#[test]
fn an_mcp_session_becomes_events() {
    let made = imported(include_str!("../../tests/data/mcp-wire/session.jsonl"));
    assert_eq!(made.format, Format::McpWire);
    let report = &made.report;
    let counts = (report.calls, report.answered, report.failed, report.unanswered);
    assert_eq!(counts, (6, 2, 2, 2), "{report:?}");
    assert_eq!(report.skipped, vec![]);
    let events: Vec<_> = made
        .trace
        .events
        .iter()
        .map(|e| (e.id.as_str(), e.status.as_str(), e.result.clone(), e.duration_ms))
        .collect();
    assert_eq!(
        events,
        vec![
            ("find_order-1", "success", json!({"id": 917}), Some(500.0)),
            ("find_order-2", "failed", json!({"text": "no such order"}), Some(240.0)),
            ("ship-1", "failed", json!({"code": -32602, "message": "unknown tool"}), Some(100.0)),
            ("wait-1", "cancelled", Value::Null, None),
            ("find_order-3", "success", json!({"text": "plain"}), Some(100.0)),
            ("last-1", "unanswered", Value::Null, None),
        ]
    );
    let first = &made.trace.events[0];
    assert_eq!(first.effect, crate::effect::Effect::Unknown, "annotations are hints, not facts");
    assert_eq!(first.metadata["mcp"]["result"]["content"][0]["text"], json!("{\"id\":917}"));
    assert_eq!(first.metadata["mcp"]["request_meta"], json!({"progressToken": 7}));
    let hints = &made.trace.metadata["untrusted_tool_hints"]["find_order"];
    assert_eq!(hints["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(made.trace.metadata["server"]["name"], json!("orders"));
    assert_eq!(from_value(&to_json(&made.trace)).unwrap(), made.trace);
}

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"b":2}}}"#;

/// T02: the containers that recorders use.
#[test]
fn every_container_of_json_rpc_is_read() {
    let quoted = |text: &str| Value::String(text.to_owned());
    let cassette = format!(
        r#"{{"version":"1.0","metadata":{{"by":"me"}},"interactions":[{{"type":"lifecycle","request":null,"response":null}},
           {{"request":{CALL},"response":{ANSWER},"latency_ms":12}}]}}"#
    );
    for text in [
        format!("{CALL}\n{ANSWER}\n"),
        format!("\u{feff}{CALL}\r\n\r\n{ANSWER}\r\n"),
        format!("[{CALL},{ANSWER}]"),
        format!("[\n{CALL},\n{ANSWER}\n]\n"),
        format!("[{CALL}]\n[{ANSWER}]"),
        format!("{{\"message\":{CALL}}}\n{{\"message\":{ANSWER}}}"),
        format!("{{\"dir\":\"req\",\"message\":{CALL}}}\n{{\"dir\":\"res\",\"message\":{ANSWER}}}"),
        format!("{{\"request\":{CALL},\"response\":{ANSWER}}}"),
        format!("{{\"message\":{}}}\n{{\"message\":{}}}", quoted(CALL), quoted(ANSWER)),
        format!("event: message\ndata: {CALL}\n\nevent: message\nid: 4\ndata: {ANSWER}\n\n"),
        cassette,
    ] {
        let made = imported(&text);
        let event = &made.trace.events[0];
        assert_eq!((made.report.calls, made.report.answered), (1, 1), "{text}");
        assert_eq!(event.result, json!({"b": 2}), "{text}");
        assert_eq!(made.report.skipped, vec![], "{text}");
    }
}

/// T02: nothing is dropped in silence.
#[test]
fn what_is_left_out_is_listed_with_its_line() {
    let text = format!(
        "{CALL}\n{{\"note\":1}}\n{{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{{}}}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{}}}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":[1]}}}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":1,\"res"
    );
    let report = imported(&text).report;
    let skipped: Vec<String> = report.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    assert_eq!(
        skipped,
        vec![
            "line 2: the entry holds no JSON-RPC message",
            "line 3: an answer to 9, which nothing asked",
            "line 4: a call without a tool name",
            "line 5: a call of `t` whose arguments are no object",
            "line 6: the last line breaks off and was left out",
        ]
    );
    assert_eq!((report.calls, report.unanswered, report.warnings.len()), (3, 1, 2));
}

/// T02: a file is imported or refused with a reason and its place.
#[test]
fn what_cannot_be_imported_is_refused_with_a_reason() {
    for (text, expected) in [
        (String::new(), "trace-empty the whole input"),
        ("\u{feff} \n\n".into(), "trace-empty the whole input"),
        ("hello".into(), "json-syntax line 1, column 1"),
        ("[]".into(), "format-unknown the whole input"),
        (r#"{"messages":[]}"#.into(), "format-unknown the whole input"),
        ("{\"type\":\"session\"}\n{\"type\":\"message\"}".into(), "format-unknown the whole input"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.into(), "trace-empty the whole input"),
        (r#"{"events":[]}"#.into(), "field-missing the top level"),
        (format!("{{bad\n{ANSWER}\n{{\"method\":1}}"), "json-syntax line 1, column 2"),
        (format!("{ANSWER}\n{{\"a\":1,\"a\":2}}"), "json-duplicate-key line 2, /a"),
        ("{\"a\":\"\\ud800\"}\n{\"b\":1}\n".into(), "json-syntax line 1, column 13"),
    ] {
        assert_eq!(refused(&text), vec![expected], "{text}");
    }
    let problems = import_bytes(b"{\"messages\":[],\"model\":1}", &ImportOptions::default()).unwrap_err();
    let message = &problems.iter().next().unwrap().message;
    assert_eq!(
        message,
        "the content is an object with `messages`, `model`; known formats are `trace-v1`, `mcp-wire`, `claude-code`, `codex`, `codex-exec`, `pi`, `hf-session-trace`, `openai-chat`, `openai-responses`, `anthropic-messages`, `otlp`, `atif`, `gemini-cli`, `cursor-agent`, `trace2mcp-workflow`"
    );
}

/// T02, T14: calls and results of a Hugging Face Session Trace; nothing is known of their effects.
#[test]
fn an_hf_session_trace_becomes_events() {
    let call =
        |id: &str, arguments: &str| json!({"id": id, "function": {"name": "get", "arguments": arguments}});
    let message = |message: Value| json!({"type": "message", "message": message}).to_string();
    let lines = [
        r#"{"type":"session","harness":"my-agent","id":"s1","name":"n","extra":1}"#.to_owned(),
        message(json!({"role": "user", "content": "go"})),
        message(json!({"role": "assistant", "content": "", "timestamp": 1_767_225_600_000_i64,
            "toolCalls": [call("a", "{\"n\": 1}"), call("b", "{}"), call("c", "{}"), call("d", "{n")]})),
        message(
            json!({"role": "tool", "toolCallId": "b", "content": "Error: none", "timestamp": 1_767_225_600_500_i64}),
        ),
        message(json!({"role": "tool", "toolCallId": "a", "content": "12345678901234567890.50"})),
        message(json!({"role": "tool", "toolCallId": "d", "content": "x"})),
        message(json!({"role": "tool", "content": "x"})),
    ];
    let made = imported(&lines.join("\n"));
    assert_eq!(made.format, Format::Sts);
    let events: Vec<_> =
        made.trace.events.iter().map(|e| (e.status.as_str(), e.result.clone(), e.duration_ms)).collect();
    assert_eq!(
        events,
        [
            ("success", json!({"text": "12345678901234567890.50"}), None),
            ("failed", json!({"text": "Error: none"}), Some(500.0)),
            ("unanswered", Value::Null, None),
            ("arguments-invalid", json!({"text": "x"}), None),
        ]
    );
    assert!(made.trace.events.iter().all(|event| event.effect == crate::effect::Effect::Unknown));
    assert_eq!(made.trace.metadata["session"], json!({"harness": "my-agent", "id": "s1", "name": "n"}));
    let report = &made.report;
    assert_eq!((report.calls, report.answered, report.failed, report.unanswered), (4, 1, 2, 1));
    assert_eq!(report.skipped.len(), 2, "{report:?}");
    assert!(report.warnings[0].starts_with("hf-session-trace records no failures: 1 calls"), "{report:?}");
}

/// T02: an over-long line is read over, and so is one that can't be read, each with its place and reason; the
/// rest is imported.
#[test]
fn lines_that_can_not_be_read_are_listed_and_the_rest_imported() {
    let long = format!("{{\"note\":\"{}\"}}", "x".repeat(2000));
    let options = ImportOptions { line_bytes: 1000, ..ImportOptions::default() };
    let made = import_bytes(format!("{CALL}\n{long}\n{ANSWER}\n").as_bytes(), &options).unwrap();
    assert_eq!(made.report.skipped[0].reason, "a line of 2011 bytes, more than 1000");
    assert_eq!((made.report.answered, made.report.warnings.len(), made.report.lines), (1, 1, 3));
    for (bad, place, code) in [
        ("{bad", "line 2, column 2", "(json-syntax)"),
        ("[1,", "line 2, column 3", "(json-syntax)"),
        ("{\"a\":\"\\ud800\"}", "line 2, column 13", "(json-syntax)"),
        ("{\"a\":1,\"a\":2}", "line 2, /a", "(json-duplicate-key)"),
        ("{\"a\":1e999}", "line 2, column 10", "(json-number)"),
        ("{\"a\":123456789012345678901234567890}", "line 2, /a", "(json-number)"),
    ] {
        for lines in [[CALL, bad, ANSWER], [bad, CALL, ANSWER]] {
            if lines[0] == "[1," {
                // So begins a document of several lines.
                continue;
            }
            let place = if lines[0] == bad { place.replace("line 2", "line 1") } else { place.to_owned() };
            let made = imported(&lines.join("\n"));
            let skipped = &made.report.skipped;
            assert_eq!((made.report.answered, made.report.unreadable, skipped.len()), (1, 1, 1), "{bad}");
            assert_eq!(skipped[0].place.to_string(), place, "{bad}");
            assert!(skipped[0].reason.contains(code), "{skipped:?}");
            assert!(made.report.warnings[0].contains("calls may be missing"), "{:?}", made.report.warnings);
        }
    }
    // With nothing else, every such line is named at once.
    assert_eq!(
        refused(&format!("{ANSWER}\n{{bad\n{ANSWER}\n[1,\n{ANSWER}\n")),
        ["json-syntax line 2, column 2", "json-syntax line 4, column 3"]
    );
    let few =
        ImportOptions { limits: Limits { bytes: 100, ..Limits::default() }, ..ImportOptions::default() };
    assert_eq!(
        import_bytes(format!("{CALL}\n{ANSWER}").as_bytes(), &few).unwrap_err().code(),
        Code::FileTooLarge
    );
}

/// T02: an empty trace isn't passed on without a word.
#[test]
fn an_empty_trace_carries_a_warning() {
    let made = imported(r#"{"inputs":{},"events":[]}"#);
    assert_eq!(made.report.warnings, vec!["the trace has no events"]);
}

#[test]
fn a_named_format_overrides_detection() {
    let options = ImportOptions { from: Some(Format::TraceV1), ..ImportOptions::default() };
    let problems = import_bytes(CALL.as_bytes(), &options).unwrap_err();
    assert_eq!(problems.code(), Code::FieldMissing);
    assert_eq!("mcp-wire".parse(), Ok(Format::McpWire));
    assert_eq!(
        "mcp".parse::<Format>().unwrap_err().to_string(),
        "`mcp` is not a format; known are `trace-v1`, `mcp-wire`, `claude-code`, `codex`, `codex-exec`, `pi`, `hf-session-trace`, `openai-chat`, `openai-responses`, `anthropic-messages`, `otlp`, `atif`, `gemini-cli`, `cursor-agent`, `trace2mcp-workflow`"
    );
}

#[test]
fn mapped_paths_agree_in_inputs_arguments_and_results() {
    let text = r#"{"inputs":{"root":"/home/u/p"},"events":[{"id":"a","tool":"t","arguments":{"path":"/home/u/p/x"},
        "result":{"text":"in /home/u/p/x: /home/u/p2"}}]}"#;
    let options =
        ImportOptions { map: vec![("/home/u/p".into(), "/data".into())], ..ImportOptions::default() };
    let made = import_bytes(text.as_bytes(), &options).unwrap();
    assert_eq!(made.trace.inputs["root"], json!("/data"));
    assert_eq!(made.trace.events[0].arguments["path"], json!("/data/x"));
    assert_eq!(made.trace.events[0].result, json!({"text": "in /data/x: /home/u/p2"}));
    assert_eq!(made.report.remapped, 3);
}

/// T02: a call without content is no event, but what it called keeps the call around both.
#[test]
fn calls_in_a_span_without_content_keep_the_call_around_it() {
    let span = |id: &str, parent: &str, name: &str, arguments: Option<&str>| {
        let attribute = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
        let mut attributes =
            vec![attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", name)];
        attributes.extend(arguments.map(|text| attribute("gen_ai.tool.call.arguments", text)));
        json!({"traceId": "t", "spanId": id, "parentSpanId": parent, "name": "x", "attributes": attributes,
            "startTimeUnixNano": id})
    };
    let spans = [
        span("1", "", "team", Some("{}")),
        span("2", "1", "agent", None),
        span("3", "2", "helper", None),
        span("4", "3", "find", Some("{\"q\":1}")),
        span("5", "6", "loop", None),
        span("6", "5", "loop2", None),
        span("7", "6", "look", Some("{}")),
    ];
    let made = imported(&json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string());
    let found: Vec<_> = made
        .trace
        .events
        .iter()
        .map(|event| {
            (event.tool.as_str(), event.metadata.get("parent"), event.metadata["source"].get("inside"))
        })
        .collect();
    let (team, helper, last) = (json!("team-1"), json!("helper"), json!("loop2"));
    assert_eq!(
        found,
        [("team", None, None), ("find", Some(&team), Some(&helper)), ("look", None, Some(&last))]
    );
    assert_eq!((made.report.calls, made.report.left_out), (7, 4));
}

/// T02, T04: what a cancelled call had printed is kept, and so is what a server's own search found.
#[test]
fn results_beside_texts_and_of_cancelled_calls_are_kept() {
    let call = json!({"id": "c", "name": "run_shell_command", "args": {}, "status": "cancelled", "result": [
        {"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": "half of it"}}}]});
    let session = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "messages": [{"id": "m", "type": "gemini", "toolCalls": [call]}]});
    let made = imported(&session.to_string());
    let event = &made.trace.events[0];
    assert_eq!((event.status.as_str(), &event.result), ("cancelled", &json!({"text": "half of it"})));
    assert_eq!((made.report.unanswered, made.report.answered), (1, 0));

    let hit = json!({"type": "web_search_result", "url": "https://example.org", "title": "T", "page_age": "1 day",
        "encrypted_content": "abc"});
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let talk = json!([{"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [hit, image]}]}]);
    let made = imported(&talk.to_string());
    let blocks = &made.trace.events[0].result["blocks"];
    assert_eq!(*blocks, json!([hit, {"mime_type": "image/png", "bytes": 3}]));
}
