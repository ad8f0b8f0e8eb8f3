//! Codex sessions.
//!
//! Owns the lines that wrap an item in `payload`, the older ones that are the item themselves, and the
//! events that say of a call what its output doesn't. Refuses to take an event for a call: each call has an
//! item of its own.
//!
//! **Invariant:** a call of a turn that was taken back is left out.

mod exec;
mod output;

use memchr::memmem;
use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, CallId, Calls, Facts};
use super::read::Reader;
use super::{content, names};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

pub(super) use exec::{Events, is_event};

const TAKEN_BACK: &str = "is of a turn that was taken back";

/// Whether a line is one of a session.
pub(super) fn is_line(value: &Value) -> bool {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let wrapped = matches!(
        text("type"),
        Some("session_meta" | "turn_context" | "response_item" | "event_msg" | "compacted")
    ) && value.get("payload").is_some_and(Value::is_object);
    let old_header = value.get("type").is_none()
        && text("id").is_some()
        && text("timestamp").is_some()
        && (value.get("instructions").is_some() || value.get("git").is_some());
    wrapped || old_header || text("record_type") == Some("state")
}

#[derive(Default)]
pub(super) struct Session {
    made: Vec<CallId>,
    /// How many calls there were when each turn began, by the events and by the messages that say so.
    turns: Vec<usize>,
    messages: Vec<usize>,
    taken_back: usize,
    metadata: Map<String, Value>,
}

impl Session {
    fn item(
        &mut self,
        place: &Place,
        mut item: Map<String, Value>,
        time: Option<Timestamp>,
        calls: &mut Calls,
    ) {
        let kind = text(&item, "type").unwrap_or_default().to_owned();
        match kind.as_str() {
            "function_call" | "tool_search_call" => {
                let tool = text(&item, "name").unwrap_or("tool_search").to_owned();
                let arguments = Arguments::of_text(item.remove("arguments"));
                let mut call = names::noted(Call::new(place, tool.as_str(), arguments));
                if let Some(namespace) = item.remove("namespace") {
                    let server = namespace.as_str().and_then(names::of_namespace).map(str::to_owned);
                    if let Some(server) = server {
                        call = call.with("server", server).with("tool", tool);
                    }
                    call = call.with("namespace", namespace);
                }
                self.call(place, &item, call.at(time), calls);
            }
            "custom_tool_call" => {
                let tool = text(&item, "name").unwrap_or_default().to_owned();
                // The input is a text in a language of the tool's own.
                let mut arguments = Map::new();
                arguments.insert("input".into(), item.remove("input").unwrap_or_default());
                let call = names::noted(Call::new(place, tool, Arguments::Object(arguments)));
                self.call(place, &item, call.at(time), calls);
            }
            "local_shell_call" => {
                let call = Call::new(place, "local_shell", Arguments::of(item.remove("action")));
                self.call(place, &item, call.at(time), calls);
            }
            "web_search_call" => {
                let call = Call::new(place, "web_search", Arguments::of(item.remove("action")));
                let done = text(&item, "status") == Some("completed");
                let id = self.call(place, &item, call.at(time.clone()), calls);
                if let Some(id) = id.filter(|_| done) {
                    // What the search found went to the model alone.
                    calls.settle(id, Answer::new(place, Value::Null, Status::success()).at(time));
                }
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let found = item.remove("output").or_else(|| item.remove("tools")).unwrap_or_default();
                match text(&item, "call_id") {
                    Some(key) => {
                        let answer = output::read(place, found, calls).at(time);
                        calls.answer(key, answer);
                    }
                    None => calls.skip(place.clone(), "an output that names no call"),
                }
            }
            "message" if text(&item, "role") == Some("user") && !is_context(&item) => {
                self.messages.push(self.made.len());
            }
            kind if kind.ends_with("_call") => {
                calls.refuse(place.clone(), format!("a call of the kind `{}`", kind.escape_debug()));
            }
            _ => {}
        }
    }

    fn call(
        &mut self,
        place: &Place,
        item: &Map<String, Value>,
        call: Call,
        calls: &mut Calls,
    ) -> Option<CallId> {
        let id = match text(item, "call_id").or_else(|| text(item, "id")) {
            Some(key) => calls.call(key, call),
            None => {
                // A search is answered at once, so it needs no id.
                if text(item, "type") != Some("web_search_call") {
                    calls.skip(place.clone(), "a call without an id: its answer can't be found");
                }
                calls.add(call)
            }
        };
        self.made.extend(id);
        id
    }

