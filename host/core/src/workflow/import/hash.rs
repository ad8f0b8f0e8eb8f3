//! The hash that a WorkflowIR carries.
//!
//! Owns the form over which Trace2MCP computes it, and the comparison. Refuses to vouch for more than it
//! covers: fields of its own name are left out at every level.
//!
//! **Invariant:** a file whose content doesn't have the hash it names is refused.

use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::digest::Digest;
use crate::document::{Report, as_text};

const FIELD: &str = "workflow_hash";

/// Compares, and says what the hash doesn't vouch for.
pub(super) fn check(value: &Value, report: &Report) -> Option<String> {
    let Some(claimed) = value.get(FIELD).filter(|claimed| !claimed.is_null()) else {
        return Some(format!("the file has no `{FIELD}`, so nothing says that it is unchanged"));
    };
    let at = format!("/{FIELD}");
    let claimed = as_text(claimed, &at, report)?;
    let mut text = String::new();
    write(value, &mut text);
    let found = Digest::of_bytes(text.as_bytes()).hex();
    if claimed != found {
        report.add(Code::DigestMismatch, at, format!("the content has the hash `{found}`"));
    }
    let inner = value.as_object().into_iter().flat_map(Map::values).any(has_field);
    inner.then(|| format!("the file's hash doesn't cover the fields named `{FIELD}` inside of it"))
}

fn has_field(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key(FIELD) || map.values().any(has_field),
        Value::Array(list) => list.iter().any(has_field),
        _ => false,
    }
}

/// Compact JSON with sorted keys, as Python's own writer makes it.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            // Both programs sort by code points.
            let mut members: Vec<(&String, &Value)> = map.iter().filter(|(key, _)| *key != FIELD).collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                text.push_str(&json!(key).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (index, value) in list.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write(value, text);
            }
            text.push(']');
        }
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => text.push_str(&python_float(float)),
            None => text.push_str(&number.to_string()),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// The shortest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
fn python_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (float, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e17, "1.25e+17"),
            (1e300, "1e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.5e-7, "-1.5e-07"),
            (5e-324, "5e-324"),
            (123_456.5, "123456.5"),
        ] {
            assert_eq!(python_float(float), expected);
        }
    }
}
