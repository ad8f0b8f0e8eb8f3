//! The fields of a WorkflowIR.
//!
//! Owns what becomes of each field, and the places of faults in the file that was given. Refuses fields that
//! it doesn't know: what they mean isn't known either.
//!
//! **Invariant:** a field that is read and has no place in a workflow stands in [`ImportedFrom`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::reference::{self, Target};
use crate::code::Code;
use crate::document::{Fields, Report, as_list, as_object, as_parsed_list, as_text, shown};
use crate::effect::{Effect, Idempotency};
use crate::id::{NodeId, ToolName};
use crate::problem::{Place, Problem, Problems, child, item};
use crate::redact;
use crate::workflow::expr::{Expr, Reference, Scope, Source};
use crate::workflow::model::{
    Dropped, EffectBasis, EffectSource, ImportedFrom, Input, Node, Provenance, Recorded, Workflow,
};

/// What the other program puts in place of a secret, also inside of a text.
const REDACTED: &str = "[REDACTED]";

/// What is known beside the workflow.
#[derive(Default)]
pub(super) struct About {
    /// Recorded results by node.
    pub(super) results: BTreeMap<NodeId, Value>,
    pub(super) renamed: usize,
    pub(super) warnings: Vec<String>,
}

struct Reader<'r> {
    report: &'r Report,
    tool: &'r dyn Fn(&str) -> Result<ToolName, String>,
    /// The inputs of the file.
    given: BTreeSet<String>,
    /// These, and those that stand for redacted arguments.
    inputs: BTreeSet<String>,
    /// The latter, and those of markers that tell secrets apart.
    secrets: Vec<String>,
    by_marker: BTreeMap<String, String>,
    about: About,
    /// What is kept of each node.
    kept: BTreeMap<NodeId, Map<String, Value>>,
    /// How many nodes have each setting that nothing here acts on.
    idle: BTreeMap<&'static str, usize>,
}

pub(super) fn workflow(
    value: &Value,
    tool: &dyn Fn(&str) -> Result<ToolName, String>,
    report: &Report,
) -> Option<(Workflow, About)> {
    let mut fields = Fields::of(value, "", report)?;
    versions(&mut fields, report);
    let name = fields.text("name").map(str::to_owned);
    let recorded = object(&mut fields, "inputs", report);
    let schema = object(&mut fields, "input_schema", report);
    let mut inputs = inputs(&recorded, &schema, report);
    let mut reader = Reader {
        report,
        tool,
        given: inputs.keys().cloned().collect(),
        inputs: inputs.keys().cloned().collect(),
        secrets: Vec::new(),
        by_marker: BTreeMap::new(),
        about: About::default(),
        kept: BTreeMap::new(),
        idle: BTreeMap::new(),
    };
    let list = fields.list("nodes").unwrap_or_default();
    let nodes: Vec<Node> =
        list.iter().enumerate().filter_map(|(at, node)| reader.node(node, &item("/nodes", at))).collect();
    let dropped = dropped(&mut fields, &nodes, report);
    let kept = [
        "version",
        "workflow_ir_version",
        "safety",
        "input_schema",
        "output_schema",
        "provenance",
        "inference_confidence",
        "policy",
        "workflow_hash",
        "metadata",
    ];
    let kept: Map<String, Value> =
        kept.into_iter().filter_map(|key| Some((key.to_owned(), fields.optional(key)?.clone()))).collect();
    fields.finish();
    reader.settings(&kept);
    for (name, input) in &mut inputs {
        if input.default.as_ref().is_some_and(|value| redact::find_marker(value).is_some()) {
            input.default = None;
            let message = format!("the recorded value of input `{name}` was redacted, so it has to be given");
            reader.about.warnings.push(message);
        }
    }
    inputs.extend(reader.secrets.drain(..).map(|name| (name, Input { schema: json!({}), default: None })));
    let effects: BTreeSet<EffectBasis> = nodes
        .iter()
        .map(|node| EffectBasis {
            tool: node.tool.clone(),
            effect: node.effect,
            source: EffectSource::Recording,
            reason: "the imported workflow says so; a reviewed contract decides what may run".to_owned(),
        })
        .collect();
    let source = Provenance {
        compiler: format!("t2m-host {}, from a workflow of Trace2MCP", env!("CARGO_PKG_VERSION")),
        dropped,
        effects: effects.into_iter().collect(),
        imported: Some(ImportedFrom {
            format: "trace2mcp-workflow".to_owned(),
            fields: kept,
            nodes: reader.kept,
        }),
        ..Provenance::default()
    };
    let output = output(&nodes);
    Some((Workflow { name: name?, inputs, nodes, output, source }, reader.about))
}

