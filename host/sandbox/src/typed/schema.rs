//! The JSON Schema of a shape.
//!
//! Owns the rules that docs/components.md lists. Refuses to say less than it could: a value that a schema allows
//! is one that [`super::read`] takes, and the other way round.
//!
//! **Invariant:** a schema stands by itself, without `$ref`.

use serde_json::{Map, Value, json};

use super::shape::{Int, Members, Named, Shape};

/// Floats that JSON has no number for.
pub(crate) const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Base64 with its padding, and no bits beyond the last byte.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// The schema of a shape.
pub(crate) fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int(int) => integer(*int),
        Shape::F32 => json!({"anyOf": [
            {"type": "number", "minimum": f64::from(f32::MIN), "maximum": f64::from(f32::MAX)},
            {"enum": NO_NUMBERS},
        ]}),
        Shape::F64 => json!({"anyOf": [{"type": "number"}, {"enum": NO_NUMBERS}]}),
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64", "pattern": BASE64}),
        Shape::List(item) => json!({"type": "array", "items": of(item)}),
        Shape::Record(members) => about(record(&members.list), members.doc.as_deref()),
        Shape::Tuple(items) => {
            let count = items.len();
            let mut schema = json!({"type": "array", "items": false, "minItems": count, "maxItems": count});
            if let Some(map) = schema.as_object_mut().filter(|_| count > 0) {
                map.insert("prefixItems".into(), items.iter().map(of).collect());
            }
            schema
        }
        Shape::Variant(members) => {
            let cases = members.list.iter().map(|case| {
                let schema = match &case.of {
                    None => json!({"const": case.name}),
                    Some(shape) => only(&case.name, of(shape)),
                };
                about(schema, case.doc.as_deref())
            });
            about(json!({"anyOf": cases.collect::<Value>()}), members.doc.as_deref())
        }
        Shape::Enum(members) => about(words(members), members.doc.as_deref()),
        Shape::Flags(members) => {
            let schema = json!({"type": "array", "items": words(members), "uniqueItems": true});
            about(schema, members.doc.as_deref())
        }
        Shape::Option(inner) if inner.is_nullable() => or_null(only("some", of(inner))),
        Shape::Option(inner) => or_null(of(inner)),
        Shape::Result { ok, err } => json!({"anyOf": [only("ok", side(ok)), only("err", side(err))]}),
    }
}

/// The schema of an object with these members. Those that may be `none` may be left out.
pub(crate) fn record(members: &[Named<Shape>]) -> Value {
    let property =
        |member: &Named<Shape>| (member.name.clone(), about(of(&member.of), member.doc.as_deref()));
    let properties: Map<String, Value> = members.iter().map(property).collect();
    let required =
        members.iter().filter(|member| !member.of.is_nullable()).map(|member| member.name.as_str());
    let required: Value = required.collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let Some(map) = schema.as_object_mut().filter(|_| required != json!([])) {
        map.insert("required".into(), required);
    }
    schema
}

/// The schema of an object with exactly this member.
pub(crate) fn only(name: &str, schema: Value) -> Value {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), schema);
    json!({"type": "object", "properties": properties, "required": [name], "additionalProperties": false})
}

/// A schema that allows null as well. What else it says is about values of its own type.
fn or_null(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.push(json!({"type": "null"}));
    } else if let Some(kind) = map.get("type").cloned() {
        map.insert("type".into(), json!([kind, "null"]));
        if let Some(Value::Array(words)) = map.get_mut("enum") {
            words.push(Value::Null);
        }
    }
    schema
}

fn side(shape: &Option<Box<Shape>>) -> Value {
    shape.as_ref().map_or_else(|| json!({"type": "null"}), |shape| of(shape))
}

fn words(members: &Members<()>) -> Value {
    if members.list.iter().all(|member| member.doc.is_none()) {
        let names: Value = members.list.iter().map(|member| member.name.as_str()).collect();
        return json!({"type": "string", "enum": names});
    }
    let word = |member: &Named<()>| about(json!({"const": member.name}), member.doc.as_deref());
    json!({"anyOf": members.list.iter().map(word).collect::<Value>()})
}

/// A schema with what an author wrote about it, before what is written about its type.
fn about(mut schema: Value, doc: Option<&str>) -> Value {
    if let (Some(map), Some(doc)) = (schema.as_object_mut(), doc) {
        let more = map.get("description").and_then(Value::as_str);
        let text = more.map_or_else(|| doc.to_owned(), |more| format!("{doc}\n\n{more}"));
        map.insert("description".into(), Value::String(text));
    }
    schema
}

fn integer(int: Int) -> Value {
    let (low, high) = int.number_range();
    // Every one of these fits 64 bits.
    let number = |bound: i128| i64::try_from(bound).unwrap_or_default();
    let small = json!({"type": "integer", "minimum": number(low), "maximum": number(high)});
    if !int.is_wide() {
        return small;
    }
    let text = json!({
        "type": "string",
        "pattern": decimals(int),
        "description": "decimal digits, for numbers beyond 2^53 - 1, which readers of JSON round",
    });
    json!({"anyOf": [small, text]})
}

/// A pattern of exactly the decimal numbers in a wide integer's range, each written in the usual way.
fn decimals(int: Int) -> String {
    let (low, high) = int.range();
    let positive = from_one_to(&high.to_string());
    if low < 0 {
        // There is one negative number more.
        format!("^(?:0|-?(?:{positive})|{low})$")
    } else {
        format!("^(?:0|{positive})$")
    }
}

/// A pattern of the numbers from 1 to one of many digits: all with fewer digits, and those with as many that
/// are smaller at some digit and the same before it.
fn from_one_to(largest: &str) -> String {
    let mut same = String::new();
    for (behind, digit) in largest.chars().rev().enumerate() {
        let first = if behind + 1 == largest.len() { '1' } else { '0' };
        let last = if behind == 0 { Some(digit) } else { (first..digit).next_back() };
        same = match last {
            Some(last) if behind == 0 => format!("[{first}-{last}]"),
            Some(last) => format!("(?:[{first}-{last}][0-9]{{{behind}}}|{digit}{same})"),
            None => format!("{digit}{same}"),
        };
    }
    format!("[1-9][0-9]{{0,{}}}|{same}", largest.len().saturating_sub(2))
}
