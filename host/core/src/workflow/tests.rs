//! Workflow files, good and malformed, and how they are explained and drawn.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::code::Code;
use crate::compiler::{Options, compile};
use crate::json::Limits;
use crate::trace;

/// A small workflow file with a current digest.
fn good() -> Value {
    let trace = trace::from_value(&json!({"inputs": {"q": "roses"}, "events": [
        {"id": "a", "tool": "find", "arguments": {"q": "roses"}, "side_effect": "read", "result": {"id": "f-1001"}},
        {"id": "b", "tool": "show", "arguments": {"id": "f-1001", "tags": ["x", {"ref": 1}]}, "side_effect": "read"},
    ]}))
    .unwrap();
    to_json(&compile(trace, &Options::default()).unwrap().workflow)
}

fn read(value: &Value) -> Result<(Workflow, crate::digest::Digest), crate::problem::Problems> {
    parse(value.to_string().as_bytes(), Limits::default())
}

/// T16, T08: what a workflow file may not be, with code and place. `digest` is not brought up to date, so each
/// case is refused for its form first.
#[test]
fn malformed_workflows_name_the_code_and_the_place() {
    let cases: Vec<(&str, Value, &str)> = vec![
        ("", json!(7), "field-type the top level"),
        ("/format", json!("t2m/workflow@2"), "version-unsupported /format"),
        ("/format", json!(1), "field-type /format"),
        ("/name", json!(null), "field-type /name"),
        ("/surprise", json!(1), "field-unknown /surprise"),
        ("/digest", json!("sha256:00"), "field-value /digest"),
        ("/digest", json!(null), "field-type /digest"),
        ("/inputs/q", json!({"default": 1}), "field-missing /inputs/q"),
        ("/inputs/q/extra", json!(1), "field-unknown /inputs/q"),
        ("/nodes", json!({}), "field-type /nodes"),
        ("/nodes/0/id", json!("  "), "field-value /nodes/0/id"),
        ("/nodes/0/tool", json!("rm -rf"), "field-value /nodes/0/tool"),
        ("/nodes/0/tool", json!("../evil"), "field-value /nodes/0/tool"),
        ("/nodes/0/handler", json!("x.so"), "field-unknown /nodes/0/handler"),
        ("/nodes/0/effect", json!("harmless"), "field-value /nodes/0/effect"),
        ("/nodes/0/after", json!("a"), "field-type /nodes/0/after"),
        ("/nodes/0/timeout_ms", json!(-1), "field-type /nodes/0/timeout_ms"),
        ("/nodes/0/arguments", json!({"literal": [1]}), "field-type /nodes/0/arguments"),
        ("/nodes/0/arguments", json!({"literal": {}, "ref": {}}), "field-value /nodes/0/arguments"),
        ("/nodes/0/arguments", json!({"$ref": "inputs.q"}), "field-unknown /nodes/0/arguments/$ref"),
        ("/nodes/0/arguments", json!({"code": "1+1"}), "field-unknown /nodes/0/arguments/code"),
        ("/nodes/0/arguments", json!({"ref": {}}), "field-value /nodes/0/arguments/ref"),
        (
            "/nodes/0/arguments",
            json!({"ref": {"input": "q", "node": "a"}}),
            "field-value /nodes/0/arguments/ref",
        ),
        (
            "/nodes/0/arguments",
            json!({"ref": {"input": "q", "path": [-1]}}),
            "field-value /nodes/0/arguments/ref/path/0",
        ),
        (
            "/nodes/0/arguments",
            json!({"ref": {"input": "q", "convert": "eval"}}),
            "field-value /nodes/0/arguments/ref/convert",
        ),
        ("/nodes/0/decisions/0/verdict", json!("maybe"), "field-value /nodes/0/decisions/0/verdict"),
        ("/source/compiler", json!(1), "field-type /source"),
    ];
    for (pointer, value, expected) in cases {
        let mut file = good();
        set(&mut file, pointer, value.clone());
        let problems = read(&file).expect_err(pointer);
        let found: Vec<String> = problems.iter().map(|p| format!("{} {}", p.code, p.place)).collect();
        assert!(found.contains(&expected.to_owned()), "{pointer} = {value}: {found:?}");
    }
    for missing in ["format", "name", "inputs", "nodes", "output", "source", "digest"] {
        let mut file = good();
        file.as_object_mut().unwrap().remove(missing);
        assert_eq!(read(&file).expect_err(missing).code(), Code::FieldMissing, "{missing}");
    }
}

fn set(file: &mut Value, pointer: &str, value: Value) {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        *file = value;
        return;
    };
    match file.pointer_mut(parent).expect("the parent is there") {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => panic!("{other} has no members"),
    }
}

