//! Messages of OpenAI Chat Completions.
//!
//! Owns calls in `tool_calls`, their answers in messages of the role `tool`, and what simulators of users
//! add: calls of the user's side, and answers that name no call. Refuses calls of the user's side: no model
//! of this session made them.
//!
//! **Invariant:** answers without a call's id are taken in their order only if there are as many as calls.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, CallId, Calls};
use super::read::Reader;
use super::{content, names, places, texts};
use crate::problem::Place;
use crate::trace::model::Status;

/// Whether a value is a message with a call or an answer.
pub(super) fn is_telling(message: &Value) -> bool {
    message.get("role").is_some_and(|role| role == "tool" || role == "function")
        || message.get("role").is_some()
            && (message.get("tool_calls").is_some() || message.get("function_call").is_some())
}

/// Whether a value holds a conversation.
pub(super) fn is_conversation(value: &Value) -> bool {
    let messages = value.get("messages").and_then(Value::as_array);
    messages.is_some_and(|list| !list.is_empty() && list.iter().all(|message| message.get("role").is_some()))
}

/// A call that waits for an answer that names none.
enum Waiting {
    Call(CallId),
    /// A call that wasn't taken; its answer isn't either.
    Left,
}

#[derive(Default)]
pub(super) struct Conversation {
    metadata: Map<String, Value>,
    /// Calls of the user's side.
    foreign: HashSet<String>,
    waiting: Vec<Waiting>,
    unnamed: Vec<Answer>,
    in_order: usize,
}

impl Reader for Conversation {
    fn begins_session(&self, value: &Value) -> bool {
        value.get("messages").is_some()
    }

    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls) {
        let (root, list) = match value {
            Value::Array(list) => ("", list),
            Value::Object(mut map) if map.contains_key("messages") => {
                let Some(Value::Array(list)) = map.remove("messages") else {
                    return calls.skip(places::at(place, "/messages"), "messages that are no list");
                };
                // Texts and numbers say which conversation it was; the rest may be large.
                self.metadata.extend(map.into_iter().filter(|(_, v)| v.is_string() || v.is_number()));
                ("/messages", list)
            }
            message => return self.message(place, message, calls),
        };
        for (index, message) in list.into_iter().enumerate() {
            calls.count_record();
            self.message(&places::at(place, &format!("{root}/{index}")), message, calls);
        }
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        self.settle(calls);
        if self.in_order > 0 {
            let count = self.in_order;
            calls.warn(format!("{count} results name no call; they were matched in the order of the calls"));
        }
        let mut metadata = Map::new();
        if !self.metadata.is_empty() {
            metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        }
        metadata
    }
}

impl Conversation {
    fn message(&mut self, place: &Place, mut message: Value, calls: &mut Calls) {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
        if matches!(role.as_str(), "tool" | "function") {
            return self.answer(place, &mut message, calls);
        }
        self.settle(calls);
        if let Some(Value::Array(list)) = message.get_mut("tool_calls").map(Value::take) {
            for (index, call) in list.into_iter().enumerate() {
                self.call(&places::at(place, &format!("/tool_calls/{index}")), call, role == "user", calls);
            }
        }
        if let Some(call) = message.get_mut("function_call").map(Value::take).filter(Value::is_object) {
            self.call(&places::at(place, "/function_call"), call, role == "user", calls);
        }
    }

    fn call(&mut self, place: &Place, mut call: Value, of_user: bool, calls: &mut Calls) {
        let key = call.get("id").and_then(Value::as_str).map(str::to_owned);
        let of_user = of_user || call.get("requestor").is_some_and(|requestor| requestor == "user");
        // One dialect has the name and the arguments in the call itself, another kind of tool a free text.
        let mut function = match call.get_mut("function") {
            Some(function) => function.take(),
            None => match call.get_mut("custom").map(Value::take) {
                Some(custom) => custom,
                None => call,
            },
        };
        let tool = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if of_user {
            let tool = tool.escape_debug();
            calls.refuse(place.clone(), format!("a call of `{tool}` that the user's side made"));
            self.foreign.extend(key);
            self.waiting.push(Waiting::Left);
            return;
        }
        let arguments = function.get_mut("arguments").map(Value::take);
        let arguments = arguments.or_else(|| function.get_mut("input").map(Value::take));
        let call = names::noted(Call::new(place, tool, Arguments::of_text(arguments)));
        let id = match key {
            Some(key) => calls.call(&key, call),
            None => calls.add(call),
        };
        self.waiting.push(id.map_or(Waiting::Left, Waiting::Call));
    }

    fn answer(&mut self, place: &Place, message: &mut Value, calls: &mut Calls) {
        let (result, blobs) =
            content::value_of_content(message.get_mut("content").map(Value::take).unwrap_or_default());
        calls.count_blobs(blobs);
        let stated = message.get("error").and_then(Value::as_bool);
        let status = match stated {
            Some(true) => Status::failed(),
            Some(false) => Status::success(),
            None => texts::status_of(content::text_of(&result)),
        };
        let mut answer = Answer::new(place, result, status);
        answer.inferred = stated.is_none();
        let key = message.get("tool_call_id").or(message.get("id")).and_then(Value::as_str);
        match key {
            Some(key) if self.foreign.contains(key) => {}
            Some(key) => calls.answer(key, answer),
            None => self.unnamed.push(answer),
        }
    }

    /// Gives answers without a call's id to the calls just before them.
    fn settle(&mut self, calls: &mut Calls) {
        let (waiting, unnamed) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.unnamed));
        if waiting.len() != unnamed.len() {
            let (answers, asked) = (unnamed.len(), waiting.len());
            for answer in unnamed {
                let reason = format!("a result that names no call, one of {answers} after {asked} calls");
                calls.skip(answer.place, reason);
            }
            return;
        }
        for (waiting, answer) in waiting.into_iter().zip(unnamed) {
            if let Waiting::Call(id) = waiting {
                calls.settle(id, answer);
                self.in_order += 1;
            }
        }
    }
}
