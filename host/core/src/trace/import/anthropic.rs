//! Anthropic Messages.
//!
//! Owns calls and answers that are blocks in the content of messages, those of the server's own tools and
//! of MCP connectors among them. Refuses blocks without an id.
//!
//! **Invariant:** a block whose type ends with `tool_use` is a call, one that ends with `tool_result` an answer.

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::Reader;
use super::{content, names, places};
use crate::problem::Place;
use crate::trace::model::Status;

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a value is a message with a call or an answer.
pub(super) fn is_telling(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array);
    message.get("role").is_some()
        && blocks.into_iter().flatten().any(|block| {
            kind(block).ends_with("tool_use") && block.get("input").is_some()
                || kind(block).ends_with("tool_result") && block.get("tool_use_id").is_some()
        })
}

#[derive(Default)]
pub(super) struct Conversation;

impl Reader for Conversation {
    fn begins_session(&self, value: &Value) -> bool {
        value.get("messages").is_some()
    }

    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        let (root, list) = match value.get_mut("messages").map(Value::take) {
            Some(Value::Array(list)) => ("/messages", list),
            Some(_) => return calls.skip(places::at(place, "/messages"), "messages that are no list"),
            None => match value {
                Value::Array(list) => ("", list),
                message => return read_message(place, message, calls),
            },
        };
        for (index, message) in list.into_iter().enumerate() {
            calls.count_record();
            read_message(&places::at(place, &format!("{root}/{index}")), message, calls);
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        Map::new()
    }
}

fn read_message(place: &Place, mut message: Value, calls: &mut Calls) {
    let Some(Value::Array(blocks)) = message.get_mut("content").map(Value::take) else {
        return;
    };
    for (index, block) in blocks.into_iter().enumerate() {
        let place = places::at(place, &format!("/content/{index}"));
        let kind = kind(&block).to_owned();
        if kind.ends_with("tool_use") {
            read_call(&place, block, calls);
        } else if kind.ends_with("tool_result") {
            read_answer(&place, block, calls);
        }
    }
}

fn read_call(place: &Place, mut block: Value, calls: &mut Calls) {
    let arguments = Arguments::of(block.get_mut("input").map(Value::take));
    let tool = block.get("name").and_then(Value::as_str).unwrap_or_default();
    let server = block.get("server_name").cloned().unwrap_or_default();
    let call = names::noted(Call::new(place, tool, arguments)).with("server", server);
    match block.get("id").and_then(Value::as_str) {
        Some(key) => {
            calls.call(key, call);
        }
        None => {
            calls.skip(place.clone(), "a call without an id: its answer can't be found");
            calls.add(call);
        }
    }
}

fn read_answer(place: &Place, mut block: Value, calls: &mut Calls) {
    let inner = block.get_mut("content").map(Value::take).unwrap_or_default();
    // The server's own tools have no flag: a failure is a block of another type.
    let failed =
        block.get("is_error").and_then(Value::as_bool) == Some(true) || kind(&inner).ends_with("_error");
    let (result, blobs) = content::value_of_content(inner);
    calls.count_blobs(blobs);
    let status = if failed { Status::failed() } else { Status::success() };
    match block.get("tool_use_id").and_then(Value::as_str) {
        Some(key) => calls.answer(key, Answer::new(place, result, status)),
        None => calls.skip(place.clone(), "a result that names no call"),
    }
}
