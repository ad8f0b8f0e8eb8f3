//! What is inferred from a trace, case by case: the wrong outcomes measured elsewhere come out right here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::workflow::{Expr, VerifiedWorkflow, parse, to_json, verify};

mod effects;
mod order;
mod properties;
mod rules;
mod secrets;
mod settle;
mod several;

fn trace_of(inputs: Value, events: Vec<Value>) -> Trace {
    trace::from_value(&json!({"inputs": inputs, "events": events})).unwrap()
}

/// An event that reads; `more` is laid over it.
fn event(id: &str, arguments: Value, result: Value, more: Value) -> Value {
    let mut event = json!({"id": id, "tool": format!("tool_{id}"), "side_effect": "read",
        "arguments": arguments, "result": result});
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn read(id: &str, arguments: Value, result: Value) -> Value {
    event(id, arguments, result, json!({}))
}

fn compiled(inputs: Value, events: Vec<Value>) -> VerifiedWorkflow {
    compiled_with(inputs, events, &Options::default())
}

fn compiled_with(inputs: Value, events: Vec<Value>, options: &Options) -> VerifiedWorkflow {
    // What the events here claim stands for what a catalogue would say.
    let options = Options { claims: Claims::Believe, ..options.clone() };
    let workflow = compile(trace_of(inputs, events), &options).unwrap().workflow;
    verify(workflow, None).unwrap()
}

/// `pointer <- source` for every bound argument value of a node.
fn bound(workflow: &VerifiedWorkflow, id: &str) -> Vec<String> {
    let node = workflow.node(&id.parse().unwrap()).unwrap();
    let mut list: Vec<String> = node
        .decisions
        .iter()
        .filter_map(|d| Some(format!("{} <- {}", d.pointer, d.chosen.as_ref()?)))
        .collect();
    list.sort();
    list
}

/// Ids of the nodes that must finish first.
fn waits(workflow: &VerifiedWorkflow, id: &str) -> Vec<String> {
    let position = workflow.position(&id.parse().unwrap()).unwrap();
    let nodes = &workflow.workflow().nodes;
    workflow.dependencies()[position].iter().map(|at| nodes[*at].id.to_string()).collect()
}

fn nodes(workflow: &VerifiedWorkflow) -> Vec<&str> {
    workflow.workflow().nodes.iter().map(|node| node.id.as_str()).collect()
}

/// T05: what Trace2MCP 0.2.2 gets wrong about references, one case each.
#[test]
fn references_follow_evidence_not_chance() {
    struct Case {
        name: &'static str,
        inputs: Value,
        events: Vec<Value>,
        node: &'static str,
        expected: &'static [&'static str],
    }
    let find = || read("find", json!({"q": "roses"}), json!({"items": [{"id": "f-1001", "n": 4}]}));
    let cases = [
        Case {
            name: "a small number is not every input of that size",
            inputs: json!({"limit": 3}),
            events: vec![read("a", json!({"page": 3, "retries": 3, "limit": 3}), json!(null))],
            node: "a",
            expected: &["/limit <- input limit"],
        },
        Case {
            name: "flags and counts don't flow into other flags and counts",
            inputs: json!({}),
            events: vec![
                read("a", json!({"q": "x-y-z"}), json!({"ok": true, "count": 1})),
                read("b", json!({"verbose": true, "page": 1}), json!(null)),
            ],
            node: "b",
            expected: &[],
        },
        Case {
            name: "a small number does flow under its own name",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"next_page": 2, "has_more": true})),
                read("b", json!({"nextPage": 2}), json!(null)),
            ],
            node: "b",
            expected: &["/nextPage <- a.next_page"],
        },
        Case {
            name: "empty values match nothing",
            inputs: json!({"a": "", "b": null, "c": [], "d": {}}),
            events: vec![read("x", json!({"a": "", "b": null, "c": [], "d": {}}), json!(null))],
            node: "x",
            expected: &[],
        },
        Case {
            name: "an id twice in one result is still a reference",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"id": "u-77001", "self": {"id": "u-77001"}})),
                read("b", json!({"user": "u-77001"}), json!(null)),
            ],
            node: "b",
            expected: &["/user <- a.id"],
        },
        Case {
            name: "an echo resolves to its source",
            inputs: json!({}),
            events: vec![
                find(),
                read("get", json!({"id": "f-1001"}), json!({"id": "f-1001", "state": "open"})),
                event("update", json!({"id": "f-1001"}), json!(null), json!({"side_effect": "write"})),
            ],
            node: "update",
            expected: &["/id <- find.items[0].id"],
        },
        Case {
            name: "what the caller knew before is no result",
            inputs: json!({}),
            events: vec![
                read("get", json!({"id": "f-1001"}), json!({"id": "f-1001"})),
                read("list", json!({}), json!([{"id": "f-1001"}])),
                read("show", json!({"id": "f-1001"}), json!(null)),
            ],
            node: "show",
            expected: &[],
        },
        Case {
            name: "a declared dependency settles it although the value stands there twice",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"v": 71.5})),
                read("b", json!({}), json!({"x": 71.5, "y": 71.5})),
                event("c", json!({"z": 71.5}), json!(null), json!({"dependencies": ["b"]})),
            ],
            node: "c",
            expected: &["/z <- b.x"],
        },
        Case {
            name: "equal numbers that no name tells apart stay as recorded",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"v": 71.5})),
                read("b", json!({}), json!({"w": 71.5})),
                read("c", json!({"z": 71.5}), json!(null)),
            ],
            node: "c",
            expected: &[],
        },
        Case {
            name: "numbers and their texts convert",
            inputs: json!({"port": "8443"}),
            events: vec![
                read("a", json!({}), json!({"order": {"id": 90117}})),
                read("b", json!({"order_id": "90117", "port": 8443}), json!(null)),
            ],
            node: "b",
            expected: &["/order_id <- a.order.id as string", "/port <- input port as number"],
        },
        Case {
            name: "JSON inside text is looked into",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"text": "{\"items\": [{\"sku\": \"AB-4411\"}]}"})),
                read("b", json!({"sku": "AB-4411"}), json!(null)),
            ],
            node: "b",
            expected: &["/sku <- a.text(json).items[0].sku"],
        },
        Case {
            name: "an item that the session chose stays as recorded",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!([{"id": "f-1001"}, {"id": "f-1002"}])),
                read("b", json!({"id": "f-1002", "all": ["f-1001", "f-1002"]}), json!(null)),
            ],
            node: "b",
            expected: &[],
        },
        Case {
            name: "a text that holds an input stays as recorded",
            inputs: json!({"owner": "acme"}),
            events: vec![read("a", json!({"path": "/repos/acme/x"}), json!(null))],
            node: "a",
            expected: &[],
        },
        Case {
            name: "containers flow as a whole, or part by part",
            inputs: json!({}),
            events: vec![
                read("a", json!({}), json!({"address": {"street": "Rua Nova 4", "zip": "4000-123"}})),
                read(
                    "b",
                    json!({"to": {"street": "Rua Nova 4", "zip": "4000-123"},
                           "label": {"zip": "4000-123", "color": "blue"}, "codes": ["4000-123"]}),
                    json!(null),
                ),
            ],
            node: "b",
            expected: &["/codes/0 <- a.address.zip", "/label/zip <- a.address.zip", "/to <- a.address"],
        },
        Case {
            name: "an empty key is a key",
            inputs: json!({"": {"": "a-value"}}),
            events: vec![read("a", json!({"x": "a-value"}), json!(null))],
            node: "a",
            expected: &["/x <- input \"\"[\"\"]"],
        },
        Case {
            name: "a number that a call computed flows without a name",
            inputs: json!({"n0": 28.0}),
            events: vec![
                read("add", json!({"arg_0": 28.0, "arg_1": 1.5}), json!(29.5)),
                read("double", json!({"arg_0": 29.5}), json!(59.0)),
            ],
            node: "double",
            expected: &["/arg_0 <- add"],
        },
        Case {
            name: "a call can't use what came after it began",
            inputs: json!({}),
            events: vec![
                event("a", json!({}), json!({"id": "f-1001"}), json!({"started_at": 10.0, "ended_at": 12.0})),
                event(
                    "b",
                    json!({"id": "f-1001"}),
                    json!(null),
                    json!({"started_at": 11.0, "ended_at": 13.0}),
                ),
            ],
            node: "b",
            expected: &[],
        },
    ];
    for case in cases {
        let workflow = compiled(case.inputs, case.events);
        assert_eq!(bound(&workflow, case.node), case.expected, "{}", case.name);
    }
}

