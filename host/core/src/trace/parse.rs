//! The trace file.
//!
//! Owns every field rule of Trace v1 and the way between [`Trace`] and its JSON form. Refuses redaction: a
//! recording is imported as it is.
//!
//! **Invariant:** `parse(to_json(t)) == t`, and whatever is wrong with a file is reported at once.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::model::{Event, MAX_EVENTS, Status, Trace};
use super::time::Timestamp;
use crate::code::Code;
use crate::digest::{Digest, Parts};
use crate::document::{Fields, Report, as_list, as_object, as_parsed_list, as_text, shown};
use crate::effect::{Effect, Idempotency};
use crate::id::{MAX_ID_CHARS, NodeId};
use crate::json::Limits;
use crate::problem::{Problems, item};

/// Reads a trace file.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Trace, Problems> {
    from_value(&crate::json::parse(bytes, limits)?)
}

/// Reads a trace from JSON that was parsed already.
pub fn from_value(value: &Value) -> Result<Trace, Problems> {
    let report = Report::default();
    let read = read_trace(value, &report);
    report.finish(read)
}

fn read_trace(value: &Value, report: &Report) -> Option<Trace> {
    let mut fields = Fields::of(value, "", report)?;
    check_version(&mut fields, report);
    let run_id = nullable_text(&mut fields, "run_id", report);
    let name = nullable_text(&mut fields, "name", report);
    let inputs = fields.object("inputs").cloned();
    let events = fields.list("events").map(|list| read_events(list, report));
    let metadata = optional_object(&mut fields, "metadata", report);
    // Trace2MCP ignores what it doesn't know at this level, and its own samples rely on that.
    fields.ignore_rest();
    Some(Trace { run_id, name, inputs: inputs?, events: events?, metadata })
}

fn check_version(fields: &mut Fields<'_>, report: &Report) {
    for key in ["version", "trace_version"] {
        if let Some(text) = fields.optional_text(key)
            && !matches!(text, "1" | "1.0")
        {
            let message = format!("version `{text}` isn't supported; this program reads `1`");
            report.add(Code::VersionUnsupported, fields.pointer(key), message);
        }
    }
    if let Some(value) = fields.optional("trace_ir_version")
        && *value != json!("1")
        && *value != json!(1)
    {
        let message = format!("version {} isn't supported; this program reads `1`", shown(value));
        report.add(Code::VersionUnsupported, "/trace_ir_version", message);
    }
}

fn nullable_text(fields: &mut Fields<'_>, key: &'static str, report: &Report) -> Option<String> {
    let value = fields.optional(key).filter(|value| !value.is_null())?;
    as_text(value, &fields.pointer(key), report).map(str::to_owned)
}

fn optional_object(fields: &mut Fields<'_>, key: &'static str, report: &Report) -> Map<String, Value> {
    fields
        .optional(key)
        .and_then(|value| as_object(value, &fields.pointer(key), report))
        .cloned()
        .unwrap_or_default()
}

fn read_events(list: &[Value], report: &Report) -> Vec<Event> {
    if list.len() > MAX_EVENTS {
        let message = format!("{} events, at most {MAX_EVENTS}", list.len());
        report.add(Code::TooMany, "/events", message);
        return Vec::new();
    }
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(list.len());
    let mut events = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let pointer = item("/events", index);
        if let Some(id) = value.get("id").and_then(Value::as_str)
            && let Some(first) = seen.insert(id, index)
        {
            let message = format!("id `{}` is also that of event {first}", id.escape_debug());
            report.add(Code::IdDuplicate, format!("{pointer}/id"), message);
        }
        events.extend(read_event(value, &pointer, report));
    }
    events
}

