//! What Codex writes as the output of a call.
//!
//! Owns the texts that wrap a command's output, older and newer. Refuses anything that is only like one:
//! it stays a text.
//!
//! **Invariant:** the output text is kept exactly, and what the wrapper says is a field beside it.

use serde_json::{Map, Value, json};

use super::super::calls::{Answer, Calls};
use super::super::read::parse_inner;
use super::super::{content, texts};
use crate::problem::Place;
use crate::trace::model::Status;

/// Beginnings of what Codex answers in a tool's place.
const REFUSALS: [&str; 7] = [
    "failed to parse function arguments",
    "unsupported call",
    "unsupported custom tool call",
    "apply_patch verification failed",
    "execution error",
    "tool call error",
    "aborted",
];

/// A command's output, taken out of its wrapper.
#[derive(Debug, Default, PartialEq)]
struct Command {
    text: String,
    exit_code: Option<i64>,
    /// The id of a command that still runs, which later calls write to.
    session: Option<i64>,
    duration_ms: Option<f64>,
    /// The wrapper as it was.
    wrapper: Value,
}

/// The answer that an output is.
pub(super) fn read(place: &Place, output: Value, calls: &mut Calls) -> Answer {
    let mut output = output;
    // An older form has the flag that the usual one lacks.
    let success = output.get("success").and_then(Value::as_bool);
    if let Some(content) = output.get_mut("content").filter(|_| success.is_some()).map(Value::take) {
        output = content;
    }
    let command = match output.as_str() {
        Some(text) => wrapped(text).or_else(|| object(text)),
        None => None,
    };
    if let Some(command) = command {
        return of_command(place, command);
    }
    let (result, blobs) = content::value_of_content(output);
    calls.count_blobs(blobs);
    let failed = success.map_or_else(|| is_failure(content::text_of(&result)), |success| !success);
    let mut answer = Answer::new(place, result, if failed { Status::failed() } else { Status::success() });
    answer.inferred = success.is_none() && !failed;
    answer
}

fn of_command(place: &Place, command: Command) -> Answer {
    let mut result = Map::new();
    result.insert("text".into(), Value::String(command.text));
    result.extend(command.exit_code.map(|code| ("exit_code".into(), json!(code))));
    result.extend(command.session.map(|session| ("session_id".into(), json!(session))));
    let failed = command.exit_code.is_some_and(|code| code != 0);
    let status = if failed { Status::failed() } else { Status::success() };
    let mut answer = Answer::new(place, Value::Object(result), status).with("wrapper", command.wrapper);
    answer.duration_ms = command.duration_ms;
    answer.inferred = command.exit_code.is_none() && command.session.is_none();
    answer
}

fn is_failure(text: &str) -> bool {
    let tool_failed = text.split_once(" failed").is_some_and(|(tool, rest)| {
        !tool.is_empty()
            && tool.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && (rest.starts_with(':') || rest.starts_with(" for "))
    });
    tool_failed || REFUSALS.iter().any(|refusal| text.starts_with(refusal)) || texts::is_failure(text)
}

/// Lines about the command, then `Output:`, then its output.
fn wrapped(text: &str) -> Option<Command> {
    let mut command = Command::default();
    let (mut rest, mut lines) = (text, 0);
    loop {
        let (line, tail) = rest.split_once('\n').unwrap_or((rest, ""));
        let line = line.trim_end_matches('\r');
        if line == "Output:" && lines > 0 {
            command.text = tail.to_owned();
            let wrapper = text.len() - rest.len();
            command.wrapper = json!(text.get(..wrapper)?.trim_end());
            return Some(command);
        }
        if let Some(code) =
            line.strip_prefix("Process exited with code ").or_else(|| line.strip_prefix("Exit code: "))
        {
            command.exit_code = Some(code.trim().parse().ok()?);
        } else if let Some(session) = line.strip_prefix("Process running with session ID ") {
            command.session = Some(session.trim().parse().ok()?);
        } else if let Some(time) = line.strip_prefix("Wall time: ") {
            let seconds: f64 = time.trim_end_matches("seconds").trim().parse().ok()?;
            command.duration_ms = milliseconds(seconds);
        } else if !["Chunk ID: ", "Original token count: ", "Total output lines: "]
            .iter()
            .any(|prefix| line.starts_with(prefix))
        {
            return None;
        }
        lines += 1;
        rest = tail;
    }
}