/// T05: a value left literal names what was seen and why it wasn't taken.
#[test]
fn what_is_left_literal_says_why() {
    let inputs = json!({"owner": "acme-works"});
    let events = vec![
        read("log", json!({}), json!({"text": "commit 5f6543327817 by Ann\ncommit 48327600b2a1 by Bo"})),
        read("list", json!({}), json!([{"id": "f-1001"}, {"id": "f-1002"}])),
        read("a", json!({}), json!({"v": 71.5})),
        read("b", json!({}), json!({"w": 71.5})),
        read(
            "show",
            json!({"revision": "48327600b2a1", "id": "f-1002", "z": 71.5, "path": "/repos/acme-works/x"}),
            json!(null),
        ),
    ];
    let made = compile(trace_of(inputs, events.clone()), &Options::default()).unwrap();
    let seen: BTreeMap<&str, (&str, &str)> = made
        .report
        .suggestions
        .iter()
        .map(|s| (s.pointer.as_str(), (s.candidates[0].as_str(), s.reason.as_str())))
        .collect();
    assert_eq!(seen["/revision"], ("log.text", "it stands inside the text of `log.text`"));
    assert_eq!(seen["/id"], ("list[1].id", "the session chose this item of a list; why isn't recorded"));
    assert_eq!(seen["/z"], ("a.v", "2 places hold this value and no name tells them apart"));
    let template = "template /repos/{input owner}/x";
    assert_eq!(seen["/path"], (template, "the text holds the value of `input owner`"));
    assert_eq!((made.report.ambiguous, made.report.references), (1, 0));
    let accept = |pointer: &str, reference: Option<&str>| Accept {
        event: "show".into(),
        pointer: pointer.into(),
        reference: reference.map(str::to_owned),
    };
    let options =
        Options { accept: vec![accept("/id", None), accept("/z", Some("b.w"))], ..Options::default() };
    let workflow = compiled_with(json!({"owner": "acme-works"}), events.clone(), &options);
    assert_eq!(bound(&workflow, "show"), ["/id <- list[1].id", "/z <- b.w"]);
    let options = Options { accept: vec![accept("/nothing", None)], ..Options::default() };
    let problems = compile(trace_of(json!({}), events), &options).unwrap_err();
    assert_eq!(problems.code(), Code::ReferenceUnknown);
}

