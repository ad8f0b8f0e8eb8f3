//! Where two values differ, and how a difference is shown.
//!
//! Owns the walk over two values side by side. Refuses to align lists: items are compared by their index.
//!
//! **Invariant:** nothing is visited if and only if the values mean the same.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::compiler::same;
use crate::document::shown;
use crate::problem::{child, item};

/// One place where two values differ, each shortened for people; nothing if it isn't there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// JSON Pointer.
    pub pointer: String,
    /// The first value.
    pub before: Option<String>,
    /// The second value.
    pub after: Option<String>,
}

/// Every place where two values differ, as deep as both have the same shape.
pub(crate) fn differences(pointer: &str, before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(pointer, Some(before), Some(after), &mut found);
    found
}

fn walk(pointer: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(before), Some(after)) if same(before, after) => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                walk(&child(pointer, key), before.get(key), after.get(key), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                walk(&item(pointer, index), before.get(index), after.get(index), found);
            }
        }
        (None, None) => {}
        (before, after) => found.push(Difference {
            pointer: pointer.to_owned(),
            before: before.map(shown),
            after: after.map(shown),
        }),
    }
}

/// A difference as people read it: `` `1` -> `2` ``.
impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pointer = if self.pointer.is_empty() { "" } else { &format!("{} ", self.pointer) };
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{pointer}{} -> {}", text(&self.before), text(&self.after))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_the_deepest_place_that_both_have() {
        let before = json!({"a": 1, "b": [1, {"c/d": "x"}], "gone": null, "same": 2});
        let after = json!({"a": 1.0, "b": [1, {"c/d": "y"}, 3], "same": 2, "new": []});
        let found: Vec<String> = differences("/v", &before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "/v/b/1/c~1d `\"x\"` -> `\"y\"`",
                "/v/b/2 nothing -> `3`",
                "/v/gone `null` -> nothing",
                "/v/new nothing -> `[]`",
            ]
        );
        assert!(differences("", &json!([1, {}]), &json!([1.0, {}])).is_empty());
        assert_eq!(differences("", &json!(1), &json!([1])).len(), 1);
    }
}
