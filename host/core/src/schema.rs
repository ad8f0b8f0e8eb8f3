//! JSON Schema, compiled once and used for every call.
//!
//! Owns compilation and a bounded list of faults. Refuses remote references: the validator is built
//! without any resolver, so a `$ref` to another document is a fault of the schema.
//!
//! **Invariant:** validation reads nothing but the schema and the value.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::code::Code;
use crate::document::shown;
use crate::problem::{Problem, child, hint};

/// Most faults of one value that are reported.
pub const MAX_FAULTS: usize = 20;

/// Most parts that a schema may have with its local references followed. The largest schemas of real tools
/// have some thousands.
pub const MAX_UNFOLDED: u64 = 200_000;

/// Parts of a schema with local references followed. A reference that leads back to where it stands counts
/// once; each target is counted once and remembered.
fn unfolded(root: &Value, here: &Value, known: &mut BTreeMap<String, u64>, open: &mut Vec<String>) -> u64 {
    let mut size = 1u64;
    match here {
        Value::Array(list) => {
            for item in list {
                size = size.saturating_add(unfolded(root, item, known, open));
            }
        }
        Value::Object(map) => {
            for item in map.values() {
                size = size.saturating_add(unfolded(root, item, known, open));
            }
            let target = map.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
            let Some(target) = target else { return size };
            let target = target.to_owned();
            if open.contains(&target) {
                return size;
            }
            let found = match known.get(&target) {
                Some(found) => *found,
                None => {
                    open.push(target.clone());
                    let found = root.pointer(&target).map_or(0, |next| unfolded(root, next, known, open));
                    open.pop();
                    known.insert(target, found);
                    found
                }
            };
            size = size.saturating_add(found);
        }
        _ => {}
    }
    size
}

/// A compiled schema. 2020-12 unless `$schema` names another draft.
pub struct Schema {
    validator: jsonschema::Validator,
}

/// Longest message about one fault, in characters.
const MAX_MESSAGE: usize = 500;

/// One thing in a value that the schema doesn't allow.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    /// JSON Pointer into the value.
    pub pointer: String,
    /// What is wrong; lower case, no final period.
    pub message: String,
}

impl Schema {
    /// Compiles a schema. The error says what is wrong with the schema itself.
    ///
    /// A schema whose local references unfold to more than [`MAX_UNFOLDED`] parts is refused: validating
    /// takes time in proportion, and a few lines of references to references can double it with each line.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let size = unfolded(schema, schema, &mut BTreeMap::new(), &mut Vec::new());
        if size > MAX_UNFOLDED {
            return Err(format!(
                "not a usable JSON Schema: its references unfold to more than {MAX_UNFOLDED} parts"
            ));
        }
        jsonschema::validator_for(schema)
            .map(|validator| Schema { validator })
            .map_err(|error| format!("not a usable JSON Schema: {error}"))
    }

    /// Whether the value is allowed.
    pub fn allows(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value, at most [`MAX_FAULTS`] entries.
    pub fn faults(&self, value: &Value) -> Vec<Fault> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        self.validator
            .iter_errors(value)
            .take(MAX_FAULTS)
            .map(|error| Fault { pointer: error.instance_path().to_string(), message: describe(&error) })
            .collect()
    }
}

/// The JSON Schema of a type in one piece: it can stand inside another schema, and a fault leads back to the
/// properties around it.
pub fn of_type<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The same to stand inside another schema.
pub(crate) fn part_of_type<T: schemars::JsonSchema>() -> Value {
    let mut schema = of_type::<T>();
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
    }
    schema
}

