//! MCP wire logs.
//!
//! Owns the pairing of JSON-RPC requests and answers, in every container that recorders use: raw messages,
//! or objects that hold one under `message`, `request`, `response` or `interactions`. Refuses to believe
//! annotations: they are kept as hints, and every effect stays unknown.
//!
//! **Invariant:** an answer belongs to the latest open request with its id, of the same direction and
//! connection.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, CallId, Calls};
use super::content;
use super::read::{Reader, parse_inner};
use crate::problem::{Place, item};
use crate::trace::model::Status;
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
    /// The request in which this one was made.
    parent: Option<String>,
    /// The workflow that the request ran.
    workflow: Option<String>,
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
            parent: text("parent").map(str::to_owned).or_else(|| outer.parent.clone()),
            workflow: text("workflow").map(str::to_owned).or_else(|| outer.workflow.clone()),
        }
    }
}

/// A request that waits for its answer.
enum Waiting {
    Call(CallId),
    Tools,
    Initialize,
    Other,
}

#[derive(Default)]
pub(super) struct Log {
    open: HashMap<(Sender, String), Waiting>,
    metadata: Map<String, Value>,
    tools: Map<String, Value>,
}

impl Reader for Log {
    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls) {
        self.entry(value, place, &Context::default(), calls);
    }

    fn document(&mut self, value: Value, calls: &mut Calls) {
        if let Some(metadata) = value.get("metadata") {
            self.metadata.insert("recording".into(), metadata.clone());
        }
        let (root, list) = match value {
            Value::Array(list) => ("", list),
            Value::Object(mut map) => match map.remove("interactions") {
                Some(Value::Array(list)) => ("/interactions", list),
                _ => {
                    calls.count_record();
                    return self.record(&Place::Pointer(String::new()), Value::Object(map), calls);
                }
            },
            other => {
                return calls
                    .skip(Place::Whole, format!("{} holds no JSON-RPC message", crate::json::kind(&other)));
            }
        };
        for (index, value) in list.into_iter().enumerate() {
            calls.count_record();
            self.record(&Place::Pointer(item(root, index)), value, calls);
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        let mut metadata = std::mem::take(&mut self.metadata);
        if !self.tools.is_empty() {
            // What a server says of its tools is a hint for the person who reviews them, no more.
            metadata.insert("untrusted_tool_hints".into(), Value::Object(std::mem::take(&mut self.tools)));
        }
        metadata
    }
}

impl Log {
    fn entry(&mut self, value: Value, place: &Place, outer: &Context, calls: &mut Calls) {
        match value {
            Value::Object(map) if is_message(&map) => {
                let context = Context::of(&map, outer);
                self.message(map, place, &context, calls);
            }
            Value::Object(mut map) => {
                let context = Context::of(&map, outer);
                let held: Vec<Value> = HOLDERS.iter().filter_map(|key| map.remove(*key)).collect();
                let any = !held.is_empty();
                for value in held {
                    self.held(value, place, &context, calls);
                }
                if !any {
                    let missing = map.get("missing_lines").and_then(Value::as_u64);
                    let reason = match missing {
                        Some(lines) => {
                            calls.warn_of_gap(format!(
                                "{place}: {lines} lines are missing here: calls may be missing"
                            ));
                            format!("{lines} lines are missing: the recorder couldn't keep up here")
                        }
                        None if map.contains_key("not_recorded") => {
                            calls.warn_of_gap(format!(
                                "{place}: a line was not recorded: calls may be missing"
                            ));
                            "the recorder left the line out".to_owned()
                        }
                        None => "the entry holds no JSON-RPC message".to_owned(),
                    };
                    calls.skip(place.clone(), reason);
                }
            }
            Value::Array(batch) => batch.into_iter().for_each(|value| self.entry(value, place, outer, calls)),
            _ => calls.skip(place.clone(), "the entry holds no JSON-RPC message"),
        }
    }

    /// A message inside an entry; `null` stands where a recorder saw none.
    fn held(&mut self, value: Value, place: &Place, context: &Context, calls: &mut Calls) {
        match value {
            Value::Null => {}
            Value::Object(map) => self.message(map, place, context, calls),
            Value::Array(batch) => {
                batch.into_iter().for_each(|value| self.held(value, place, context, calls))
            }
            Value::String(text) => match parse_inner(&text) {
                Some(value @ (Value::Object(_) | Value::Array(_))) => self.held(value, place, context, calls),
                _ => calls.skip(place.clone(), "the entry holds a text that isn't a JSON-RPC message"),
            },
            _ => calls.skip(place.clone(), "the entry holds no JSON-RPC message"),
        }
    }

