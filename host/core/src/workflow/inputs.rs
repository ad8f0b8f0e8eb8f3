//! The values that a run starts with.
//!
//! Owns the check of given inputs against a workflow's declared ones. Refuses to invent values: what has no
//! recorded default must be given.
//!
//! **Invariant:** bound inputs have exactly the declared names, and each matches its schema.

use serde_json::{Map, Value};

use super::verify::VerifiedWorkflow;
use crate::code::Code;
use crate::document::Report;
use crate::problem::{Problems, child, hint};
use crate::schema::Schema;

/// Fills in recorded defaults and checks every value; reports every fault at once.
pub fn bind_inputs(
    workflow: &VerifiedWorkflow,
    mut given: Map<String, Value>,
) -> Result<Map<String, Value>, Problems> {
    let report = Report::default();
    let declared = &workflow.workflow().inputs;
    for name in given.keys().filter(|name| !declared.contains_key(*name)) {
        let hint = hint(name, declared.keys().map(String::as_str));
        report.add(Code::InputUnknown, child("", name), format!("the workflow has no input `{name}`{hint}"));
    }
    let mut bound = Map::new();
    for (name, input) in declared {
        let value = match (given.remove(name), &input.default) {
            (Some(value), _) => value,
            (None, Some(default)) => default.clone(),
            (None, None) => {
                report.add(Code::InputMissing, child("", name), format!("input `{name}` has no value"));
                continue;
            }
        };
        match Schema::compile(&input.schema) {
            Err(message) => report.add(Code::FieldValue, child("/inputs", name), message),
            Ok(schema) => {
                for fault in schema.faults(&value) {
                    report.add(Code::InputInvalid, child("", name) + &fault.pointer, fault.message);
                }
            }
        }
        bound.insert(name.clone(), value);
    }
    report.finish(Some(bound))
}
