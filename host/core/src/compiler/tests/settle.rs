//! What a person decides, texts with parts from elsewhere, and what several equal values say.

use serde_json::{Value, json};

use super::{bound, compiled, compiled_with, event, read, trace_of};
use crate::code::Code;
use crate::compiler::{Accept, Options, compile, compile_all};
use crate::workflow::{Scope, Verdict, VerifiedWorkflow, explain, graph, parse, to_json, verify};

/// Pointer, verdict and template of each decision that has one.
fn templates(workflow: &VerifiedWorkflow, id: &str) -> Vec<String> {
    let node = workflow.node(&id.parse().unwrap()).unwrap();
    let shown = node.decisions.iter().filter_map(|decision| {
        Some(format!("{:?} {} {}", decision.verdict, decision.pointer, decision.template.as_ref()?))
    });
    shown.collect()
}

fn accept(place: &str, reference: Option<&str>) -> Options {
    let (event, pointer) = place.split_once(':').unwrap();
    let accept = Accept {
        event: event.to_owned(),
        pointer: pointer.to_owned(),
        reference: reference.map(str::to_owned),
    };
    Options { accept: vec![accept], ..Options::default() }
}

/// T05: what one recording shows of a text is a suggestion; parts are whole words, long and rare enough.
#[test]
fn parts_of_texts_are_suggested() {
    let rows = [
        (json!({"owner": "acme"}), "/repos/acme/x", "template /repos/{input owner}/x"),
        (json!({"owner": "acme"}), "/repos/acme-2/x", "template /repos/{input owner}-2/x"),
        (json!({"owner": "acme"}), "/repos/acmes/x", ""),
        (json!({"owner": "acm"}), "/repos/acm/x", ""),
        (json!({"name": "Anna Lee"}), "Hello Anna Lee, hi", "template Hello {input name}, hi"),
        (json!({"dir": "/srv/repo"}), "/srv/repo/a.rs", "template {input dir}/a.rs"),
        (json!({"id": 40117}), "/items/40117", "template /items/{input id as string}"),
        (json!({"n": 3}), "/items/3", ""),
        (json!({"a": "left", "b": "right"}), "left{}right", "template {input a}{{}}{input b}"),
    ];
    for (inputs, text, expected) in rows {
        let workflow = compiled(inputs, vec![read("a", json!({"path": text}), json!(null))]);
        let wanted: Vec<String> = Some(expected)
            .filter(|text| !text.is_empty())
            .map(|text| format!("Literal /path {text}"))
            .into_iter()
            .collect();
        assert_eq!(templates(&workflow, "a"), wanted, "{text}");
    }
}

fn issue(owner: &str, number: u64, path: &str) -> crate::trace::Trace {
    trace_of(
        json!({}),
        vec![
            read("find", json!({"q": "x"}), json!({"owner": owner, "number": number, "state": "open"})),
            read("get", json!({"path": path}), json!({"ok": true})),
        ],
    )
}

/// T05, T15: several recordings prove a template: its parts vary in them as the text does.
#[test]
fn several_recordings_prove_a_template() {
    let one = || issue("acme-works", 40117, "/repos/acme-works/open/40117");
    let two = issue("zeta-labs", 50223, "/repos/zeta-labs/open/50223");
    let made = compile_all(vec![one(), two], &Options::default()).unwrap();
    let workflow = verify(made.workflow.clone(), None).unwrap();
    let template = "template /repos/{find.owner}/open/{find.number as string}";
    assert_eq!(templates(&workflow, "get"), [format!("Reference /path {template}")]);
    assert_eq!(super::waits(&workflow, "get"), ["find"]);
    // The file keeps it, the picture shows it, and another run fills it.
    let document = to_json(&made.workflow);
    let (read, digest) = parse(document.to_string().as_bytes(), crate::json::Limits::default()).unwrap();
    assert_eq!(read, made.workflow);
    verify(read, Some(digest)).unwrap();
    assert!(graph::mermaid(&made.workflow).contains("n0 -->|/path| n1"));
    let results = [("find".parse().unwrap(), json!({"owner": "new", "number": 7}))].into();
    let inputs = serde_json::Map::new();
    let arguments = made.workflow.nodes[1].arguments.resolve(Scope { inputs: &inputs, results: &results });
    assert_eq!(arguments, Ok(json!({"path": "/repos/new/open/7"})));
    // Where a text goes its own way in one recording, nothing is proven.
    let other = issue("zeta-labs", 50223, "/repos/zeta-labs/closed/50223");
    let workflow = compile_all(vec![one(), other], &Options::default()).unwrap().workflow;
    assert!(templates(&verify(workflow, None).unwrap(), "get").is_empty());
}