fn read_event(value: &Value, pointer: &str, report: &Report) -> Option<Event> {
    let mut fields = Fields::of(value, pointer, report)?;
    let id: Option<NodeId> = fields.parsed("id");
    let tool = fields.text("tool").filter(|text| check_tool(text, &fields, report));
    let arguments = fields.object("arguments").cloned();
    let result = fields.optional("result").cloned().unwrap_or_default();
    let status = fields.optional_text("status").map_or(Status::success(), Status::new);
    let started_at = time(&mut fields, "started_at", report);
    let ended_at = time(&mut fields, "ended_at", report);
    let duration_ms = duration(&mut fields, report);
    let effect = fields.optional_name("side_effect", Effect::parse, &Effect::ALL);
    let idempotency = fields.optional_name("idempotency", Idempotency::parse, &Idempotency::ALL);
    let dependencies = dependencies(&mut fields, id.as_ref(), report);
    let reads = texts(&mut fields, "reads", report);
    let writes = texts(&mut fields, "writes", report);
    let metadata = optional_object(&mut fields, "metadata", report);
    let other = fields.into_rest();
    Some(Event {
        id: id?,
        tool: tool?.to_owned(),
        arguments: arguments?,
        result,
        status,
        started_at,
        ended_at,
        duration_ms,
        effect,
        idempotency,
        dependencies,
        reads,
        writes,
        metadata,
        other,
    })
}

fn check_tool(text: &str, fields: &Fields<'_>, report: &Report) -> bool {
    let good = super::import::is_recordable_tool(text);
    if !good {
        let message =
            format!("a tool's name has 1 to {MAX_ID_CHARS} characters, isn't blank, no line break or NUL");
        report.add(Code::FieldValue, fields.pointer("tool"), message);
    }
    good
}

fn time(fields: &mut Fields<'_>, key: &'static str, report: &Report) -> Option<Timestamp> {
    let value = fields.optional(key).filter(|value| !value.is_null())?;
    match Timestamp::read(value) {
        Ok(time) => Some(time),
        Err(message) => {
            let code = match value {
                Value::Number(_) | Value::String(_) => Code::FieldValue,
                _ => Code::FieldType,
            };
            report.add(code, fields.pointer(key), message);
            None
        }
    }
}

fn duration(fields: &mut Fields<'_>, report: &Report) -> Option<f64> {
    let value = fields.optional("duration_ms").filter(|value| !value.is_null())?;
    let Some(number) = value.as_f64() else {
        let message = format!("expected a number of milliseconds, found {}", shown(value));
        report.add(Code::FieldType, fields.pointer("duration_ms"), message);
        return None;
    };
    if number.is_finite() && number >= 0.0 {
        return Some(number);
    }
    let message = format!("a duration is 0 or more, found {}", shown(value));
    report.add(Code::FieldValue, fields.pointer("duration_ms"), message);
    None
}

fn dependencies(fields: &mut Fields<'_>, own: Option<&NodeId>, report: &Report) -> Vec<NodeId> {
    let alias = fields.optional("depends_on");
    let (value, key) = match fields.optional("dependencies") {
        Some(value) => (value, "dependencies"),
        None => match alias {
            Some(value) => (value, "depends_on"),
            None => return Vec::new(),
        },
    };
    let pointer = fields.pointer(key);
    let Some(list) = as_list(value, &pointer, report) else {
        return Vec::new();
    };
    for (index, value) in list.iter().enumerate() {
        if own.is_some_and(|own| value.as_str() == Some(own.as_str())) {
            let message = "an event can't depend on itself";
            report.add(Code::FieldValue, item(&pointer, index), message);
        }
    }
    as_parsed_list(list, &pointer, report)
}

fn texts(fields: &mut Fields<'_>, key: &'static str, report: &Report) -> Vec<String> {
    let pointer = fields.pointer(key);
    fields
        .optional_list(key)
        .iter()
        .enumerate()
        .filter_map(|(index, value)| as_text(value, &item(&pointer, index), report).map(str::to_owned))
        .collect()
}

