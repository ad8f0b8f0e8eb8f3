//! From what a component's function returns to JSON.
//!
//! Owns the conversion of results, and how long their JSON may be. Refuses a value that isn't of the shape, which
//! the engine never gives.
//!
//! **Invariant:** each value of a shape has one JSON, from which [`super::read`] makes the same value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::shape::{MAX_SAFE, Shape};

/// Longest text of a number: a float with all its digits.
const NUMBER: usize = 24;

/// Why there is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// It would be longer than allowed.
    TooLong,
    /// The value isn't of the shape.
    Foreign,
}

/// Bytes of JSON text that may still be made.
pub(crate) struct Room(usize);

impl Room {
    pub(crate) fn new(bytes: usize) -> Room {
        Room(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unwritten> {
        self.0 = self.0.checked_sub(bytes).ok_or(Unwritten::TooLong)?;
        Ok(())
    }

    /// Takes a text with its quotes and escapes.
    fn text(&mut self, text: &str) -> Result<(), Unwritten> {
        let escapes = text.bytes().map(|byte| match byte {
            b'"' | b'\\' => 1,
            0..=0x1f => 5,
            _ => 0,
        });
        let escapes: usize = escapes.sum();
        self.take(text.len().saturating_add(escapes).saturating_add(3))
    }
}

/// The JSON of a value.
pub(crate) fn json(shape: &Shape, val: Val, room: &mut Room) -> Result<Value, Unwritten> {
    Ok(match (shape, val) {
        (Shape::Bool, Val::Bool(truth)) => {
            room.take(6)?;
            Value::Bool(truth)
        }
        (Shape::Int(_), val) => integer(&val, room)?,
        (Shape::F32, Val::Float32(number)) => float(number.into(), room)?,
        (Shape::F64, Val::Float64(number)) => float(number, room)?,
        (Shape::Char, Val::Char(only)) => text(only.to_string(), room)?,
        (Shape::String, Val::String(words)) => text(words, room)?,
        (Shape::Bytes, Val::List(items)) => {
            room.take((items.len() / 3).saturating_add(2).saturating_mul(4))?;
            let byte = |item: Val| match item {
                Val::U8(byte) => Ok(byte),
                _ => Err(Unwritten::Foreign),
            };
            let bytes = items.into_iter().map(byte).collect::<Result<Vec<u8>, _>>()?;
            Value::String(STANDARD.encode(bytes))
        }
        (Shape::List(of), Val::List(items)) => {
            room.take(3)?;
            items.into_iter().map(|item| json(of, item, room)).collect::<Result<_, _>>().map(Value::Array)?
        }
        (Shape::Tuple(shapes), Val::Tuple(items)) if shapes.len() == items.len() => {
            room.take(3)?;
            let one = |(shape, item): (&Shape, Val)| json(shape, item, room);
            shapes.iter().zip(items).map(one).collect::<Result<_, _>>().map(Value::Array)?
        }
        (Shape::Record(fields), Val::Record(values)) if fields.list.len() == values.len() => {
            room.take(3)?;
            let mut map = Map::new();
            for (field, (name, val)) in fields.list.iter().zip(values) {
                if field.name != name {
                    return Err(Unwritten::Foreign);
                }
                room.text(&name)?;
                map.insert(name, json(&field.of, val, room)?);
            }
            Value::Object(map)
        }
        (Shape::Enum(names), Val::Enum(name)) if names.get(&name).is_some() => text(name, room)?,
        (Shape::Flags(names), Val::Flags(set)) if set.iter().all(|name| names.get(name).is_some()) => {
            room.take(3)?;
            set.into_iter().map(|name| text(name, room)).collect::<Result<_, _>>().map(Value::Array)?
        }
        (Shape::Variant(cases), Val::Variant(name, payload)) => {
            match (cases.get(&name).map(|case| &case.of), payload) {
                (Some(None), None) => text(name, room)?,
                (Some(Some(shape)), Some(payload)) => only(name, json(shape, *payload, room)?, room)?,
                _ => return Err(Unwritten::Foreign),
            }
        }
        (Shape::Option(_), Val::Option(None)) => null(room)?,
        (Shape::Option(inner), Val::Option(Some(val))) => {
            let some = json(inner, *val, room)?;
            if inner.is_nullable() { only("some".to_owned(), some, room)? } else { some }
        }
        (Shape::Result { ok, err }, Val::Result(result)) => {
            let (name, shape, val) = match result {
                Ok(val) => ("ok", ok, val),
                Err(val) => ("err", err, val),
            };
            let inner = optional(shape.as_deref(), val.map(|val| *val), room)?;
            only(name.to_owned(), inner, room)?
        }
        _ => return Err(Unwritten::Foreign),
    })
}

/// The JSON of what may have no type and then no value.
pub(crate) fn optional(shape: Option<&Shape>, val: Option<Val>, room: &mut Room) -> Result<Value, Unwritten> {
    match (shape, val) {
        (Some(shape), Some(val)) => json(shape, val, room),
        (None, None) => null(room),
        _ => Err(Unwritten::Foreign),
    }
}

fn null(room: &mut Room) -> Result<Value, Unwritten> {
    room.take(5)?;
    Ok(Value::Null)
}

fn text(text: String, room: &mut Room) -> Result<Value, Unwritten> {
    room.text(&text)?;
    Ok(Value::String(text))
}

fn only(name: String, value: Value, room: &mut Room) -> Result<Value, Unwritten> {
    room.take(3)?;
    room.text(&name)?;
    let mut map = Map::new();
    map.insert(name, value);
    Ok(Value::Object(map))
}

fn float(number: f64, room: &mut Room) -> Result<Value, Unwritten> {
    room.take(NUMBER)?;
    Ok(match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => Value::String("NaN".to_owned()),
        None if number > 0.0 => Value::String("Infinity".to_owned()),
        None => Value::String("-Infinity".to_owned()),
    })
}

fn integer(val: &Val, room: &mut Room) -> Result<Value, Unwritten> {
    room.take(NUMBER)?;
    let number: i128 = match val {
        Val::U8(number) => (*number).into(),
        Val::S8(number) => (*number).into(),
        Val::U16(number) => (*number).into(),
        Val::S16(number) => (*number).into(),
        Val::U32(number) => (*number).into(),
        Val::S32(number) => (*number).into(),
        Val::U64(number) => (*number).into(),
        Val::S64(number) => (*number).into(),
        _ => return Err(Unwritten::Foreign),
    };
    Ok(match i64::try_from(number) {
        Ok(small) if (-MAX_SAFE..=MAX_SAFE).contains(&number) => Value::Number(small.into()),
        _ => Value::String(number.to_string()),
    })
}