/// T07, T16: what a workflow may not mean.
#[test]
fn meaningless_workflows_name_the_code_and_the_place() {
    let result = |node: &str| json!({"object": {"x": {"ref": {"node": node, "path": []}}}});
    let cases: Vec<(&str, Value, Code, &str)> = vec![
        ("/nodes/1/id", json!("a"), Code::IdDuplicate, "/nodes/1/id"),
        ("/nodes/0/after", json!(["zz"]), Code::ReferenceUnknown, "/nodes/0/after/0"),
        ("/nodes/1/arguments", result("zz"), Code::ReferenceUnknown, "/nodes/1/arguments"),
        ("/nodes/0/arguments", json!({"ref": {"input": "zz"}}), Code::ReferenceUnknown, "/nodes/0/arguments"),
        ("/output", json!({"ref": {"node": "zz"}}), Code::ReferenceUnknown, "/output"),
        ("/nodes/0/after", json!(["a"]), Code::DependencyCycle, "/nodes/0"),
        ("/nodes/0/after", json!(["b"]), Code::DependencyCycle, "/nodes/1"),
        ("/inputs/q/schema", json!({"type": "strin"}), Code::FieldValue, "/inputs/q/schema"),
        ("/inputs/q/default", json!(5), Code::FieldValue, "/inputs/q/default"),
        ("/name", json!("another"), Code::DigestMismatch, "/digest"),
        ("/nodes/0/recorded/result/id", json!("f-1002"), Code::DigestMismatch, "/digest"),
    ];
    for (pointer, value, code, place) in cases {
        let mut file = good();
        set(&mut file, pointer, value);
        let (workflow, claimed) = read(&file).expect(pointer);
        let claimed = (code == Code::DigestMismatch).then_some(claimed);
        let problems = verify(workflow, claimed).expect_err(pointer);
        let found: Vec<_> = problems.iter().map(|p| (p.code, p.place.to_string())).collect();
        assert!(found.contains(&(code, place.to_owned())), "{pointer}: {found:?}");
    }
    let (workflow, claimed) = read(&good()).unwrap();
    verify(workflow, Some(claimed)).unwrap();
}

/// T07
#[test]
fn a_cycle_is_named_node_by_node() {
    let mut file = good();
    set(&mut file, "/nodes/0/after", json!(["b"]));
    let problems = verify(read(&file).unwrap().0, None).unwrap_err();
    assert_eq!(problems.to_string(), "dependency-cycle at /nodes/1: nodes depend on each other: b -> a -> b");
}

#[test]
fn the_published_schema_allows_what_is_written() {
    let schema = crate::schema::Schema::compile(&json_schema()).unwrap();
    assert_eq!(schema.faults(&good()), vec![]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(json!({"$ref": "inputs.q"})),
        Just(json!({"ref": {"input": "q"}})),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_expr() -> impl Strategy<Value = Expr> {
    let step =
        prop_oneof![".{0,4}".prop_map(Step::Key), (0usize..9).prop_map(Step::Index), Just(Step::ParseJson),];
    let convert = prop::option::of(prop_oneof![Just(Convert::ToString), Just(Convert::ToNumber)]);
    let source = prop_oneof![
        ".{0,4}".prop_map(Source::Input),
        "[a-z]{1,4}".prop_map(|id| Source::Node(id.parse().unwrap()))
    ];
    let reference = (source, prop::collection::vec(step, 0..4), convert)
        .prop_map(|(source, path, convert)| Expr::Ref(Reference { source, path, convert }));
    prop_oneof![any_json().prop_map(Expr::Literal), reference].prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expr::List),
            prop::collection::btree_map(".{0,4}", inner, 0..3).prop_map(Expr::Object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// T08: data that looks like a reference stays data.
    #[test]
    fn a_workflow_comes_back_unchanged(output in any_expr(), argument in any_expr(), name in ".{0,8}") {
        let (mut workflow, _) = read(&good()).unwrap();
        workflow.output = output;
        workflow.name = name;
        workflow.nodes[1].arguments = Expr::Object([("x".to_owned(), argument)].into());
        let file = to_json(&workflow);
        let (back, claimed) = read(&file).unwrap();
        prop_assert_eq!(digest(&back), claimed);
        prop_assert_eq!(back, workflow);
    }
}

/// T07: the longest chain that the format allows is put in order without recursion.
#[test]
fn a_chain_of_the_largest_size_is_put_in_order() {
    let id = |n: usize| crate::id::NodeId::new(format!("n{n}")).unwrap();
    let node = |n: usize| Node {
        id: id(n),
        tool: crate::id::ToolName::new("step").unwrap(),
        arguments: Expr::Literal(serde_json::json!({})),
        after: n.checked_sub(1).map(id).into_iter().collect(),
        effect: crate::effect::Effect::Write,
        idempotency: crate::effect::Idempotency::Unknown,
        timeout_ms: None,
        recorded: None,
        decisions: vec![],
    };
    let workflow = Workflow {
        name: "chain".into(),
        inputs: Default::default(),
        nodes: (0..MAX_NODES).map(node).collect(),
        output: Expr::Literal(serde_json::json!(null)),
        source: Provenance::default(),
    };
    assert_eq!(verify(workflow, None).unwrap().layers().len(), MAX_NODES);
}