/// Every way in which `value` breaks `schema`, as problems with codes and spelling hints. For our own file
/// formats, whose schemas are made from the types that read them.
pub fn problems(schema: &Value, value: &Value) -> Vec<Problem> {
    use jsonschema::error::ValidationErrorKind as Kind;
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => return vec![Problem::at(Code::Internal, "", format!("schema: {error}"))],
    };
    let mut found = Vec::new();
    for error in validator.iter_errors(value) {
        let pointer = error.instance_path().to_string();
        match error.kind() {
            Kind::AdditionalProperties { unexpected } => {
                let location = error.schema_path().to_string();
                let parent = location.strip_suffix("/additionalProperties").unwrap_or(&location);
                let known =
                    schema.pointer(parent).and_then(|s| s.get("properties")).and_then(Value::as_object);
                for key in unexpected {
                    let hint = hint(key, known.into_iter().flat_map(|map| map.keys().map(String::as_str)));
                    let message = format!("`{key}` is not a field here{hint}");
                    found.push(Problem::at(Code::FieldUnknown, child(&pointer, key), message));
                }
            }
            Kind::Required { property } => {
                let message = format!("`{}` is missing", property.as_str().unwrap_or_default());
                found.push(Problem::at(Code::FieldMissing, pointer, message));
            }
            Kind::Enum { .. } | Kind::OneOfNotValid { .. } | Kind::AnyOf { .. }
                if !words_of(schema, &error).is_empty() =>
            {
                let words = words_of(schema, &error);
                let word = error.instance().as_str();
                let hint = word.map(|word| hint(word, words.iter().copied())).unwrap_or_default();
                let message =
                    format!("{} is none of `{}`{hint}", shown(error.instance()), words.join("`, `"));
                found.push(Problem::at(Code::FieldValue, pointer, message));
            }
            Kind::Type { .. } => found.push(Problem::at(Code::FieldType, pointer, describe(&error))),
            _ => found.push(Problem::at(Code::FieldValue, pointer, describe(&error))),
        }
    }
    found
}

/// The words that a value may be, if its schema is a list of words.
fn words_of<'s>(schema: &'s Value, error: &jsonschema::ValidationError<'_>) -> Vec<&'s str> {
    let at = schema.pointer(&error.schema_path().to_string());
    let options = at.and_then(Value::as_array).into_iter().flatten();
    let word = |option: &'s Value| -> Vec<&'s str> {
        let listed = option.get("enum").and_then(Value::as_array).into_iter().flatten();
        let single = option.get("const").and_then(Value::as_str);
        option.as_str().into_iter().chain(single).chain(listed.filter_map(Value::as_str)).collect()
    };
    options.flat_map(word).collect()
}

/// The validator repeats the whole value in its messages; ours keep them short and on one line.
fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let whole = error.instance().to_string();
    let text = error.to_string();
    let text = if whole.len() > 60 { text.replace(&whole, &shown(error.instance())) } else { text };
    let text = text.replace(['\n', '\r'], " ");
    // A message may list every name of an object; its sender knows them.
    if text.chars().count() <= MAX_MESSAGE {
        return text;
    }
    format!("{}...", text.chars().take(MAX_MESSAGE).collect::<String>())
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_name_their_place() {
        let schema = Schema::compile(&json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}}
        }))
        .unwrap();
        assert!(schema.allows(&json!({"a": 1})));
        let faults = schema.faults(&json!({"a": "x", "b": ["y", 2], "c": 1}));
        let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(places.len(), 3, "{faults:?}");
        assert!(places.contains(&"/a") && places.contains(&"/b/1") && places.contains(&""));
    }

    #[test]
    fn problems_of_a_file_carry_codes_and_hints() {
        let schema = json!({
            "type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {"name": {"type": "string"}, "limits": {"type": "object", "additionalProperties": false,
                "properties": {"fuel": {"type": "integer"}}}}
        });
        let found = problems(&schema, &json!({"nam": "x", "limits": {"fuell": 1, "fuel": "many"}}));
        let mut seen: Vec<_> =
            found.iter().map(|p| (p.code, p.place.to_string(), p.message.clone())).collect();
        seen.sort();
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert_eq!(seen[0], (Code::FieldMissing, "the top level".into(), "`name` is missing".into()));
        assert_eq!(seen[1].1, "/limits/fuell");
        assert!(seen[1].2.ends_with("did you mean `fuel`?") && seen[2].2.ends_with("did you mean `name`?"));
        assert_eq!((seen[3].0, seen[3].1.as_str()), (Code::FieldType, "/limits/fuel"));
    }

    #[test]
    fn references_that_double_with_each_line_are_refused() {
        let mut defs = serde_json::Map::from_iter([("d0".to_owned(), json!({"type": "object"}))]);
        for n in 1..32 {
            let below = json!({"$ref": format!("#/$defs/d{}", n - 1)});
            defs.insert(format!("d{n}"), json!({"allOf": [below, below]}));
        }
        let error = Schema::compile(&json!({"$ref": "#/$defs/d31", "$defs": defs})).unwrap_err();
        assert!(error.contains("unfold"), "{error}");
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert!(Schema::compile(&tree).is_ok(), "a recursive schema is fine");
    }

    #[test]
    fn a_remote_reference_is_a_fault_of_the_schema() {
        let error = Schema::compile(&json!({"$ref": "https://example.com/schema.json"})).unwrap_err();
        assert!(error.contains("not a usable JSON Schema"), "{error}");
        assert!(Schema::compile(&json!({"type": "strin"})).is_err());
    }
}