    fn event(&mut self, event: &Map<String, Value>, calls: &mut Calls) {
        match text(event, "type") {
            Some("user_message") => self.turns.push(self.made.len()),
            Some("thread_rolled_back") => {
                let turns = event.get("num_turns").and_then(Value::as_u64).unwrap_or(0);
                self.take_back(usize::try_from(turns).unwrap_or(usize::MAX), calls);
            }
            Some("exec_command_end" | "mcp_tool_call_end" | "patch_apply_end") => {
                if let Some(key) = text(event, "call_id") {
                    calls.facts(key, facts(event));
                }
            }
            _ => {}
        }
    }

    fn take_back(&mut self, turns: usize, calls: &mut Calls) {
        let begun = if self.turns.is_empty() { &mut self.messages } else { &mut self.turns };
        let keep = begun.len().saturating_sub(turns);
        let Some(first) = begun.get(keep).copied() else {
            return;
        };
        begun.truncate(keep);
        for id in self.made.drain(first.min(self.made.len())..) {
            self.taken_back += usize::from(calls.leave_out(id, TAKEN_BACK));
        }
    }

    fn describe(&mut self, meta: &mut Map<String, Value>) {
        for key in ["id", "cwd", "cli_version", "originator", "source", "git"] {
            let found = meta.remove(key).filter(|found| !found.is_null());
            if let Some(found) = found.filter(|_| !self.metadata.contains_key(key)) {
                self.metadata.insert(key.to_owned(), found);
            }
        }
    }
}

impl Reader for Session {
    fn matters(&self, line: &[u8]) -> bool {
        let parts: [&[u8]; 7] = [
            b"_call",
            b"call_id",
            b"user_message",
            b"\"user\"",
            b"thread_rolled_back",
            b"session_meta",
            b"tool_search",
        ];
        parts.iter().any(|part| memmem::find(line, part).is_some())
    }

    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls) {
        let Value::Object(mut line) = value else {
            return;
        };
        let time = line.get("timestamp").and_then(|time| Timestamp::read(time).ok());
        match (text(&line, "type").map(str::to_owned).as_deref(), line.get_mut("payload").map(Value::take)) {
            (Some("response_item"), Some(Value::Object(item))) => self.item(place, item, time, calls),
            (Some("event_msg"), Some(Value::Object(event))) => self.event(&event, calls),
            (Some("session_meta"), Some(Value::Object(mut meta))) => self.describe(&mut meta),
            (_, Some(_)) => {}
            (None, None) => self.describe(&mut line),
            // Older sessions have no wrapper.
            (Some(_), None) => self.item(place, line, time, calls),
        }
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        if self.taken_back > 0 {
            calls.warn(format!(
                "{} calls are of turns that were taken back and are left out",
                self.taken_back
            ));
        }
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

/// What the program tells the model in the user's name: where it works, and the user's standing orders.
fn is_context(message: &Map<String, Value>) -> bool {
    let (shown, _) = content::value_of_content(message.get("content").cloned().unwrap_or_default());
    let text = content::text_of(&shown).trim_start();
    text.starts_with("<environment_context>")
        || text.starts_with("<user_instructions>")
        || text.starts_with("# AGENTS.md instructions")
        || text.starts_with("<turn_aborted>")
}

/// What an event says of the end of a call.
fn facts(event: &Map<String, Value>) -> Facts {
    let result = event.get("result");
    let is_error = |result: &Value| {
        ["isError", "is_error"].iter().any(|key| result.get(*key) == Some(&Value::Bool(true)))
    };
    let failed = match (event.get("exit_code").and_then(Value::as_i64), event.get("success"), result) {
        (Some(code), _, _) => Some(code != 0),
        (None, Some(Value::Bool(success)), _) => Some(!success),
        (None, _, Some(result)) => {
            Some(result.get("Err").is_some() || is_error(result.get("Ok").unwrap_or(result)))
        }
        _ => None,
    };
    let duration = |duration: &Value| {
        let part = |key: &str| duration.get(key).and_then(Value::as_f64);
        // The last digits would be noise.
        Some(((part("secs")? * 1e6 + part("nanos")? / 1e3).round()) / 1e3)
    };
    let mut metadata = Map::new();
    let mut note = |key: &str, value: Option<&Value>| {
        metadata.extend(value.filter(|value| !value.is_null()).map(|value| (key.to_owned(), value.clone())));
    };
    note("exit_code", event.get("exit_code"));
    let invocation = event.get("invocation");
    note("server", invocation.and_then(|invocation| invocation.get("server")));
    note("tool", invocation.and_then(|invocation| invocation.get("tool")));
    Facts { failed, duration_ms: event.get("duration").and_then(duration), metadata }
}
