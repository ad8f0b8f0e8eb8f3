//! The tools against the examples of the RFCs, and the law of differences.

use proptest::prelude::*;
use t2m_plugin_sdk::serde_json::{self, from_str, from_value, json};
use t2m_plugin_sdk::testing::Harness;

use super::*;

fn call(tool: &str, arguments: Value) -> Result<Value, String> {
    let outcome =
        Harness::<Json>::new().call_with(tool, &arguments).map_err(|error| error.code().to_owned())?;
    Ok(from_str(outcome.structured.as_deref().unwrap()).unwrap())
}

#[test]
fn the_host_would_take_the_tools() {
    assert_eq!(Harness::<Json>::new().problems(), Vec::<String>::new());
}

/// RFC 6901, section 5.
#[test]
fn pointers_lead_where_the_rfc_says() {
    let value =
        json!({"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7, "list": [{"n": 1}, {"n": 2}, {}]});
    for (pointer, expected) in [
        ("", json!([value])),
        ("/foo", json!([["bar", "baz"]])),
        ("/foo/0", json!(["bar"])),
        ("/", json!([0])),
        ("/a~1b", json!([1])),
        ("/m~0n", json!([8])),
        ("/ ", json!([7])),
        ("/foo/2", json!([])),
        ("/foo/00", json!([])),
        ("/foo/-", json!([])),
        ("/foo/bar", json!([])),
        ("/list/*/n", json!([1, 2])),
        ("/foo/*/x", json!([])),
    ] {
        let found = call("json_query", json!({"value": value, "pointer": pointer})).unwrap();
        assert_eq!(found["values"], expected, "{pointer}");
    }
    assert_eq!(call("json_query", json!({"value": 1, "pointer": "a"})), Err("invalid-arguments".into()));
}

/// RFC 6902, appendix A.
#[test]
fn patches_do_what_the_rfc_says() {
    for (value, patch, expected) in [
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            Ok(json!({"foo": "bar", "baz": "qux"})),
        ),
        (
            json!({"foo": ["a", "b"]}),
            json!([{"op": "add", "path": "/foo/1", "value": "q"}]),
            Ok(json!({"foo": ["a", "q", "b"]})),
        ),
        (json!(["a"]), json!([{"op": "add", "path": "/-", "value": "b"}]), Ok(json!(["a", "b"]))),
        (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), Ok(json!({"b": 2}))),
        (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": null}]), Ok(json!({"a": null}))),
        (
            json!({"a": {"b": 1}, "c": {}}),
            json!([{"op": "move", "from": "/a/b", "path": "/c/d"}]),
            Ok(json!({"a": {}, "c": {"d": 1}})),
        ),
        (
            json!(["a", "b", "c"]),
            json!([{"op": "move", "from": "/0", "path": "/2"}]),
            Ok(json!(["b", "c", "a"])),
        ),
        (json!({"a": 1}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), Ok(json!({"a": 1, "b": 1}))),
        (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), Ok(json!({"a": 1}))),
        (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": "1"}]), Err("patch-failed")),
        (json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]), Err("not-found")),
        (json!({"a": 1}), json!([{"op": "add", "path": "/b/c", "value": 1}]), Err("not-found")),
        (json!(["a"]), json!([{"op": "add", "path": "/2", "value": 1}]), Err("not-found")),
        (json!({"a": {}}), json!([{"op": "move", "from": "/a", "path": "/a/b"}]), Err("patch-failed")),
        (json!(1), json!([{"op": "replace", "path": "", "value": 2}]), Ok(json!(2))),
        (json!(1), json!([{"op": "turn", "path": ""}]), Err("invalid-arguments")),
    ] {
        let done = call("json_patch", json!({"value": value, "patch": patch}));
        assert_eq!(
            done.map(|done| done["result"].clone()),
            expected.map_err(str::to_owned),
            "{value} {patch}"
        );
    }
}

/// RFC 7396, appendix A.
#[test]
fn merge_patches_do_what_the_rfc_says() {
    for (value, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!(["a", "b"]), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let done = call("json_merge", json!({"value": value, "patch": patch})).unwrap();
        assert_eq!(done["result"], expected, "{value} {patch}");
    }
}

#[test]
fn a_difference_is_as_small_as_its_places() {
    let two = json!({"from": {"a": [1, 2, 3], "b": 1, "c/d": 0}, "to": {"a": [1, 9, 2, 3], "c/d": 1}});
    let patch = call("json_diff", two).unwrap();
    let expected = json!([
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/a/1", "value": 9},
        {"op": "replace", "path": "/c~1d", "value": 1},
    ]);
    assert_eq!(patch["patch"], expected);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(json!(null)), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a/~]{0,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_difference_leads_from_one_to_the_other(from in value(), to in value()) {
        let patch = patch::diff(&from, &to);
        prop_assert_eq!(patch.is_empty(), from == to);
        let written: Vec<Operation> = from_value(serde_json::to_value(&patch).unwrap()).unwrap();
        prop_assert_eq!(patch::apply(from, written).unwrap(), to);
    }
}