/// The file form. Trace2MCP 0.2.2 reads it too.
pub fn to_json(trace: &Trace) -> Value {
    let mut map = Map::new();
    map.insert("version".into(), json!("1"));
    if let Some(run_id) = &trace.run_id {
        map.insert("run_id".into(), json!(run_id));
    }
    if let Some(name) = &trace.name {
        map.insert("name".into(), json!(name));
    }
    map.insert("inputs".into(), Value::Object(trace.inputs.clone()));
    let events = trace.events.iter().map(write_event).collect();
    map.insert("events".into(), Value::Array(events));
    map.insert("metadata".into(), Value::Object(trace.metadata.clone()));
    Value::Object(map)
}

/// The digest of a trace: that of its file form, made without copying it.
pub fn digest(trace: &Trace) -> Digest {
    let mut members = vec![
        ("version", Parts::Text("1")),
        ("inputs", Parts::Map(&trace.inputs)),
        ("events", Parts::List(Box::new(trace.events.iter().map(event_parts)))),
        ("metadata", Parts::Map(&trace.metadata)),
    ];
    members.extend(trace.run_id.iter().map(|text| ("run_id", Parts::Text(text))));
    members.extend(trace.name.iter().map(|text| ("name", Parts::Text(text))));
    Digest::of_parts(Parts::Object(members))
}

fn event_parts(event: &Event) -> Parts<'_> {
    let mut members: Vec<(&str, Parts<'_>)> =
        event.other.iter().map(|(key, value)| (key.as_str(), Parts::Value(value))).collect();
    members.extend([
        ("id", Parts::Text(event.id.as_str())),
        ("tool", Parts::Text(&event.tool)),
        ("arguments", Parts::Map(&event.arguments)),
        ("result", Parts::Value(&event.result)),
        ("status", Parts::Text(event.status.as_str())),
        ("side_effect", Parts::Text(event.effect.as_str())),
        ("idempotency", Parts::Text(event.idempotency.as_str())),
    ]);
    let times = [("started_at", &event.started_at), ("ended_at", &event.ended_at)];
    for (key, time) in times {
        members.extend(time.iter().map(|time| (key, Parts::Value(time.value()))));
    }
    members.extend(event.duration_ms.map(|duration| ("duration_ms", Parts::Made(json!(duration)))));
    let texts = |list: &[String]| Parts::Made(json!(list));
    for (key, list) in [("reads", &event.reads), ("writes", &event.writes)] {
        members.extend((!list.is_empty()).then(|| (key, texts(list))));
    }
    if !event.dependencies.is_empty() {
        members.push(("dependencies", Parts::Made(json!(event.dependencies))));
    }
    if !event.metadata.is_empty() {
        members.push(("metadata", Parts::Map(&event.metadata)));
    }
    Parts::Object(members)
}

fn write_event(event: &Event) -> Value {
    let mut map = event.other.clone();
    map.insert("id".into(), json!(event.id));
    map.insert("tool".into(), json!(event.tool));
    map.insert("arguments".into(), Value::Object(event.arguments.clone()));
    map.insert("result".into(), event.result.clone());
    map.insert("status".into(), json!(event.status.as_str()));
    let times = [("started_at", &event.started_at), ("ended_at", &event.ended_at)];
    for (key, time) in times {
        if let Some(time) = time {
            map.insert(key.into(), time.value().clone());
        }
    }
    if let Some(duration) = event.duration_ms {
        map.insert("duration_ms".into(), json!(duration));
    }
    map.insert("side_effect".into(), json!(event.effect));
    map.insert("idempotency".into(), json!(event.idempotency));
    let lists = [("reads", &event.reads), ("writes", &event.writes)];
    for (key, list) in lists {
        if !list.is_empty() {
            map.insert(key.into(), json!(list));
        }
    }
    if !event.dependencies.is_empty() {
        map.insert("dependencies".into(), json!(event.dependencies));
    }
    if !event.metadata.is_empty() {
        map.insert("metadata".into(), Value::Object(event.metadata.clone()));
    }
    Value::Object(map)
}
