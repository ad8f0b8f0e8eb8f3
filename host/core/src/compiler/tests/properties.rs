//! Laws that hold for any trace.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;
use crate::workflow::{digest, parse, to_json, verify};

/// A value that other events may hold too.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!("")),
        Just(json!(true)),
        Just(json!("1")),
        Just(json!("28.0")),
        (0i64..4).prop_map(Value::from),
        (0i64..4).prop_map(|n| json!(1000 + n)),
        (0i64..4).prop_map(|n| json!((1000 + n).to_string())),
        (0u8..3).prop_map(|n| json!(28.0 + f64::from(n))),
        "[a-c]{5}".prop_map(Value::from),
        "\\{\"k\":\"[a-c]{5}\"\\}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("(id|key|)", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let object = || {
        prop::collection::btree_map("(id|key|page|name)", any_value(), 0..4)
            .prop_map(|map| map.into_iter().collect::<Map<_, _>>())
    };
    let event = (
        object(),
        any_value(),
        0usize..6,
        "(get|set|sum)",
        0usize..3,
        prop::option::of("(x:/a|x:/b|x:/a/c)"),
        0usize..8,
    );
    (object(), prop::collection::vec(event, 1..9)).prop_map(|(inputs, events)| {
        let mut made: Vec<Event> = Vec::new();
        for (index, (arguments, result, effect, tool, idempotency, key, status)) in
            events.into_iter().enumerate()
        {
            let mut event = Event::new(NodeId::new(format!("e{index}")).unwrap(), tool, arguments);
            event.result = result;
            event.effect = Effect::ALL[effect];
            event.idempotency = Idempotency::ALL[idempotency];
            event.reads = key.clone().into_iter().collect();
            event.writes = if event.effect.is_read_only() { vec![] } else { key.into_iter().collect() };
            if status == 0 && index > 0 {
                event.status = trace::Status::failed();
            }
            made.push(event);
        }
        Trace { inputs, events: made, ..Trace::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// T08, T28: the compiled arguments are the recorded ones, the order is the recorded one, and the file
    /// comes back unchanged.
    #[test]
    fn compiling_keeps_what_was_recorded(trace in any_trace(), bind_list_choices: bool) {
        let options = Options { bind_list_choices, ..Options::default() };
        // The self-check has compared every argument; a difference would be an error here.
        let workflow = compile(trace.clone(), &options).unwrap().workflow;
        let (back, claimed) = parse(to_json(&workflow).to_string().as_bytes(), crate::json::Limits::default()).unwrap();
        prop_assert_eq!(&back, &workflow);
        prop_assert_eq!(digest(&workflow), claimed);
        let verified = verify(back, Some(claimed)).unwrap();
        for (position, before) in verified.dependencies().iter().enumerate() {
            prop_assert!(before.iter().all(|earlier| *earlier < position));
        }
        let again = trace::from_value(&trace::to_json(&trace)).unwrap();
        prop_assert_eq!(&again, &trace);
        prop_assert_eq!(trace::digest(&trace), crate::digest::Digest::of_json(&trace::to_json(&trace)));
        prop_assert_eq!(compile(again, &options).unwrap().workflow, workflow);
    }

    /// T07: two calls that aren't both read-only, of which one says nothing of what it touches, are ordered.
    #[test]
    fn effects_without_keys_are_always_ordered(trace in any_trace()) {
        let verified = verify(compile(trace.clone(), &Options::default()).unwrap().workflow, None).unwrap();
        let nodes = &verified.workflow().nodes;
        let reach = reach(&verified);
        let keyless = |node: &Node| {
            let event = trace.events.iter().find(|event| event.id == node.id).unwrap();
            node.effect == Effect::Unknown || (event.reads.is_empty() && event.writes.is_empty())
        };
        for (later, node) in nodes.iter().enumerate() {
            for (earlier, first) in nodes.iter().enumerate().take(later) {
                let pure = node.effect == Effect::Pure || first.effect == Effect::Pure;
                let read_only = node.effect.is_read_only() && first.effect.is_read_only();
                if !pure && !read_only && (keyless(node) || keyless(first)) {
                    prop_assert!(reach[later].contains(&earlier), "{} must wait for {}", node.id, first.id);
                }
            }
        }
    }

    /// T28: a compiled workflow, replayed with the recorded inputs, makes the recorded calls.
    #[test]
    fn compiling_then_replaying_gives_the_recorded_calls(trace in any_trace(), bind_list_choices: bool) {
        let options = Options { bind_list_choices, ..Options::default() };
        let verified = verify(compile(trace.clone(), &options).unwrap().workflow, None).unwrap();
        let found = crate::replay::replay(&verified, &trace.inputs).unwrap();
        prop_assert!(found.stands(), "{:?}", found.lines());
        prop_assert_eq!(found.nodes.len(), verified.workflow().nodes.len());
        prop_assert!(crate::check::check(verified.workflow(), &trace).differ == 0);
    }

    /// T08: the order of keys in a file changes neither digest nor workflow.
    #[test]
    fn the_order_of_keys_changes_nothing(trace in any_trace()) {
        let other = trace::parse(turned(&trace::to_json(&trace)).as_bytes(), crate::json::Limits::default()).unwrap();
        prop_assert_eq!(trace::digest(&other), trace::digest(&trace));
        let one = compile(trace, &Options::default()).unwrap().workflow;
        let two = compile(other, &Options::default()).unwrap().workflow;
        prop_assert_eq!(digest(&one), digest(&two));
        let (back, claimed) =
            parse(turned(&to_json(&one)).as_bytes(), crate::json::Limits::default()).unwrap();
        prop_assert_eq!(digest(&back), claimed);
    }

    /// T06, T07: two calls that touch one key, one of them writing, are ordered: with known facts, by the
    /// closure of every edge. A key that varies between runs makes the call one that may touch anything.
    #[test]
    fn calls_that_meet_at_a_key_are_ordered(
        calls in prop::collection::vec((0usize..5, 0usize..6, 0usize..4, any::<bool>()), 2..14),
    ) {
        const KEYS: [&str; 6] = ["db:/a", "db:/a/x", "db:/a/y", "db:/b", "db:a", "log:/a"];
        let facts = |effect, reads: &[&str], writes: &[&str]| ToolFacts {
            effect,
            idempotency: Idempotency::NonIdempotent,
            reads: reads.iter().map(|key| (*key).to_owned()).collect(),
            writes: writes.iter().map(|key| (*key).to_owned()).collect(),
        };
        let tools = [
            ("get", facts(Effect::Read, &["{key}"], &[])),
            ("put", facts(Effect::Write, &[], &["{key}"])),
            ("copy", facts(Effect::Write, &["{from}"], &["{key}"])),
            ("drop", facts(Effect::Delete, &[], &["{key}"])),
            ("mystery", facts(Effect::Unknown, &["{key}"], &[])),
        ];
        let known_tools = tools.iter().map(|(name, facts)| (ToolName::new(*name).unwrap(), facts.clone()));
        let options = Options { known_tools: known_tools.collect(), ..Options::default() };
        let events = calls.iter().enumerate().map(|(index, (tool, key, from, chained))| {
            let before = index.checked_sub(1).filter(|_| *chained);
            json!({"id": format!("e{index}"), "tool": tools[*tool].0, "side_effect": "pure",
                   "arguments": {"key": KEYS[*key], "from": KEYS[*from], "token": before.map(|at| format!("token-{at}"))},
                   "result": {"token": format!("token-{index}")}})
        });
        let trace = trace::from_value(&json!({"inputs": {}, "events": events.collect::<Vec<_>>()})).unwrap();
        let verified = verify(compile(trace, &options).unwrap().workflow, None).unwrap();
        prop_assert_eq!(verified.workflow().nodes.len(), calls.len());
        let touched: Vec<Vec<(&str, bool)>> = calls
            .iter()
            .map(|(tool, key, from, _)| match tool {
                0 => vec![(KEYS[*key], false)],
                2 => vec![(KEYS[*from], false), (KEYS[*key], true)],
                _ => vec![(KEYS[*key], true)],
            })
            .collect();
        let reach = reach(&verified);
        for (later, two) in touched.iter().enumerate() {
            for (earlier, one) in touched.iter().enumerate().take(later) {
                let unknown = calls[later].0 == 4 || calls[earlier].0 == 4;
                let meet = one.iter().any(|(a, a_writes)| {
                    two.iter().any(|(b, b_writes)| (*a_writes || *b_writes) && may_meet(a, b))
                });
                if meet || unknown {
                    prop_assert!(reach[later].contains(&earlier), "e{later} must wait for e{earlier}: {calls:?}");
                }
            }
        }
    }

    /// T07: calls of which nothing is known keep their recorded order, one after the other.
    #[test]
    fn unknown_calls_keep_the_recorded_order(trace in any_trace()) {
        let mut trace = trace;
        for event in &mut trace.events {
            event.effect = Effect::Unknown;
        }
        let verified = verify(compile(trace, &Options::default()).unwrap().workflow, None).unwrap();
        for (later, before) in reach(&verified).iter().enumerate() {
            prop_assert_eq!(before.len(), later);
        }
    }
}

/// Whether two keys may name one thing, written down a second time: one is the other or stands above it, or
/// one has no root and the schemes are the same.
fn may_meet(a: &str, b: &str) -> bool {
    let ((a_scheme, a), (b_scheme, b)) = (a.split_once(':').unwrap(), b.split_once(':').unwrap());
    let above = |a: &str, b: &str| b == a || b.starts_with(&format!("{a}/"));
    a_scheme == b_scheme && (a.starts_with('/') != b.starts_with('/') || above(a, b) || above(b, a))
}

/// For each node every node that it waits for, directly or not.
fn reach(verified: &crate::workflow::VerifiedWorkflow) -> Vec<std::collections::BTreeSet<usize>> {
    let mut reach: Vec<std::collections::BTreeSet<usize>> = Vec::new();
    for before in verified.dependencies() {
        let mut all: std::collections::BTreeSet<usize> = before.iter().copied().collect();
        all.extend(before.iter().flat_map(|earlier| reach[*earlier].clone()));
        reach.push(all);
    }
    reach
}

/// A value as text, every object's keys in turned order.
fn turned(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members = map.iter().rev().map(|(key, value)| format!("{}:{}", json!(key), turned(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(turned).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}
