//! From a line to a message.
//!
//! Owns the one parse of what a client sends, and the JSON-RPC errors of what can't be read. Refuses to
//! guess: a key that stands twice or a number that can't be held is an error, as in every other file.
//!
//! **Invariant:** a call's arguments are parsed once and moved on as they are.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientNotification, ClientRequest,
    ErrorCode, ErrorData, JsonRpcMessage, PingRequest, RequestId, RequestMetaObject,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use t2m_core::code::Code;
use t2m_core::json::{Limits, kind, parse};
use t2m_core::problem::Problems;

use super::lines::MAX_LINE;

/// Longest id that is kept for an answer, in bytes. Ids are numbers or short names; a long one would be held
/// and sent back for nothing.
const MAX_ID: usize = 1 << 10;

/// Requests that this server or its protocol library reads; their parameters must be right.
const KNOWN: [&str; 4] = ["initialize", "server/discover", "tools/list", "subscriptions/listen"];

/// What a line was.
#[derive(Debug)]
pub(super) enum Incoming {
    /// Something that wants an answer.
    Request {
        /// Its id.
        id: RequestId,
        /// What it asks for, as far as the transport cares.
        kind: Kind,
        /// The message.
        message: ClientJsonRpcMessage,
    },
    /// A request's client doesn't want its answer any more.
    Cancelled {
        /// The request.
        id: RequestId,
        /// The message.
        message: ClientJsonRpcMessage,
    },
    /// `notifications/initialized`.
    Ready(ClientJsonRpcMessage),
    /// Another notification, or a response.
    Other(ClientJsonRpcMessage),
    /// An empty line, or a notification that means nothing here.
    Nothing,
    /// Something that can't be read, with the id if it has a usable one.
    Invalid {
        /// The id to answer under.
        id: Option<RequestId>,
        /// The answer.
        error: ErrorData,
    },
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `tools/call`.
    Call,
    /// `subscriptions/listen`.
    Subscription,
    /// Anything else.
    Other,
}

/// Reads one line.
pub(super) fn decode(line: &[u8]) -> Incoming {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Incoming::Nothing;
    }
    let limits = Limits { bytes: MAX_LINE, ..Limits::default() };
    match parse(line, limits) {
        Ok(Value::Object(message)) => object(message),
        Ok(other) => {
            let message = format!("expected one JSON-RPC message, found {}", kind(&other));
            invalid(None, ErrorCode::INVALID_REQUEST, message)
        }
        Err(problems) => unreadable(line, &problems),
    }
}

fn object(mut message: Map<String, Value>) -> Incoming {
    if !message.contains_key("method") && (message.contains_key("result") || message.contains_key("error")) {
        // Nobody asks anything of the client so far; the protocol's loop drops what it doesn't know.
        return typed(message).map_or(Incoming::Nothing, Incoming::Other);
    }
    let id = match message.get("id").map(usable_id) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(why)) => return invalid(None, ErrorCode::INVALID_REQUEST, why),
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(id, ErrorCode::INVALID_REQUEST, "expected `\"jsonrpc\": \"2.0\"`".to_owned());
    }
    let method = match message.get("method") {
        None => None,
        Some(Value::String(method)) => Some(method.clone()),
        Some(other) => {
            let why = format!("`method`: expected a string, found {}", kind(other));
            return invalid(id, ErrorCode::INVALID_REQUEST, why);
        }
    };
    match (method.as_deref(), id) {
        (Some("tools/call"), Some(id)) => call(id, message.remove("params")),
        (Some("ping"), Some(id)) if !message.contains_key("params") => {
            let message =
                ClientJsonRpcMessage::request(ClientRequest::from(PingRequest::default()), id.clone());
            Incoming::Request { id, kind: Kind::Other, message }
        }
        (Some(method), Some(id)) => request(id, method, message),
        (Some(method), None) => notification(method, message),
        (None, id) => invalid(id, ErrorCode::INVALID_REQUEST, "expected a `method`".to_owned()),
    }
}

