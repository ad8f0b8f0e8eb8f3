//! Rules of inference, as tables: each row is a trace and what must hold.

use serde_json::{Value, json};

use super::{Options, bound, compile, compiled, event, read, trace_of, waits};
use crate::workflow::{Verdict, parse, to_json, verify};

/// T05: a path that names the value is a literal in disguise: it is offered, and any other place is better.
#[test]
fn a_path_that_names_its_value_is_a_choice() {
    let variants = || read("product", json!({}), json!({"variants": {"83491": {"item_id": "83491"}}}));
    type Row<'r> = (&'r str, Vec<Value>, &'r str, Value, &'r [&'r str], Option<&'r str>);
    let rows: Vec<Row<'_>> = vec![
        (
            "a map keyed by id",
            vec![read("user", json!({}), json!({"methods": {"card-95": {"id": "card-95"}}}))],
            "method_id",
            json!("card-95"),
            &[],
            Some("user.methods[\"card-95\"].id"),
        ),
        (
            "a number under the key that spells it",
            vec![read("user", json!({}), json!({"accounts": {"90117": {"account": 90117}}}))],
            "account",
            json!(90117),
            &[],
            Some("user.accounts.90117.account"),
        ),
        (
            "another place is better, even a later one",
            vec![variants(), read("order", json!({}), json!({"item": "83491"}))],
            "item_id",
            json!("83491"),
            &["/item_id <- order.item"],
            None,
        ),
        (
            "another value below the key is data",
            vec![read("user", json!({}), json!({"methods": {"card-95": {"holder": "h-4411"}}}))],
            "holder",
            json!("h-4411"),
            &["/holder <- user.methods[\"card-95\"].holder"],
            None,
        ),
    ];
    for (name, mut events, argument, value, expected, offered) in rows {
        events.push(event("use", json!({argument: value}), json!(null), json!({})));
        let workflow = compiled(json!({}), events);
        assert_eq!(bound(&workflow, "use"), expected, "{name}");
        let decision = &workflow.node(&"use".parse().unwrap()).unwrap().decisions[0];
        if let Some(offered) = offered {
            assert_eq!(decision.verdict, Verdict::Choice, "{name}");
            assert_eq!(decision.candidates[0].to_string(), offered, "{name}");
        }
    }
}

/// T05: what a write returns restates the state, so a flag or small number isn't taken from it by name alone.
#[test]
fn a_common_value_does_not_flow_from_a_write() {
    let book = |effect: &str| {
        event("book", json!({}), json!({"bags": 2, "code": "HX-4411"}), json!({"side_effect": effect}))
    };
    let computed = event("sum", json!({}), json!(2), json!({"side_effect": "write"}));
    let declares = json!({"dependencies": ["book"]});
    type Row<'r> = (&'r str, Vec<Value>, Value, Value, &'r [&'r str]);
    let rows: Vec<Row<'_>> = vec![
        ("from a write", vec![book("write")], json!({"bags": 2}), json!({}), &[]),
        ("from a deletion", vec![book("delete")], json!({"bags": 2}), json!({}), &[]),
        ("from a read", vec![book("read")], json!({"bags": 2}), json!({}), &["/bags <- book.bags"]),
        ("a rare value", vec![book("write")], json!({"code": "HX-4411"}), json!({}), &["/code <- book.code"]),
        ("declared", vec![book("write")], json!({"bags": 2}), declares, &["/bags <- book.bags"]),
        ("all that a call computed", vec![computed], json!({"bags": 2}), json!({}), &["/bags <- sum"]),
    ];
    for (name, mut events, arguments, more, expected) in rows {
        events.push(event("use", arguments, json!(null), more));
        let workflow = compiled(json!({}), events);
        assert_eq!(bound(&workflow, "use"), expected, "{name}");
        let decision = &workflow.node(&"use".parse().unwrap()).unwrap().decisions[0];
        assert_eq!(decision.candidates.is_empty(), !expected.is_empty(), "{name}: it is offered");
    }
}

/// T05: a list or object of nothing but what the call was given is an echo, and no source.
#[test]
fn containers_of_echoes_are_echoes() {
    let echo =
        || read("first", json!({"items": ["f-1001", "f-1002"]}), json!({"new_items": ["f-1001", "f-1002"]}));
    let rows: Vec<(&str, Vec<Value>, &[&str])> = vec![
        ("only an echo", vec![echo()], &[]),
        (
            "its source is elsewhere",
            vec![read("list", json!({}), json!({"new_items": ["f-1001", "f-1002"]})), echo()],
            &["/new_items <- list.new_items"],
        ),
        (
            "one item is new",
            vec![read("first", json!({"id": "f-1001"}), json!({"new_items": ["f-1001", "f-1002"]}))],
            &["/new_items <- first.new_items"],
        ),
    ];
    for (name, mut events, expected) in rows {
        events.push(read("use", json!({"new_items": ["f-1001", "f-1002"]}), json!(null)));
        assert_eq!(bound(&compiled(json!({}), events), "use"), expected, "{name}");
    }
}