    fn message(&mut self, mut map: Map<String, Value>, place: &Place, context: &Context, calls: &mut Calls) {
        let id = map.remove("id").filter(|id| !id.is_null());
        let method = map.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, id) {
            (Some(method), Some(id)) => self.request(&method, id, map, place, context, calls),
            (Some(method), None) => self.notification(&method, &map, calls),
            (None, Some(id)) => self.answer(&id, map, place, context, calls),
            (None, None) => calls.skip(place.clone(), "a message with neither method nor id"),
        }
    }

    fn request(
        &mut self,
        method: &str,
        id: Value,
        mut map: Map<String, Value>,
        place: &Place,
        context: &Context,
        calls: &mut Calls,
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
                match read_call(&id, params, place, context, calls) {
                    Some(call) => Waiting::Call(call),
                    None => Waiting::Other,
                }
            }
            _ => Waiting::Other,
        };
        self.open.insert((sender, id.to_string()), waiting);
    }

    fn notification(&mut self, method: &str, map: &Map<String, Value>, calls: &mut Calls) {
        if method != "notifications/cancelled" {
            return;
        }
        let Some(id) = map.get("params").and_then(|params| params.get("requestId")) else {
            return;
        };
        for sender in [Sender::Client, Sender::Server] {
            if let Some(Waiting::Call(call)) = self.open.get(&(sender, id.to_string())) {
                calls.cancel(*call);
            }
        }
    }

    fn answer(
        &mut self,
        id: &Value,
        mut map: Map<String, Value>,
        place: &Place,
        context: &Context,
        calls: &mut Calls,
    ) {
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
            None => calls.skip(place.clone(), format!("an answer to {key}, which nothing asked")),
            Some(Waiting::Call(call)) => {
                let answer = read_answer(result, error, place, context, calls.has_start(call));
                calls.settle(call, answer);
            }
            Some(Waiting::Tools) => self.tools(result.as_ref()),
            Some(Waiting::Initialize) => self.initialized(result),
            Some(Waiting::Other) => {}
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
}

fn read_call(
    id: &Value,
    mut params: Value,
    place: &Place,
    context: &Context,
    calls: &mut Calls,
) -> Option<CallId> {
    let arguments = Arguments::of(params.get_mut("arguments").map(Value::take));
    let meta = params.get_mut("_meta").map(Value::take).unwrap_or_default();
    let Some(tool) = params.get("name").and_then(Value::as_str) else {
        calls.refuse(place.clone(), "a call without a tool name");
        return None;
    };
    if let Arguments::Other(_) = arguments {
        let reason = format!("a call of `{}` whose arguments are no object", tool.escape_debug());
        calls.refuse(place.clone(), reason);
        return None;
    }
    let mut call = Call::new(place, tool, arguments).at(context.time.clone());
    (call.parent, call.workflow) = (context.parent.clone(), context.workflow.clone());
    let added = calls.add(call.with("id", id.clone()).with("request_meta", meta))?;
    if let Some(key) = id.as_str() {
        calls.name(added, key);
    }
    Some(added)
}

fn read_answer(
    result: Option<Value>,
    error: Option<Value>,
    place: &Place,
    context: &Context,
    started: bool,
) -> Answer {
    let mut answer = match (result, error) {
        (Some(mut result), None) => {
            let failed = result.get("isError") == Some(&Value::Bool(true));
            let status = if failed { Status::failed() } else { Status::success() };
            let value = content::reply_of_mcp_result(&result).value();
            if let Some(map) = result.as_object_mut() {
                // It is the event's result already.
                map.remove("structuredContent");
            }
            Answer::new(place, value, status).with("result", result)
        }
        (_, error) => Answer::new(place, error.unwrap_or_default(), Status::failed()),
    };
    answer.duration_ms = context.latency_ms;
    // A container with one time for a request and its answer means the request's.
    if started || context.latency_ms.is_none() {
        answer.ended_at = context.time.clone();
    }
    answer
}
