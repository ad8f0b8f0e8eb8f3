//! What a recording holds and what it doesn't.
//!
//! Owns the counts and their words. Refuses the content of messages: only methods are looked at.
//!
//! **Invariant:** every line that isn't in the file as it was said is counted.

use std::collections::BTreeMap;

use serde_json::Value;

/// Requests that no workflow repeats, although arguments of later calls may come from their answers.
const NOT_REPEATED: [&str; 5] =
    ["resources/read", "prompts/get", "sampling/createMessage", "elicitation/create", "roots/list"];

const CALL: &str = "tools/call";

/// What was counted while a file was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Lines that found no room in the queue or on the disk.
    pub(super) missing: u64,
    /// Lines that were too long.
    pub(super) too_long: u64,
    /// Lines that are no JSON that can be read.
    unreadable: u64,
    /// Those of them that look like calls.
    unreadable_calls: u64,
    /// Calls in the file.
    calls: u64,
    others: BTreeMap<&'static str, u64>,
}

impl Summary {
    pub(super) fn count(&mut self, message: &Value) {
        if let Value::Array(batch) = message {
            batch.iter().for_each(|message| self.count(message));
            return;
        }
        let Some(method) = message.get("method").and_then(Value::as_str) else { return };
        if method == CALL {
            self.calls += 1;
        } else if let Some(known) = NOT_REPEATED.iter().find(|known| **known == method) {
            *self.others.entry(known).or_default() += 1;
        }
    }

    pub(super) fn count_unreadable(&mut self, line: &[u8]) {
        self.unreadable += 1;
        let text = String::from_utf8_lossy(line);
        self.unreadable_calls +=
            u64::from(text.contains("\"tools/call\"") || text.contains("\"tools\\/call\""));
    }

    /// What a person has to know about the file; nothing if it holds all that was said.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.missing > 0 {
            said.push(format!(
                "{} lines are missing in the recording: the disk didn't keep up",
                self.missing
            ));
        }
        if self.too_long > 0 {
            said.push(format!(
                "{} lines were too long to be recorded; calls may be among them",
                self.too_long
            ));
        }
        if self.unreadable > 0 {
            let calls = match self.unreadable_calls {
                0 => String::new(),
                calls => format!(", and {calls} of them look like calls"),
            };
            said.push(format!("{} lines are no JSON that can be read{calls}", self.unreadable));
        }
        if !self.others.is_empty() {
            let others: Vec<String> =
                self.others.iter().map(|(method, count)| format!("{count} `{method}`")).collect();
            said.push(format!(
                "the session also made requests that no workflow repeats: {}; what came of them stays as recorded",
                others.join(", ")
            ));
        }
        said
    }

    /// How many calls the file holds.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_workflow_repeats_and_what_is_not_in_the_file_is_said() {
        let mut summary = Summary::default();
        summary.count(&json!([{"method": "tools/call", "id": 1}, {"method": "resources/read", "id": 2}]));
        summary.count(&json!({"method": "ping", "id": 3}));
        assert_eq!(summary.calls(), 1);
        assert_eq!(summary.warnings().len(), 1);
        assert!(summary.warnings()[0].contains("1 `resources/read`"));
        summary.count_unreadable(br#"{"method":"tools/call","params":{"a":NaN}}"#);
        summary.count_unreadable(b"hello");
        summary.missing = 2;
        summary.too_long = 1;
        let said = summary.warnings();
        assert!(said[0].contains("2 lines are missing") && said[1].contains("too long"), "{said:?}");
        assert!(said[2].starts_with("2 lines are no JSON") && said[2].contains("1 of them"), "{said:?}");
    }
}