/// T05, T06, T08: outcomes measured in Trace2MCP 0.2.2, where a lost edge let nodes run side by side with a
/// stale value, or a file couldn't be loaded again: each trace's bindings and waits, also after a round trip.
#[test]
fn measured_outcomes_hold_after_a_round_trip() {
    let write = |id: &str, arguments: Value, more: Value| {
        let mut all = json!({"side_effect": "write"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event(id, arguments, json!(null), all)
    };
    let twice = || read("a", json!({}), json!({"id": "u-77001", "self": {"id": "u-77001"}}));
    type Row = (&'static str, Value, Vec<Value>, &'static [&'static str], &'static [&'static str]);
    let rows: Vec<Row> = vec![
        (
            "an id twice in one result orders its reader",
            json!({}),
            vec![twice(), read("end", json!({"user": "u-77001"}), json!(null))],
            &["/user <- a.id"],
            &["a"],
        ),
        (
            "a declared dependency whose result has the value twice is data",
            json!({}),
            vec![
                twice(),
                event("end", json!({"user": "u-77001"}), json!(null), json!({"dependencies": ["a"]})),
            ],
            &["/user <- a.id"],
            &["a"],
        ),
        (
            "an id that a second call echoes orders both",
            json!({}),
            vec![
                read("find", json!({"q": "roses"}), json!({"items": [{"id": "f-1001"}]})),
                read("get", json!({"id": "f-1001"}), json!({"id": "f-1001", "state": "open"})),
                write("end", json!({"id": "f-1001"}), json!({})),
            ],
            &["/id <- find.items[0].id"],
            &["find", "get"],
        ),
        (
            "a read of a key waits for its write",
            json!({}),
            vec![
                write("put", json!({}), json!({"writes": ["k"]})),
                event("end", json!({}), json!(null), json!({"reads": ["k"]})),
            ],
            &[],
            &["put"],
        ),
        (
            "an empty key is no whole input",
            json!({"": "value-1", "b": 2}),
            vec![read("end", json!({"x": "value-1"}), json!(null))],
            &["/x <- input \"\""],
            &[],
        ),
    ];
    for (name, inputs, events, expected, before) in rows {
        let workflow = compiled(inputs, events);
        let file = to_json(workflow.workflow()).to_string();
        let (back, claimed) = parse(file.as_bytes(), crate::json::Limits::default()).unwrap();
        let back = verify(back, Some(claimed)).unwrap();
        assert_eq!(back.workflow(), workflow.workflow(), "{name}");
        assert_eq!(bound(&back, "end"), expected, "{name}");
        assert_eq!(waits(&back, "end"), before, "{name}");
    }
}

/// T16: a name that no tool can have is reported once, with the rename that settles it.
#[test]
fn a_name_that_no_tool_can_have_comes_with_a_rename() {
    let call = |id: &str, tool: &str| event(id, json!({}), json!({}), json!({"tool": tool}));
    let events =
        vec![call("a", "read file"), call("b", "read file"), call("c", "read_file"), call("d", "x/y")];
    let problems = compile(trace_of(json!({}), events), &Options::default()).unwrap_err();
    let found: Vec<(String, bool)> = problems
        .iter()
        .map(|problem| {
            (problem.place.to_string(), problem.message.contains("`--rename 'read file=read_file_2'`"))
        })
        .collect();
    assert_eq!(found, [("/events/0/tool".to_owned(), true), ("/events/3/tool".to_owned(), false)]);
}

/// T05, T15: an argument that is a key of an earlier object is a choice that can't be bound yet; the name of a
/// field, or what the caller knew before, is no key.
#[test]
fn keys_of_objects_are_choices() {
    let users = |users: Value| read("list", json!({}), json!({"users": users}));
    let two = || users(json!({"alice": {"age": 3}, "bob": {"age": 4}}));
    type Row<'r> = (&'r str, Vec<Value>, Value, &'r str, &'r [&'r str]);
    let rows: Vec<Row<'_>> = vec![
        ("a key of a map", vec![two()], json!({"to": "alice"}), "/to", &["list.users"]),
        ("inside an argument", vec![two()], json!({"to": {"who": ["bob"]}}), "/to/who/0", &["list.users"]),
        ("as a number", vec![users(json!({"90117": [1]}))], json!({"id": 90117}), "/id", &["list.users"]),
        (
            "a map of scalars by id",
            vec![users(json!({"h-1": 10, "h-2": 20}))],
            json!({"id": "h-2"}),
            "/id",
            &["list.users"],
        ),
        (
            "in text",
            vec![read("list", json!({}), json!({"text": "{\"a-1\": {}}"}))],
            json!({"id": "a-1"}),
            "/id",
            &["list.text(json)"],
        ),
        (
            "one entry, and the name agrees",
            vec![users(json!({"alice": {}}))],
            json!({"user": "alice"}),
            "/user",
            &["list.users"],
        ),
        (
            "one entry of any name",
            vec![users(json!({"alice": {}}))],
            json!({"colour": "alice"}),
            "/colour",
            &[],
        ),
        (
            "a field",
            vec![read("list", json!({}), json!({"state": "x", "title": "y"}))],
            json!({"sort": "state"}),
            "/sort",
            &[],
        ),
        (
            "fields of differing kinds",
            vec![read("list", json!({}), json!({"state": {}, "n": 1}))],
            json!({"sort": "state"}),
            "/sort",
            &[],
        ),
        (
            "known before",
            vec![read("ask", json!({"name": "alice"}), json!(null)), two()],
            json!({"to": "alice"}),
            "/to",
            &[],
        ),
    ];
    for (name, mut events, arguments, pointer, expected) in rows {
        events.push(event("use", arguments, json!(null), json!({})));
        let workflow = compiled(json!({}), events);
        assert_eq!(bound(&workflow, "use"), Vec::<String>::new(), "{name}");
        let node = workflow.node(&"use".parse().unwrap()).unwrap();
        let found = node.decisions.iter().find(|decision| decision.pointer == pointer);
        let found = found.filter(|decision| decision.verdict == Verdict::Choice);
        let candidates = found.iter().flat_map(|found| &found.candidates);
        assert_eq!(candidates.map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
    }
}
