//! JSON Schemas of a workflow as a whole, for whoever offers it as a tool.
//!
//! Owns the way from declared inputs and the contracts' schemas to one schema each. Refuses to guess: where
//! nothing is known of a value, its schema allows anything.
//!
//! **Invariant:** a schema made here says nothing that the contracts don't say.

use serde_json::{Map, Value, json};

use super::expr::{Convert, Expr, Reference, Source, Step};
use super::model::Workflow;
use crate::id::ToolName;

/// The schema of the inputs as one object. An input with a recorded default may be left out.
pub fn input_schema(workflow: &Workflow) -> Value {
    let mut defs = Map::new();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, input) in &workflow.inputs {
        let mut schema = embed(&input.schema, name, &mut defs).unwrap_or_else(|| json!({}));
        match (&input.default, schema.as_object_mut()) {
            (Some(default), Some(schema)) => drop(schema.insert("default".to_owned(), default.clone())),
            _ => required.push(name),
        }
        properties.insert(name.clone(), schema);
    }
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    with_defs(schema, defs)
}

/// The schema of the result, made from the output schemas of the tools' contracts; nothing if it may be
/// anything.
pub fn output_schema<'a>(
    workflow: &'a Workflow,
    of_tool: impl Fn(&ToolName) -> Option<&'a Value>,
) -> Option<Value> {
    let mut maker = Maker { workflow, of_tool: &of_tool, defs: Map::new() };
    let schema = maker.expr(&workflow.output);
    let defs = maker.defs;
    (schema != json!({})).then(|| with_defs(schema, defs))
}

fn with_defs(mut schema: Value, defs: Map<String, Value>) -> Value {
    if let Some(schema) = schema.as_object_mut().filter(|_| !defs.is_empty()) {
        schema.insert("$defs".to_owned(), Value::Object(defs));
    }
    schema
}

struct Maker<'a, 'f> {
    workflow: &'a Workflow,
    of_tool: &'f dyn Fn(&ToolName) -> Option<&'a Value>,
    defs: Map<String, Value>,
}

impl Maker<'_, '_> {
    fn expr(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Literal(value) => json!({"const": value}),
            Expr::Ref(reference) => self.reference(reference),
            Expr::Template(_) => json!({"type": "string"}),
            Expr::Object(members) => {
                let schemas: Map<String, Value> =
                    members.iter().map(|(key, member)| (key.clone(), self.expr(member))).collect();
                let required: Vec<&String> = members.keys().collect();
                json!({
                    "type": "object", "properties": schemas, "required": required,
                    "additionalProperties": false,
                })
            }
            Expr::List(items) => {
                let schemas: Vec<Value> = items.iter().map(|item| self.expr(item)).collect();
                json!({"type": "array", "prefixItems": schemas, "minItems": items.len(), "items": false})
            }
        }
    }

    fn reference(&mut self, reference: &Reference) -> Value {
        match reference.convert {
            Some(Convert::ToString) => return json!({"type": "string"}),
            Some(Convert::ToNumber) => return json!({"type": "number"}),
            None => {}
        }
        let (root, prefix) = match &reference.source {
            Source::Input(name) => (self.workflow.inputs.get(name).map(|input| &input.schema), name.as_str()),
            Source::Node(id) => {
                let node = self.workflow.nodes.iter().find(|node| node.id == *id);
                (node.and_then(|node| (self.of_tool)(&node.tool)), id.as_str())
            }
        };
        let found = root.and_then(|root| {
            let part = reference.path.iter().try_fold(root, |schema, step| below(schema, root, step))?;
            // What `$ref` leads to lies at the root, so the part is embedded together with it.
            let mut part = part.clone();
            if let (Some(part), Some(defs)) = (part.as_object_mut(), root.get("$defs")) {
                part.entry("$defs").or_insert_with(|| defs.clone());
            }
            embed(&part, prefix, &mut self.defs)
        });
        found.unwrap_or_else(|| json!({}))
    }
}

/// The schema of what one step leads to, if the schema says so plainly.
fn below<'a>(schema: &'a Value, root: &'a Value, step: &Step) -> Option<&'a Value> {
    // 16 references in a row are a circle.
    let mut schema = schema;
    for _ in 0..16 {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { break };
        schema = root.pointer(target.strip_prefix('#')?)?;
    }
    match step {
        Step::Key(key) => schema.get("properties")?.get(key),
        Step::Index(index) => {
            let at = schema.get("prefixItems").and_then(|items| items.get(*index));
            at.or_else(|| schema.get("items"))
        }
        Step::ParseJson => None,
    }
}

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// Keywords whose values are schemas by names that are no keywords.
const NAMED: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// A copy of a schema that can stand inside another: its definitions move to `defs` under names of their own.
/// Nothing if it refers to anything but its own definitions.
fn embed(schema: &Value, prefix: &str, defs: &mut Map<String, Value>) -> Option<Value> {
    if let Some(Value::Object(own)) = schema.get("$defs") {
        for (name, definition) in own {
            let name = format!("{prefix}.{name}");
            if !defs.contains_key(&name) {
                // Put there first: a definition may refer to itself.
                defs.insert(name.clone(), json!({}));
                let moved = part(definition, prefix)?;
                defs.insert(name, moved);
            }
        }
    }
    part(schema, prefix)
}

