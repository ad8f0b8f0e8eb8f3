//! Tools that look into JSON, patch it and compare it.
//!
//! Owns the four tools. Refuses a language of its own: what RFC 6901, 6902 and 7396 say is enough to be known.
//!
//! INVARIANT: every tool is pure.

mod patch;
mod pointer;
#[cfg(test)]
mod tests;

use patch::Operation;
use t2m_plugin_sdk::serde_json::Value;
use t2m_plugin_sdk::{Deserialize, Error, JsonSchema, Plugin, Serialize, Tools, export};

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// The value to look into
    value: Value,
    /// A JSON Pointer, such as `/items/0/name`; `*` as a step stands for every place
    pointer: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    /// What was found, in the order of the value; one value at most for a pointer without `*`
    values: Vec<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct Patched {
    /// The value to change
    value: Value,
    /// Operations of a JSON Patch, in order
    patch: Vec<Operation>,
}

#[derive(Deserialize, JsonSchema)]
struct Merge {
    /// The value to change
    value: Value,
    /// A JSON Merge Patch: what it holds replaces, and null removes
    patch: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Two {
    /// The value before
    from: Value,
    /// The value after
    to: Value,
}

#[derive(Serialize, JsonSchema)]
struct Changed {
    /// The changed value
    result: Value,
}

#[derive(Serialize, JsonSchema)]
struct Difference {
    /// The JSON Patch that makes `from` to `to`; empty if they are equal
    patch: Vec<Operation>,
}

fn query(args: Query) -> Result<Found, Error> {
    let mut values = vec![&args.value];
    for step in pointer::steps(&args.pointer)? {
        let mut next = Vec::new();
        for value in values {
            match (step.as_str(), value) {
                // A key `*` of its own counts first.
                ("*", Value::Object(map)) if !map.contains_key("*") => next.extend(map.values()),
                ("*", Value::Array(list)) => next.extend(list),
                _ => next.extend(pointer::child(value, &step)),
            }
        }
        values = next;
    }
    Ok(Found { values: values.into_iter().cloned().collect() })
}

struct Json;

impl Plugin for Json {
    fn tools(tools: &mut Tools) {
        tools
            .pure(
                "json_query",
                "Looks into a JSON value by a JSON Pointer (RFC 6901), in which `*` as a step stands for every place.",
                query,
            )
            .title("Query JSON");
        tools
            .pure(
                "json_patch",
                "Applies a JSON Patch (RFC 6902) to a value, all of it or nothing.",
                |args: Patched| Ok(Changed { result: patch::apply(args.value, args.patch)? }),
            )
            .title("Patch JSON");
        tools
            .pure("json_merge", "Applies a JSON Merge Patch (RFC 7396) to a value.", |args: Merge| {
                Ok(Changed { result: patch::merge(args.value, args.patch) })
            })
            .title("Merge JSON");
        tools
            .pure(
                "json_diff",
                "Compares two JSON values and gives the JSON Patch between them.",
                |args: Two| Ok(Difference { patch: patch::diff(&args.from, &args.to) }),
            )
            .title("Compare JSON");
    }
}

export!(Json);
