//! Items of OpenAI Responses.
//!
//! Owns calls and outputs that are items of a response or of its input, joined by `call_id`, and calls of
//! MCP servers, which have their output in the same item. Refuses calls of the vendor's hosted tools: they
//! hold no arguments that could be given again.
//!
//! **Invariant:** the `id` of an item never joins a call with its output.

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::Reader;
use super::{content, names, places, texts};
use crate::problem::Place;
use crate::trace::model::Status;

fn kind(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a value is an item that holds a call or an output.
pub(super) fn is_item(item: &Value) -> bool {
    match kind(item) {
        "function_call" | "function_call_output" | "custom_tool_call" | "custom_tool_call_output" => {
            item.get("call_id").is_some()
        }
        "mcp_call" => item.get("server_label").is_some(),
        _ => false,
    }
}

/// The lists of items in a value.
const LISTS: [&str; 3] = ["input", "items", "output"];

/// Whether a value holds items.
pub(super) fn is_holder(value: &Value) -> bool {
    let inside = |value: &Value| {
        let lists = LISTS.iter().filter_map(|key| value.get(*key)?.as_array());
        lists.flatten().any(is_item)
    };
    inside(value) || value.get("response").is_some_and(inside)
}

#[derive(Default)]
pub(super) struct Items;

impl Reader for Items {
    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        if let Value::Array(list) = value {
            return read_list(place, list, calls);
        }
        let response = value.get_mut("response").map(Value::take).filter(Value::is_object);
        let is_one = is_item(&value) || kind(&value).ends_with("_call");
        for key in LISTS.into_iter().filter(|_| !is_one) {
            if let Some(Value::Array(list)) = value.get_mut(key).map(Value::take) {
                read_list(&places::at(place, &format!("/{key}")), list, calls);
            }
        }
        if is_one {
            read_item(place, value, calls);
        }
        // What was given to the model came before what it gave.
        if let Some(response) = response {
            self.record(&places::at(place, "/response"), response, calls);
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        Map::new()
    }
}

fn read_list(place: &Place, list: Vec<Value>, calls: &mut Calls) {
    for (index, item) in list.into_iter().enumerate() {
        calls.count_record();
        read_item(&places::at(place, &format!("/{index}")), item, calls);
    }
}

fn read_item(place: &Place, mut item: Value, calls: &mut Calls) {
    let kind = kind(&item).to_owned();
    let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let tool = text(&item, "name").unwrap_or_default();
    match kind.as_str() {
        "function_call" | "custom_tool_call" => {
            let arguments = match item.get_mut("arguments").map(Value::take) {
                Some(arguments) => Arguments::of_text(Some(arguments)),
                None => Arguments::of(item.get_mut("input").map(Value::take)),
            };
            let call = names::noted(Call::new(place, tool, arguments));
            match text(&item, "call_id") {
                Some(key) => {
                    calls.call(&key, call);
                }
                None => {
                    calls.skip(place.clone(), "a call without a `call_id`: its output can't be found");
                    calls.add(call);
                }
            }
        }
        "function_call_output" | "custom_tool_call_output" => {
            let (result, blobs) =
                content::value_of_content(item.get_mut("output").map(Value::take).unwrap_or_default());
            calls.count_blobs(blobs);
            let mut answer = Answer::new(place, result, Status::success());
            answer.status = texts::status_of(content::text_of(&answer.result));
            answer.inferred = true;
            match text(&item, "call_id") {
                Some(key) => calls.answer(&key, answer),
                None => calls.skip(place.clone(), "an output that names no call"),
            }
        }
        "mcp_call" => {
            let arguments = Arguments::of_text(item.get_mut("arguments").map(Value::take));
            let server = item.get("server_label").cloned().unwrap_or_default();
            let call = Call::new(place, tool, arguments).with("server", server);
            let id = match text(&item, "id") {
                Some(key) => calls.call(&key, call),
                None => calls.add(call),
            };
            let error = item.get_mut("error").map(Value::take).filter(|error| !error.is_null());
            let output = item.get_mut("output").map(Value::take).filter(|output| !output.is_null());
            let answer = match (error, output) {
                (Some(error), _) => Answer::new(place, content::value_of_content(error).0, Status::failed()),
                (None, Some(output)) => {
                    Answer::new(place, content::value_of_content(output).0, Status::success())
                }
                (None, None) => return,
            };
            if let Some(id) = id {
                calls.settle(id, answer);
            }
        }
        kind if kind.ends_with("_call") => {
            calls.refuse(place.clone(), format!("a `{}` of the vendor's own tools", kind.escape_debug()));
        }
        _ => {}
    }
}