fn part(schema: &Value, prefix: &str) -> Option<Value> {
    match schema {
        Value::Object(members) => {
            let mut copy = Map::new();
            for (key, value) in members {
                let value = match key.as_str() {
                    "$defs" | "$schema" => continue,
                    "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" => return None,
                    "$ref" => {
                        let name =
                            value.as_str()?.strip_prefix("#/$defs/").filter(|name| !name.contains('/'))?;
                        // A pointer in a URI: `~` and `%` in the prefix would need escapes of their own.
                        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
                        if !prefix.chars().all(plain) {
                            return None;
                        }
                        json!(format!("#/$defs/{prefix}.{name}"))
                    }
                    key if DATA.contains(&key) => value.clone(),
                    key if NAMED.contains(&key) => {
                        let named = value.as_object()?.iter();
                        named
                            .map(|(name, schema)| Some((name.clone(), part(schema, prefix)?)))
                            .collect::<Option<Map<_, _>>>()
                            .map(Value::Object)?
                    }
                    _ => part(value, prefix)?,
                };
                copy.insert(key.clone(), value);
            }
            Some(Value::Object(copy))
        }
        Value::Array(items) => {
            items.iter().map(|item| part(item, prefix)).collect::<Option<_>>().map(Value::Array)
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::effect::{Effect, Idempotency};
    use crate::schema::Schema;
    use crate::workflow::{Input, Node, Provenance};

    fn workflow(output: Expr) -> Workflow {
        let input = |schema: Value, default: Option<Value>| Input { schema, default };
        let node = Node {
            id: "n".parse().unwrap(),
            tool: "t".parse().unwrap(),
            arguments: Expr::Literal(json!({})),
            after: vec![],
            effect: Effect::Pure,
            idempotency: Idempotency::Idempotent,
            timeout_ms: None,
            recorded: None,
            decisions: vec![],
        };
        Workflow {
            name: "w".into(),
            inputs: BTreeMap::from([
                ("count".to_owned(), input(json!({"type": "integer"}), Some(json!(3)))),
                (
                    "tree".to_owned(),
                    input(
                        json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}),
                        None,
                    ),
                ),
            ]),
            nodes: vec![node],
            output,
            source: Provenance::default(),
        }
    }

    fn of_node(path: Vec<Step>, convert: Option<Convert>) -> Expr {
        Expr::Ref(Reference { source: Source::Node("n".parse().unwrap()), path, convert })
    }

    /// P13: a workflow's inputs become one exact schema, definitions included.
    #[test]
    fn inputs_become_one_object() {
        let schema = input_schema(&workflow(Expr::Literal(Value::Null)));
        assert_eq!(schema["required"], json!(["tree"]));
        assert_eq!(schema["properties"]["count"], json!({"type": "integer", "default": 3}));
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.allows(&json!({"tree": [[], [[]]]})));
        for wrong in [
            json!({"tree": [1]}),
            json!({}),
            json!({"tree": [], "more": 1}),
            json!({"tree": [], "count": 1.5}),
        ] {
            assert!(!schema.allows(&wrong), "{wrong}");
        }
    }

    /// P13: a result's schema follows from the contracts, as deep as they go and no further.
    #[test]
    fn the_result_follows_from_the_contracts() {
        let tool = json!({
            "type": "object",
            "$defs": {"Item": {"type": "object", "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/$defs/Item"}}}},
            "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}, "$id": {}, "odd": {"$ref": "other.json"}},
        });
        let schema_of = |expr: Expr| output_schema(&workflow(expr), |_| Some(&tool));
        let key = |key: &str| Step::Key(key.to_owned());

        let id = schema_of(of_node(vec![key("items"), Step::Index(0), key("id")], None));
        let mut id = id.unwrap();
        id.as_object_mut().unwrap().remove("$defs");
        assert_eq!(id, json!({"type": "integer"}));

        let whole = Expr::Object(BTreeMap::from([
            ("all".to_owned(), of_node(vec![key("items")], None)),
            (
                "text".to_owned(),
                of_node(vec![key("items"), Step::Index(1), key("id")], Some(Convert::ToString)),
            ),
            ("fixed".to_owned(), Expr::Literal(json!({"$ref": "data"}))),
            ("any".to_owned(), of_node(vec![key("odd")], None)),
        ]));
        let schema = Schema::compile(&schema_of(whole).unwrap()).unwrap();
        let fine = json!({"all": [{"id": 1, "next": {"id": 2}}], "text": "1", "fixed": {"$ref": "data"}, "any": [1]});
        assert!(schema.allows(&fine), "{:?}", schema.faults(&fine));
        let deep = json!({"all": [{"next": {"id": "no"}}], "text": "1", "fixed": {"$ref": "data"}, "any": 1});
        assert!(!schema.allows(&deep));

        assert_eq!(schema_of(of_node(vec![key("missing")], None)), None);
        assert_eq!(output_schema(&workflow(of_node(vec![], None)), |_| None), None);
    }
}
