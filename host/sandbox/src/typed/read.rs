//! From JSON to what a component's function takes.
//!
//! Owns the conversion of arguments, and how much of the host's memory they may take. Refuses whatever the schema
//! refuses, with the place of the first fault, though the dispatch has looked before.
//!
//! **Invariant:** nothing is rounded but a number that stands for a float.

use std::mem::size_of;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};
use t2m_core::document::shown;
use t2m_core::json::kind;
use t2m_core::problem::child;
use wasmtime::component::Val;

use super::shape::{Int, Named, Shape};

/// Why JSON isn't the value that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Keys and numbers on the way to the place, the last one first.
    way: Vec<String>,
    message: String,
}

impl Fault {
    fn new(message: impl Into<String>) -> Fault {
        Fault { way: Vec::new(), message: message.into() }
    }

    fn below(mut self, step: impl Into<String>) -> Fault {
        self.way.push(step.into());
        self
    }

    /// Where it is, as a JSON Pointer.
    pub(crate) fn pointer(&self) -> String {
        self.way.iter().rev().fold(String::new(), |parent, step| child(&parent, step))
    }

    /// What is wrong; lower case, no final period.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// Bytes that values may still take here. Each counts with what the engine holds of it, so that what a function
/// takes is limited in the same way as what it returns.
pub(crate) struct Room {
    all: usize,
    left: usize,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Room {
        Room { all: bytes, left: bytes }
    }

    fn take(&mut self, values: usize, bytes: usize) -> Result<(), Fault> {
        let wanted = values.saturating_mul(size_of::<Val>()).saturating_add(bytes);
        match self.left.checked_sub(wanted) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Fault::new(format!(
                "the arguments take more than {} bytes in the sandbox, {} for each value; raise `transfer_bytes` of the limits",
                self.all,
                size_of::<Val>()
            ))),
        }
    }
}

