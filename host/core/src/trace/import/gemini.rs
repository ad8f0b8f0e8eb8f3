//! Sessions of Gemini CLI.
//!
//! Owns the one document that older versions write, and the lines of newer ones, which replace, change and
//! take back messages. Refuses to count a call without a result as answered, whatever its status says.
//!
//! **Invariant:** a message counts in its last version, and only if it wasn't taken back.

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::Reader;
use super::{content, names, places};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

/// Whether a value is a session, or a line that only sessions have.
pub(super) fn is_session(value: &Value) -> bool {
    value.get("sessionId").is_some() && value.get("projectHash").is_some()
        || value.get("type").is_some_and(|kind| kind == "gemini") && value.get("id").is_some()
}

struct Message {
    id: Option<String>,
    place: Place,
    value: Value,
}

#[derive(Default)]
pub(super) struct Session {
    metadata: Map<String, Value>,
    messages: Vec<Message>,
    taken_back: Vec<Message>,
}

impl Session {
    fn header(&mut self, map: Map<String, Value>, place: &Place, calls: &mut Calls) {
        for (key, value) in map {
            match (key.as_str(), value) {
                ("messages", Value::Array(list)) => {
                    self.messages.clear();
                    for (index, value) in list.into_iter().enumerate() {
                        calls.count_record();
                        self.upsert(places::at(place, &format!("/messages/{index}")), value);
                    }
                }
                ("sessionId" | "projectHash" | "startTime" | "kind", value) => {
                    self.metadata.insert(key, value);
                }
                _ => {}
            }
        }
    }

    fn upsert(&mut self, place: Place, value: Value) {
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let known = self.messages.iter_mut().rev().find(|known| id.is_some() && known.id == id);
        let Some(known) = known else {
            self.messages.push(Message { id, place, value });
            return;
        };
        if let (Value::Object(known), Value::Object(new)) = (&mut known.value, value) {
            // A later version may hold only what changed.
            known.extend(new.into_iter().filter(|(key, value)| key != "type" || value != "message_update"));
        }
    }

    fn rewind(&mut self, id: &str, place: &Place, calls: &mut Calls) {
        match self.messages.iter().position(|message| message.id.as_deref() == Some(id)) {
            Some(index) => self.taken_back.extend(self.messages.drain(index..)),
            None => calls.skip(place.clone(), "a return to a message that isn't in the file"),
        }
    }
}

impl Reader for Session {
    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls) {
        let Value::Object(mut map) = value else {
            return calls.skip(place.clone(), "an entry that is no object");
        };
        if let Some(Value::Object(changed)) = map.remove("$set") {
            return self.header(changed, &places::at(place, "/$set"), calls);
        }
        if let Some(to) = map.get("$rewindTo").and_then(Value::as_str) {
            return self.rewind(to, place, calls);
        }
        if map.contains_key("sessionId") {
            return self.header(map, place, calls);
        }
        self.upsert(place.clone(), Value::Object(map));
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        for message in std::mem::take(&mut self.taken_back) {
            read_message(message, true, calls);
        }
        let mut without = 0;
        for message in std::mem::take(&mut self.messages) {
            without += read_message(message, false, calls);
        }
        if without > 0 {
            calls.warn(format!("{without} calls have a status but no result; they count as unanswered"));
        }
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}

/// Reads the calls of a message, and returns how many have a status without a result.
fn read_message(mut message: Message, taken_back: bool, calls: &mut Calls) -> usize {
    let mut without = 0;
    let Some(Value::Array(list)) = message.value.get_mut("toolCalls").map(Value::take) else {
        return without;
    };
    for (index, mut call) in list.into_iter().enumerate() {
        let place = places::at(&message.place, &format!("/toolCalls/{index}"));
        let tool = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if taken_back {
            calls.refuse(place, format!("a call of `{}` that was taken back", tool.escape_debug()));
            continue;
        }
        let arguments = Arguments::of(call.get_mut("args").map(Value::take));
        let began = message.value.get("timestamp").and_then(|time| Timestamp::read(time).ok());
        let status = call.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
        let made = names::noted(Call::new(&place, tool, arguments).at(began)).with("status", status.as_str());
        let id = match call.get("id").and_then(Value::as_str) {
            Some(key) => calls.call(key, made),
            None => calls.add(made),
        };
        let Some(id) = id else {
            continue;
        };
        let ended = call.get("timestamp").and_then(|time| Timestamp::read(time).ok());
        match result_of(&mut call) {
            // What it had printed until then is kept, but counts as no answer.
            found if status == "cancelled" => {
                calls.cancel(id);
                if let Some((value, _)) = found {
                    calls.settle(id, Answer::new(&place, value, Status::cancelled()).at(ended));
                }
            }
            None => without += usize::from(!status.is_empty()),
            Some((value, failed)) => {
                let failed = failed || status == "error";
                let end = if failed { Status::failed() } else { Status::success() };
                let mut answer = Answer::new(&place, value, end).at(ended);
                answer.inferred = status.is_empty();
                calls.settle(id, answer);
            }
        }
    }
    without
}

/// What the tool gave to the model, and whether it says that it failed.
fn result_of(call: &mut Value) -> Option<(Value, bool)> {
    let parts = match call.get_mut("result").map(Value::take)? {
        Value::Array(parts) => parts,
        _ => return None,
    };
    let mut found = parts.into_iter().filter_map(|mut part| {
        part.get_mut("functionResponse").and_then(|held| held.get_mut("response")).map(Value::take)
    });
    let mut response = found.next()?;
    if let Some(error) = response.get_mut("error").map(Value::take).filter(|error| !error.is_null()) {
        return Some((content::value_of_content(error).0, true));
    }
    let output = response.get_mut("output").map(Value::take);
    Some((content::value_of_content(output.unwrap_or(response)).0, false))
}
