//! Which calls keep their order and which repeated reads go.

use serde_json::{Value, json};

use std::collections::BTreeMap;

use super::{bound, compiled, event, read, waits};
use crate::compiler::{Options, ToolFacts, compile};
use crate::effect::{Effect, Idempotency};
use crate::id::{NodeId, ToolName};
use crate::trace;

/// T06: a second read is dropped only if nothing in between may have changed what it reads.
#[test]
fn reads_are_deduplicated_only_where_it_is_safe() {
    let idempotent = json!({"tool": "get", "idempotency": "idempotent"});
    let keyed = json!({"tool": "get", "idempotency": "idempotent", "reads": ["file:/a/b"]});
    let get = |id: &str, more: &Value| event(id, json!({"k": "v-1"}), json!({"x": "value-1"}), more.clone());
    let other = |id: &str, more: Value| event(id, json!({}), json!(null), more);
    let cases: Vec<(&str, Vec<Value>, usize)> = vec![
        ("idempotent reads", vec![get("a", &idempotent), get("b", &idempotent)], 1),
        (
            "reads that may not be repeated",
            vec![get("a", &json!({"tool": "get"})), get("b", &json!({"tool": "get"}))],
            2,
        ),
        (
            "pure calls",
            {
                let pure = json!({"tool": "get", "side_effect": "pure"});
                vec![get("a", &pure), other("w", json!({"side_effect": "write"})), get("b", &pure)]
            },
            2,
        ),
        (
            "another result",
            vec![
                get("a", &idempotent),
                event("b", json!({"k": "v-1"}), json!({"x": "value-2"}), idempotent.clone()),
            ],
            2,
        ),
        (
            "across a write",
            vec![get("a", &idempotent), other("w", json!({"side_effect": "write"})), get("b", &idempotent)],
            3,
        ),
        (
            "across an unknown call",
            vec![get("a", &idempotent), other("w", json!({"side_effect": "unknown"})), get("b", &idempotent)],
            3,
        ),
        (
            "across a failed write",
            vec![
                get("a", &idempotent),
                other("w", json!({"side_effect": "write", "status": "failed"})),
                get("b", &idempotent),
            ],
            2,
        ),
        (
            "across a write elsewhere",
            vec![
                get("a", &keyed),
                other("w", json!({"side_effect": "write", "writes": ["file:/a/c"]})),
                get("b", &keyed),
            ],
            2,
        ),
        (
            "across a write of a folder above",
            vec![
                get("a", &keyed),
                other("w", json!({"side_effect": "write", "writes": ["file:/a"]})),
                get("b", &keyed),
            ],
            3,
        ),
        (
            "across a write of something below",
            vec![
                get("a", &keyed),
                other("w", json!({"side_effect": "write", "writes": ["file:/a/b/c"]})),
                get("b", &keyed),
            ],
            3,
        ),
        (
            "across a write at a relative path",
            vec![
                get("a", &keyed),
                other("w", json!({"side_effect": "write", "writes": ["file:b"]})),
                get("b", &keyed),
            ],
            3,
        ),
    ];
    for (name, events, expected) in cases {
        let workflow = compiled(json!({}), events);
        assert_eq!(workflow.workflow().nodes.len(), expected, "{name}");
    }
    let events =
        vec![get("a", &idempotent), get("b", &idempotent), read("c", json!({"y": "value-1"}), json!(null))];
    let workflow = compiled(json!({}), events);
    assert_eq!(bound(&workflow, "c"), ["/y <- a.x"], "later references lead to the kept node");
    let dropped = &workflow.workflow().source.dropped[0];
    assert_eq!((dropped.event.as_str(), dropped.same_as.as_ref().map(NodeId::as_str)), ("b", Some("a")));
}

