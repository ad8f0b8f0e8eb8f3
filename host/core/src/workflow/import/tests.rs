//! Workflows of Trace2MCP become workflows that run here.

use serde_json::{Value, json};

use crate::code::Code;
use crate::compiler::{self, Claims};
use crate::json::Limits;
use crate::trace::import::{Format, Found, ImportOptions, import_any, import_bytes};
use crate::workflow::{Expr, ImportedWorkflow, Wait, Workflow, parse, to_json, verify};

/// Written by Trace2MCP 0.2.2 from the trace beside it.
const FILE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/import/trace2mcp-workflow/input.json"
));
const TRACE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/import/trace2mcp-workflow/trace.json"
));

fn imported_with(file: &Value, options: &ImportOptions) -> Result<ImportedWorkflow, Vec<(Code, String)>> {
    match import_any(file.to_string().as_bytes(), options) {
        Ok(Found::Workflow(made)) => Ok(made),
        Ok(Found::Recording(_)) => panic!("no recording was given"),
        Err(problems) => Err(problems.iter().map(|p| (p.code, p.place.to_string())).collect()),
    }
}

fn imported(file: &Value) -> Result<ImportedWorkflow, Vec<(Code, String)>> {
    imported_with(file, &ImportOptions::default())
}

fn file() -> Value {
    serde_json::from_str(FILE).unwrap()
}

/// A small file without a hash, with these nodes beside a first one.
fn with_nodes(nodes: &[Value]) -> Value {
    let first = json!({"id": "find", "tool": "find", "arguments": {"city": {"$ref": "inputs.city"}},
        "side_effect": "read", "observed_result": {"hotels": [{"id": "h-20417"}], "a.b": {"c[0]": 1}}});
    let nodes: Vec<&Value> = std::iter::once(&first).chain(nodes).collect();
    json!({"workflow_ir_version": "1", "name": "trip", "safety": "safe", "inputs": {"city": "Lisbon"},
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "night": {"type": "integer"}}},
        "nodes": nodes})
}

fn layers(workflow: &Workflow) -> Vec<Vec<String>> {
    let verified = verify(workflow.clone(), None).unwrap();
    let names = |layer: &Vec<usize>| layer.iter().map(|at| workflow.nodes[*at].id.to_string()).collect();
    verified.layers().iter().map(names).collect()
}

/// T08: a file of the other program becomes a workflow with the same steps, and nothing it says is lost.
#[test]
fn a_file_of_the_other_program_keeps_all_it_says() {
    let made = imported(&file()).unwrap();
    let workflow = &made.workflow;
    assert_eq!(made.report.warnings, Vec::<String>::new());
    assert_eq!((made.report.nodes, made.report.references, made.report.order_edges), (5, 6, 0));
    let (read, _) = parse(to_json(workflow).to_string().as_bytes(), Limits::default()).unwrap();
    assert_eq!(read, *workflow);
    let source = &workflow.source;
    let dropped: Vec<(&str, Option<&str>)> =
        source.dropped.iter().map(|d| (d.event.as_str(), d.same_as.as_ref().map(|id| id.as_str()))).collect();
    assert_eq!(dropped, [("broken", None), ("orders_again", Some("orders"))]);
    let kept = source.imported.as_ref().unwrap();
    let whole = file();
    for key in
        ["safety", "input_schema", "output_schema", "provenance", "workflow_hash", "metadata", "policy"]
    {
        assert_eq!(kept.fields[key], whole[key], "{key}");
    }
    for node in whole["nodes"].as_array().unwrap() {
        let kept = &kept.nodes[node["id"].as_str().unwrap()];
        for key in
            ["input_schema", "output_schema", "inference", "reads", "max_attempts", "approval_required"]
        {
            assert_eq!(kept[key], node[key], "{key}");
        }
    }
    let report = workflow.nodes.last().unwrap().recorded.as_ref().unwrap();
    assert_eq!(report.arguments["orders"], json!(["order-551", "order-552"]));
    assert_eq!(report.result, json!({"text": "the whole report – ä"}));
}

/// T08, T10: what the other program compiled and what this one makes of the same recording has the same layers.
#[test]
fn both_programs_make_the_same_layers_of_one_recording() {
    let made = imported(&file()).unwrap();
    let trace = import_bytes(TRACE.as_bytes(), &ImportOptions::default()).unwrap().trace;
    let options = compiler::Options { claims: Claims::Believe, ..compiler::Options::default() };
    let compiled = compiler::compile(trace, &options).unwrap().workflow;
    let expected = [&["resolve_account"][..], &["profile", "orders", "tickets"], &["report"]];
    assert_eq!(layers(&made.workflow), expected);
    assert_eq!(layers(&compiled), expected);
    for (imported, compiled) in made.workflow.nodes.iter().zip(&compiled.nodes) {
        assert_eq!((&imported.id, &imported.arguments), (&compiled.id, &compiled.arguments));
        assert_eq!(
            imported.recorded.as_ref().map(|recorded| &recorded.arguments),
            compiled.recorded.as_ref().map(|recorded| &recorded.arguments)
        );
    }
    assert_eq!(made.workflow.output, compiled.output);
}

