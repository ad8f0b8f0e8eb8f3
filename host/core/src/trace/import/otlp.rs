//! Spans in OTLP/JSON.
//!
//! Owns which spans are calls of tools, in the conventions for GenAI and MCP and in the dialects of
//! OpenInference, Pydantic AI and OpenLLMetry; their order and nesting. Refuses spans without content: what
//! a tool was called with is only there if the recorder was told to keep it.
//!
//! **Invariant:** spans come in any order; calls are in the order in which they began.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::{Reader, parse_inner};
use super::{content, names, places};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

const ARGUMENTS: [&str; 4] =
    ["gen_ai.tool.call.arguments", "tool_arguments", "input.value", "traceloop.entity.input"];
const RESULTS: [&str; 4] =
    ["gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output"];
const NAMES: [&str; 4] = ["gen_ai.tool.name", "tool.name", "mcp.tool.name", "traceloop.entity.name"];

/// Most levels of spans that are looked through for the call around a call.
const MAX_LEVELS: usize = 1000;

/// Whether a value is an export of spans.
pub(super) fn is_export(value: &Value) -> bool {
    value.get("resourceSpans").is_some_and(Value::is_array)
}

struct Tool {
    place: Place,
    id: String,
    name: String,
    attributes: Map<String, Value>,
    start: u64,
    end: u64,
    failed: bool,
    message: Value,
    /// Whether the span is only that of the protocol, around or within one of the agent.
    is_wire: bool,
}

impl Tool {
    fn holds(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.attributes.contains_key(*key))
    }

    /// Takes what this span leaves open from another one of the same call.
    fn complete(&mut self, mut twin: Tool) {
        for keys in [&ARGUMENTS, &RESULTS] {
            if self.holds(keys) {
                continue;
            }
            let found = keys.iter().find_map(|key| Some((*key, twin.attributes.remove(*key)?)));
            if let Some((key, value)) = found {
                self.attributes.insert(key.to_owned(), value);
                // A result and whether it is that of a failure belong together.
                self.failed |= twin.failed && keys == &RESULTS;
            }
        }
        let content = ARGUMENTS.iter().chain(&RESULTS);
        content.for_each(|key| drop(twin.attributes.remove(*key)));
        if !self.failed {
            twin.attributes.remove("error.type");
        }
        for (key, value) in twin.attributes {
            self.attributes.entry(key).or_insert(value);
        }
    }
}

#[derive(Default)]
pub(super) struct Spans {
    parents: HashMap<String, String>,
    tools: Vec<Tool>,
    spans: usize,
}

impl Reader for Spans {
    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        for (r, mut resource) in take_list(&mut value, "resourceSpans").into_iter().enumerate() {
            for key in ["scopeSpans", "instrumentationLibrarySpans"] {
                for (s, mut scope) in take_list(&mut resource, key).into_iter().enumerate() {
                    for (index, span) in take_list(&mut scope, "spans").into_iter().enumerate() {
                        let pointer = format!("/resourceSpans/{r}/{key}/{s}/spans/{index}");
                        calls.count_record();
                        self.span(places::at(place, &pointer), span, calls);
                    }
                }
            }
        }
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        let mut tools = std::mem::take(&mut self.tools);
        tools.sort_by_key(|tool| tool.start);
        let names: HashMap<String, (String, bool)> =
            tools.iter().map(|tool| (tool.id.clone(), (tool.name.clone(), tool.is_wire))).collect();
        let (outer, inner): (Vec<Tool>, Vec<Tool>) =
            tools.into_iter().partition(|tool| self.outermost(&tool.id, &names) == tool.id);
        let mut twins: HashMap<String, Vec<Tool>> = HashMap::new();
        for tool in inner {
            calls.repeat();
            twins.entry(self.outermost(&tool.id, &names)).or_default().push(tool);
        }
        let (mut outer, mut without) = (outer, 0);
        for tool in &mut outer {
            twins.remove(&tool.id).into_iter().flatten().for_each(|twin| tool.complete(twin));
        }
        let bare = outer.iter().filter(|tool| !tool.holds(&ARGUMENTS));
        let bare: HashMap<String, String> = bare.map(|tool| (tool.id.clone(), tool.name.clone())).collect();
        for tool in outer {
            let around = |id: &str| self.around(id, &names).map(|id| self.outermost(&id, &names));
            // A call without content is no event, but it stands in one that may be.
            let (mut parent, mut inside) = (around(&tool.id), None);
            for _ in 0..MAX_LEVELS {
                let Some(name) = parent.as_ref().and_then(|parent| bare.get(parent)) else { break };
                inside = inside.or(Some(name.as_str()));
                parent = parent.and_then(|parent| around(&parent));
            }
            without += usize::from(!read_tool(tool, parent, inside, calls));
        }
        if without > 0 {
            calls.warn(format!("{without} calls have no recorded result; they count as unanswered"));
        }
        let mut metadata = Map::new();
        metadata.insert("spans".into(), self.spans.into());
        metadata
    }
}