/// T05: an input that a result holds too keeps the recorded order.
#[test]
fn an_input_that_a_result_holds_too_keeps_the_order() {
    let workflow = compiled(
        json!({"id": "f-1001"}),
        vec![
            read("find", json!({"q": "roses"}), json!({"id": "f-1001"})),
            read("update", json!({"id": "f-1001"}), json!(null)),
        ],
    );
    assert_eq!(bound(&workflow, "update"), ["/id <- input id"]);
    assert_eq!(waits(&workflow, "update"), ["find"]);
}

/// T08: data that looks like a reference stays data.
#[test]
fn data_that_looks_like_a_reference_stays_data() {
    let arguments = json!({"a": {"$ref": "inputs.secret"}, "b": {"$ref": "#/definitions/x"}, "c": {"ref": {"input": "s"}}});
    let workflow =
        compiled(json!({"secret": "s-e-c-r-e-t"}), vec![read("x", arguments.clone(), json!(null))]);
    let file = to_json(workflow.workflow()).to_string();
    let (back, claimed) = parse(file.as_bytes(), crate::json::Limits::default()).unwrap();
    let back = verify(back, Some(claimed)).unwrap();
    assert_eq!(back.workflow(), workflow.workflow());
    assert_eq!(back.workflow().nodes[0].arguments, Expr::Literal(arguments));
}

