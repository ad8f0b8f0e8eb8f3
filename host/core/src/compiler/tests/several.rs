//! Several recordings of one task: what all have is the workflow, the rest is suggested or refused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;
use super::{bound, event, read, trace_of};
use crate::workflow::{Scope, Test, parse, to_json, verify};

fn believing() -> Options {
    Options { claims: Claims::Believe, ..Options::default() }
}

fn compiled(traces: Vec<Trace>) -> Compiled {
    compile_all(traces, &believing()).unwrap()
}

/// A call of `tool` under an id of its own.
fn call(id: &str, tool: &str, arguments: Value, result: Value) -> Value {
    event(id, arguments, result, json!({"tool": tool}))
}

fn ids(workflow: &Workflow) -> Vec<&str> {
    workflow.nodes.iter().map(|node| node.id.as_str()).collect()
}

/// T15: a second recording tells equal values apart; what differs unexplained becomes an input.
#[test]
fn several_recordings_settle_what_one_leaves_open() {
    let recording = |left: f64, right: f64, day: &str| {
        trace_of(
            json!({}),
            vec![
                read("a", json!({"day": day}), json!({"v": left})),
                read("b", json!({}), json!({"w": right})),
                read("c", json!({"z": right}), json!(null)),
            ],
        )
    };
    let traces = vec![recording(71.5, 71.5, "2024-05-01"), recording(71.5, 80.25, "2024-06-02")];
    let compiled = compile_all(traces, &Options::default()).unwrap().workflow;
    let digests = compiled.source.traces.len();
    let workflow = verify(compiled, None).unwrap();
    assert_eq!(digests, 2);
    assert_eq!(bound(&workflow, "c"), ["/z <- b.w"]);
    assert_eq!(bound(&workflow, "a"), ["/day <- input day"]);
    assert_eq!(workflow.workflow().inputs["day"].default, Some(json!("2024-05-01")));
}

/// T15
#[test]
fn recordings_of_other_calls_are_refused() {
    let one = trace_of(json!({}), vec![read("a", json!({}), json!(1))]);
    let two = trace_of(json!({}), vec![read("b", json!({}), json!(1))]);
    let problems = compile_all(vec![one, two], &Options::default()).unwrap_err();
    assert_eq!(problems.code(), Code::TracesDiffer);
}

/// A search, an alternative if nothing is free, and a booking; `more` stands before the booking.
fn stay(hotel: &str, free: bool, more: Vec<Value>) -> Trace {
    let mut events = vec![read("find", json!({"q": "roses"}), json!({"hotel": {"id": hotel, "free": free}}))];
    events.extend(more);
    events.push(event("book", json!({"hotel": hotel}), json!({"ok": true}), json!({"side_effect": "write"})));
    trace_of(json!({"q": "roses"}), events)
}

/// T15: a call that only some recordings have is no node; where it stands, how it is made and what tells the
/// recordings apart is kept with the workflow.
#[test]
fn a_call_of_some_recordings_is_suggested_not_run() {
    // Its id is that of another node in the first recording.
    let notify = |id: &str, hotel: &str| {
        let arguments = json!({"hotel": hotel, "text": "full"});
        event(id, arguments, json!(null), json!({"tool": "notify", "side_effect": "external_side_effect"}))
    };
    let mut traces = vec![
        stay("h-77810", true, vec![]),
        stay("h-10442", false, vec![notify("x", "h-10442")]),
        stay("h-90061", false, vec![notify("n", "h-90061")]),
    ];
    traces[1].events[2].id = "last".parse().unwrap();
    traces[1].events[1].id = "book".parse().unwrap();
    let made = compiled(traces);
    let workflow = &made.workflow;
    assert_eq!(ids(workflow), ["find", "book"]);
    let [optional] = workflow.source.optional.as_slice() else { panic!("{:?}", workflow.source.optional) };
    assert_eq!((optional.id.as_str(), optional.tool.as_str()), ("book-2", "notify"));
    assert_eq!(optional.effect, Effect::ExternalSideEffect);
    assert_eq!(optional.after.as_ref().map(NodeId::as_str), Some("find"));
    let calls: Vec<(usize, &str)> =
        optional.calls.iter().map(|call| (call.recording, call.event.as_str())).collect();
    assert_eq!((calls, optional.missing_in.as_slice()), (vec![(2, "book"), (3, "n")], [1].as_slice()));
    assert_eq!(optional.references["/hotel"].to_string(), "find.hotel.id");
    assert_eq!(optional.expr().sketch(), json!({"hotel": "<find.hotel.id>", "text": "full"}));
    assert_eq!(optional.conditions[0].value.to_string(), "find.hotel.free");
    assert_eq!(optional.conditions[0].test, Test::Equals(json!(false)));
    let dropped: Vec<(Option<usize>, &str, &str)> = workflow
        .source
        .dropped
        .iter()
        .map(|dropped| (dropped.recording, dropped.event.as_str(), dropped.reason.as_str()))
        .collect();
    let reason = "recording 1 doesn't have this call";
    assert_eq!(dropped, [(Some(2), "book", reason), (Some(3), "n", reason)]);
    assert!(made.report.is_partial());
    assert_eq!(made.report.recordings[1].optional, ["book"]);
    let published = crate::schema::Schema::compile(&crate::workflow::json_schema()).unwrap();
    assert!(published.allows(&to_json(workflow)), "{:?}", published.faults(&to_json(workflow)));
    // The suggestions survive a file, and are covered by its digest.
    let (back, claimed) =
        parse(to_json(workflow).to_string().as_bytes(), crate::json::Limits::default()).unwrap();
    assert_eq!(verify(back, Some(claimed)).unwrap().workflow(), workflow);
}

