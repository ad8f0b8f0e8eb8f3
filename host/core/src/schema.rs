//! JSON Schema, compiled once and used for every call.
//!
//! Owns compilation and a bounded list of faults. Refuses remote references: the validator is built
//! without any resolver, so a `$ref` to another document is a fault of the schema.
//!
//! **Invariant:** validation reads nothing but the schema and the value.

use std::fmt;

use serde_json::Value;

use crate::document::shown;

/// Most faults of one value that are reported.
pub const MAX_FAULTS: usize = 20;

/// A compiled schema. 2020-12 unless `$schema` names another draft.
pub struct Schema {
    validator: jsonschema::Validator,
}

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
    pub fn compile(schema: &Value) -> Result<Schema, String> {
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

/// The validator repeats the whole value in its messages; ours keep them short and on one line.
fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let whole = error.instance().to_string();
    let text = error.to_string();
    let text = if whole.len() > 60 { text.replace(&whole, &shown(error.instance())) } else { text };
    text.replace(['\n', '\r'], " ")
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
    fn a_remote_reference_is_a_fault_of_the_schema() {
        let error = Schema::compile(&json!({"$ref": "https://example.com/schema.json"})).unwrap_err();
        assert!(error.contains("not a usable JSON Schema"), "{error}");
        assert!(Schema::compile(&json!({"type": "strin"})).is_err());
    }
}