fn versions(fields: &mut Fields<'_>, report: &Report) {
    for (key, known) in [("version", &["1", "1.0"][..]), ("workflow_ir_version", &["1"])] {
        let Some(value) = fields.optional(key) else { continue };
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if !known.contains(&text.as_str()) {
            let message = format!("version {} isn't supported; this program reads `1`", shown(value));
            report.add(Code::VersionUnsupported, fields.pointer(key), message);
        }
    }
}

/// An object that may be absent or null: the other program takes both for an empty one.
fn object(fields: &mut Fields<'_>, key: &'static str, report: &Report) -> Map<String, Value> {
    let value = fields.optional(key).filter(|value| !value.is_null());
    value.and_then(|value| as_object(value, &fields.pointer(key), report)).cloned().unwrap_or_default()
}

/// Every input that has a value or a schema. One without a schema may be anything.
fn inputs(
    recorded: &Map<String, Value>,
    schema: &Map<String, Value>,
    report: &Report,
) -> BTreeMap<String, Input> {
    let at = "/input_schema/properties";
    let properties = schema.get("properties").and_then(|properties| as_object(properties, at, report));
    let mut inputs: BTreeMap<String, Input> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            (name.clone(), Input { schema: schema.clone(), default: recorded.get(name).cloned() })
        })
        .collect();
    for (name, value) in recorded {
        let input = || Input { schema: json!({}), default: Some(value.clone()) };
        inputs.entry(name.clone()).or_insert_with(input);
    }
    inputs
}