/// T15: the first recording's own extra calls are no nodes either, and one that repeats a call is a repeat.
#[test]
fn what_only_the_first_recording_has_is_no_node() {
    let look = |id: &str| {
        let more = json!({"tool": "look", "idempotency": "idempotent"});
        event(id, json!({"at": "a-1"}), json!(7), more)
    };
    let write = event("w", json!({}), json!(null), json!({"side_effect": "write"}));
    let one = trace_of(json!({}), vec![look("a"), look("b"), write, read("end", json!({}), json!(1))]);
    let two = trace_of(json!({}), vec![look("x"), read("end", json!({}), json!(1))]);
    let made = compiled(vec![one.clone(), two.clone()]);
    assert_eq!(ids(&made.workflow), ["a", "end"]);
    assert_eq!(made.workflow.source.optional.len(), 1);
    assert_eq!(made.workflow.source.optional[0].id.as_str(), "w");
    assert_eq!((made.report.deduplicated, made.report.left_out, made.report.nodes), (1, 1, 2));
    assert_eq!(made.report.recordings[0].repeats, ["b"]);
    // Turned around, the same is said of the second one.
    let turned = compiled(vec![two, one]);
    let dropped: Vec<(Option<usize>, &str, Option<&str>)> = turned
        .workflow
        .source
        .dropped
        .iter()
        .map(|dropped| {
            (dropped.recording, dropped.event.as_str(), dropped.same_as.as_ref().map(NodeId::as_str))
        })
        .collect();
    assert_eq!(dropped, [(Some(2), "b", Some("x")), (Some(2), "w", None)]);
    assert_eq!((turned.report.deduplicated, turned.report.left_out), (0, 0));
}

/// T15: calls of one tool whose number differs are a repeated call, with the list that explains how often.
#[test]
fn calls_of_differing_number_run_through_a_list() {
    let session = |prefix: &str, count: usize| {
        let id = |at: usize| format!("{prefix}-100{at}");
        let rows: Vec<Value> = (0..count).map(|at| json!({"id": id(at), "n": 40 + at})).collect();
        let mut events = vec![read("list", json!({"q": "roses"}), json!({"rows": rows}))];
        events.extend(
            (0..count).map(|at| call(&format!("get{at}"), "get", json!({"id": id(at)}), json!(null))),
        );
        events.push(read("end", json!({}), json!(null)));
        trace_of(json!({}), events)
    };
    let made = compiled(vec![session("f", 2), session("g", 3), session("h", 4)]);
    assert_eq!(ids(&made.workflow), ["list", "get0", "get1", "end"]);
    let nodes = verify(made.workflow.clone(), None).unwrap();
    assert_eq!(bound(&nodes, "get1"), ["/id <- list.rows[1].id"]);
    let [repeated] = made.workflow.source.repeated.as_slice() else { panic!() };
    let nodes: Vec<&str> = repeated.nodes.iter().map(NodeId::as_str).collect();
    assert_eq!((repeated.tool.as_str(), nodes), ("get", vec!["get0", "get1"]));
    assert_eq!(repeated.after.as_ref().map(NodeId::as_str), Some("list"));
    assert_eq!(repeated.calls.iter().map(|run| run.events.len()).collect::<Vec<_>>(), [2, 3, 4]);
    let [list] = repeated.lists.as_slice() else { panic!("{:?}", repeated.lists) };
    assert_eq!((list.list.to_string().as_str(), list.whole), ("list.rows", true));
    assert_eq!(list.arguments["/id"].to_string(), "list.rows[0].id");
    assert!(made.workflow.source.optional.is_empty());
    assert_eq!(made.report.recordings[2].repeated, ["get2", "get3"]);
    assert!(made.report.is_partial());

    // As many calls in each, and a list: the nodes stay, nothing is left out, and the list is offered.
    let made = compiled(vec![session("f", 2), session("g", 2)]);
    assert_eq!((made.workflow.nodes.len(), made.workflow.source.repeated.len()), (4, 1));
    assert!(!made.report.is_partial());
    // No list explains the number: the further call is optional, too.
    let twice = |count: usize| {
        let say =
            |at: usize| call(&format!("s{at}"), "say", json!({"text": format!("word {at}")}), json!(null));
        let mut events = vec![read("start", json!({}), json!({"count": count}))];
        events.extend((0..count).map(say));
        trace_of(json!({}), events)
    };
    let made = compiled(vec![twice(1), twice(2)]);
    let source = &made.workflow.source;
    assert_eq!((source.repeated.len(), source.repeated[0].lists.len(), source.optional.len()), (1, 0, 1));
    assert_eq!(source.optional[0].conditions[0].to_string(), "start.count is at least `2`");
}

