//! MCP wire logs.
//!
//! Owns the pairing of JSON-RPC requests and answers, in every container that recorders use: raw messages,
//! or objects that hold one under `message`, `request`, `response` or `interactions`. Refuses to believe
//! annotations: they are kept as hints, and every effect stays unknown.
//!
//! **Invariant:** an answer belongs to the latest open request with its id, of the same direction and
//! connection.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Document, ImportReport, Skipped, content, event_id, is_recordable_tool};
use crate::code::Code;
use crate::problem::{Place, Problem, Problems, item};
use crate::trace::model::{Event, MAX_EVENTS, Status, Trace};
use crate::trace::time::Timestamp;

const HOLDERS: [&str; 4] = ["message", "request", "response", "payload"];

/// Whether a value holds JSON-RPC messages.
pub(super) fn is_log(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(is_log),
        Value::Object(map) => {
            is_message(map)
                || map.get("interactions").is_some_and(is_log)
                || HOLDERS.iter().filter_map(|key| map.get(*key)).any(|held| match held {
                    Value::Object(held) => is_message(held),
                    Value::String(text) => text.contains("\"jsonrpc\""),
                    _ => false,
                })
        }
        _ => false,
    }
}

fn is_message(map: &Map<String, Value>) -> bool {
    map.contains_key("jsonrpc")
}

pub(super) fn read(document: Document) -> Result<(Trace, ImportReport), Problems> {
    let mut log = Log::default();
    match document {
        Document::Broken(problems) => return Err(problems),
        Document::Whole(value) => {
            if let Some(metadata) = value.get("metadata") {
                log.metadata.insert("recording".into(), metadata.clone());
            }
            log.document(value);
        }
        Document::Lines { entries, problems, partial } => {
            Problems::from_list(problems)?;
            for (line, value) in entries {
                log.entry(value, &Place::Line(line), &Context::default());
            }
            if let Some(line) = partial {
                log.skip(Place::Line(line), "the last line breaks off and was left out");
                log.report.warnings.push(format!("line {line} breaks off: the recording may be incomplete"));
            }
        }
    }
    log.finish()
}

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    Client,
    Server,
}

impl Sender {
    fn other(self) -> Sender {
        match self {
            Sender::Client => Sender::Server,
            Sender::Server => Sender::Client,
        }
    }

    fn read(text: &str) -> Option<Sender> {
        match text.to_ascii_lowercase().replace(['-', ' ', '>'], "_").as_str() {
            "client_to_server" | "client__server" | "c2s" | "req" | "request" | "out" | "outgoing"
            | "send" | "sent" | "client" => Some(Sender::Client),
            "server_to_client" | "server__client" | "s2c" | "res" | "resp" | "response" | "in"
            | "incoming" | "recv" | "received" | "server" => Some(Sender::Server),
            _ => None,
        }
    }
}

/// What the object around a message says of it.
#[derive(Debug, Clone, Default)]
struct Context {
    sender: Option<Sender>,
    time: Option<Timestamp>,
    latency_ms: Option<f64>,
}

impl Context {
    fn of(map: &Map<String, Value>, outer: &Context) -> Context {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let first = |keys: [&str; 3]| keys.into_iter().find_map(|key| map.get(key));
        let time = first(["ts", "timestamp", "time"]).and_then(|value| Timestamp::read(value).ok());
        let latency = first(["latency_ms", "duration_ms", "elapsed_ms"]).and_then(Value::as_f64);
        Context {
            sender: text("direction").or(text("dir")).and_then(Sender::read).or(outer.sender),
            time: time.or_else(|| outer.time.clone()),
            latency_ms: latency.filter(|ms| *ms >= 0.0).or(outer.latency_ms),
        }
    }
}

/// A request that waits for its answer.
enum Waiting {
    Call(usize),
    Tools,
    Initialize,
    Other,
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    counts: HashMap<String, usize>,
    open: HashMap<(Sender, String), Waiting>,
    metadata: Map<String, Value>,
    tools: Map<String, Value>,
    messages: usize,
    too_many: bool,
    report: ImportReport,
}

impl Log {
    fn skip(&mut self, place: Place, reason: impl Into<String>) {
        self.report.skipped.push(Skipped { place, reason: reason.into() });
    }

    fn document(&mut self, value: Value) {
        match value {
            Value::Array(list) => {
                for (index, value) in list.into_iter().enumerate() {
                    self.entry(value, &Place::Pointer(item("", index)), &Context::default());
                }
            }
            Value::Object(mut map) => match map.remove("interactions") {
                Some(Value::Array(list)) => {
                    for (index, value) in list.into_iter().enumerate() {
                        let place = Place::Pointer(item("/interactions", index));
                        self.entry(value, &place, &Context::default());
                    }
                }
                _ => self.entry(Value::Object(map), &Place::Pointer(String::new()), &Context::default()),
            },
            other => self.entry(other, &Place::Whole, &Context::default()),
        }
    }