/// T05: a person names any place that holds the value, a template, or none; what differs is refused with its place.
#[test]
fn a_person_says_where_a_value_comes_from() {
    let events = || {
        vec![
            read("a", json!({}), json!({"v": 71.5, "owner": "acme-works"})),
            read("b", json!({}), json!({"w": 71.5, "u": "other"})),
            read("c", json!({"z": 71.5, "owner": "acme-works", "path": "/r/acme-works"}), json!(null)),
        ]
    };
    let rows: [(&str, Option<&str>, &[&str]); 5] = [
        ("c:/z", Some("b.w"), &["/owner <- a.owner", "/z <- b.w"]),
        ("c:/owner", Some(""), &[]),
        ("c:/z", None, &["/owner <- a.owner", "/z <- a.v"]),
        ("c:/path", Some("template /r/{a.owner}"), &["/owner <- a.owner"]),
        ("c:/path", None, &["/owner <- a.owner"]),
    ];
    for (place, reference, expected) in rows {
        let workflow = compiled_with(json!({}), events(), &accept(place, reference));
        assert_eq!(bound(&workflow, "c"), expected, "{place} {reference:?}");
        if place == "c:/path" {
            assert_eq!(templates(&workflow, "c"), ["Reference /path template /r/{a.owner}"]);
        }
    }
    let rows = [
        ("c:/z", "a.owner", Code::ReferenceUnknown, "`a.owner` gives another value than was recorded"),
        ("c:/z", "a.lost", Code::ReferenceUnknown, "leads nowhere"),
        ("c:/z", "nobody.v", Code::ReferenceUnknown, "no node `nobody` comes before this one"),
        ("c:/z", "c.v", Code::ReferenceUnknown, "no node `c` comes before this one"),
        ("c:/z", "input v", Code::ReferenceUnknown, "the recording has no input `v`"),
        ("c:/z", "a v", Code::ReferenceUnknown, "not a reference"),
        ("c:/no", "a.v", Code::ReferenceUnknown, "event `c` has no argument value `/no`"),
        ("x:/z", "a.v", Code::ReferenceUnknown, "no node comes from an event `x`"),
    ];
    for (place, reference, code, message) in rows {
        let problems = compile(trace_of(json!({}), events()), &accept(place, Some(reference))).unwrap_err();
        assert_eq!(problems.code(), code, "{reference}");
        let text = problems.to_string();
        assert!(text.contains(message), "{text}");
        assert!(!place.starts_with("c:/z") || text.contains("/events/2/arguments/z"), "{text}");
    }
}

/// T05, T29: what `explain` offers can be taken as it stands, also where a value is bound elsewhere.
#[test]
fn every_offer_of_explain_can_be_taken() {
    let events = || {
        vec![
            read("a", json!({}), json!({"it's": {"id": "u-77001"}})),
            read("b", json!({}), json!({"user": {"id": "u-77001"}})),
            read("c", json!({"id": "u-77001", "text": "by u-77001"}), json!(null)),
        ]
    };
    let workflow = compiled(json!({}), events());
    let explanation = explain(workflow.workflow());
    let offers: Vec<&String> =
        explanation.nodes.iter().flat_map(|node| &node.arguments).flat_map(|found| &found.accept).collect();
    assert!(offers.len() > 1, "{offers:?}");
    for offer in offers {
        let text = offer.strip_prefix("--accept '").unwrap().strip_suffix('\'').unwrap();
        let text = text.replace("'\\''", "'");
        let (place, reference) = text.split_once('=').unwrap();
        let again = compiled_with(json!({}), events(), &accept(place, Some(reference)));
        let taken = [bound(&again, "c"), templates(&again, "c")].concat().join("\n");
        assert!(taken.contains(reference), "{offer}\n{taken}");
    }
}

/// T29: the reason of a value that stays as recorded is true.
#[test]
fn reasons_of_literals_are_true() {
    let late = |at: f64| json!({"started_at": at, "ended_at": at + 2.0});
    let rows: Vec<(&str, Vec<Value>, Value)> = vec![
        (
            "`a` was given it before any result had it, so `a` only repeats it",
            vec![read("a", json!({"id": "f-1001"}), json!({"id": "f-1001"}))],
            json!("f-1001"),
        ),
        (
            "`b` returned it, but was still running when this call began",
            vec![event("b", json!({}), json!({"id": "f-1001"}), late(10.0))],
            json!("f-1001"),
        ),
        ("no input or earlier result has this value", vec![], json!("f-1001")),
        (
            "a redacted secret stands inside the text, and a run refuses it",
            vec![],
            json!("Bearer [T2M-REDACTED:token:1]"),
        ),
        ("an empty value tells nothing of where it comes from", vec![], json!("")),
    ];
    for (reason, mut events, value) in rows {
        events.push(event("last", json!({"x": value}), json!(null), late(11.0)));
        let workflow = compiled(json!({}), events);
        let node = workflow.node(&"last".parse().unwrap()).unwrap();
        assert_eq!(node.decisions[0].reasons, [reason]);
    }
}