/// T01, T04: the calls of a workflow that was run stand for it, and a tool's own calls do not stand for it.
#[test]
fn a_recorded_workflow_gives_way_to_its_calls() {
    let of = |parent: &str| json!({"metadata": {"parent": parent}});
    let workflow = compiled(
        json!({}),
        vec![
            event(
                "flow",
                json!({"x": "abc-1"}),
                json!({"y": "abc-3"}),
                json!({"metadata": {"workflow": "sha256:0"}}),
            ),
            event("one", json!({"x": "abc-1"}), json!({"y": "abc-2"}), of("flow")),
            event("two", json!({"x": "abc-2"}), json!({"y": "abc-3"}), of("flow")),
            event("inner", json!({"x": "abc-2"}), json!(null), of("two")),
        ],
    );
    assert_eq!(nodes(&workflow), ["one", "two"]);
    let dropped: Vec<String> =
        workflow.workflow().source.dropped.iter().map(|d| format!("{}: {}", d.event, d.reason)).collect();
    assert_eq!(
        dropped,
        ["flow: it ran a workflow, whose own calls stand for it", "inner: it was made by `two` itself"]
    );
}

/// T04: only successful events become nodes, and a nested call runs inside its parent.
#[test]
fn events_that_are_no_nodes_are_listed_with_the_reason() {
    let status = |id: &str, status: &str| event(id, json!({}), json!(null), json!({"status": status}));
    let workflow = compiled(
        json!({}),
        vec![
            status("a", "failed"),
            status("b", "running"),
            status("c", "unanswered"),
            read("outer", json!({"x": "abc-1"}), json!({"y": "abc-2"})),
            event("inner", json!({"x": "abc-2"}), json!(null), json!({"metadata": {"parent": "outer"}})),
        ],
    );
    assert_eq!(nodes(&workflow), ["outer"]);
    let dropped: Vec<String> =
        workflow.workflow().source.dropped.iter().map(|d| format!("{}: {}", d.event, d.reason)).collect();
    assert_eq!(
        dropped,
        [
            "a: its status is `failed`, not a success",
            "b: its status is `running`, not a success",
            "c: the recording holds no answer",
            "inner: it was made by `outer` itself",
        ]
    );
}

/// T07, T16: what can't be compiled is refused with its place.
#[test]
fn what_cannot_be_compiled_is_refused() {
    let needs = |id: &str, needed: &str| event(id, json!({}), json!(null), json!({"dependencies": [needed]}));
    let failed = event("f", json!({}), json!(null), json!({"status": "failed"}));
    let named = |tool: &str| vec![event("a", json!({}), json!(null), json!({"tool": tool}))];
    let cases: Vec<(Vec<Value>, &str)> = vec![
        (vec![], "trace-empty /events"),
        (vec![failed.clone()], "trace-empty /events"),
        (vec![needs("a", "nobody")], "dependency-unmet /events/0/dependencies/0"),
        (vec![failed, needs("a", "f")], "dependency-unmet /events/1/dependencies/0"),
        (
            vec![needs("a", "b"), read("b", json!({}), json!(null))],
            "dependency-unmet /events/0/dependencies/0",
        ),
        (named("rm -rf /"), "field-value /events/0/tool"),
        (named("../plugin.so"), "field-value /events/0/tool"),
    ];
    for (events, expected) in cases {
        let problems = compile(trace_of(json!({}), events), &Options::default()).unwrap_err();
        let found: Vec<String> = problems.iter().map(|p| format!("{} {}", p.code, p.place)).collect();
        assert_eq!(found, [expected]);
    }
}