    fn entry(&mut self, value: Value, place: &Place, outer: &Context) {
        match value {
            Value::Object(map) if is_message(&map) => {
                let context = Context::of(&map, outer);
                self.message(map, place, &context);
            }
            Value::Object(mut map) => {
                let context = Context::of(&map, outer);
                let held: Vec<Value> = HOLDERS.iter().filter_map(|key| map.remove(*key)).collect();
                let any = !held.is_empty();
                for value in held {
                    self.held(value, place, &context);
                }
                if !any {
                    self.skip(place.clone(), "the entry holds no JSON-RPC message");
                }
            }
            Value::Array(batch) => batch.into_iter().for_each(|value| self.entry(value, place, outer)),
            _ => self.skip(place.clone(), "the entry holds no JSON-RPC message"),
        }
    }

    /// A message inside an entry; `null` stands where a recorder saw none.
    fn held(&mut self, value: Value, place: &Place, context: &Context) {
        match value {
            Value::Null => {}
            Value::Object(map) => self.message(map, place, context),
            Value::Array(batch) => batch.into_iter().for_each(|value| self.held(value, place, context)),
            Value::String(text) => {
                match crate::json::parse(text.as_bytes(), crate::json::Limits::default()) {
                    Ok(value @ (Value::Object(_) | Value::Array(_))) => self.held(value, place, context),
                    _ => self.skip(place.clone(), "the entry holds a text that isn't a JSON-RPC message"),
                }
            }
            _ => self.skip(place.clone(), "the entry holds no JSON-RPC message"),
        }
    }