/// The arguments of a function, in its order.
pub(crate) fn arguments(params: &[Named<Shape>], value: &Value, room: &mut Room) -> Result<Vec<Val>, Fault> {
    let values = members(params, value, room)?;
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// The value that JSON stands for.
pub(crate) fn value(shape: &Shape, json: &Value, room: &mut Room) -> Result<Val, Fault> {
    room.take(1, 0)?;
    Ok(match (shape, json) {
        (Shape::Bool, Value::Bool(truth)) => Val::Bool(*truth),
        (Shape::Int(int), Value::Number(number)) => integer(*int, whole(number), int.number_range(), json)?,
        (Shape::Int(int), Value::String(text)) if int.is_wide() => {
            // Only the usual way to write a number, so that each has one.
            let number = text.parse().ok().filter(|number: &i128| number.to_string() == *text);
            integer(*int, number, int.range(), json)?
        }
        (Shape::F32, Value::String(text)) => Val::Float32(no_number(text, json)? as f32),
        (Shape::F64, Value::String(text)) => Val::Float64(no_number(text, json)?),
        (Shape::F32, Value::Number(number)) => match number.as_f64() {
            Some(number) if number.abs() <= f64::from(f32::MAX) => Val::Float32(number as f32),
            _ => return Err(Fault::new(format!("{} is beyond the range of f32", shown(json)))),
        },
        (Shape::F64, Value::Number(number)) => match number.as_f64() {
            Some(number) => Val::Float64(number),
            None => return Err(wrong("a number", json)),
        },
        (Shape::Char, Value::String(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(only), None) => Val::Char(only),
                _ => return Err(Fault::new(format!("{} isn't one character", shown(json)))),
            }
        }
        (Shape::String, Value::String(text)) => {
            room.take(0, text.len())?;
            Val::String(text.clone())
        }
        (Shape::Bytes, Value::String(text)) => {
            // What the bytes will take, before they are there.
            room.take(text.len() / 4 * 3, 0)?;
            let bytes =
                STANDARD.decode(text).map_err(|_| Fault::new("the text isn't base64 with padding"))?;
            Val::List(bytes.into_iter().map(Val::U8).collect())
        }
        (Shape::List(of), Value::Array(items)) => Val::List(sequence(std::iter::repeat(&**of), items, room)?),
        (Shape::Tuple(shapes), Value::Array(items)) if shapes.len() == items.len() => {
            Val::Tuple(sequence(shapes.iter(), items, room)?)
        }
        (Shape::Tuple(shapes), Value::Array(items)) => {
            return Err(Fault::new(format!("{} items, expected {}", items.len(), shapes.len())));
        }
        (Shape::Record(fields), Value::Object(_)) => Val::Record(members(&fields.list, json, room)?),
        (Shape::Enum(names), Value::String(name)) if names.get(name).is_some() => {
            room.take(0, name.len())?;
            Val::Enum(name.clone())
        }
        (Shape::Flags(names), Value::Array(items)) => {
            let mut set = Vec::new();
            for (at, flag) in items.iter().enumerate() {
                let name = flag.as_str().filter(|name| names.get(name).is_some());
                let name = name.ok_or_else(|| unknown("flag", flag).below(at.to_string()))?;
                if set.iter().any(|other| other == name) {
                    return Err(Fault::new(format!("`{name}` stands twice")).below(at.to_string()));
                }
                room.take(1, name.len())?;
                set.push(name.to_owned());
            }
            Val::Flags(set)
        }
        (Shape::Variant(cases), Value::String(name)) => match cases.get(name).map(|case| &case.of) {
            Some(None) => {
                room.take(0, name.len())?;
                Val::Variant(name.clone(), None)
            }
            Some(Some(_)) => {
                return Err(Fault::new(format!("case `{name}` has a value: write {{\"{name}\": ...}}")));
            }
            None => return Err(unknown("case", json)),
        },
        (Shape::Variant(cases), Value::Object(map)) => {
            let (name, payload) = single(map)?;
            let shape = cases.get(name).and_then(|case| case.of.as_ref());
            let shape = shape.ok_or_else(|| Fault::new(format!("`{name}` is no case with a value")))?;
            room.take(0, name.len())?;
            let payload = value(shape, payload, room).map_err(|fault| fault.below(name))?;
            Val::Variant(name.clone(), Some(Box::new(payload)))
        }
        (Shape::Option(_), Value::Null) => Val::Option(None),
        (Shape::Option(inner), json) if inner.is_nullable() => {
            let some = match json {
                Value::Object(map) => single(map)?,
                _ => return Err(wrong("null or an object with `some`", json)),
            };
            let (name, json) = some;
            if name != "some" {
                return Err(Fault::new(format!("`{name}` isn't `some`")));
            }
            let inner = value(inner, json, room).map_err(|fault| fault.below("some"))?;
            Val::Option(Some(Box::new(inner)))
        }
        (Shape::Option(inner), json) => Val::Option(Some(Box::new(value(inner, json, room)?))),
        (Shape::Result { ok, err }, Value::Object(map)) => {
            let (name, json) = single(map)?;
            let side = |shape: &Option<Box<Shape>>, room: &mut Room| match (shape, json) {
                (Some(shape), _) => value(shape, json, room).map(|value| Some(Box::new(value))),
                (None, Value::Null) => Ok(None),
                (None, _) => Err(wrong("null", json)),
            };
            match name.as_str() {
                "ok" => Val::Result(Ok(side(ok, room).map_err(|fault| fault.below("ok"))?)),
                "err" => Val::Result(Err(side(err, room).map_err(|fault| fault.below("err"))?)),
                _ => return Err(Fault::new(format!("`{name}` is neither `ok` nor `err`"))),
            }
        }
        (Shape::Enum(_), Value::String(_)) => return Err(unknown("case", json)),
        (shape, json) => return Err(wrong(expected(shape), json)),
    })
}

