//! JSON Schemas made from types.
//!
//! Owns what the SDK changes about a derived schema. Refuses to validate: the host does, before the call.
//!
//! INVARIANT: an input schema admits no property it doesn't name, unless its type says so.

use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// What `JsonSchema` has for each type: all that is done with a type happens here once, not once per type.
type Describe = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a tool's arguments, from their type's `json_schema`.
pub(crate) fn input(describe: Describe) -> Value {
    let mut schema = make(describe, settings().for_deserialize());
    close(&mut schema, true);
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}

/// The schema of a tool's structured data, if every value of the type is a JSON object.
pub(crate) fn output(describe: Describe) -> Option<Value> {
    let mut schema = make(describe, settings().for_serialize());
    if !only_objects(&schema) {
        return None;
    }
    schema.as_object_mut()?.insert("type".to_owned(), json!("object"));
    Some(schema)
}

fn make(describe: Describe, settings: SchemaSettings) -> Value {
    let mut generator = settings.into_generator();
    let mut schema = describe(&mut generator).to_value();
    // Only types that contain themselves are left to refer to.
    let definitions = generator.take_definitions(true);
    if let (Some(object), false) = (schema.as_object_mut(), definitions.is_empty()) {
        object.insert("$defs".to_owned(), Value::Object(definitions));
    }
    // What a type's own documentation says is for readers of the code; the tool has its description.
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    drop_number_formats(&mut schema);
    schema
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None; // 2020-12 is what the contract assumes
        settings.inline_subschemas = true; // some clients don't follow `$ref`
    })
}

/// Drops formats that only name Rust number types: strict validators refuse formats they don't know.
fn drop_number_formats(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.get("format").and_then(Value::as_str).is_some_and(|format| {
        format.starts_with("int") || format.starts_with("uint") || format == "double" || format == "float"
    }) {
        object.remove("format");
    }
    for child in children(object, true) {
        drop_number_formats(child);
    }
}

/// Forbids properties without a name. `whole` is false for a schema that describes only a part of an object
/// that another schema describes as well: closing that would forbid the other part.
fn close(schema: &mut Value, whole: bool) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let says_itself =
        object.contains_key("additionalProperties") || object.contains_key("unevaluatedProperties");
    let named = object.contains_key("properties");
    let combined = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|key| object.contains_key(*key));
    let is_object = named || object.get("type").is_some_and(|kind| kind == "object");
    if whole && is_object && !says_itself {
        let key = if combined { "unevaluatedProperties" } else { "additionalProperties" };
        object.insert(key.to_owned(), json!(false));
    }
    for child in children(object, false) {
        close(child, true);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(branches) = object.get_mut(key).and_then(Value::as_array_mut) {
            let whole = whole && !named && key != "allOf";
            branches.iter_mut().for_each(|branch| close(branch, whole));
        }
    }
}

/// The schemas directly inside one, with or without those that apply to the same value.
fn children(object: &mut Map<String, Value>, same_value: bool) -> Vec<&mut Value> {
    let mut found = Vec::new();
    for (key, value) in object {
        if !same_value && matches!(key.as_str(), "allOf" | "anyOf" | "oneOf") {
            continue;
        }
        match (key.as_str(), value) {
            ("properties" | "$defs" | "patternProperties", Value::Object(named)) => {
                found.extend(named.values_mut())
            }
            ("items" | "additionalProperties" | "propertyNames" | "contains", value) => found.push(value),
            ("prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(list)) => found.extend(list),
            _ => {}
        }
    }
    found
}

fn only_objects(schema: &Value) -> bool {
    if schema.get("type").is_some_and(|kind| kind == "object") {
        return true;
    }
    let branches = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    schema.get("type").is_none()
        && branches.is_some_and(|list| !list.is_empty() && list.iter().all(only_objects))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::{input, output};

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        count: u32,
    }

    /// Not for the schema.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Outer {
        /// All of them.
        inner: Vec<Inner>,
        #[serde(default)]
        note: Option<String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Either {
        Left { a: i32 },
        Right { b: i32 },
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Tree {
        branches: Vec<Tree>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Flat {
        own: bool,
        #[serde(flatten)]
        either: Either,
    }

    #[test]
    fn nested_objects_are_inline_and_closed() {
        let inner = json!({
            "type": "object", "properties": {"count": {"type": "integer", "minimum": 0}},
            "required": ["count"], "additionalProperties": false,
        });
        assert_eq!(
            input(Outer::json_schema),
            json!({
                "type": "object",
                "properties": {
                    "inner": {"type": "array", "items": inner, "description": "All of them."},
                    "note": {"type": ["string", "null"], "default": null},
                },
                "required": ["inner"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn each_variant_is_closed() {
        let schema = input(Either::json_schema);
        let variants = schema["oneOf"].as_array().unwrap();
        assert_eq!(variants.len(), 2);
        assert!(variants.iter().all(|variant| variant["additionalProperties"] == json!(false)));
        assert_eq!(schema["type"], "object");
        assert_eq!(schema.get("additionalProperties"), None);
    }

    #[test]
    fn a_flattened_enum_does_not_forbid_the_rest() {
        let schema = input(Flat::json_schema);
        assert_eq!(schema["unevaluatedProperties"], json!(false));
        let open = |variant: &Value| variant.get("additionalProperties").is_none();
        assert!(schema["oneOf"].as_array().unwrap().iter().all(open));
    }

    #[test]
    fn a_type_that_holds_itself_is_referred_to_and_closed() {
        let schema = input(Tree::json_schema);
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["$defs"]["Tree"]["additionalProperties"], json!(false));
    }

    #[test]
    fn only_objects_have_an_output_schema() {
        assert_eq!(output(Outer::json_schema).unwrap()["type"], "object");
        assert_eq!(output(Either::json_schema).unwrap()["type"], "object");
        assert_eq!(output(String::json_schema), None);
        assert_eq!(output(Option::<Outer>::json_schema), None);
        assert_eq!(output(<()>::json_schema), None);
    }
}