    fn message(&mut self, mut map: Map<String, Value>, place: &Place, context: &Context) {
        self.messages += 1;
        let id = map.remove("id").filter(|id| !id.is_null());
        let method = map.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, id) {
            (Some(method), Some(id)) => self.request(&method, id, map, place, context),
            (Some(method), None) => self.notification(&method, &map),
            (None, Some(id)) => self.answer(&id, map, place, context),
            (None, None) => self.skip(place.clone(), "a message with neither method nor id"),
        }
    }

    fn request(
        &mut self,
        method: &str,
        id: Value,
        mut map: Map<String, Value>,
        place: &Place,
        context: &Context,
    ) {
        let sender = context.sender.unwrap_or(match method {
            "sampling/createMessage" | "elicitation/create" | "roots/list" => Sender::Server,
            _ => Sender::Client,
        });
        let waiting = match method {
            "initialize" => {
                // A new connection counts its ids from the start; what was open stays unanswered.
                self.open.clear();
                Waiting::Initialize
            }
            "tools/list" => Waiting::Tools,
            "tools/call" => {
                let params = map.remove("params").unwrap_or_default();
                match self.call(&id, params, place, context) {
                    Some(index) => Waiting::Call(index),
                    None => Waiting::Other,
                }
            }
            _ => Waiting::Other,
        };
        self.open.insert((sender, id.to_string()), waiting);
    }

    fn call(&mut self, id: &Value, mut params: Value, place: &Place, context: &Context) -> Option<usize> {
        self.report.calls += 1;
        let Some(tool) = params.get("name").and_then(Value::as_str).map(str::to_owned) else {
            self.skip(place.clone(), "a call without a tool name");
            return None;
        };
        let arguments = match params.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                self.skip(
                    place.clone(),
                    format!("a call of `{}` whose arguments are no object", tool.escape_debug()),
                );
                return None;
            }
        };
        let count = self.counts.entry(tool.clone()).or_default();
        *count += 1;
        let count = *count;
        let Some(event_id) = event_id(&tool, count).filter(|_| is_recordable_tool(&tool)) else {
            self.skip(place.clone(), "a call whose tool name is blank, too long or has line breaks");
            return None;
        };
        if self.events.len() >= MAX_EVENTS {
            self.too_many = true;
            return None;
        }
        let mut note = Map::new();
        note.insert("id".into(), id.clone());
        note.insert("place".into(), json!(place.to_string()));
        if let Some(meta) = params.get_mut("_meta").map(Value::take) {
            note.insert("request_meta".into(), meta);
        }
        let mut event = Event::new(event_id, tool, arguments);
        event.status = Status::unanswered();
        event.started_at = context.time.clone();
        event.metadata.insert("mcp".into(), Value::Object(note));
        self.events.push(event);
        Some(self.events.len() - 1)
    }

    fn notification(&mut self, method: &str, map: &Map<String, Value>) {
        if method != "notifications/cancelled" {
            return;
        }
        let Some(id) = map.get("params").and_then(|params| params.get("requestId")) else {
            return;
        };
        for sender in [Sender::Client, Sender::Server] {
            if let Some(Waiting::Call(index)) = self.open.get(&(sender, id.to_string()))
                && let Some(event) = self.events.get_mut(*index)
            {
                event.status = Status::cancelled();
            }
        }
    }

    fn answer(&mut self, id: &Value, mut map: Map<String, Value>, place: &Place, context: &Context) {
        let result = map.remove("result");
        let error = map.remove("error");
        let key = id.to_string();
        // The container's word on who sent an entry may describe the request that it holds too, so a
        // request of the other side is tried as well.
        let asked_by = context.sender.map(Sender::other).unwrap_or(match &result {
            Some(Value::Object(result))
                if ["role", "action", "roots"].iter().any(|k| result.contains_key(*k)) =>
            {
                Sender::Server
            }
            _ => Sender::Client,
        });
        let waiting = [asked_by, asked_by.other()]
            .into_iter()
            .find_map(|sender| self.open.remove(&(sender, key.clone())));
        match waiting {
            None => self.skip(place.clone(), format!("an answer to {key}, which nothing asked")),
            Some(Waiting::Call(index)) => self.outcome(index, result, error, context),
            Some(Waiting::Tools) => self.tools(result.as_ref()),
            Some(Waiting::Initialize) => self.initialized(result),
            Some(Waiting::Other) => {}
        }
    }

    fn outcome(&mut self, index: usize, result: Option<Value>, error: Option<Value>, context: &Context) {
        let Some(event) = self.events.get_mut(index) else {
            return;
        };
        let mut note = Map::new();
        match (result, error) {
            (Some(mut result), None) => {
                let failed = result.get("isError") == Some(&Value::Bool(true));
                event.status = if failed { Status::failed() } else { Status::success() };
                event.result = content::reply_of_mcp_result(&result).value();
                if let Some(map) = result.as_object_mut() {
                    // It is the event's result already.
                    map.remove("structuredContent");
                }
                note.insert("result".into(), result);
            }
            (_, error) => {
                event.status = Status::failed();
                event.result = error.unwrap_or_default();
            }
        }
        if let Some(Value::Object(kept)) = event.metadata.get_mut("mcp") {
            kept.append(&mut note);
        }
        event.duration_ms = context.latency_ms;
        if event.started_at.is_some() || context.latency_ms.is_none() {
            event.ended_at = context.time.clone();
        }
        if let (Some(start), Some(end), None) = (&event.started_at, &event.ended_at, event.duration_ms) {
            let elapsed = end.unix_ms() - start.unix_ms();
            // Doubles of this size resolve a quarter of a microsecond; more digits would be noise.
            event.duration_ms = (elapsed >= 0.0).then_some((elapsed * 1000.0).round() / 1000.0);
        }
    }

    fn tools(&mut self, result: Option<&Value>) {
        let list = result.and_then(|result| result.get("tools")).and_then(Value::as_array);
        for tool in list.into_iter().flatten() {
            let Some(name) = tool.get("name").and_then(Value::as_str) else {
                continue;
            };
            let mut hints = Map::new();
            for key in ["title", "description", "annotations", "inputSchema", "outputSchema"] {
                if let Some(value) = tool.get(key) {
                    hints.insert(key.into(), value.clone());
                }
            }
            self.tools.insert(name.to_owned(), Value::Object(hints));
        }
    }

    fn initialized(&mut self, result: Option<Value>) {
        let Some(Value::Object(mut result)) = result else {
            return;
        };
        for (from, to) in [("serverInfo", "server"), ("protocolVersion", "protocol_version")] {
            if let Some(value) = result.remove(from) {
                self.metadata.insert(to.into(), value);
            }
        }
    }

    fn finish(mut self) -> Result<(Trace, ImportReport), Problems> {
        if self.too_many {
            let message = format!("{} calls, at most {MAX_EVENTS}", self.report.calls);
            return Err(Problem::new(Code::TooMany, Place::Whole, message).into());
        }
        if self.events.is_empty() {
            let reason = match self.report.skipped.first() {
                Some(skipped) if self.report.calls > 0 => {
                    format!("; the first was left out: {} ({})", skipped.reason, skipped.place)
                }
                _ => String::new(),
            };
            let message = format!("{} messages hold no usable `tools/call`{reason}", self.messages);
            return Err(Problem::new(Code::TraceEmpty, Place::Whole, message).into());
        }
        for event in &self.events {
            match event.status.as_str() {
                "success" => self.report.answered += 1,
                "failed" => self.report.failed += 1,
                _ => self.report.unanswered += 1,
            }
        }
        if self.report.answered == 0 {
            let message = "no call succeeded, so nothing can be compiled from this recording";
            self.report.warnings.push(message.to_owned());
        }
        self.metadata.insert("format".into(), json!("mcp-wire"));
        if !self.tools.is_empty() {
            // What a server says of its tools is a hint for the person who reviews them, no more.
            self.metadata.insert("untrusted_tool_hints".into(), Value::Object(self.tools));
        }
        let trace = Trace { metadata: self.metadata, events: self.events, ..Trace::default() };
        Ok((trace, self.report))
    }
}
