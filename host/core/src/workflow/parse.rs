//! The workflow file.
//!
//! Owns the way between [`Workflow`] and its JSON form, and the published JSON Schema. Refuses to check
//! meaning: a file that parses may still have a cycle.
//!
//! **Invariant:** `parse(to_json(w)) == w` for every workflow whose digest is current.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::expr::{Convert, Expr, Part, Reference, Source, Step, Template};
use super::model::{Decision, Input, MAX_NODES, Node, Verdict, WORKFLOW_FORMAT, Workflow};
use crate::code::Code;
use crate::digest::Digest;
use crate::document::{
    Fields, Report, as_list, as_object, as_parsed, as_parsed_list, as_text, as_typed, shown,
};
use crate::id::NodeId;
use crate::json::{Limits, kind};
use crate::problem::{Problems, child, item};
use crate::schema::part_of_type;

/// Reads a workflow file and the digest it claims to have.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<(Workflow, Digest), Problems> {
    let value = crate::json::parse(bytes, limits)?;
    let report = Report::default();
    let read = read_workflow(&value, &report);
    report.finish(read)
}

fn read_workflow(value: &Value, report: &Report) -> Option<(Workflow, Digest)> {
    if value.get("format").is_none() && value.get("events").is_some() {
        let message = "this is a trace, not a workflow; `t2m-host compile` makes one of it";
        report.add(Code::FormatUnknown, "", message.to_owned());
        return None;
    }
    if super::import::is_workflow_ir(value) {
        let message =
            "this is a workflow of Trace2MCP; `t2m-host import FILE --out workflow.json` makes one of ours";
        report.add(Code::FormatUnknown, "", message.to_owned());
        return None;
    }
    let mut fields = Fields::of(value, "", report)?;
    let format = fields.text("format")?;
    if format != WORKFLOW_FORMAT {
        let message = format!("format `{format}` isn't supported; this program reads `{WORKFLOW_FORMAT}`");
        report.add(Code::VersionUnsupported, "/format", message);
        return None;
    }
    let name = fields.text("name").map(str::to_owned);
    let inputs = fields.object("inputs").map(|map| read_inputs(map, report));
    let nodes = fields.list("nodes").map(|list| read_nodes(list, report));
    let output = fields.required("output").and_then(|value| read_expr(value, "/output", report));
    let source = fields.typed("source");
    let digest = fields.parsed("digest");
    fields.finish();
    let workflow = Workflow { name: name?, inputs: inputs?, nodes: nodes?, output: output?, source: source? };
    Some((workflow, digest?))
}

fn read_inputs(map: &Map<String, Value>, report: &Report) -> BTreeMap<String, Input> {
    map.iter()
        .filter_map(|(name, value)| {
            let pointer = child("/inputs", name);
            Some((name.clone(), as_typed(value, &pointer, report)?))
        })
        .collect()
}

fn read_nodes(list: &[Value], report: &Report) -> Vec<Node> {
    if list.len() > MAX_NODES {
        report.add(Code::TooMany, "/nodes", format!("{} nodes, at most {MAX_NODES}", list.len()));
        return Vec::new();
    }
    list.iter()
        .enumerate()
        .filter_map(|(index, value)| read_node(value, &item("/nodes", index), report))
        .collect()
}

fn read_node(value: &Value, pointer: &str, report: &Report) -> Option<Node> {
    let mut fields = Fields::of(value, pointer, report)?;
    let id = fields.parsed("id");
    let tool = fields.parsed("tool");
    let arguments_at = fields.pointer("arguments");
    let arguments =
        fields.required("arguments").and_then(|value| read_arguments(value, &arguments_at, report));
    let after_at = fields.pointer("after");
    let after: Vec<NodeId> = as_parsed_list(fields.optional_list("after"), &after_at, report);
    let effect = fields.typed("effect");
    let idempotency = fields.typed("idempotency");
    let timeout_ms = fields.optional_count("timeout_ms");
    let recorded = fields.optional_typed("recorded");
    let decisions_at = fields.pointer("decisions");
    let decisions = fields
        .optional_list("decisions")
        .iter()
        .enumerate()
        .filter_map(|(index, value)| read_decision(value, &item(&decisions_at, index), report))
        .collect();
    fields.finish();
    Some(Node {
        id: id?,
        tool: tool?,
        arguments: arguments?,
        after,
        effect: effect?,
        idempotency: idempotency?,
        timeout_ms,
        recorded,
        decisions,
    })
}