impl Reader<'_> {
    fn node(&mut self, value: &Value, pointer: &str) -> Option<Node> {
        let report = self.report;
        let mut fields = Fields::of(value, pointer, report)?;
        let id: Option<NodeId> = fields.parsed("id");
        let mut kept = Map::new();
        let tool_at = fields.pointer("tool");
        let tool = fields.text("tool").and_then(|name| self.tool(name, &tool_at, &mut kept));
        let arguments_at = fields.pointer("arguments");
        let arguments = match fields.optional("arguments") {
            None => Some(Expr::Object(BTreeMap::new())),
            Some(value) => as_object(value, &arguments_at, report)
                .zip(id.as_ref())
                .and_then(|(map, id)| self.arguments(map, id, &arguments_at)),
        };
        let after_at = fields.pointer("depends_on");
        let after: Vec<NodeId> = as_parsed_list(fields.optional_list("depends_on"), &after_at, report);
        let effect = fields.optional_name("side_effect", Effect::parse, &Effect::ALL);
        let idempotency = fields.optional_name("idempotency", Idempotency::parse, &Idempotency::ALL);
        let timeout_ms = timeout(&mut fields, report);
        if let (Some(id), Some(result)) = (&id, fields.optional("observed_result")) {
            self.about.results.insert(id.clone(), result.clone());
        }
        for key in [
            "reads",
            "writes",
            "approval_required",
            "optional",
            "max_attempts",
            "input_schema",
            "output_schema",
            "tool_contract_hash",
            "inference",
            "metadata",
        ] {
            kept.extend(fields.optional(key).map(|value| (key.to_owned(), value.clone())));
        }
        fields.finish();
        for (key, idle) in
            [("optional", json!(false)), ("max_attempts", json!(1)), ("tool_contract_hash", Value::Null)]
        {
            if kept.get(key).is_some_and(|value| *value != idle) {
                *self.idle.entry(key).or_default() += 1;
            }
        }
        let id = id?;
        self.kept.insert(id.clone(), kept);
        let (tool, arguments, recorded) = (tool?, arguments?, None);
        let decisions = Vec::new();
        Some(Node { id, tool, arguments, after, effect, idempotency, timeout_ms, recorded, decisions })
    }

    fn tool(&mut self, recorded: &str, pointer: &str, kept: &mut Map<String, Value>) -> Option<ToolName> {
        match (self.tool)(recorded) {
            Ok(tool) => {
                if tool.as_str() != recorded {
                    kept.insert("recorded_tool".to_owned(), json!(recorded));
                    self.about.renamed += 1;
                }
                Some(tool)
            }
            Err(message) => {
                self.report.add(Code::FieldValue, pointer, message);
                None
            }
        }
    }

    /// An argument whose value is gone has to be given.
    fn secret(&mut self, marker: &str, node: &NodeId, pointer: &str) -> Expr {
        let known = self.by_marker.get(marker).filter(|_| !redact::is_anonymous(marker)).cloned();
        let name = known.unwrap_or_else(|| {
            let mut name = format!("{node}.{}", pointer.rsplit('/').next().unwrap_or_default());
            while self.inputs.contains(&name) {
                name.push('_');
            }
            self.inputs.insert(name.clone());
            self.secrets.push(name.clone());
            self.by_marker.insert(marker.to_owned(), name.clone());
            name
        });
        self.about.warnings.push(format!("{pointer} was redacted: input `{name}` has to be given"));
        of(Source::Input(name))
    }

    /// The other program reads references below the arguments, never instead of them.
    fn arguments(&mut self, map: &Map<String, Value>, node: &NodeId, pointer: &str) -> Option<Expr> {
        let members: Vec<_> =
            map.iter().map(|(key, value)| (key, self.expr(value, node, &child(pointer, key)))).collect();
        let members = members.into_iter().map(|(key, member)| Some((key.clone(), member?)));
        members.collect::<Option<_>>().map(Expr::Object)
    }

    fn expr(&mut self, value: &Value, node: &NodeId, pointer: &str) -> Option<Expr> {
        match value {
            Value::Object(map) if map.len() == 1 && map.contains_key("$ref") => {
                self.reference(map, &child(pointer, "$ref"))
            }
            Value::Object(map) => match self.arguments(map, node, pointer)? {
                Expr::Object(members) if members.values().all(is_literal) => {
                    Some(Expr::Literal(value.clone()))
                }
                made => Some(made),
            },
            Value::Array(list) => {
                let items = list.iter().enumerate();
                let items: Vec<_> =
                    items.map(|(at, value)| self.expr(value, node, &item(pointer, at))).collect();
                let items: Vec<Expr> = items.into_iter().collect::<Option<_>>()?;
                let literal = items.iter().all(is_literal);
                Some(if literal { Expr::Literal(value.clone()) } else { Expr::List(items) })
            }
            Value::String(text) if redact::is_marker(text) => Some(self.secret(text, node, pointer)),
            Value::String(text) if text.contains(REDACTED) => {
                let message = format!("{pointer} holds `{REDACTED}` inside of a text, which is sent so");
                self.about.warnings.push(message);
                Some(Expr::Literal(value.clone()))
            }
            other => Some(Expr::Literal(other.clone())),
        }
    }

    fn reference(&mut self, map: &Map<String, Value>, pointer: &str) -> Option<Expr> {
        let text = map.get("$ref").and_then(|text| as_text(text, pointer, self.report))?;
        match reference::read(text) {
            Ok(Target::Value(reference)) => Some(Expr::Ref(reference)),
            Ok(Target::Inputs) => {
                let inputs = self.given.iter().map(|name| (name.clone(), of(Source::Input(name.clone()))));
                Some(Expr::Object(inputs.collect()))
            }
            Err(why) => {
                let message = format!("`{}` is no reference: {why}", text.escape_debug());
                self.report.add(Code::FieldValue, pointer, message);
                None
            }
        }
    }

    /// Says which settings are kept without effect.
    fn settings(&mut self, kept: &Map<String, Value>) {
        for (key, count) in &self.idle {
            let what = match *key {
                "optional" => "a node that fails stops the run",
                "max_attempts" => "a call is tried once",
                _ => "contracts are reviewed anew",
            };
            self.about.warnings.push(format!("`{key}` of {count} nodes is kept without effect: {what}"));
        }
        if kept.get("policy").and_then(Value::as_object).is_some_and(|policy| !policy.is_empty()) {
            let message = "`policy` is kept without effect: what may run is decided by your configuration";
            self.about.warnings.push(message.to_owned());
        }
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(_))
}

fn of(source: Source) -> Expr {
    Expr::Ref(Reference { source, path: Vec::new(), convert: None })
}

fn timeout(fields: &mut Fields<'_>, report: &Report) -> Option<u64> {
    let value = fields.optional("timeout_seconds").filter(|value| !value.is_null())?;
    // Up to 2^53 milliseconds a double holds every one of them.
    let ms = value.as_f64().map(|seconds| seconds * 1000.0);
    let ms = ms.map(f64::round).filter(|ms| *ms >= 1.0 && *ms <= 9_007_199_254_740_992.0);
    let exact = ms.filter(|ms| value.as_f64() == Some(*ms / 1000.0));
    if exact.is_none() {
        let message =
            format!("expected seconds with at most three decimals, above 0, found {}", shown(value));
        report.add(Code::FieldValue, fields.pointer("timeout_seconds"), message);
    }
    exact.and_then(|ms| format!("{ms:.0}").parse().ok())
}

