//! Expected JSON with holes.
//!
//! It owns the holes: the texts `[any]`, `[text]`, `[number]` and, for a field that is missing or null,
//! `[none]`; `{"[one of]": [...]}`;
//! `{"[repeat]": ["x", 3]}` for a long text; and the key `...`, which lets an object have more keys. It
//! refuses to compare anything loosely that isn't marked.
//!
//! **Invariant:** a pattern without holes fits exactly itself.

use serde_json::{Map, Value};

/// Whether `value` is what `pattern` describes.
pub fn fits(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::String(text) => match text.as_str() {
            "[any]" => true,
            "[text]" => value.is_string(),
            "[number]" => value.is_number(),
            "[none]" => value.is_null(),
            _ => pattern == value,
        },
        Value::Array(patterns) => match value {
            Value::Array(values) => {
                patterns.len() == values.len()
                    && patterns.iter().zip(values).all(|(pattern, value)| fits(pattern, value))
            }
            _ => false,
        },
        Value::Object(patterns) => special(patterns, value).unwrap_or_else(|| object(patterns, value)),
        _ => pattern == value,
    }
}

fn special(patterns: &Map<String, Value>, value: &Value) -> Option<bool> {
    if let Some(choices) = patterns.get("[one of]") {
        return Some(choices.as_array()?.iter().any(|choice| fits(choice, value)));
    }
    let parts = patterns.get("[repeat]")?.as_array()?;
    let (piece, times) = (parts.first()?.as_str()?, parts.get(1)?.as_u64()?);
    let text = value.as_str()?;
    let times = usize::try_from(times).ok()?;
    Some(text.len() == piece.len() * times && text == piece.repeat(times))
}

/// What a field that isn't there is compared as: nothing but `[none]` and `null` describes it.
static MISSING: Value = Value::Null;

fn object(patterns: &Map<String, Value>, value: &Value) -> bool {
    let Value::Object(values) = value else { return false };
    let open = patterns.contains_key("...");
    let known = |key: &String| key != "..." && patterns.contains_key(key);
    let described = patterns.iter().filter(|(key, _)| key.as_str() != "...");
    described.into_iter().all(|(key, pattern)| fits(pattern, values.get(key).unwrap_or(&MISSING)))
        && (open || values.keys().all(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn holes_fit_what_they_say_and_nothing_else_is_loose() {
        for (pattern, value, expected) in [
            (json!({"a": 1}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": 1, "...": true}), json!({"a": 1, "b": 2}), true),
            (json!({"a": 1, "...": true}), json!({"b": 2}), false),
            (json!(["[any]"]), json!([null]), true),
            (json!(["[any]"]), json!([]), false),
            (json!("[text]"), json!(1), false),
            (json!({"id": "[number]"}), json!({"id": 1}), true),
            (json!({"[one of]": [1, {"a": "[any]"}]}), json!({"a": 2}), true),
            (json!({"[one of]": [1, 2]}), json!(3), false),
            (json!({"[repeat]": ["ab", 2]}), json!("abab"), true),
            (json!({"[repeat]": ["ab", 2]}), json!("abaa"), false),
            (json!(1), json!(1.0), false),
            (json!({"id": "[none]", "a": 1}), json!({"a": 1}), true),
            (json!({"id": "[none]", "a": 1}), json!({"a": 1, "id": null}), true),
            (json!({"id": "[none]", "a": 1}), json!({"a": 1, "id": 2}), false),
            (json!({"a": "[text]"}), json!({}), false),
        ] {
            assert_eq!(fits(&pattern, &value), expected, "{pattern} and {value}");
        }
    }
}