/// What a loaded plugin states wins over what a recording claims.
#[test]
fn facts_of_known_tools_win_over_claims() {
    let facts = ToolFacts {
        effect: Effect::Write,
        idempotency: Idempotency::Idempotent,
        reads: vec![],
        writes: vec!["file:{path}".to_owned()],
    };
    let options =
        Options { known_tools: [(ToolName::new("tool_w").unwrap(), facts)].into(), ..Options::default() };
    let events = vec![
        event("w", json!({"path": "/a"}), json!(null), json!({"side_effect": "pure"})),
        event("r", json!({}), json!(null), json!({"reads": ["file:/b"]})),
        event("s", json!({}), json!(null), json!({"reads": ["file:/a"]})),
    ];
    let workflow = compiled_with(json!({}), events, &options);
    assert_eq!(workflow.workflow().nodes[0].effect, Effect::Write);
    assert_eq!((waits(&workflow, "r"), waits(&workflow, "s")), (vec![], vec!["w".to_owned()]));
}

#[test]
fn output_is_the_last_result_or_all_that_nothing_waits_for() {
    let one = compiled(
        json!({}),
        vec![read("a", json!({}), json!({"id": "f-1001"})), read("b", json!({"id": "f-1001"}), json!(null))],
    );
    assert_eq!(one.workflow().output.references()[0].to_string(), "b");
    let two = compiled(json!({}), vec![read("a", json!({}), json!(1)), read("b", json!({}), json!(2))]);
    assert!(matches!(&two.workflow().output, Expr::Object(map) if map.keys().eq(["a", "b"])));
}

/// T05: calls of one tool that take the items of a list one after the other walk it; a lone item is a choice.
#[test]
fn walked_lists_are_bound_and_chosen_items_are_flagged() {
    let list =
        || read("list", json!({"q": "roses"}), json!([{"id": "f-1001"}, {"id": "f-1002"}, {"id": "f-1003"}]));
    let get = |event_id: &str, id: &str| {
        event(event_id, json!({"id": id}), json!(null), json!({"tool": "get_flower"}))
    };
    let walked = compiled(json!({}), vec![list(), get("a", "f-1001"), get("b", "f-1002")]);
    assert_eq!(bound(&walked, "b"), ["/id <- list[1].id"]);
    let skipped = compiled(json!({}), vec![list(), get("a", "f-1001"), get("b", "f-1003")]);
    assert_eq!(bound(&skipped, "a"), Vec::<String>::new());
    let node = skipped.node(&"b".parse().unwrap()).unwrap();
    assert_eq!(node.decisions[0].verdict, Verdict::Choice);
    assert_eq!(node.decisions[0].candidates[0].to_string(), "list[2].id");
}

/// T05: results of a long recording are walked through in blocks, on another thread, before they count.
#[test]
fn every_call_of_a_long_recording_sees_all_results_before_it_and_none_after() {
    const CALLS: usize = 1_300;
    // Every tenth call is given what the next one returns, so it has it from elsewhere.
    let source = |call: usize| call.checked_sub(1 + call * 7 % 600).filter(|_| call % 10 != 3);
    let call = |number: usize| {
        let from = match source(number) {
            Some(earlier) => format!("made-{earlier}"),
            None => format!("late-{}", number + 1),
        };
        let made = json!({"of": [format!("made-{number}")]}).to_string();
        let result = json!({"text": made, "late": format!("late-{number}")});
        read(&format!("c{number}"), json!({"from": from}), result)
    };
    let workflow = compiled(json!({}), (0..CALLS).map(call).collect());
    for number in 0..CALLS {
        let expected = source(number).map(|earlier| format!("/from <- c{earlier}.text(json).of[0]"));
        assert_eq!(bound(&workflow, &format!("c{number}")), Vec::from_iter(expected), "c{number}");
    }
}