/// T06, T07: effects keep their recorded order unless keys prove that they can't meet.
#[test]
fn effects_keep_their_order() {
    let write = |id: &str, keys: &[&str]| {
        event(id, json!({}), json!(null), json!({"side_effect": "write", "writes": keys}))
    };
    let keyed = |id: &str, keys: &[&str]| event(id, json!({}), json!(null), json!({"reads": keys}));
    let plain = |id: &str| read(id, json!({}), json!(null));
    let pure = |id: &str| event(id, json!({}), json!(null), json!({"side_effect": "pure"}));
    let unknown = |id: &str| event(id, json!({}), json!(null), json!({"side_effect": "unknown"}));
    let cases: Vec<(&str, Vec<Value>, &str, &[&str])> = vec![
        ("a read after a write", vec![write("w", &[]), plain("r")], "r", &["w"]),
        ("a write after reads", vec![plain("a"), plain("b"), write("w", &[])], "w", &["a", "b"]),
        ("reads don't wait for reads", vec![plain("a"), plain("b")], "b", &[]),
        ("only the last barrier", vec![unknown("a"), unknown("b"), unknown("c")], "c", &["b"]),
        ("pure calls wait for nothing", vec![unknown("a"), pure("p"), unknown("c")], "p", &[]),
        ("nothing waits for pure calls", vec![unknown("a"), pure("p"), unknown("c")], "c", &["a"]),
        ("other keys", vec![write("w", &["file:/a"]), keyed("r", &["file:/b"])], "r", &[]),
        ("the same key", vec![write("w", &["file:/a"]), keyed("r", &["file:/a"])], "r", &["w"]),
        ("a folder above", vec![write("w", &["file:/a"]), keyed("r", &["file:/a/b"])], "r", &["w"]),
        ("something below", vec![write("w", &["file:/a/b"]), keyed("r", &["file:/a"])], "r", &["w"]),
        (
            "a name that only begins alike",
            vec![write("w", &["file:/a"]), keyed("r", &["file:/ab"])],
            "r",
            &[],
        ),
        ("another scheme", vec![write("w", &["file:/a"]), keyed("r", &["db:/a"])], "r", &[]),
        ("a relative path", vec![write("w", &["file:/a"]), keyed("r", &["file:a"])], "r", &["w"]),
        ("a read without keys", vec![write("w", &["file:/a"]), plain("r")], "r", &["w"]),
        ("a write after a read of the key", vec![keyed("r", &["k"]), write("w", &["k"])], "w", &["r"]),
        ("two writes", vec![write("v", &["k"]), write("w", &["k"])], "w", &["v"]),
        ("two writes elsewhere", vec![write("v", &["k"]), write("w", &["l"])], "w", &[]),
        (
            "keys don't help against a barrier",
            vec![write("v", &["k"]), unknown("u"), keyed("r", &["l"])],
            "r",
            &["u"],
        ),
    ];
    for (name, events, node, expected) in cases {
        assert_eq!(waits(&compiled(json!({}), events), node), expected, "{name}");
    }
}

#[test]
fn the_number_of_order_edges_is_linear() {
    let mixed = |index: usize| {
        let effect = if index.is_multiple_of(2) { "read" } else { "write" };
        let keys = json!([format!("file:/d/{}", index % 400)]);
        let mut event = event(&format!("e{index}"), json!({}), json!(null), json!({"side_effect": effect}));
        event[if index.is_multiple_of(2) { "reads" } else { "writes" }] = keys;
        event
    };
    let events: Vec<Value> = (0..1000)
        .map(mixed)
        .chain((1000..1100).map(|i| read(&format!("e{i}"), json!({}), json!(null))))
        .collect();
    let workflow = compiled(json!({}), events);
    let edges: usize = workflow.dependencies().iter().map(Vec::len).sum();
    assert!(edges < 4 * 1100, "{edges}");
}

/// T06: keys that follow from an input hold for the recorded run only. Another run may read what it writes.
#[test]
fn keys_that_follow_from_inputs_are_not_believed() {
    let facts = |effect, reads: &[&str], writes: &[&str]| ToolFacts {
        effect,
        idempotency: Idempotency::Idempotent,
        reads: reads.iter().map(|key| (*key).to_owned()).collect(),
        writes: writes.iter().map(|key| (*key).to_owned()).collect(),
    };
    let options = Options {
        known_tools: BTreeMap::from([
            (ToolName::new("get").unwrap(), facts(Effect::Read, &["file:{path}"], &[])),
            (ToolName::new("put").unwrap(), facts(Effect::Write, &[], &["file:{path}"])),
        ]),
        ..Options::default()
    };
    let calls = |inputs: Value| {
        let call = |id: &str, tool: &str, path: &str| {
            event(id, json!({"path": path}), json!({"done": format!("{tool} of it")}), json!({"tool": tool}))
        };
        let events = [
            call("first", "get", "/data/source"),
            call("write", "put", "/data/target"),
            call("again", "get", "/data/source"),
        ];
        let trace = trace::from_value(&json!({"inputs": inputs, "events": events})).unwrap();
        compile(trace, &options).unwrap().workflow
    };
    let fixed = calls(json!({}));
    assert_eq!(fixed.nodes.len(), 2, "literal paths can't meet, so the second read is a repeat");
    assert!(fixed.nodes[1].after.is_empty());

    let open = calls(json!({"source": "/data/source", "target": "/data/target"}));
    assert_eq!(open.nodes.len(), 3, "source and target may be one file");
    let after: Vec<Vec<&str>> =
        open.nodes.iter().map(|node| node.after.iter().map(NodeId::as_str).collect()).collect();
    assert_eq!(after, [vec![], vec!["first"], vec!["write"]]);
}

