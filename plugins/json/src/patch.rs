//! Changes of JSON: JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396).
//!
//! Owns making a patch and applying one. Refuses half a patch: if one operation can't be done, none is.
//!
//! INVARIANT: the difference of two values, applied to the first, gives the second.

use schemars::JsonSchema;
use t2m_plugin_sdk::serde_json::Value;
use t2m_plugin_sdk::{Deserialize, Error, Serialize};

use crate::pointer::{child_mut, escape, find, index, steps};

/// One operation of a JSON Patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Puts a value in a place; in an array, before what is there.
    Add { path: String, value: Value },
    /// Takes away what is in a place.
    Remove { path: String },
    /// Puts a value in the place of another.
    Replace { path: String, value: Value },
    /// Takes a value away and puts it elsewhere.
    Move { from: String, path: String },
    /// Puts a value elsewhere as well.
    Copy { from: String, path: String },
    /// Goes on only if a value is there.
    Test { path: String, value: Value },
}

/// Applies a patch.
pub(crate) fn apply(mut value: Value, patch: Vec<Operation>) -> Result<Value, Error> {
    for (at, operation) in patch.into_iter().enumerate() {
        step(&mut value, operation)
            .map_err(|error| Error::new(error.code(), format!("operation {at}: {}", error.message())))?;
    }
    Ok(value)
}

fn step(value: &mut Value, operation: Operation) -> Result<(), Error> {
    match operation {
        Operation::Add { path, value: new } => add(value, &path, new),
        Operation::Remove { path } => take(value, &path).map(|_| ()),
        Operation::Replace { path, value: new } => {
            let steps = steps(&path)?;
            *steps
                .iter()
                .try_fold(value, |value, step| child_mut(value, step))
                .ok_or_else(|| absent(&path))? = new;
            Ok(())
        }
        Operation::Move { from, path } => {
            if path.strip_prefix(&from).is_some_and(|rest| rest.starts_with('/')) {
                return Err(Error::new("patch-failed", format!("`{from}` can't be moved into itself")));
            }
            let moved = take(value, &from)?;
            add(value, &path, moved)
        }
        Operation::Copy { from, path } => {
            let copied = find(value, &steps(&from)?).cloned().ok_or_else(|| absent(&from))?;
            add(value, &path, copied)
        }
        Operation::Test { path, value: expected } => match find(value, &steps(&path)?) {
            Some(found) if *found == expected => Ok(()),
            Some(_) => Err(Error::new("patch-failed", format!("`{path}` has another value"))),
            None => Err(absent(&path)),
        },
    }
}

fn absent(path: &str) -> Error {
    Error::new("not-found", format!("nothing is at `{path}`"))
}

/// The value that holds a place, and the last step to it.
fn holder<'a>(value: &'a mut Value, path: &str) -> Result<(&'a mut Value, Option<String>), Error> {
    let mut steps = steps(path)?;
    let last = steps.pop();
    let holder = steps.iter().try_fold(value, |value, step| child_mut(value, step));
    Ok((holder.ok_or_else(|| absent(path))?, last))
}

fn add(value: &mut Value, path: &str, new: Value) -> Result<(), Error> {
    match holder(value, path)? {
        (whole, None) => *whole = new,
        (Value::Object(map), Some(step)) => drop(map.insert(step, new)),
        (Value::Array(list), Some(step)) if step == "-" => list.push(new),
        (Value::Array(list), Some(step)) => {
            let index = index(&step, list.len() + 1).ok_or_else(|| absent(path))?;
            list.insert(index, new);
        }
        _ => return Err(absent(path)),
    }
    Ok(())
}

fn take(value: &mut Value, path: &str) -> Result<Value, Error> {
    let taken = match holder(value, path)? {
        (whole, None) => Some(whole.take()),
        (Value::Object(map), Some(step)) => map.remove(&step),
        (Value::Array(list), Some(step)) => index(&step, list.len()).map(|index| list.remove(index)),
        _ => None,
    };
    taken.ok_or_else(|| absent(path))
}

/// Applies a merge patch.
pub(crate) fn merge(target: Value, patch: Value) -> Value {
    let Value::Object(changes) = patch else { return patch };
    let mut merged = match target {
        Value::Object(map) => map,
        _ => Default::default(),
    };
    for (key, change) in changes {
        if change.is_null() {
            merged.remove(&key);
        } else {
            let old = merged.remove(&key).unwrap_or_default();
            merged.insert(key, merge(old, change));
        }
    }
    Value::Object(merged)
}

/// The operations that make one value another. Arrays are compared place by place between what they begin and end with
/// alike.
pub(crate) fn diff(from: &Value, to: &Value) -> Vec<Operation> {
    let mut patch = Vec::new();
    compare(from, to, "", &mut patch);
    patch
}

fn compare(from: &Value, to: &Value, path: &str, patch: &mut Vec<Operation>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(old), Value::Object(new)) => {
            let place = |key: &str| format!("{path}/{}", escape(key));
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.push(Operation::Remove { path: place(key) });
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => compare(before, value, &place(key), patch),
                    None => patch.push(Operation::Add { path: place(key), value: value.clone() }),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => lists(old, new, path, patch),
        (_, to) => patch.push(Operation::Replace { path: path.to_owned(), value: to.clone() }),
    }
}

fn lists(old: &[Value], new: &[Value], path: &str, patch: &mut Vec<Operation>) {
    let begin = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let left = old.len().min(new.len()) - begin;
    let end = old.iter().rev().zip(new.iter().rev()).take(left).take_while(|(old, new)| old == new).count();
    let (gone, come) = (old.len() - begin - end, new.len() - begin - end);
    let changed = old.iter().zip(new).enumerate().skip(begin).take(gone.min(come));
    for (at, (old, new)) in changed {
        compare(old, new, &format!("{path}/{at}"), patch);
    }
    let at = begin + gone.min(come);
    for _ in come..gone {
        patch.push(Operation::Remove { path: format!("{path}/{at}") });
    }
    for (offset, value) in new.iter().skip(at).take(come.saturating_sub(gone)).enumerate() {
        patch.push(Operation::Add { path: format!("{path}/{}", at + offset), value: value.clone() });
    }
}