/// `{"output": "...", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}`.
fn object(text: &str) -> Option<Command> {
    if !text.starts_with("{\"output\":") && !text.starts_with("{\"metadata\":") {
        return None;
    }
    let Value::Object(mut map) = parse_inner(text)? else {
        return None;
    };
    let (Some(Value::String(text)), Some(metadata @ Value::Object(_)), true) =
        (map.remove("output"), map.remove("metadata"), map.is_empty())
    else {
        return None;
    };
    let seconds = metadata.get("duration_seconds").and_then(Value::as_f64);
    Some(Command {
        text,
        exit_code: metadata.get("exit_code").and_then(Value::as_i64),
        session: None,
        duration_ms: seconds.and_then(milliseconds),
        wrapper: metadata,
    })
}

fn milliseconds(seconds: f64) -> Option<f64> {
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1e6).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::super::Format;
    use super::*;

    fn answer(output: Value) -> (Value, String, Option<f64>, bool) {
        let mut calls = Calls::new(Format::Codex);
        let answer = read(&Place::Line(1), output, &mut calls);
        (answer.result, answer.status.as_str().to_owned(), answer.duration_ms, answer.inferred)
    }

    /// T02, T04: exit codes, times and session ids are taken out of the text that wraps an output.
    #[test]
    fn wrapped_outputs_say_how_the_command_ended() {
        let ended = "Chunk ID: a1\nWall time: 0.1800 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:\n{\"a\": 1.50}\n\nOutput:\n";
        let running = "Wall time: 1.5 seconds\nProcess running with session ID 48230\nOutput:\n";
        let old = r#"{"output":"done\n","metadata":{"exit_code":0,"duration_seconds":2.2}}"#;
        for (output, expected) in [
            (
                json!(ended),
                (json!({"text": "{\"a\": 1.50}\n\nOutput:\n", "exit_code": 2}), "failed", Some(180.0), false),
            ),
            (json!(running), (json!({"text": "", "session_id": 48230}), "success", Some(1500.0), false)),
            (json!(old), (json!({"text": "done\n", "exit_code": 0}), "success", Some(2200.0), false)),
            (
                json!("Exit code: 1\nOutput:\nx"),
                (json!({"text": "x", "exit_code": 1}), "failed", None, false),
            ),
            (json!({"content": "x", "success": false}), (json!({"text": "x"}), "failed", None, false)),
            (
                json!({"content": "Error: x", "success": true}),
                (json!({"text": "Error: x"}), "success", None, false),
            ),
        ] {
            let expected = (expected.0, expected.1.to_owned(), expected.2, expected.3);
            assert_eq!(answer(output.clone()), expected, "{output}");
        }
    }

    #[test]
    fn what_only_resembles_a_wrapper_stays_a_text() {
        for text in [
            "Plan updated",
            "Output:\nx",
            "Exit code: 0\nname: x\nOutput:\n",
            "Exit code: many\nOutput:\n",
            r#"{"output":"x","metadata":{},"more":1}"#,
            r#"{"output":1,"metadata":{}}"#,
            "deploy failed",
        ] {
            assert_eq!(
                answer(json!(text)),
                (json!({"text": text}), "success".to_owned(), None, true),
                "{text}"
            );
        }
        for text in
            ["write_stdin failed: stdin is closed", "unsupported call: x", "aborted by user after 2.0s"]
        {
            assert_eq!(answer(json!(text)).1, "failed", "{text}");
        }
    }
}