/// T07, T10: a step that resolves, lookups side by side, a step that joins them: three layers, and the
/// longest way is shorter than the sum by what runs at once.
#[test]
fn lookups_side_by_side_stand_in_one_layer() {
    let timed = |id: &str, duration: u32, arguments: Value, result: Value| {
        let more = json!({"tool": id, "idempotency": "idempotent", "duration_ms": duration});
        event(id, arguments, result, more)
    };
    let account = json!({"account": "acct-20417"});
    let events = vec![
        timed("resolve_account", 300, json!({"email": "ann@example.org"}), json!({"account": "acct-20417"})),
        timed("profile", 1000, account.clone(), json!({"profile": "gold-member"})),
        timed("orders", 800, account.clone(), json!({"orders": ["order-551", "order-552"]})),
        timed("tickets", 770, account, json!({"summary": "two open tickets"})),
        timed(
            "report",
            610,
            json!({"profile": "gold-member", "orders": ["order-551", "order-552"], "tickets": "two open tickets"}),
            json!({"text": "the whole report"}),
        ),
    ];
    let workflow = compiled(json!({"email": "ann@example.org"}), events);
    assert_eq!(workflow.layers(), [vec![0], vec![1, 2, 3], vec![4]]);
    let durations: Vec<f64> =
        workflow.workflow().nodes.iter().filter_map(|node| node.recorded.as_ref()?.duration_ms).collect();
    let mut ends: Vec<f64> = Vec::new();
    for (before, duration) in workflow.dependencies().iter().zip(&durations) {
        let start = before.iter().map(|at| ends[*at]).fold(0.0, f64::max);
        ends.push(start + duration);
    }
    let longest = ends.iter().copied().fold(0.0, f64::max);
    assert_eq!((durations.iter().sum::<f64>(), longest), (3480.0, 1910.0));
}

/// T03, T16: where a recorder lost a line, nothing says that what was read twice stayed the same.
#[test]
fn no_read_is_dropped_where_calls_may_be_missing() {
    let call = |id: u32| {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "read_text_file", "arguments": {"path": "/a"}}});
        let answer =
            json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "x"}]}});
        format!("{call}\n{answer}\n")
    };
    let cases = [
        ("whole", String::new(), 1),
        (
            "broken off",
            "{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"tools/call\", \"params\": {\n".to_owned(),
            2,
        ),
        ("lost", "{\"missing_lines\": 2}\n".to_owned(), 2),
        ("left out", "{\"ts\": 1, \"not_recorded\": \"too long\"}\n".to_owned(), 2),
    ];
    for (name, between, nodes) in cases {
        let text = format!("{}{between}{}", call(1), call(3));
        let imported = crate::trace::import::import_bytes(text.as_bytes(), &Default::default()).unwrap();
        // The gap outlives the file that it was found in.
        let trace = trace::from_value(&trace::to_json(&imported.trace)).unwrap();
        let catalogs = vec![crate::catalog::Catalog::built_in().unwrap()];
        let options = Options { catalogs, ..Options::default() };
        let compiled = compile(trace, &options).unwrap();
        assert_eq!(compiled.workflow.nodes.len(), nodes, "{name}");
        let warned = compiled.report.notes.iter().any(|note| note.contains("calls may be missing"));
        assert_eq!(warned, nodes == 2, "{name}: {:?}", compiled.report.notes);
    }
}
