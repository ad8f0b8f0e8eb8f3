//! The texts that stand where secrets stood.
//!
//! Owns their form: `[T2M-REDACTED:KIND:NUMBER]`, the kind in lower case with dashes, the number from 1
//! without leading noughts. Refuses to say anything of the secret: not its length, not a digest, which would
//! let a short one be guessed.
//!
//! **Invariant:** [`marker`] makes what [`is_marker`] knows, and no text that lacks [`START`] is one, apart
//! from the whole text `[REDACTED]` that Trace2MCP writes.

use std::ops::Range;

use serde_json::Value;

use crate::problem::{child, item};

/// How every marker begins.
pub const START: &str = "[T2M-REDACTED:";

/// What Trace2MCP writes for every secret. It tells no two secrets apart.
const ANONYMOUS: &str = "[REDACTED]";

/// The marker of the secret with this number.
pub(super) fn marker(kind: &str, number: usize) -> String {
    format!("{START}{kind}:{number}]")
}

/// Whether a text is a marker and nothing else.
pub fn is_marker(text: &str) -> bool {
    is_anonymous(text) || spans(text).next() == Some(0..text.len())
}

/// Whether a text is a marker that doesn't say which secret it stands for.
pub fn is_anonymous(text: &str) -> bool {
    text == ANONYMOUS
}

/// Whether a text is a marker or has one in it.
pub fn holds_marker(text: &str) -> bool {
    // Most texts have none, and every argument of every call is looked at.
    text.contains('[') && (is_anonymous(text) || spans(text).next().is_some())
}

/// The first place in a value, as a JSON Pointer, whose text or key holds a marker.
pub fn find_marker(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => holds_marker(text).then(String::new),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .find_map(|(index, value)| find_marker(value).map(|inside| item("", index) + &inside)),
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            let inside = if holds_marker(key) { Some(String::new()) } else { find_marker(value) };
            inside.map(|inside| child("", key) + &inside)
        }),
        _ => None,
    }
}

/// Whether a value holds a marker that doesn't say which secret it stands for.
pub fn holds_anonymous(value: &Value) -> bool {
    match value {
        Value::String(text) => is_anonymous(text),
        Value::Array(list) => list.iter().any(holds_anonymous),
        Value::Object(map) => map.values().any(holds_anonymous),
        _ => false,
    }
}

/// Where in a text markers that tell secrets apart stand.
pub(super) fn spans(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    text.match_indices(START).filter_map(|(start, _)| {
        let rest = text.get(start + START.len()..)?;
        // Only what a marker may hold is looked at: a text may have many beginnings and no end.
        let ends = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ':'));
        let inside = rest.get(..rest.find(ends)?)?;
        let closed = rest.get(inside.len()..)?.starts_with(']');
        read(inside).filter(|_| closed).map(|_| start..start + START.len() + inside.len() + 1)
    })
}

/// Whether a span meets none of these spans, which stand in their order.
pub(super) fn is_apart(marks: &[Range<usize>], span: &Range<usize>) -> bool {
    let next = marks.partition_point(|mark| mark.end <= span.start);
    marks.get(next).is_none_or(|mark| span.end <= mark.start)
}

/// A text without its markers.
pub(super) fn without(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(START) {
        return text.into();
    }
    let (mut rest, mut done) = (String::with_capacity(text.len()), 0);
    for span in spans(text) {
        rest.push_str(text.get(done..span.start).unwrap_or_default());
        done = span.end;
    }
    rest.push_str(text.get(done..).unwrap_or_default());
    rest.into()
}

/// The number of each marker in a text.
pub(super) fn numbers(text: &str) -> impl Iterator<Item = usize> + '_ {
    spans(text).filter_map(|span| read(text.get(span.start + START.len()..span.end - 1)?))
}

/// `KIND:NUMBER`
fn read(inside: &str) -> Option<usize> {
    let (kind, number) = inside.split_once(':')?;
    let kind_is_good = kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let number_is_good = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    (kind_is_good && number_is_good).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_marker_is_known_by_its_whole_form() {
        let made = marker("api-key", 12);
        assert_eq!(made, "[T2M-REDACTED:api-key:12]");
        assert!(is_marker(&made) && is_marker("[REDACTED]"));
        assert!(holds_marker(&format!("Bearer {made}")) && !is_marker(&format!("Bearer {made}")));
        assert_eq!(numbers(&format!("{made}{made} [T2M-REDACTED:x:3]")).collect::<Vec<_>>(), [12, 12, 3]);
        for other in [
            "",
            "REDACTED",
            "[REDACTED] ",
            "see [REDACTED]",
            "[T2M-REDACTED:api-key:]",
            "[T2M-REDACTED:api-key:0]",
            "[T2M-REDACTED:api-key:01]",
            "[T2M-REDACTED:API:1]",
            "[T2M-REDACTED::1]",
            "[T2M-REDACTED:a:1",
            "[T2M-REDACTED:a:-1]",
            "[t2m-redacted:a:1]",
            "[T2M-REDACTED:a:99999999999999999999999]",
        ] {
            assert!(!holds_marker(other), "{other}");
        }
    }

    #[test]
    fn the_first_marker_of_a_value_is_found_also_in_keys() {
        let mark = marker("token", 1);
        assert_eq!(
            find_marker(&json!({"a": [1, {"b/c": format!("x {mark}")}]})).as_deref(),
            Some("/a/1/b~1c")
        );
        assert_eq!(find_marker(&json!({"a": {mark.clone(): 1}})), Some(format!("/a/{mark}")));
        assert_eq!(find_marker(&json!({"a": "[REDACTED]"})).as_deref(), Some("/a"));
        assert_eq!(find_marker(&json!({"a": "the word [REDACTED] in a text"})), None);
    }
}