impl Spans {
    fn span(&mut self, place: Place, mut span: Value, calls: &mut Calls) {
        self.spans += 1;
        let text = |key: &str| span.get(key).and_then(Value::as_str).unwrap_or_default();
        let (trace, own, parent) = (text("traceId"), text("spanId"), text("parentSpanId"));
        let id = format!("{trace}/{own}");
        let title = text("name").to_owned();
        if !parent.is_empty() {
            self.parents.insert(id.clone(), format!("{trace}/{parent}"));
        }
        let is_named = !own.is_empty();
        let attributes = attributes(take_list(&mut span, "attributes"));
        let is = |key: &str, expected: &str| {
            attributes.get(key).and_then(Value::as_str).is_some_and(|v| v.eq_ignore_ascii_case(expected))
        };
        let is_call = is("gen_ai.operation.name", "execute_tool")
            || is("openinference.span.kind", "tool")
            || is("traceloop.span.kind", "tool")
            || title.starts_with("execute_tool ")
            || attributes.contains_key("gen_ai.tool.name") && attributes.contains_key("tool_arguments");
        // The convention for MCP puts both names on one span.
        let is_wire = is("mcp.method.name", "tools/call");
        if !is_call && !is_wire {
            return;
        }
        if !is_named {
            return calls.refuse(place, "a span of a tool without a `spanId`");
        }
        let is_bare = !NAMES.iter().any(|key| attributes.contains_key(*key))
            || !ARGUMENTS.iter().any(|key| attributes.contains_key(*key));
        if title.starts_with("handoff to ") && is_bare {
            return calls.refuse(place, "a handoff to another agent, which is no call of a tool");
        }
        let name = NAMES.iter().find_map(|key| attributes.get(*key)?.as_str()).map(str::to_owned);
        let name = name.unwrap_or_else(|| {
            let bare = title.strip_prefix("execute_tool ").or(title.strip_prefix("tools/call "));
            bare.unwrap_or(&title).to_owned()
        });
        let code = span.get("status").and_then(|status| status.get("code"));
        let failed = code.is_some_and(|code| *code == 2 || *code == "STATUS_CODE_ERROR" || *code == "2")
            || attributes.contains_key("error.type");
        let message = span.get("status").and_then(|status| status.get("message"));
        let message = message.filter(|message| message.as_str() != Some("")).cloned();
        let (start, end) = (nanos(span.get("startTimeUnixNano")), nanos(span.get("endTimeUnixNano")));
        let message = message.or_else(|| attributes.get("error.type").cloned()).unwrap_or_default();
        self.tools.push(Tool { place, id, name, attributes, start, end, failed, message, is_wire });
    }

    /// The outermost span of a call: the protocol's span around or within the agent's is the same call.
    fn outermost(&self, id: &str, tools: &HashMap<String, (String, bool)>) -> String {
        let mut own = id.to_owned();
        for _ in 0..MAX_LEVELS {
            let (Some(outer), Some((name, wire))) = (self.around(&own, tools), tools.get(&own)) else {
                break;
            };
            let is_same = tools.get(&outer).is_some_and(|(other, w)| other == name && (*wire || *w));
            if !is_same {
                break;
            }
            own = outer;
        }
        own
    }

