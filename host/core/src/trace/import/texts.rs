//! What a text result says of its call.
//!
//! Owns the few texts by which agents tell a model that a tool failed, for formats that have no flag for
//! it. Refuses to judge by anything inside a text: a page about errors isn't an error.
//!
//! **Invariant:** a text that says nothing recognised counts as a success.

use serde_json::Value;

use crate::json::Limits;
use crate::trace::model::Status;

/// Longest text that is looked at as JSON: failures are short.
const MAX_FAILURE: usize = 64 << 10;

/// The status of a call whose format records none.
pub(super) fn status_of(text: &str) -> Status {
    if is_failure(text) { Status::failed() } else { Status::success() }
}

/// Whether a text is one of the known forms of a failure.
pub(super) fn is_failure(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("Error:")
        || text.starts_with("error:")
        || text.starts_with("<tool_use_error>")
        || exit_code(text).is_some_and(|code| code != 0)
        || is_error_object(text)
}

/// The number of a text that begins with `Exit code N`.
fn exit_code(text: &str) -> Option<i64> {
    let rest = text.strip_prefix("Exit code ")?;
    let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// `{"error": ...}` and nothing else in it.
fn is_error_object(text: &str) -> bool {
    if !text.starts_with('{') || text.len() > MAX_FAILURE {
        return false;
    }
    match crate::json::parse(text.as_bytes(), Limits::default()) {
        Ok(Value::Object(map)) => map.len() == 1 && map.get("error").is_some_and(|error| !error.is_null()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T04: the texts that agents write for a failure, and texts that only resemble them.
    #[test]
    fn only_known_failures_count_as_such() {
        for text in [
            "Error: order not found",
            "\nError:",
            "error: malformed arguments",
            "<tool_use_error>File does not exist.</tool_use_error>",
            "Exit code 1",
            "Exit code -9\nkilled",
            "{\"error\": \"no such order\"}",
            "{\"error\": {\"code\": 3}}",
        ] {
            assert!(is_failure(text), "{text}");
        }
        for text in [
            "",
            "Errors: none",
            "No Error: fine",
            "Exit code 0\nok",
            "Exit code",
            "{\"error\": null}",
            "{\"error\": \"x\", \"data\": 1}",
            "{\"error\": \"x\"} trailing",
            "{\"errors\": []}",
            "[\"error\"]",
        ] {
            assert!(!is_failure(text), "{text}");
        }
    }
}