/// T08: a hash that isn't the content's refuses the file; one that isn't there is told.
#[test]
fn a_changed_file_is_refused() {
    let mut changed = file();
    changed["nodes"][1]["tool"] = json!("delete_all");
    assert_eq!(imported(&changed), Err(vec![(Code::DigestMismatch, "/workflow_hash".to_owned())]));
    changed["workflow_hash"] = Value::Null;
    let warnings = imported(&changed).unwrap().report.warnings;
    assert!(warnings[0].contains("nothing says that it is unchanged"), "{warnings:?}");
    // The other program leaves fields of that name out wherever they are.
    let mut hidden = file();
    hidden["nodes"][0]["observed_result"]["workflow_hash"] = json!("anything");
    let warnings = imported(&hidden).unwrap().report.warnings;
    assert!(warnings[0].contains("doesn't cover"), "{warnings:?}");
}

/// T08: data stays data, references are typed, and all inputs at once are all inputs.
#[test]
fn references_become_typed_and_data_stays_data() {
    let made = imported(&with_nodes(&[json!({"id": "book.it", "tool": "book", "side_effect": "read",
        "arguments": {"hotel": {"$ref": "nodes.find.result.hotels[0].id"}, "all": {"$ref": "inputs"},
            "deep": [1, {"c": {"$ref": "nodes.find.result.a%2Eb.c%5B0%5D"}}], "data": {"$ref": "x", "y": [2]}},
        "depends_on": ["find"], "observed_result": null, "timeout_seconds": 1.5})]))
    .unwrap();
    let node = &made.workflow.nodes[1];
    let Expr::Object(members) = &node.arguments else { panic!("{:?}", node.arguments) };
    let shown = |key: &str| members[key].references().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown("hotel"), ["find.hotels[0].id"]);
    assert_eq!(shown("all"), ["input city", "input night"]);
    assert_eq!(shown("deep"), ["find[\"a.b\"][\"c[0]\"]"]);
    assert_eq!(members["data"], Expr::Literal(json!({"$ref": "x", "y": [2]})));
    assert_eq!(node.timeout_ms, Some(1500));
    // `night` has no recorded value, so what `all` was isn't known; the result is kept all the same.
    assert_eq!(node.recorded, None);
    assert_eq!(made.workflow.inputs["night"].default, None);
    let kept = made.workflow.source.imported.unwrap();
    assert_eq!(kept.nodes["book.it"]["observed_result"], Value::Null);
    assert!(made.report.warnings.iter().any(|warning| warning.contains("`replay`")));
}

/// T03, T08: every fault of a file at once, each at its place in that file.
#[test]
fn faults_are_named_at_their_places() {
    let node = |id: &str, more: Value| {
        let mut node = json!({"id": id, "tool": "t", "arguments": {}, "side_effect": "read"});
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node
    };
    let refused = |nodes: &[Value]| imported(&with_nodes(nodes)).unwrap_err();
    let at = |code: Code, place: &str| (code, place.to_owned());
    assert_eq!(
        refused(&[
            node(
                "a",
                json!({"tool": "a b", "arguments": {"x": [{"$ref": "#/definitions/x"}], "y": {"$ref": 1}}})
            ),
            node("b", json!({"side_effect": "reads", "timeout_seconds": 0, "priority": 1})),
            json!({"id": "", "arguments": []}),
        ]),
        [
            at(Code::FieldValue, "/nodes/1/tool"),
            at(Code::FieldValue, "/nodes/1/arguments/x/0/$ref"),
            at(Code::FieldType, "/nodes/1/arguments/y/$ref"),
            at(Code::FieldValue, "/nodes/2/side_effect"),
            at(Code::FieldValue, "/nodes/2/timeout_seconds"),
            at(Code::FieldUnknown, "/nodes/2/priority"),
            at(Code::FieldValue, "/nodes/3/id"),
            at(Code::FieldMissing, "/nodes/3"),
            at(Code::FieldType, "/nodes/3/arguments"),
        ]
    );
    assert_eq!(
        refused(&[
            node("a", json!({"depends_on": ["b", "lost"], "arguments": {"x": {"$ref": "inputs.lost"}}})),
            node("b", json!({"depends_on": ["a"]})),
            node("b", json!({})),
        ]),
        [
            at(Code::IdDuplicate, "/nodes/3/id"),
            at(Code::ReferenceUnknown, "/nodes/1/depends_on/1"),
            at(Code::ReferenceUnknown, "/nodes/1/arguments"),
        ]
    );
    assert_eq!(
        refused(&[node("a", json!({"depends_on": ["b"]})), node("b", json!({"depends_on": ["a"]}))]),
        [at(Code::DependencyCycle, "/nodes/2")]
    );
    let missing =
        node("a", json!({"observed_result": 1, "arguments": {"x": {"$ref": "nodes.find.result.none"}}}));
    assert_eq!(refused(&[missing]), [at(Code::ReferenceUnknown, "/nodes/1/arguments")]);
    let mut file = with_nodes(&[]);
    file["inputs"]["city"] = json!(7);
    file["workflow_ir_version"] = json!("2");
    file["deduplicated_events"] = json!({"again": "lost"});
    let faults = imported(&file).unwrap_err();
    assert_eq!(
        faults,
        [
            at(Code::VersionUnsupported, "/workflow_ir_version"),
            at(Code::ReferenceUnknown, "/deduplicated_events/again"),
        ]
    );
    file["workflow_ir_version"] = json!(1);
    file["deduplicated_events"] = json!({});
    assert_eq!(imported(&file).unwrap_err(), [at(Code::FieldValue, "/inputs/city")]);
}