fn read_arguments(value: &Value, pointer: &str, report: &Report) -> Option<Expr> {
    let expr = read_expr(value, pointer, report)?;
    let makes_object = match &expr {
        Expr::Literal(value) => value.is_object(),
        Expr::Ref(_) | Expr::Object(_) => true,
        Expr::List(_) | Expr::Template(_) => false,
    };
    if !makes_object {
        report.add(Code::FieldType, pointer, "arguments must make an object");
    }
    Some(expr)
}

pub(super) fn read_expr(value: &Value, pointer: &str, report: &Report) -> Option<Expr> {
    let map = as_object(value, pointer, report)?;
    let mut entries = map.iter();
    let (Some((tag, inner)), None) = (entries.next(), entries.next()) else {
        let message = "an expression has exactly one of `literal`, `ref`, `object`, `list`, `template`";
        report.add(Code::FieldValue, pointer, message);
        return None;
    };
    let pointer = child(pointer, tag);
    match tag.as_str() {
        "literal" => Some(Expr::Literal(inner.clone())),
        "ref" => read_reference(inner, &pointer, report).map(Expr::Ref),
        "object" => {
            let members = as_object(inner, &pointer, report)?;
            let read: BTreeMap<_, _> = members
                .iter()
                .filter_map(|(key, member)| {
                    Some((key.clone(), read_expr(member, &child(&pointer, key), report)?))
                })
                .collect();
            Some(Expr::Object(read))
        }
        "list" => {
            let items = as_list(inner, &pointer, report)?;
            let read = items
                .iter()
                .enumerate()
                .filter_map(|(index, value)| read_expr(value, &item(&pointer, index), report));
            Some(Expr::List(read.collect()))
        }
        "template" => read_template(inner, &pointer, report).map(Expr::Template),
        other => {
            let message = format!("`{other}` is not one of `literal`, `ref`, `object`, `list`, `template`");
            report.add(Code::FieldUnknown, pointer, message);
            None
        }
    }
}

fn read_template(value: &Value, pointer: &str, report: &Report) -> Option<Template> {
    let list = as_list(value, pointer, report)?;
    let parts = list.iter().enumerate();
    let parts: Vec<Part> =
        parts.filter_map(|(index, value)| read_part(value, &item(pointer, index), report)).collect();
    let template = Template(parts);
    if template.0.len() == list.len() && template.references().next().is_none() {
        report.add(Code::FieldValue, pointer, "a template has a `ref`; a text without one is a `literal`");
    }
    Some(template)
}

fn read_part(value: &Value, pointer: &str, report: &Report) -> Option<Part> {
    let map = as_object(value, pointer, report)?;
    let mut entries = map.iter();
    match (entries.next(), entries.next()) {
        (Some((tag, inner)), None) if tag == "text" => {
            as_text(inner, &child(pointer, tag), report).map(|text| Part::Text(text.to_owned()))
        }
        (Some((tag, inner)), None) if tag == "ref" => {
            read_reference(inner, &child(pointer, tag), report).map(Part::Ref)
        }
        _ => {
            report.add(Code::FieldValue, pointer, "a part of a template has exactly one of `text`, `ref`");
            None
        }
    }
}

pub(super) fn read_reference(value: &Value, pointer: &str, report: &Report) -> Option<Reference> {
    let mut fields = Fields::of(value, pointer, report)?;
    let input = fields.optional_text("input");
    let node = fields.optional_text("node");
    let node_at = fields.pointer("node");
    let path_at = fields.pointer("path");
    let path = fields
        .optional_list("path")
        .iter()
        .enumerate()
        .filter_map(|(index, value)| read_step(value, &item(&path_at, index), report))
        .collect();
    let convert_at = fields.pointer("convert");
    let convert = match fields.optional_text("convert") {
        None => None,
        Some("string") => Some(Convert::ToString),
        Some("number") => Some(Convert::ToNumber),
        Some(other) => {
            report.add(Code::FieldValue, convert_at, format!("`{other}` is neither `string` nor `number`"));
            None
        }
    };
    fields.finish();
    let source = match (input, node) {
        (Some(name), None) => Source::Input(name.to_owned()),
        (None, Some(id)) => Source::Node(as_parsed(id, &node_at, report)?),
        _ => {
            let message = "a reference starts at exactly one of `input` and `node`";
            report.add(Code::FieldValue, pointer, message);
            return None;
        }
    };
    Some(Reference { source, path, convert })
}

