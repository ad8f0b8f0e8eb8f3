//! The events of `codex exec --json`.
//!
//! Owns items that begin and complete under one id. Refuses items that are no calls: messages, thoughts
//! and plans.
//!
//! **Invariant:** an id belongs to one thread, so a file may hold several one after the other.

use std::collections::HashMap;

use memchr::memmem;
use serde_json::{Map, Value, json};

use super::super::calls::{Answer, Arguments, Call, CallId, Calls};
use super::super::content;
use super::super::read::Reader;
use crate::problem::Place;
use crate::trace::model::Status;

/// Whether a line is one of these events.
pub(in super::super) fn is_event(value: &Value) -> bool {
    match value.get("type").and_then(Value::as_str) {
        Some("thread.started") => value.get("thread_id").is_some(),
        Some("item.started" | "item.updated" | "item.completed") => {
            value.get("item").is_some_and(Value::is_object)
        }
        _ => false,
    }
}

#[derive(Default)]
pub(in super::super) struct Events {
    open: HashMap<String, CallId>,
    threads: Vec<Value>,
}

impl Reader for Events {
    fn matters(&self, line: &[u8]) -> bool {
        memmem::find(line, b"\"item.").is_some() || memmem::find(line, b"thread.started").is_some()
    }

    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind == "thread.started" {
            self.open.clear();
            self.threads.extend(value.get_mut("thread_id").map(Value::take));
            return;
        }
        let Some(Value::Object(mut item)) = value.get_mut("item").map(Value::take) else {
            return;
        };
        let key = item.get("id").and_then(Value::as_str).map(str::to_owned);
        let known = key.as_ref().and_then(|key| self.open.get(key)).copied();
        let Some(call) = known.or_else(|| read_call(place, &item, calls)) else {
            return;
        };
        self.open.extend(key.map(|key| (key, call)));
        if kind == "item.completed" {
            let answer = read_answer(place, &mut item, calls);
            calls.settle(call, answer);
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("session".into(), json!({"threads": std::mem::take(&mut self.threads)}));
        metadata
    }
}

/// The call that an item is, if it is one.
fn read_call(place: &Place, item: &Map<String, Value>, calls: &mut Calls) -> Option<CallId> {
    let kind = item.get("type").or_else(|| item.get("item_type")).and_then(Value::as_str)?;
    let only = |key: &str| {
        let arguments = item.get(key).map(|value| (key.to_owned(), value.clone()));
        Arguments::Object(arguments.into_iter().collect())
    };
    let call = match kind {
        "command_execution" => Call::new(place, kind, only("command")),
        "file_change" => Call::new(place, kind, only("changes")),
        "web_search" => Call::new(place, kind, only("query")),
        "mcp_tool_call" => {
            let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
            let call = Call::new(place, text("tool"), Arguments::of(item.get("arguments").cloned()));
            call.with("server", text("server")).with("tool", text("tool"))
        }
        kind if kind.ends_with("_call") => {
            calls.refuse(place.clone(), format!("a call of the kind `{}`", kind.escape_debug()));
            return None;
        }
        _ => return None,
    };
    calls.add(call.with("id", item.get("id").cloned().unwrap_or_default()))
}

fn read_answer(place: &Place, item: &mut Map<String, Value>, calls: &mut Calls) -> Answer {
    let exit_code = item.get("exit_code").and_then(Value::as_i64);
    let error = item.remove("error").filter(|error| !error.is_null());
    let result = item.remove("result").filter(|result| !result.is_null());
    let output = item.remove("aggregated_output");
    let word = item.get("status").and_then(Value::as_str).unwrap_or("completed");
    let is_error = result.as_ref().is_some_and(|result| result.get("isError") == Some(&Value::Bool(true)));
    let failed = exit_code.is_some_and(|code| code != 0) || error.is_some() || word == "failed" || is_error;
    let status = match word {
        _ if failed => Status::failed(),
        "completed" => Status::success(),
        other => Status::new(other),
    };
    let value = match (output, result, error) {
        (Some(Value::String(text)), _, _) => {
            let mut map = Map::new();
            map.insert("text".into(), Value::String(text));
            map.extend(exit_code.map(|code| ("exit_code".into(), json!(code))));
            Value::Object(map)
        }
        (_, Some(mut result), _) => {
            let structured = result.get_mut("structured_content").map(Value::take).filter(|s| !s.is_null());
            let (shown, blobs) =
                content::value_of_content(result.get_mut("content").map(Value::take).unwrap_or_default());
            calls.count_blobs(blobs);
            structured.unwrap_or(shown)
        }
        (_, None, error) => error.unwrap_or_default(),
    };
    Answer::new(place, value, status)
}
