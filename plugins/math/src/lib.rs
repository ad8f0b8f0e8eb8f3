//! Arithmetic and geometry tools, by the operation names of MathQA.
//!
//! Owns the step from named arguments to a formula of [`operations`] and back. Refuses to return anything
//! that JSON can't hold: an infinite or undefined result is an error of code `domain`.
//!
//! INVARIANT: every tool is pure; equal arguments give equal bits on every host.

mod combinatorics;
mod operations;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use t2m_plugin_sdk::{Error, JsonSchema, Plugin, Serialize, Tools, export};

use operations::{OPERATIONS, Operation};

/// The plugin.
pub struct Math;

impl Plugin for Math {
    fn tools(tools: &mut Tools) {
        for operation in OPERATIONS {
            tools
                .pure(operation.name, operation.description, move |numbers| evaluate(operation, numbers))
                .input_schema(|| schema(operation));
        }
    }
}

export!(Math);

/// What every tool returns.
#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The result.
    #[serde(serialize_with = "number")]
    result: f64,
}

fn evaluate(operation: &Operation, mut numbers: BTreeMap<String, f64>) -> Result<Answer, Error> {
    let mut ordered = Vec::with_capacity(operation.parameters.len());
    for parameter in operation.parameters {
        let missing = || Error::invalid_arguments(format!("missing field `{parameter}`"));
        ordered.push(numbers.remove(*parameter).ok_or_else(missing)?);
    }
    if let Some(name) = numbers.keys().next() {
        return Err(Error::invalid_arguments(format!("unknown argument `{name}`")));
    }
    let result = (operation.run)(&ordered).map_err(|why| Error::new("domain", why))?;
    if !result.is_finite() {
        return Err(Error::new("domain", "the result is too large or undefined"));
    }
    Ok(Answer { result })
}

fn schema(operation: &Operation) -> Value {
    let number = |name: &&str| ((*name).to_owned(), json!({"type": "number"}));
    let properties: Map<String, Value> = operation.parameters.iter().map(number).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": operation.parameters,
        "additionalProperties": false,
    })
}

/// Writes whole numbers without a fraction, so that a tool that takes an integer takes a result from here.
fn number<S: t2m_plugin_sdk::serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use t2m_plugin_sdk::testing::Harness;

    use super::Math;

    fn run(name: &str, arguments: Value) -> Result<String, String> {
        match Harness::<Math>::new().call_with(name, &arguments) {
            Ok(outcome) => Ok(outcome.structured.unwrap()),
            Err(error) => Err(format!("{}: {}", error.code(), error.message())),
        }
    }

    #[test]
    fn whole_results_have_no_fraction() {
        assert_eq!(run("add", json!({"a": 28.0, "b": 1})), Ok(r#"{"result":29}"#.into()));
        assert_eq!(run("divide", json!({"a": 1, "b": 4})), Ok(r#"{"result":0.25}"#.into()));
        assert_eq!(run("power", json!({"base": 10, "exponent": 30})), Ok(r#"{"result":1e+30}"#.into()));
        assert_eq!(run("negate", json!({"a": 0})), Ok(r#"{"result":0}"#.into()));
    }

    #[test]
    fn what_json_cannot_hold_is_a_domain_error() {
        let refused = [
            ("divide", json!({"a": 1, "b": 0})),
            ("inverse", json!({"a": 0})),
            ("sqrt", json!({"a": -1})),
            ("log", json!({"a": 0})),
            ("power", json!({"base": -8, "exponent": 0.5})),
            ("power", json!({"base": 0, "exponent": -1})),
            ("power", json!({"base": 10, "exponent": 400})),
            ("multiply", json!({"a": 1e300, "b": 1e300})),
            ("factorial", json!({"n": 2.5})),
            ("factorial", json!({"n": -1})),
            ("factorial", json!({"n": 171})),
            ("choose", json!({"n": 1e15, "k": 5e14})),
            ("choose", json!({"n": 2, "k": 3})),
            ("gcd", json!({"a": 0.5, "b": 1})),
            ("reminder", json!({"a": 1, "b": 0})),
            ("triangle_area_three_edges", json!({"a": 1, "b": 1, "c": 3})),
            ("negate_prob", json!({"probability": 1.5})),
            ("original_price_before_loss", json!({"loss_percent": 100, "selling_price": 5})),
        ];
        for (name, arguments) in refused {
            let error = run(name, arguments.clone()).unwrap_err();
            assert!(error.starts_with("domain: "), "{name} {arguments}: {error}");
        }
    }

    #[test]
    fn arguments_are_checked_by_name() {
        assert_eq!(run("add", json!({"a": 1})), Err("invalid-arguments: missing field `b`".into()));
        assert_eq!(
            run("add", json!({"a": 1, "b": 2, "c": 3})),
            Err("invalid-arguments: unknown argument `c`".into())
        );
        assert_eq!(
            run("add", json!({"a": "1", "b": 2})),
            Err("invalid-arguments: `a`: invalid type: string \"1\", expected f64".into())
        );
    }

    #[test]
    fn the_list_has_no_problems_and_the_readme_all_tools() {
        let harness = Harness::<Math>::new();
        assert_eq!(harness.problems(), Vec::<String>::new());
        let readme = include_str!("../README.md");
        for tool in harness.tools() {
            let parameters: Vec<&str> = tool.input_schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect();
            let row = format!("| `{}` | `{}` | {} |", tool.name, parameters.join(", "), tool.description);
            assert!(readme.contains(&row), "README.md needs the row\n{row}");
        }
    }
}