fn read_step(value: &Value, pointer: &str, report: &Report) -> Option<Step> {
    match value {
        Value::String(key) => Some(Step::Key(key.clone())),
        Value::Number(_) => {
            let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
            if index.is_none() {
                let message = format!("{} is not a list index", shown(value));
                report.add(Code::FieldValue, pointer, message);
            }
            index.map(Step::Index)
        }
        Value::Object(map) if map.len() == 1 && map.get("parse").and_then(Value::as_str) == Some("json") => {
            Some(Step::ParseJson)
        }
        other => {
            let message =
                format!("a step is a key, an index or {{\"parse\":\"json\"}}, found {}", kind(other));
            report.add(Code::FieldType, pointer, message);
            None
        }
    }
}

fn read_decision(value: &Value, pointer: &str, report: &Report) -> Option<Decision> {
    let mut fields = Fields::of(value, pointer, report)?;
    let at = fields.text("pointer").map(str::to_owned);
    let verdict: Option<Verdict> = fields.typed("verdict");
    let chosen_at = fields.pointer("chosen");
    let chosen = fields.optional("chosen").and_then(|value| read_reference(value, &chosen_at, report));
    let template_at = fields.pointer("template");
    let template = fields.optional("template").and_then(|value| read_template(value, &template_at, report));
    let candidates_at = fields.pointer("candidates");
    let candidates = fields
        .optional_list("candidates")
        .iter()
        .enumerate()
        .filter_map(|(index, value)| read_reference(value, &item(&candidates_at, index), report))
        .collect();
    let reasons_at = fields.pointer("reasons");
    let reasons = fields
        .optional_list("reasons")
        .iter()
        .enumerate()
        .filter_map(|(index, value)| {
            as_text(value, &item(&reasons_at, index), report).map(|text| text.to_owned().into())
        })
        .collect();
    fields.finish();
    Some(Decision { pointer: at?, verdict: verdict?, chosen, template, candidates, reasons })
}

/// The file form, without the digest.
pub(super) fn body(workflow: &Workflow) -> Value {
    let mut map = Map::new();
    map.insert("format".into(), json!(WORKFLOW_FORMAT));
    map.insert("name".into(), json!(workflow.name));
    map.insert("inputs".into(), json!(workflow.inputs));
    map.insert("nodes".into(), Value::Array(workflow.nodes.iter().map(write_node).collect()));
    map.insert("output".into(), write_expr(&workflow.output));
    map.insert("source".into(), json!(workflow.source));
    Value::Object(map)
}

/// The file form, with the digest over everything else.
pub fn to_json(workflow: &Workflow) -> Value {
    let mut value = body(workflow);
    let digest = Digest::of_json(&value);
    if let Value::Object(map) = &mut value {
        map.insert("digest".into(), json!(digest));
    }
    value
}

fn write_node(node: &Node) -> Value {
    let mut map = Map::new();
    map.insert("id".into(), json!(node.id));
    map.insert("tool".into(), json!(node.tool));
    map.insert("arguments".into(), write_expr(&node.arguments));
    map.insert("after".into(), json!(node.after));
    map.insert("effect".into(), json!(node.effect));
    map.insert("idempotency".into(), json!(node.idempotency));
    if let Some(timeout) = node.timeout_ms {
        map.insert("timeout_ms".into(), json!(timeout));
    }
    if let Some(recorded) = &node.recorded {
        map.insert("recorded".into(), json!(recorded));
    }
    map.insert("decisions".into(), Value::Array(node.decisions.iter().map(write_decision).collect()));
    Value::Object(map)
}

/// The file form of an expression.
pub(crate) fn write_expr(expr: &Expr) -> Value {
    match expr {
        Expr::Literal(value) => json!({ "literal": value }),
        Expr::Ref(reference) => json!({ "ref": write_reference(reference) }),
        Expr::Object(members) => {
            let members: Map<_, _> =
                members.iter().map(|(key, member)| (key.clone(), write_expr(member))).collect();
            json!({ "object": members })
        }
        Expr::List(items) => json!({ "list": items.iter().map(write_expr).collect::<Vec<_>>() }),
        Expr::Template(template) => json!({ "template": write_template(template) }),
    }
}

fn write_template(template: &Template) -> Value {
    let part = |part: &Part| match part {
        Part::Text(text) => json!({ "text": text }),
        Part::Ref(reference) => json!({ "ref": write_reference(reference) }),
    };
    template.0.iter().map(part).collect()
}