/// `tools/call`, taken apart by hand: it is what clients send most, and its arguments may be large.
fn call(id: RequestId, params: Option<Value>) -> Incoming {
    let wrong = |id: RequestId, what: &str, found: Option<&Value>| {
        let found = found.map_or("nothing", kind);
        invalid(Some(id), ErrorCode::INVALID_PARAMS, format!("{what}, found {found}"))
    };
    let mut params = match params {
        Some(Value::Object(params)) => params,
        other => return wrong(id, "`params`: expected an object", other.as_ref()),
    };
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        other => return wrong(id, "`params.name`: expected a string", other.as_ref()),
    };
    let mut call = CallToolRequestParams::new(name);
    match params.remove("arguments") {
        None => {}
        Some(Value::Object(arguments)) => call = call.with_arguments(arguments),
        Some(other) => return wrong(id, "`params.arguments`: expected an object", Some(&other)),
    }
    let mut request = CallToolRequest::new(call);
    match params.remove("_meta").map(RequestMetaObject::deserialize) {
        None => {}
        Some(Ok(meta)) => drop(request.extensions.insert(meta)),
        Some(Err(_)) => return wrong(id, "`params._meta`: expected an object", Some(&Value::Null)),
    }
    let message = ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), id.clone());
    Incoming::Request { id, kind: Kind::Call, message }
}

fn request(id: RequestId, method: &str, message: Map<String, Value>) -> Incoming {
    // The protocol library takes a cursor of another type for none.
    let cursor = message.get("params").and_then(|params| params.get("cursor"));
    if let Some(cursor) = cursor.filter(|cursor| method == "tools/list" && !cursor.is_string()) {
        let why = format!("`params.cursor`: expected a string, found {}", kind(cursor));
        return invalid(Some(id), ErrorCode::INVALID_PARAMS, why);
    }
    let Some(message) = typed(message) else {
        return invalid(Some(id), ErrorCode::INVALID_REQUEST, "not a JSON-RPC request".to_owned());
    };
    let JsonRpcMessage::Request(request) = &message else {
        return invalid(Some(id), ErrorCode::INVALID_REQUEST, "both a request and a response".to_owned());
    };
    // What has the wrong parameters passes for a method of somebody's own.
    if matches!(request.request, ClientRequest::CustomRequest(_)) && KNOWN.contains(&method) {
        let why = format!("the parameters of `{method}` are not what the protocol says");
        return invalid(Some(id), ErrorCode::INVALID_PARAMS, why);
    }
    let kind = if method == "subscriptions/listen" { Kind::Subscription } else { Kind::Other };
    Incoming::Request { id, kind, message }
}

fn notification(method: &str, message: Map<String, Value>) -> Incoming {
    // JSON-RPC, section 4.1: a notification is never answered, not even with an error.
    let Some(message) = typed(message) else {
        tracing::debug!(method, "a notification that can't be read was dropped");
        return Incoming::Nothing;
    };
    match &message {
        JsonRpcMessage::Notification(note) => match &note.notification {
            ClientNotification::CancelledNotification(cancelled) => match &cancelled.params.request_id {
                Some(id) => Incoming::Cancelled { id: id.clone(), message },
                None => Incoming::Nothing,
            },
            ClientNotification::InitializedNotification(_) => Incoming::Ready(message),
            _ => Incoming::Other(message),
        },
        _ => Incoming::Nothing,
    }
}

fn typed(message: Map<String, Value>) -> Option<ClientJsonRpcMessage> {
    ClientJsonRpcMessage::deserialize(Value::Object(message)).ok()
}

/// MCP, basic, "Requests": an id is a string or an integer, and not null.
fn usable_id(value: &Value) -> Result<RequestId, String> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(number) => Ok(RequestId::Number(number)),
            None => Err(format!("`id`: {number} is no integer of 64 bits")),
        },
        Value::String(text) if text.len() <= MAX_ID => Ok(RequestId::String(text.as_str().into())),
        Value::String(text) => Err(format!("`id`: {} bytes; the limit is {MAX_ID}", text.len())),
        other => Err(format!("`id`: expected a string or an integer, found {}", kind(other))),
    }
}

/// JSON that breaks a rule of ours is answered under its id, if there is one to be found; what isn't JSON has
/// none.
fn unreadable(line: &[u8], problems: &Problems) -> Incoming {
    #[derive(Deserialize)]
    struct IdOnly {
        id: Option<Value>,
    }
    let is_json = problems.code() != Code::JsonSyntax;
    let code = if is_json { ErrorCode::INVALID_REQUEST } else { ErrorCode::PARSE_ERROR };
    let found = serde_json::from_slice::<IdOnly>(line).ok().filter(|_| is_json);
    let id = found.and_then(|found| found.id).and_then(|id| usable_id(&id).ok());
    let data = json!({"code": problems.code(), "problems": problems});
    let message = problems.iter().next().map_or_else(String::new, |first| first.to_string());
    Incoming::Invalid { id, error: ErrorData::new(code, message, Some(data)) }
}

fn invalid(id: Option<RequestId>, code: ErrorCode, message: String) -> Incoming {
    Incoming::Invalid { id, error: ErrorData::new(code, message, None) }
}