/// T15: what is common is refused if it can't stand alone, with the place and the call that is missing.
#[test]
fn a_common_part_that_needs_more_is_refused() {
    let write = |id: &str, path: &str| {
        let more = json!({"tool": "put", "side_effect": "write", "writes": [format!("file:{path}")]});
        event(id, json!({"path": path}), json!(null), more)
    };
    let show = |id: &str, path: &str| {
        let more = json!({"tool": "show", "reads": [format!("file:{path}")]});
        event(id, json!({"path": path}), json!(null), more)
    };
    let other = |hotel: &str| call("other", "suggest", json!({}), json!({"best": {"code": hotel}}));
    let declares = |ids: &[&str]| event("end", json!({}), json!(null), json!({"dependencies": ids}));
    let start = || read("start", json!({}), json!(null));
    let mut moved = stay("h-10442", false, vec![other("h-55555")]);
    moved.events[2].arguments["hotel"] = json!("h-55555");
    let mut same = stay("h-55555", false, vec![other("h-55555")]);
    same.events[0].result = json!({});
    let mut longer = write("p", "/a");
    longer["arguments"]["all"] = json!(true);
    let trace = |events: Vec<Value>| trace_of(json!({}), events);
    let rows: Vec<(&str, Trace, Trace, Option<&str>, &str)> = vec![
        (
            "an argument",
            stay("h-77810", true, vec![]),
            moved.clone(),
            Some("/events/1/arguments/hotel"),
            "`/hotel` of `tool_book` (`book`) is a result of `suggest` (`other`) in recording 2, and recording 1 \
          doesn't have this call",
        ),
        (
            "an argument of the first",
            moved,
            stay("h-77810", true, vec![]),
            Some("/events/2/arguments/hotel"),
            "is a result of `suggest` (`other`) in recording 1, and recording 2 doesn't have this call",
        ),
        ("the same value in a recording without the call", stay("h-55555", true, vec![]), same, None, ""),
        (
            "a read of what was written",
            trace(vec![show("s", "/a/b")]),
            trace(vec![write("p", "/a"), show("s", "/a/b")]),
            Some("/events/0"),
            "`show` (`s` in recording 2) reads what was written by `put` (`p`), and recording 1",
        ),
        (
            "a read of something else",
            trace(vec![show("s", "/b")]),
            trace(vec![write("p", "/a"), show("s", "/b")]),
            None,
            "",
        ),
        (
            "written again by both",
            trace(vec![write("q", "/a"), show("s", "/a")]),
            trace(vec![longer, write("q", "/a"), show("s", "/a")]),
            None,
            "",
        ),
        (
            "a declared need",
            trace(vec![start(), declares(&["start"])]),
            trace(vec![start(), other("x-1"), declares(&["start", "other"])]),
            Some("/events/1"),
            "`tool_end` (`end` in recording 2) declares that it needs `suggest` (`other`)",
        ),
        (
            "nothing in common",
            trace(vec![start()]),
            trace(vec![other("x-1")]),
            Some("/events"),
            "recording 2 has no call in common with recording 1",
        ),
    ];
    for (name, one, two, place, message) in rows {
        match (compile_all(vec![one, two], &believing()), place) {
            (Ok(_), None) => {}
            (Err(problems), Some(place)) => {
                let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
                assert_eq!(found.len(), 1, "{name}: {found:?}");
                assert!(found[0].starts_with(&format!("traces-differ at {place}: ")), "{name}: {found:?}");
                assert!(found[0].contains(message), "{name}: {found:?}");
            }
            (found, _) => panic!("{name}: {:?}", found.map(|made| made.report)),
        }
    }
}

