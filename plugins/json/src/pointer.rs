//! JSON Pointers (RFC 6901).
//!
//! Owns reading them and the steps of arrays. Refuses the index `01`, which the RFC doesn't know, and `-` where something
//! has to be there.
//!
//! INVARIANT: a pointer that was read leads to at most one place.

use t2m_plugin_sdk::Error;
use t2m_plugin_sdk::serde_json::Value;

/// The steps of a pointer.
pub(crate) fn steps(pointer: &str) -> Result<Vec<String>, Error> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pointer.strip_prefix('/') else {
        let message = format!("`{pointer}` is no JSON Pointer; one is empty or begins with `/`");
        return Err(Error::invalid_arguments(message));
    };
    Ok(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// A step as it stands in a pointer.
pub(crate) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// An index of an array with so many places; one behind the last is a place for `add` alone.
pub(crate) fn index(step: &str, places: usize) -> Option<usize> {
    let is_plain = step == "0" || !step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit());
    step.parse::<usize>().ok().filter(|index| is_plain && *index < places)
}

/// What a step leads to.
pub(crate) fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(step),
        Value::Array(list) => list.get(index(step, list.len())?),
        _ => None,
    }
}

/// What a step leads to, to be changed.
pub(crate) fn child_mut<'a>(value: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(list) => {
            let index = index(step, list.len())?;
            list.get_mut(index)
        }
        _ => None,
    }
}

/// What a pointer leads to.
pub(crate) fn find<'a>(value: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| child(value, step))
}
