//! What `cursor-agent --output-format stream-json` prints.
//!
//! Owns calls that begin and end in lines of their own. Refuses the transcripts that the editor keeps:
//! they hold no results.
//!
//! **Invariant:** the beginning and the end of a call have one `call_id`.

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::Reader;
use super::{content, names};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

/// Whether a value is a line about a call.
pub(super) fn is_event(value: &Value) -> bool {
    value.get("type").is_some_and(|kind| kind == "tool_call")
        && value.get("call_id").is_some()
        && value.get("tool_call").is_some_and(Value::is_object)
}

/// Whether a value is a line of a transcript, which holds no results.
pub(super) fn is_transcript(value: &Value) -> bool {
    let blocks = value.get("message").and_then(|message| message.get("content")).and_then(Value::as_array);
    value.get("role").is_some()
        && value.get("type").is_none()
        && blocks.into_iter().flatten().any(|block| {
            block.get("type").is_some_and(|kind| kind == "tool_use") && block.get("id").is_none()
        })
}

#[derive(Default)]
pub(super) struct Events;

impl Reader for Events {
    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        if !is_event(&value) {
            return;
        }
        let time = value.get("timestamp_ms").and_then(|time| Timestamp::read(time).ok());
        let ended = value.get("subtype").is_some_and(|subtype| subtype == "completed");
        let key = value.get("call_id").and_then(Value::as_str).map(str::to_owned);
        let held = value.get_mut("tool_call").map(Value::take);
        let (Some(key), Some(Value::Object(held))) = (key, held) else {
            return calls.skip(place.clone(), "a call whose id is no text");
        };
        let Some((tool, mut held)) = held.into_iter().find(|(_, value)| value.get("args").is_some()) else {
            return calls.skip(place.clone(), "a call without `args`");
        };
        if ended {
            let result = held.get_mut("result").map(Value::take).unwrap_or_default();
            calls.answer(&key, read_answer(place, result).at(time));
            return;
        }
        let arguments = Arguments::of(held.get_mut("args").map(Value::take));
        calls.call(&key, names::noted(Call::new(place, tool, arguments).at(time)));
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        Map::new()
    }
}

fn read_answer(place: &Place, mut result: Value) -> Answer {
    if let Some(success) = result.get_mut("success").map(Value::take) {
        return Answer::new(place, content::value_of_content(success).0, Status::success());
    }
    Answer::new(place, result, Status::failed())
}