/// T15: one name with another effect is another call, and the worse of two claims holds for both.
#[test]
fn effects_decide_what_belongs_together() {
    let run = |id: &str, command: &str| call(id, "Bash", json!({"command": command}), json!(null));
    let known =
        Options { catalogs: vec![crate::catalog::Catalog::built_in().unwrap()], ..Options::default() };
    let one = trace_of(json!({}), vec![run("a", "ls"), run("b", "pwd")]);
    let two = trace_of(json!({}), vec![run("a", "rm -rf x"), run("b", "pwd")]);
    let made = compile_all(vec![one, two], &known).unwrap();
    assert_eq!(ids(&made.workflow), ["b"]);
    assert_eq!(made.workflow.source.optional.len(), 2);

    let look = |effect: &str| {
        let arguments = json!({"command": "pwd"});
        trace_of(
            json!({}),
            vec![event("b", arguments, json!(1), json!({"tool": "Bash", "side_effect": effect}))],
        )
    };
    let made = compile_all(vec![look("read"), look("delete")], &known).unwrap();
    assert_eq!(made.workflow.nodes[0].effect, Effect::Delete);
}

/// T15: a key is named only if it is one in every recording; where it differs it is an input all the same.
#[test]
fn a_key_is_one_in_every_recording() {
    let session = |user: &str, in_map: &str| {
        trace_of(
            json!({}),
            vec![
                read("list", json!({}), json!({"users": {in_map: {"age": 3}, "bobby": {"age": 4}}})),
                read("use", json!({"user": user}), json!(null)),
            ],
        )
    };
    let candidates = |traces: Vec<Trace>| {
        let decision = compiled(traces).workflow.nodes[1].decisions[0].clone();
        (decision.verdict, decision.candidates.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let named = vec!["list.users".to_owned()];
    assert_eq!(
        candidates(vec![session("alice", "alice"), session("carol", "carol")]),
        (Verdict::Input, named.clone())
    );
    assert_eq!(
        candidates(vec![session("bobby", "alice"), session("bobby", "carol")]),
        (Verdict::Choice, named)
    );
    assert_eq!(
        candidates(vec![session("alice", "alice"), session("carol", "david")]),
        (Verdict::Input, vec![])
    );
}

/// T15: what further recordings have beyond their calls is said too.
#[test]
fn arguments_and_inputs_of_further_recordings_are_noted() {
    let one = trace_of(json!({}), vec![read("a", json!({"x": "abc-1"}), json!(1))]);
    let two = trace_of(
        json!({"late": 1}),
        vec![
            read("a", json!({"x": "abc-1", "y": "abc-2"}), json!(1)),
            event("bad", json!({}), json!(null), json!({"status": "failed"})),
        ],
    );
    let made = compiled(vec![one, two]);
    let notes = made.report.notes.join("\n");
    assert!(
        notes.contains(
            "recording 2 has inputs that the first hasn't, which the workflow doesn't take: `late`"
        ),
        "{notes}"
    );
    assert!(notes.contains("recording 2 gives `y` to `a`"), "{notes}");
    let dropped = &made.workflow.source.dropped[0];
    assert_eq!((dropped.recording, dropped.event.as_str()), (Some(2), "bad"));
    assert_eq!(made.report.recordings[1].left_out, 1);
    assert!(!made.report.is_partial());
}

/// Sessions of one procedure, each without some of its calls: call `n` has tool `tool_cN` and id `cN`, and its
/// argument comes from an input, from an earlier call, or from nowhere.
fn any_sessions() -> impl Strategy<Value = Vec<Trace>> {
    let procedure = prop::collection::vec((0usize..4, 0usize..4, prop::bool::ANY), 1..7);
    let sessions = prop::collection::vec((prop::collection::vec(0usize..5, 7), 0usize..3), 1..4);
    (procedure, sessions).prop_map(|(procedure, sessions)| {
        let session = |(left, variant): &(Vec<usize>, usize)| {
            let value = |call: usize| format!("v-{variant}-{call}");
            let mut events = Vec::new();
            for (number, (from, kind, writes)) in procedure.iter().enumerate() {
                if left[number] == 0 {
                    continue;
                }
                let argument = match kind {
                    0 => json!("constant-1"),
                    1 => json!(format!("given-{variant}")),
                    _ => json!(value(number.saturating_sub(from + 1))),
                };
                let effect = if *writes { "write" } else { "read" };
                let result = json!({"made": value(number), "flag": left[number] % 2 == 0});
                events.push(event(
                    &format!("c{number}"),
                    json!({"made": argument}),
                    result,
                    json!({"side_effect": effect}),
                ));
            }
            trace_of(json!({"given": format!("given-{variant}")}), events)
        };
        sessions.iter().map(session).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// T15: with aligned recordings every kept reference resolves, in each of them, to what was recorded there;
    /// only what all have becomes a node; and no call of any recording is lost.
    #[test]
    fn recordings_agree_with_the_workflow_made_of_them(traces in any_sessions()) {
        let made = match compile_all(traces.clone(), &believing()) {
            Ok(made) => made.workflow,
            Err(problems) => {
                let code = problems.code();
                let empty = traces[0].events.is_empty();
                prop_assert!(code == Code::TracesDiffer || (empty && code == Code::TraceEmpty), "{}", problems);
                return Ok(());
            }
        };
        let find = |trace: &Trace, id: &str| trace.events.iter().position(|event| event.id.as_str() == id);
        let values = |trace: &Trace, inputs: &Map<String, Value>| {
            let results = trace.events.iter().map(|event| (event.id.clone(), event.result.clone()));
            (inputs.clone(), results.collect::<BTreeMap<_, _>>())
        };
        for (number, trace) in traces.iter().enumerate() {
            // Inputs that were made of differing literals have in each recording the value that it gives.
            let mut inputs = trace.inputs.clone();
            for node in &made.nodes {
                let at = find(trace, node.id.as_str());
                prop_assert!(at.is_some(), "{} isn't in every recording", node.id);
                for decision in &node.decisions {
                    if let Some(Reference { source: Source::Input(name), .. }) = &decision.chosen {
                        let given = trace.events[at.unwrap()].arguments["made"].clone();
                        inputs.entry(name.clone()).or_insert(given);
                    }
                }
            }
            for (name, input) in &made.inputs {
                let schema = crate::schema::Schema::compile(&input.schema).unwrap();
                prop_assert!(inputs.get(name).is_none_or(|value| schema.allows(value)));
            }
            let (inputs, mut results) = values(trace, &inputs);
            // Calls that no order could be found for are two suggestions, of which one has another id than its event.
            for optional in &made.source.optional {
                let call = optional.calls.iter().find(|call| call.recording == number + 1);
                let at = call.and_then(|call| find(trace, &call.event));
                results.extend(at.map(|at| (optional.id.clone(), trace.events[at].result.clone())));
            }
            let scope = Scope { inputs: &inputs, results: &results };
            for node in &made.nodes {
                let event = &trace.events[find(trace, node.id.as_str()).unwrap()];
                prop_assert_eq!(node.arguments.resolve(scope), Ok(json!(event.arguments)));
            }
            for optional in &made.source.optional {
                let Some(call) = optional.calls.iter().find(|call| call.recording == number + 1) else {
                    prop_assert!(optional.missing_in.contains(&(number + 1)));
                    continue;
                };
                let event = &trace.events[find(trace, &call.event).unwrap()];
                for (pointer, reference) in &optional.references {
                    let wanted = json!(event.arguments).pointer(pointer).cloned();
                    prop_assert_eq!(reference.resolve(scope).ok(), wanted);
                }
            }
            for event in &trace.events {
                let is_node = made.nodes.iter().any(|node| node.id == event.id);
                let recording = Some(number + 1).filter(|number| *number > 1);
                let dropped = made.source.dropped.iter();
                let mut dropped = dropped.filter(|one| one.event == event.id.as_str() && one.recording == recording);
                let suggested = made.source.optional.iter().any(|optional| {
                    optional.calls.iter().any(|call| call.recording == number + 1 && call.event == event.id.as_str())
                });
                prop_assert_eq!(is_node, dropped.next().is_none());
                prop_assert!(is_node != suggested, "{} of {}", event.id, number + 1);
            }
        }
        let again = compile_all(traces, &believing()).unwrap().workflow;
        prop_assert_eq!(again, made);
    }
}