fn sequence<'s>(
    shapes: impl Iterator<Item = &'s Shape>,
    items: &[Value],
    room: &mut Room,
) -> Result<Vec<Val>, Fault> {
    let one = |(at, (shape, json)): (usize, (&Shape, &Value))| {
        value(shape, json, room).map_err(|fault| fault.below(at.to_string()))
    };
    shapes.zip(items).enumerate().map(one).collect()
}

/// Every member in its order, those that may be `none` also if they are left out.
fn members(fields: &[Named<Shape>], json: &Value, room: &mut Room) -> Result<Vec<(String, Val)>, Fault> {
    let Value::Object(map) = json else { return Err(wrong("an object", json)) };
    let mut values = Vec::with_capacity(fields.len());
    let mut given = 0;
    for field in fields {
        room.take(0, field.name.len())?;
        let found = match map.get(&field.name) {
            Some(json) => {
                given += 1;
                value(&field.of, json, room).map_err(|fault| fault.below(&field.name))?
            }
            None if field.of.is_nullable() => Val::Option(None),
            None => return Err(Fault::new(format!("`{}` is missing", field.name))),
        };
        values.push((field.name.clone(), found));
    }
    let unknown = |key: &&String| !fields.iter().any(|field| field.name == **key);
    let stray = if given < map.len() { map.keys().find(unknown) } else { None };
    match stray {
        Some(key) => Err(Fault::new("this isn't a field here").below(key)),
        None => Ok(values),
    }
}

fn single(map: &Map<String, Value>) -> Result<(&String, &Value), Fault> {
    let mut entries = map.iter();
    match (entries.next(), entries.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Fault::new(format!("an object with {} keys, expected one", map.len()))),
    }
}

/// The whole number that a JSON number is, if it is one. `2.0` is.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    // Beyond this no integer type of WIT reaches.
    number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e19).map(|number| number as i128)
}

fn integer(int: Int, number: Option<i128>, (low, high): (i128, i128), json: &Value) -> Result<Val, Fault> {
    let number = number.filter(|number| (low..=high).contains(number));
    let found = number.and_then(|number| {
        Some(match int {
            Int::U8 => Val::U8(number.try_into().ok()?),
            Int::S8 => Val::S8(number.try_into().ok()?),
            Int::U16 => Val::U16(number.try_into().ok()?),
            Int::S16 => Val::S16(number.try_into().ok()?),
            Int::U32 => Val::U32(number.try_into().ok()?),
            Int::S32 => Val::S32(number.try_into().ok()?),
            Int::U64 => Val::U64(number.try_into().ok()?),
            Int::S64 => Val::S64(number.try_into().ok()?),
        })
    });
    found.ok_or_else(|| {
        let wide = if int.is_wide() { "; write a larger one as a string of digits" } else { "" };
        Fault::new(format!("{} is no whole number from {low} to {high}{wide}", shown(json)))
    })
}

fn no_number(text: &str, json: &Value) -> Result<f64, Fault> {
    match text {
        "NaN" => Ok(f64::NAN),
        "Infinity" => Ok(f64::INFINITY),
        "-Infinity" => Ok(f64::NEG_INFINITY),
        _ => Err(wrong("a number, `NaN`, `Infinity` or `-Infinity`", json)),
    }
}

fn unknown(what: &str, json: &Value) -> Fault {
    Fault::new(format!("{} is no {what} of this type", shown(json)))
}

fn wrong(expected: &str, json: &Value) -> Fault {
    Fault::new(format!("expected {expected}, found {}", kind(json)))
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "a boolean",
        Shape::Int(_) | Shape::F32 | Shape::F64 => "a number",
        Shape::Char | Shape::String | Shape::Enum(_) => "a string",
        Shape::Bytes => "a string of base64",
        Shape::List(_) | Shape::Tuple(_) | Shape::Flags(_) => "a list",
        Shape::Record(_) => "an object",
        Shape::Variant(_) => "a string or an object with one key",
        Shape::Option(_) => "null or a value",
        Shape::Result { .. } => "an object with `ok` or `err`",
    }
}