fn dropped(fields: &mut Fields<'_>, nodes: &[Node], report: &Report) -> Vec<Dropped> {
    let at = fields.pointer("ignored_failed_events");
    let failed = fields.optional("ignored_failed_events").and_then(|list| as_list(list, &at, report));
    let mut dropped: Vec<Dropped> = failed
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, event)| as_text(event, &item(&at, index), report))
        .map(|event| Dropped {
            event: event.to_owned(),
            recording: None,
            reason: "it failed".to_owned(),
            same_as: None,
        })
        .collect();
    let at = fields.pointer("deduplicated_events");
    let repeats = fields.optional("deduplicated_events").and_then(|map| as_object(map, &at, report));
    for (event, kept) in repeats.into_iter().flatten() {
        let at = child(&at, event);
        let Some(kept) = as_text(kept, &at, report) else { continue };
        match NodeId::new(kept) {
            Ok(kept) if !nodes.iter().any(|node| node.id == kept) => {
                report.add(Code::ReferenceUnknown, at, format!("there is no node `{kept}`"));
            }
            Ok(kept) => dropped.push(Dropped {
                event: event.clone(),
                recording: None,
                reason: "it repeats an earlier read".to_owned(),
                same_as: Some(kept),
            }),
            Err(error) => report.add(Code::FieldValue, at, error.to_string()),
        }
    }
    dropped
}

/// The result of the one node that no other declares to wait for, or an object of several by id.
fn output(nodes: &[Node]) -> Expr {
    let waited: BTreeSet<&NodeId> = nodes.iter().flat_map(|node| &node.after).collect();
    let sinks: Vec<&NodeId> = nodes.iter().map(|node| &node.id).filter(|id| !waited.contains(id)).collect();
    match sinks.as_slice() {
        [] => Expr::Literal(Value::Null),
        [one] => of(Source::Node((*one).clone())),
        several => {
            Expr::Object(several.iter().map(|id| (id.to_string(), of(Source::Node((*id).clone())))).collect())
        }
    }
}

/// Fills in what was recorded. The file holds results but no arguments, which follow from them; a result
/// whose arguments don't follow is kept in the source.
pub(super) fn record(workflow: &mut Workflow, results: BTreeMap<NodeId, Value>) -> Result<usize, Problems> {
    let defaults = workflow.inputs.iter();
    let inputs: Map<String, Value> =
        defaults.filter_map(|(name, input)| Some((name.clone(), input.default.clone()?))).collect();
    let scope = Scope { inputs: &inputs, results: &results };
    let known = |reference: &&Reference| match &reference.source {
        Source::Input(name) => inputs.contains_key(name),
        Source::Node(id) => results.contains_key(id),
    };
    let (mut unrecorded, mut problems) = (0, Vec::new());
    for (position, node) in workflow.nodes.iter_mut().enumerate() {
        let result = results.get(&node.id);
        let references = node.arguments.references();
        if !references.iter().all(known) || result.is_none() {
            unrecorded += 1;
            let imported = workflow.source.imported.as_mut();
            let kept = imported.and_then(|imported| imported.nodes.get_mut(&node.id));
            if let (Some(kept), Some(result)) = (kept, result) {
                kept.insert("observed_result".to_owned(), result.clone());
            }
            continue;
        }
        match (node.arguments.resolve(scope), result) {
            (Ok(Value::Object(arguments)), Some(result)) => {
                node.recorded = Some(Recorded { arguments, result: result.clone(), duration_ms: None });
            }
            (Err(error), _) => {
                let at = format!("{}/arguments", item("/nodes", position));
                problems.push(Problem::at(Code::ReferenceUnknown, at, error.to_string()));
            }
            _ => {}
        }
    }
    Problems::from_list(problems)?;
    Ok(unrecorded)
}

/// Faults of the workflow at the places that the file has for them.
pub(super) fn placed(problems: Problems) -> Problems {
    let moved = problems.into_list().into_iter().map(|problem| match problem.place {
        Place::Pointer(pointer) => Problem { place: Place::Pointer(in_file(&pointer)), ..problem },
        _ => problem,
    });
    match Problems::from_list(moved.collect()) {
        Err(problems) => problems,
        Ok(()) => Problem::new(Code::Internal, Place::Whole, "a check failed without a reason").into(),
    }
}

fn in_file(pointer: &str) -> String {
    let mut parts = pointer.splitn(5, '/').skip(1);
    let rest = |rest: Option<&str>| rest.map(|rest| format!("/{rest}")).unwrap_or_default();
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("inputs"), Some(name), Some("schema"), more) => {
            format!("/input_schema/properties/{name}{}", rest(more))
        }
        (Some("inputs"), Some(name), Some("default"), more) => format!("/inputs/{name}{}", rest(more)),
        (Some("nodes"), Some(at), Some("after"), more) => format!("/nodes/{at}/depends_on{}", rest(more)),
        _ => pointer.to_owned(),
    }
}