/// T13: a marker inside a longer text is reported when it is compiled.
#[test]
fn a_marker_inside_a_text_is_noted() {
    let events = vec![read("a", json!({"header": {"x": "Bearer [T2M-REDACTED:token:1]"}}), json!(null))];
    let made = compile(trace_of(json!({}), events), &Options::default()).unwrap();
    let note = "a redacted secret stands inside a longer text at `a:/header/x`: a run refuses such a call";
    assert!(made.report.notes.iter().any(|found| found == note), "{:?}", made.report.notes);
}

/// T05: what nothing else uses was computed for the one argument that it fits.
#[test]
fn a_computed_number_is_used() {
    let math = |id: &str, a: Value, b: Value, result: Value| {
        read(id, json!({"a": a, "b": b}), json!({"result": result}))
    };
    let events = |last: Value| {
        vec![
            math("half", json!(32.0), json!(2.5), json!(12.8)),
            math("back", json!(12.8), json!(2.5), json!(32.0)),
            math("sum", last, json!(7.25), json!(39.25)),
        ]
    };
    let workflow = compiled(json!({"n": 32.0}), events(json!(32.0)));
    assert_eq!(bound(&workflow, "sum"), ["/a <- back.result"]);
    // The last result is what the session was for, not something unused.
    let workflow = compiled(json!({"n": 32.0}), events(json!(12.8)));
    assert_eq!(bound(&workflow, "sum"), ["/a <- half.result"]);
}

/// T05: a number that formulas hold themselves, again from an input that was used, is left to a person.
#[test]
fn everyday_numbers_of_formulas_are_ambiguous() {
    let verdict = |number: f64| {
        let half = number / 2.5;
        let workflow = compiled(
            json!({"n": number}),
            vec![
                read("one", json!({"a": number, "b": 2.5}), json!(half)),
                read("two", json!({"a": half, "b": number}), json!(half * number)),
            ],
        );
        workflow.node(&"two".parse().unwrap()).unwrap().decisions[1].verdict
    };
    assert_eq!(verdict(100.0), Verdict::Ambiguous);
    assert_eq!(verdict(137.0), Verdict::Input);
}

/// T05: to go on with what one of several calls was given is a choice.
#[test]
fn going_on_with_one_of_several_is_a_choice() {
    let place = |id: &str, found: &str| read(id, json!({"q": id}), json!({"id": found}));
    let price = |id: &str, legs: Value| {
        event(id, json!({"legs": legs}), json!({"price": 71.5}), json!({"tool": "price"}))
    };
    let (one, two) = (json!([{"from": "p-101", "to": "p-202"}]), json!([{"from": "p-202", "to": "p-101"}]));
    let verdicts = |events: Vec<Value>| {
        let places = vec![place("x", "p-101"), place("y", "p-202")];
        let workflow = compiled(json!({}), [places, events].concat());
        let node = workflow.node(&"book".parse().unwrap()).unwrap();
        node.decisions.iter().map(|decision| decision.verdict).collect::<Vec<_>>()
    };
    let book = || read("book", json!({"legs": one}), json!(null));
    let also = event("again", json!({"legs": two}), json!(null), json!({"tool": "tool_book"}));
    let (choice, reference) = (vec![Verdict::Choice; 2], vec![Verdict::Reference; 2]);
    assert_eq!(verdicts(vec![price("p", one.clone()), price("r", two.clone()), book()]), choice);
    assert_eq!(verdicts(vec![price("p", one.clone()), book()]), reference);
    assert_eq!(verdicts(vec![price("p", one.clone()), price("r", two.clone()), book(), also]), reference);
}

/// T05: a place that another run finds again is better than a later item of a list.
#[test]
fn a_first_item_is_better_than_a_later_one() {
    let offers = || {
        let deals = json!([{"offerToken": "t-1"}, {"offerToken": "t-2002"}]);
        read("find", json!({}), json!({"deals": deals, "offers": [{"token": "t-2002"}]}))
    };
    let seat = || read("seat", json!({"offerToken": "t-2002"}), json!(null));
    let workflow = compiled(json!({}), vec![offers(), seat()]);
    assert_eq!(bound(&workflow, "seat"), ["/offerToken <- find.offers[0].token"]);
}