pub(super) fn write_reference(reference: &Reference) -> Value {
    let mut map = Map::new();
    match &reference.source {
        Source::Input(name) => map.insert("input".into(), json!(name)),
        Source::Node(node) => map.insert("node".into(), json!(node)),
    };
    let steps = reference.path.iter().map(|step| match step {
        Step::Key(key) => json!(key),
        Step::Index(index) => json!(index),
        Step::ParseJson => json!({"parse": "json"}),
    });
    map.insert("path".into(), Value::Array(steps.collect()));
    if let Some(convert) = reference.convert {
        let to = match convert {
            Convert::ToString => "string",
            Convert::ToNumber => "number",
        };
        map.insert("convert".into(), json!(to));
    }
    Value::Object(map)
}

fn write_decision(decision: &Decision) -> Value {
    let mut map = Map::new();
    map.insert("pointer".into(), json!(decision.pointer));
    map.insert("verdict".into(), json!(decision.verdict));
    if let Some(chosen) = &decision.chosen {
        map.insert("chosen".into(), write_reference(chosen));
    }
    if let Some(template) = &decision.template {
        map.insert("template".into(), write_template(template));
    }
    if !decision.candidates.is_empty() {
        map.insert(
            "candidates".into(),
            Value::Array(decision.candidates.iter().map(write_reference).collect()),
        );
    }
    map.insert("reasons".into(), json!(decision.reasons));
    Value::Object(map)
}

/// The published JSON Schema of the file.
pub fn json_schema() -> Value {
    let input = part_of_type::<Input>();
    let recorded = part_of_type::<super::model::Recorded>();
    let source = part_of_type::<super::model::Provenance>();
    let effect = part_of_type::<crate::effect::Effect>();
    let idempotency = part_of_type::<crate::effect::Idempotency>();
    let id = json!({"type": "string", "minLength": 1, "maxLength": 256});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "t2m-host workflow, version 1",
        "type": "object",
        "required": ["format", "name", "inputs", "nodes", "output", "source", "digest"],
        "additionalProperties": false,
        "properties": {
            "format": {"const": WORKFLOW_FORMAT},
            "name": {"type": "string"},
            "inputs": {"type": "object", "additionalProperties": input},
            "nodes": {"type": "array", "maxItems": MAX_NODES, "items": {"$ref": "#/$defs/node"}},
            "output": {"$ref": "#/$defs/expression"},
            "source": source,
            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        },
        "$defs": {
            "node": {
                "type": "object",
                "required": ["id", "tool", "arguments", "effect", "idempotency"],
                "additionalProperties": false,
                "properties": {
                    "id": id,
                    "tool": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"},
                    "arguments": {"$ref": "#/$defs/expression"},
                    "after": {"type": "array", "items": id},
                    "effect": effect,
                    "idempotency": idempotency,
                    "timeout_ms": {"type": "integer", "minimum": 0},
                    "recorded": recorded,
                    "decisions": {"type": "array", "items": {"$ref": "#/$defs/decision"}},
                },
            },
            "expression": {
                "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                "properties": {
                    "literal": {"description": "data, never looked into"},
                    "ref": {"$ref": "#/$defs/reference"},
                    "object": {"type": "object", "additionalProperties": {"$ref": "#/$defs/expression"}},
                    "list": {"type": "array", "items": {"$ref": "#/$defs/expression"}},
                    "template": {"$ref": "#/$defs/template"},
                },
            },
            "template": {
                "description": "a text of which parts come from inputs or earlier results",
                "type": "array", "minItems": 1, "contains": {"required": ["ref"]},
                "items": {
                    "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                    "properties": {"text": {"type": "string"}, "ref": {"$ref": "#/$defs/reference"}},
                },
            },
            "reference": {
                "type": "object", "additionalProperties": false,
                "oneOf": [{"required": ["input"]}, {"required": ["node"]}],
                "properties": {
                    "input": {"type": "string"},
                    "node": id,
                    "path": {"type": "array", "items": {"anyOf": [
                        {"type": "string"},
                        {"type": "integer", "minimum": 0},
                        {"type": "object", "required": ["parse"], "additionalProperties": false,
                         "properties": {"parse": {"const": "json"}}},
                    ]}},
                    "convert": {"enum": ["string", "number"]},
                },
            },
            "decision": {
                "type": "object", "additionalProperties": false,
                "required": ["pointer", "verdict"],
                "properties": {
                    "pointer": {"type": "string"},
                    "verdict": {"enum": ["reference", "input", "literal", "ambiguous", "choice"]},
                    "chosen": {"$ref": "#/$defs/reference"},
                    "template": {"$ref": "#/$defs/template"},
                    "candidates": {"type": "array", "items": {"$ref": "#/$defs/reference"}},
                    "reasons": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    })
}