/// T06, T09: the other program lets a read run beside an earlier write; here it waits, whatever the order of the file.
#[test]
fn no_call_runs_beside_an_earlier_one_that_may_change_something() {
    let node = |id: &str, effect: &str, after: &[&str]| json!({"id": id, "tool": "t", "arguments": {}, "side_effect": effect, "depends_on": after});
    let made = imported(&with_nodes(&[
        node("late", "read", &["write"]),
        node("write", "write", &[]),
        node("calc", "pure", &[]),
        node("read", "read", &[]),
    ]))
    .unwrap();
    let after: Vec<(&str, Vec<&str>)> = made
        .workflow
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node.after.iter().map(|id| id.as_str()).collect()))
        .collect();
    let expected = [
        ("find", vec![]),
        ("write", vec!["find"]),
        ("late", vec!["write"]),
        ("calc", vec![]),
        ("read", vec!["write"]),
    ];
    assert_eq!(after, expected);
    assert_eq!(made.report.order_edges, 2);
    let waits = &made.workflow.source.order;
    assert_eq!((waits["write"]["find"], waits["late"]["write"]), (Wait::Barrier, Wait::Declared));
}

/// T13: what was redacted is never sent and never a default.
#[test]
fn redacted_values_have_to_be_given() {
    let mut file = with_nodes(&[json!({"id": "login", "tool": "login", "side_effect": "read",
        "arguments": {"user": "ann", "password": "[REDACTED]", "keys": ["[REDACTED]"], "text": "Bearer [REDACTED]"}})]);
    file["inputs"]["night"] = json!("[REDACTED]");
    let made = imported(&file).unwrap();
    let inputs: Vec<(&str, bool)> =
        made.workflow.inputs.iter().map(|(name, input)| (name.as_str(), input.default.is_some())).collect();
    assert_eq!(inputs, [("city", true), ("login.0", false), ("login.password", false), ("night", false)]);
    let told = |part: &str| made.report.warnings.iter().filter(|warning| warning.contains(part)).count();
    assert_eq!((told("has to be given"), told("inside of a text")), (3, 1));
}

/// T16: names and paths become those of this machine, and a recording's commands don't take a workflow.
#[test]
fn options_of_an_import_count_for_workflows_too() {
    let file = with_nodes(&[json!({"id": "cat", "tool": "fs/cat", "side_effect": "read",
        "arguments": {"path": "/home/ann/x", "of": {"$ref": "inputs.city"}}, "observed_result": "/home/ann/x is empty"})]);
    assert_eq!(imported(&file).unwrap_err(), [(Code::FieldValue, "/nodes/1/tool".to_owned())]);
    let options = ImportOptions {
        rename: vec![("fs/*".to_owned(), "fs.*".to_owned())],
        map: vec![("/home/ann".to_owned(), "/srv".to_owned())],
        ..ImportOptions::default()
    };
    let made = imported_with(&file, &options).unwrap();
    let node = &made.workflow.nodes[1];
    assert_eq!(node.tool.as_str(), "fs.cat");
    assert_eq!((made.report.renamed, made.report.remapped), (1, 3));
    let recorded = node.recorded.as_ref().unwrap();
    assert_eq!(
        (&recorded.arguments["path"], &recorded.result),
        (&json!("/srv/x"), &json!("/srv/x is empty"))
    );
    assert_eq!(made.workflow.source.imported.unwrap().nodes["cat"]["recorded_tool"], "fs/cat");

    let refused = import_bytes(file.to_string().as_bytes(), &ImportOptions::default()).unwrap_err();
    assert_eq!(refused.code(), Code::FormatUnknown);
    assert!(refused.to_string().contains("t2m-host import"), "{refused}");
    let read = parse(file.to_string().as_bytes(), Limits::default()).unwrap_err();
    assert!(read.to_string().contains("t2m-host import"), "{read}");
    let options = ImportOptions { from: Some(Format::WorkflowIr), ..ImportOptions::default() };
    let trace = imported_with(&json!({"inputs": {}, "events": []}), &options).unwrap_err();
    assert!(trace.contains(&(Code::FieldMissing, "the top level".to_owned())), "{trace:?}");
}