    /// The call in which a call was made.
    fn around(&self, id: &str, tools: &HashMap<String, (String, bool)>) -> Option<String> {
        let mut next = self.parents.get(id);
        for _ in 0..MAX_LEVELS {
            let parent = next?;
            if tools.contains_key(parent) {
                return (parent != id).then(|| parent.clone());
            }
            next = self.parents.get(parent);
        }
        None
    }
}

/// Adds a call, and says whether it is known how it ended. `inside` names a call around it that is no event.
fn read_tool(mut tool: Tool, around: Option<String>, inside: Option<&str>, calls: &mut Calls) -> bool {
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| tool.attributes.remove(*key));
    let (arguments, result) = (take(&ARGUMENTS), take(&RESULTS));
    let Some(arguments) = arguments else {
        let name = tool.name.escape_debug();
        let reason =
            format!("a span of `{name}` without arguments: the recorder keeps content only if it is told to");
        calls.refuse(tool.place, reason);
        return true;
    };
    let mut call = Call::new(&tool.place, tool.name, keywords(arguments)).at(time(tool.start));
    call.parent = around;
    call = call.with("inside", inside);
    for (key, fact) in
        [("gen_ai.tool.call.id", "call_id"), ("gen_ai.agent.name", "agent"), ("mcp.session.id", "session")]
    {
        call = call.with(fact, tool.attributes.remove(key).unwrap_or_default());
    }
    let Some(id) = calls.call(&tool.id, names::noted(call)) else {
        return true;
    };
    let value = match (result, tool.failed) {
        (Some(result), _) => content::value_of_content(result).0,
        (None, true) => content::value_of_content(tool.message).0,
        (None, false) => return false,
    };
    let status = if tool.failed { Status::failed() } else { Status::success() };
    let error = tool.attributes.remove("error.type").unwrap_or_default();
    let mut answer = Answer::new(&tool.place, value, status).at(time(tool.end)).with("error_type", error);
    if tool.start > 0 && tool.end >= tool.start {
        answer.duration_ms = Some((tool.end - tool.start) as f64 / 1e6);
    }
    calls.settle(id, answer);
    true
}

/// Arguments; one dialect writes those of a Python function, `{"args": [], "kwargs": {..}}`.
fn keywords(arguments: Value) -> Arguments {
    let parsed = match &arguments {
        Value::String(text) if text.contains("\"kwargs\"") => parse_inner(text),
        _ => None,
    };
    if let Some(Value::Object(mut map)) = parsed
        && map.len() == 2
        && map.get("args").and_then(Value::as_array).is_some_and(Vec::is_empty)
        && let Some(Value::Object(named)) = map.remove("kwargs")
    {
        return Arguments::Object(named);
    }
    Arguments::of_text(Some(arguments))
}

fn take_list(value: &mut Value, key: &str) -> Vec<Value> {
    match value.get_mut(key).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn attributes(list: Vec<Value>) -> Map<String, Value> {
    let pairs = list.into_iter().filter_map(|mut pair| {
        let value = pair.get_mut("value").map(Value::take)?;
        Some((pair.get("key")?.as_str()?.to_owned(), plain(value)))
    });
    pairs.collect()
}

/// The plain value of an attribute's.
fn plain(value: Value) -> Value {
    let Value::Object(map) = value else {
        return value;
    };
    match map.into_iter().next() {
        Some((kind, mut value)) => match kind.as_str() {
            // A text, so that no JSON reader rounds it.
            "intValue" => match value.as_str().and_then(|text| text.parse::<i64>().ok()) {
                Some(number) => number.into(),
                None => value,
            },
            "arrayValue" => take_list(&mut value, "values").into_iter().map(plain).collect(),
            "kvlistValue" => Value::Object(attributes(take_list(&mut value, "values"))),
            _ => value,
        },
        None => Value::Null,
    }
}

fn nanos(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::String(text)) => text.parse().unwrap_or_default(),
        Some(number) => number.as_u64().unwrap_or_default(),
        None => 0,
    }
}

fn time(nanos: u64) -> Option<Timestamp> {
    // In two parts: as a whole, nanoseconds of today have more digits than a double.
    let milliseconds = (nanos / 1_000_000) as f64 + (nanos % 1_000_000) as f64 / 1e6;
    (nanos > 0).then(|| Timestamp::read(&Value::from(milliseconds)).ok()).flatten()
}
