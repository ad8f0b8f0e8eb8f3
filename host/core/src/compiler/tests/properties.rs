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
    #![proptest_config(ProptestConfig::with_cases(200))]

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
        let mut reach: Vec<std::collections::BTreeSet<usize>> = Vec::new();
        for before in verified.dependencies() {
            let mut all: std::collections::BTreeSet<usize> = before.iter().copied().collect();
            all.extend(before.iter().flat_map(|earlier| reach[*earlier].clone()));
            reach.push(all);
        }
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
}
