//! Hugging Face Session Traces (STS-Format).
//!
//! Owns a header line of the type `session` with a `harness`, and messages whose calls are in `toolCalls`.
//! Refuses metadata about effects, of which the format knows nothing: every effect stays unknown.
//!
//! **Invariant:** arguments are a text that holds an object, a result is a text kept as it is, and a
//! success is inferred, with a warning.

use memchr::memmem;
use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::content;
use super::read::Reader;
use super::texts;
use crate::problem::Place;
use crate::trace::time::Timestamp;

#[derive(Default)]
pub(super) struct Session {
    metadata: Map<String, Value>,
}

impl Reader for Session {
    fn matters(&self, line: &[u8]) -> bool {
        [&b"toolCall"[..], b"\"tool\"", b"\"session\""].iter().any(|part| memmem::find(line, part).is_some())
    }

    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        if let Value::Object(header) = &mut value
            && header.get("type").and_then(Value::as_str) == Some("session")
        {
            for key in ["harness", "id", "name"] {
                self.metadata.extend(header.remove(key).map(|value| (key.to_owned(), value)));
            }
            return;
        }
        if let Some(Value::Object(message)) = value.get_mut("message").map(Value::take) {
            read_message(place, message, calls);
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}

fn read_message(place: &Place, mut message: Map<String, Value>, calls: &mut Calls) {
    let time = message.get("timestamp").and_then(|time| Timestamp::read(time).ok());
    if message.get("role").and_then(Value::as_str) == Some("tool") {
        let content = message.remove("content").unwrap_or_default();
        match message.get("toolCallId").and_then(Value::as_str) {
            Some(key) => {
                let (result, blobs) = content::value_of_content(content);
                let status = texts::status_of(content::text_of(&result));
                calls.count_blobs(blobs);
                calls.answer(key, Answer::new(place, result, status).at(time));
            }
            None => calls.skip(place.clone(), "a result that names no call"),
        }
        return;
    }
    let Some(Value::Array(list)) = message.remove("toolCalls") else {
        return;
    };
    for mut call in list {
        let Some(mut function) = call.get_mut("function").map(Value::take) else {
            calls.skip(place.clone(), "a call without a function");
            continue;
        };
        let arguments = Arguments::of_text(function.get_mut("arguments").map(Value::take));
        let tool = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let made = Call::new(place, tool, arguments).at(time.clone());
        match call.get("id").and_then(Value::as_str) {
            Some(key) => {
                calls.call(key, made);
            }
            None => {
                calls.skip(place.clone(), "a call without an id: its answer can't be found");
                calls.add(made);
            }
        }
    }
}
