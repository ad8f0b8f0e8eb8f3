//! The calls of a recording, while it is read.
//!
//! Owns what all formats share: which answer belongs to which call, in whatever order they come; what came
//! twice; what stayed without its other half; event ids, times and the counts of the report. Refuses to
//! know any format.
//!
//! **Invariant:** every call that was found is an event of the trace or left out with a reason, and every
//! answer belongs to one call, repeats another one, or is listed.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{Format, ImportReport, Skipped, event_id, is_recordable_tool};
use crate::code::Code;
use crate::json::{Limits, kind};
use crate::problem::{Place, Problem, Problems};
use crate::trace::model::{Event, GAPS, MAX_EVENTS, Status, Trace};
use crate::trace::time::Timestamp;

/// Most skipped parts that a report lists; the rest is counted.
const MAX_LISTED: usize = 1000;

/// Levels that a trace file adds around what was recorded.
const LEVELS_AROUND: usize = 8;

/// One call of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CallId(usize);

/// The arguments of a call, as recorded.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// An object.
    Object(Map<String, Value>),
    /// A text that should hold an object.
    Text(String),
    /// Something else.
    Other(Value),
}

impl Arguments {
    /// What stands where arguments should. A format in which arguments are a text says so by itself.
    pub(super) fn of(value: Option<Value>) -> Arguments {
        match value {
            None | Some(Value::Null) => Arguments::Object(Map::new()),
            Some(Value::Object(map)) => Arguments::Object(map),
            Some(other) => Arguments::Other(other),
        }
    }

    /// What stands where arguments should, in a format that writes them as a text.
    pub(super) fn of_text(value: Option<Value>) -> Arguments {
        match value {
            Some(Value::String(text)) => Arguments::Text(text),
            other => Arguments::of(other),
        }
    }

    /// The object, or what is there instead and why it isn't one.
    fn read(self) -> Result<Map<String, Value>, (Value, String)> {
        match self {
            Arguments::Object(map) => Ok(map),
            Arguments::Text(text) if text.trim().is_empty() => Ok(Map::new()),
            Arguments::Text(text) => {
                let limits = Limits::default();
                let limits = Limits { depth: limits.depth - LEVELS_AROUND, ..limits };
                match crate::json::parse(text.as_bytes(), limits) {
                    Ok(Value::Object(map)) => Ok(map),
                    Ok(other) => Err((Value::String(text), format!("are {}, not an object", kind(&other)))),
                    Err(problems) => {
                        let first = problems.iter().next().map(|p| p.message.clone()).unwrap_or_default();
                        Err((Value::String(text), format!("aren't usable JSON: {first}")))
                    }
                }
            }
            Arguments::Other(value) => {
                let reason = format!("are {}, not an object", kind(&value));
                Err((value, reason))
            }
        }
    }
}

/// A call that a format found.
#[derive(Debug)]
pub(super) struct Call {
    /// Where it is.
    pub(super) place: Place,
    /// The tool's name as recorded.
    pub(super) tool: String,
    /// What it was called with.
    pub(super) arguments: Arguments,
    /// When it began.
    pub(super) started_at: Option<Timestamp>,
    /// The key of the call in which it was made.
    pub(super) parent: Option<String>,
    /// The workflow that the call ran, if it ran one: the calls made in it are its steps.
    pub(super) workflow: Option<String>,
    /// What else the format says of it.
    pub(super) metadata: Map<String, Value>,
}

impl Call {
    /// A call with nothing beside its arguments.
    pub(super) fn new(place: &Place, tool: impl Into<String>, arguments: Arguments) -> Call {
        Call {
            place: place.clone(),
            tool: tool.into(),
            arguments,
            started_at: None,
            parent: None,
            workflow: None,
            metadata: Map::new(),
        }
    }

    /// The call with a time.
    pub(super) fn at(mut self, time: Option<Timestamp>) -> Call {
        self.started_at = time;
        self
    }

    /// The call with one more fact, unless it is null.
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Call {
        note(&mut self.metadata, key, value.into());
        self
    }
}

/// An answer that a format found.
#[derive(Debug)]
pub(super) struct Answer {
    /// Where it is.
    pub(super) place: Place,
    /// The result, in the form that live calls have.
    pub(super) result: Value,
    /// How the call ended.
    pub(super) status: Status,
    /// When it ended.
    pub(super) ended_at: Option<Timestamp>,
    /// How long it took, if the recording says so.
    pub(super) duration_ms: Option<f64>,
    /// Whether nothing says that it succeeded, only nothing that it failed.
    pub(super) inferred: bool,
    /// What else the format says of it.
    pub(super) metadata: Map<String, Value>,
}

impl Answer {
    /// An answer without time.
    pub(super) fn new(place: &Place, result: Value, status: Status) -> Answer {
        Answer {
            place: place.clone(),
            result,
            status,
            ended_at: None,
            duration_ms: None,
            inferred: false,
            metadata: Map::new(),
        }
    }

    /// The answer with a time.
    pub(super) fn at(mut self, time: Option<Timestamp>) -> Answer {
        self.ended_at = time;
        self
    }

    /// The answer with one more fact, unless it is null.
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Answer {
        note(&mut self.metadata, key, value.into());
        self
    }

    fn same(&self, other: &Answer) -> bool {
        self.result == other.result && self.status == other.status
    }
}

/// What a recording says of a call's end apart from the answer. It fills in what the answer leaves open.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Whether it failed.
    pub(super) failed: Option<bool>,
    /// How long it took.
    pub(super) duration_ms: Option<f64>,
    /// What else there is to know.
    pub(super) metadata: Map<String, Value>,
}

fn note(map: &mut Map<String, Value>, key: &str, value: Value) {
    if !value.is_null() {
        map.insert(key.to_owned(), value);
    }
}

struct Entry {
    call: Call,
    /// What stood where the arguments should, if that is no object.
    unusable: Option<Value>,
    arguments: Map<String, Value>,
    answer: Option<Answer>,
    cancelled: bool,
    left_out: bool,
}

/// Collects calls and answers.
pub(super) struct Calls {
    format: Format,
    entries: Vec<Entry>,
    keys: HashMap<String, CallId>,
    /// Answers that came before their calls.
    early: HashMap<String, Answer>,
    /// What was said of calls apart from their answers.
    facts: HashMap<String, Facts>,
    /// Lines or parts that were read.
    records: usize,
    too_many: bool,
    blobs: usize,
    /// Calls with an id that an earlier one had.
    reused: usize,
    /// Successes that nothing says.
    inferred: usize,
    /// Where calls may be missing.
    gaps: Vec<String>,
    report: ImportReport,
}

impl Calls {
    pub(super) fn new(format: Format) -> Calls {
        Calls {
            format,
            gaps: Vec::new(),
            entries: Vec::new(),
            keys: HashMap::new(),
            early: HashMap::new(),
            facts: HashMap::new(),
            records: 0,
            too_many: false,
            blobs: 0,
            reused: 0,
            inferred: 0,
            report: ImportReport::default(),
        }
    }

    /// Counts something that was read, for the message about a recording without calls.
    pub(super) fn count_record(&mut self) {
        self.records += 1;
    }

    /// Lists a part that isn't taken.
    pub(super) fn skip(&mut self, place: Place, reason: impl Into<String>) {
        if self.report.skipped.len() < MAX_LISTED {
            self.report.skipped.push(Skipped { place, reason: reason.into() });
        } else {
            self.report.unlisted += 1;
        }
    }

    /// Says something about the recording as a whole.
    /// Warns that calls may be missing, and keeps that in the trace: what a compiler may conclude depends on it.
    pub(super) fn warn_of_gap(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.gaps.push(text.clone());
        self.warn(text);
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.report.warnings.len() < MAX_LISTED && !self.report.warnings.contains(&text) {
            self.report.warnings.push(text);
        }
    }

    /// Counts pictures and other bytes whose size was kept, but not they themselves.
    pub(super) fn count_blobs(&mut self, blobs: usize) {
        self.blobs += blobs;
    }

    /// Takes a call that its answer names by `key`. The same call again is counted and not taken twice;
    /// of several calls with one key, answers belong to the latest.
    pub(super) fn call(&mut self, key: &str, call: Call) -> Option<CallId> {
        let known = self.keys.get(key).copied();
        let id = self.add(call.with("id", key))?;
        if let Some(known) = known {
            if self.is_repeat(known, id) {
                self.entries.pop();
                self.report.calls -= 1;
                self.report.duplicates += 1;
                return Some(known);
            }
            self.reused += 1;
        }
        self.keys.insert(key.to_owned(), id);
        if let Some(answer) = self.early.remove(key) {
            self.settle(id, answer);
        }
        Some(id)
    }

    /// Lets calls that were made in this one name it by `key`.
    pub(super) fn name(&mut self, id: CallId, key: &str) {
        self.keys.insert(key.to_owned(), id);
    }

    fn is_repeat(&self, known: CallId, new: CallId) -> bool {
        let (Some(known), Some(new)) = (self.entries.get(known.0), self.entries.get(new.0)) else {
            return false;
        };
        known.call.tool == new.call.tool && known.arguments == new.arguments && known.unusable == new.unusable
    }

    /// Takes a call whose answer is known by its id here.
    pub(super) fn add(&mut self, mut call: Call) -> Option<CallId> {
        self.report.calls += 1;
        if !is_recordable_tool(&call.tool) || event_id(&call.tool, MAX_EVENTS).is_none() {
            self.skip(call.place, "a call whose tool name is blank, too long or has line breaks");
            return None;
        }
        if self.entries.len() >= MAX_EVENTS {
            self.too_many = true;
            return None;
        }
        let arguments = std::mem::replace(&mut call.arguments, Arguments::Object(Map::new()));
        let (arguments, unusable) = match arguments.read() {
            Ok(map) => (map, None),
            Err((raw, reason)) => {
                let tool = call.tool.escape_debug();
                self.skip(call.place.clone(), format!("the arguments of a call of `{tool}` {reason}"));
                (Map::new(), Some(raw))
            }
        };
        self.keep(arguments.values().map(weight).sum());
        let (answer, cancelled, left_out) = (None, false, false);
        self.entries.push(Entry { call, unusable, arguments, answer, cancelled, left_out });
        Some(CallId(self.entries.len() - 1))
    }

    /// Counts a call that can't be taken, and says why.
    pub(super) fn refuse(&mut self, place: Place, reason: impl Into<String>) {
        self.report.calls += 1;
        self.skip(place, reason);
    }

    /// Counts a call that was told of twice, where the format knows it from more than its key.
    pub(super) fn repeat(&mut self) {
        self.report.duplicates += 1;
    }

    /// Takes the answer to the call of that key, which may still come.
    pub(super) fn answer(&mut self, key: &str, answer: Answer) {
        if let Some(id) = self.keys.get(key) {
            self.settle(*id, answer);
            return;
        }
        match self.early.get(key) {
            None => {
                self.keep(weight(&answer.result));
                self.early.insert(key.to_owned(), answer);
            }
            Some(first) if first.same(&answer) => self.report.duplicates += 1,
            Some(_) => self.skip(answer.place, second_answer(key)),
        }
    }

    /// Takes the answer to a call. Only the first counts.
    pub(super) fn settle(&mut self, id: CallId, answer: Answer) {
        let Some(entry) = self.entries.get_mut(id.0) else {
            return;
        };
        match &entry.answer {
            None => {
                let weight = weight(&answer.result);
                entry.answer = Some(answer);
                self.keep(weight);
            }
            Some(first) if first.same(&answer) => self.report.duplicates += 1,
            Some(_) => {
                let key = entry.call.metadata.get("id").map(Value::to_string).unwrap_or_default();
                self.skip(answer.place, second_answer(key.trim_matches('"')));
            }
        }
    }

    /// Takes what is said of the end of the call of that key, before or after its answer.
    pub(super) fn facts(&mut self, key: &str, facts: Facts) {
        self.facts.insert(key.to_owned(), facts);
    }

    /// The call was given up. An answer that comes all the same counts.
    pub(super) fn cancel(&mut self, id: CallId) {
        if let Some(entry) = self.entries.get_mut(id.0) {
            entry.cancelled = true;
        }
    }

    /// Whether the call's beginning has a time.
    pub(super) fn has_start(&self, id: CallId) -> bool {
        self.entries.get(id.0).is_some_and(|entry| entry.call.started_at.is_some())
    }

    /// The call is no part of the session after all. Says whether it was until now.
    pub(super) fn leave_out(&mut self, id: CallId, reason: &str) -> bool {
        let Some(entry) = self.entries.get_mut(id.0).filter(|entry| !entry.left_out) else {
            return false;
        };
        entry.left_out = true;
        let (place, tool) = (entry.call.place.clone(), entry.call.tool.escape_debug().to_string());
        self.skip(place, format!("a call of `{tool}` {reason}"));
        true
    }

    fn keep(&mut self, bytes: usize) {
        self.report.kept_bytes = self.report.kept_bytes.saturating_add(bytes);
    }

    /// The trace, and the report about it.
    pub(super) fn finish(mut self, metadata: Map<String, Value>) -> Result<(Trace, ImportReport), Problems> {
        let mut early: Vec<(String, Answer)> = std::mem::take(&mut self.early).into_iter().collect();
        early.sort_by_key(|(_, answer)| place_order(&answer.place));
        for (key, answer) in early {
            self.skip(answer.place, format!("an answer to `{}`, which nothing asked", key.escape_debug()));
        }
        self.report.skipped.sort_by_key(|skipped| place_order(&skipped.place));
        if self.too_many {
            let message = format!("{} calls, at most {MAX_EVENTS}", self.report.calls);
            return Err(Problem::new(Code::TooMany, Place::Whole, message).into());
        }
        self.fill_in();
        let events = self.events();
        if events.is_empty() {
            return Err(self.nothing().into());
        }
        self.report.left_out = self.report.calls - events.len();
        self.warnings(events.len());
        let mut trace = Trace { metadata, events, ..Trace::default() };
        if !self.gaps.is_empty() {
            trace.metadata.insert(GAPS.into(), json!(self.gaps));
        }
        trace.metadata.insert("format".into(), json!(self.format.as_str()));
        Ok((trace, self.report))
    }

    /// Puts what is known apart from the answers into them.
    fn fill_in(&mut self) {
        for (key, mut facts) in std::mem::take(&mut self.facts) {
            let entry = self.keys.get(&key).and_then(|id| self.entries.get_mut(id.0));
            let Some(answer) = entry.and_then(|entry| entry.answer.as_mut()) else {
                continue;
            };
            if let Some(failed) = facts.failed.filter(|_| answer.inferred) {
                answer.status = if failed { Status::failed() } else { Status::success() };
                answer.inferred = false;
            }
            answer.duration_ms = answer.duration_ms.or(facts.duration_ms);
            facts.metadata.append(&mut answer.metadata);
            answer.metadata = facts.metadata;
        }
        let flagless = !self.format.records_failures();
        let counted = self.entries.iter().filter(|entry| !entry.left_out && entry.unusable.is_none());
        let answers = counted.filter_map(|entry| entry.answer.as_ref());
        self.inferred = answers.filter(|a| (a.inferred || flagless) && a.status.is_success()).count();
    }

    fn events(&mut self) -> Vec<Event> {
        let entries = std::mem::take(&mut self.entries);
        let (mut counts, mut ids) = (HashMap::<String, usize>::new(), HashMap::new());
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.left_out) {
            let count = counts.entry(entry.call.tool.clone()).or_default();
            *count += 1;
            ids.extend(event_id(&entry.call.tool, *count).map(|id| (index, id)));
        }
        let mut events = Vec::with_capacity(ids.len());
        for (index, mut entry) in entries.into_iter().enumerate() {
            let Some(id) = ids.get(&index).cloned() else {
                continue;
            };
            let parent = entry.call.parent.take().and_then(|key| self.keys.get(&key).copied());
            let parent = parent.and_then(|parent| ids.get(&parent.0));
            let event = event_of(entry, id, parent.map(|parent| parent.as_str()), self.format.notes());
            match event.status.as_str() {
                "success" => self.report.answered += 1,
                "unanswered" | "cancelled" => self.report.unanswered += 1,
                _ => self.report.failed += 1,
            }
            events.push(event);
        }
        events
    }

    /// Why there is nothing to make a trace of.
    fn nothing(&self) -> Problem {
        let reason = match self.report.skipped.first() {
            Some(skipped) if self.report.calls > 0 => {
                format!("; the first was left out: {} ({})", skipped.reason, skipped.place)
            }
            _ => String::new(),
        };
        let message = format!("{} entries of {} hold no usable call{reason}", self.records, self.format);
        Problem::new(Code::TraceEmpty, Place::Whole, message)
    }

    fn warnings(&mut self, events: usize) {
        if self.report.duplicates > 0 {
            let count = self.report.duplicates;
            self.warn(format!("{count} exact repeats of calls or answers were taken once"));
        }
        if self.reused > 0 {
            let count = self.reused;
            self.warn(format!("{count} calls have the id of an earlier one: answers belong to the latest"));
        }
        if self.inferred > 0 {
            let (count, format) = (self.inferred, self.format);
            self.warn(match format.records_failures() {
                false => format!(
                    "{format} records no failures: {count} calls count as successes because their results don't read like errors"
                ),
                true => format!("{count} calls count as successes because nothing says that they failed"),
            });
        }
        if self.blobs > 0 {
            let blobs = self.blobs;
            self.warn(format!("{blobs} pictures or other bytes in results: their sizes were kept, not they"));
        }
        if self.report.answered == 0 {
            self.warn(format!(
                "none of {events} calls succeeded, so nothing can be compiled from this recording"
            ));
        }
        if self.report.unlisted > 0 {
            let count = self.report.unlisted;
            self.warn(format!("{count} more parts were skipped than are listed"));
        }
    }
}

fn second_answer(key: &str) -> String {
    format!("another answer to `{}`, which differs from the first", key.escape_debug())
}

fn event_of(entry: Entry, id: crate::id::NodeId, parent: Option<&str>, notes: &str) -> Event {
    let Entry { mut call, unusable, arguments, answer, cancelled, .. } = entry;
    let mut event = Event::new(id, call.tool, arguments);
    event.status = if cancelled { Status::cancelled() } else { Status::unanswered() };
    event.started_at = call.started_at;
    call.metadata.insert("place".into(), json!(call.place.to_string()));
    if let Some(mut answer) = answer {
        event.status = answer.status;
        event.result = answer.result;
        event.ended_at = answer.ended_at;
        event.duration_ms = answer.duration_ms;
        call.metadata.append(&mut answer.metadata);
    }
    if let (Some(start), Some(end), None) = (&event.started_at, &event.ended_at, event.duration_ms) {
        let elapsed = end.unix_ms() - start.unix_ms();
        // Doubles of this size resolve a quarter of a microsecond; more digits would be noise.
        event.duration_ms = (elapsed >= 0.0).then_some((elapsed * 1000.0).round() / 1000.0);
    }
    if let Some(raw) = unusable {
        call.metadata.insert("recorded_arguments".into(), raw);
        call.metadata.insert("recorded_status".into(), json!(event.status.as_str()));
        // Without its arguments a call can't be made again, however it ended.
        event.status = Status::new("arguments-invalid");
    }
    event.metadata.insert(notes.into(), Value::Object(std::mem::take(&mut call.metadata)));
    if let Some(parent) = parent {
        event.metadata.insert("parent".into(), json!(parent));
    }
    if let Some(workflow) = call.workflow {
        event.metadata.insert("workflow".into(), json!(workflow));
    }
    event
}

/// Lines in their order; whatever has no line stays where it is.
fn place_order(place: &Place) -> usize {
    match place {
        Place::Line(line) | Place::LineColumn(line, _) | Place::LinePointer(line, _) => *line,
        Place::Whole | Place::Pointer(_) => 0,
    }
}

/// What a map takes for each started eleven entries, beside the bytes of its keys and texts.
const MAP_NODE: usize = 640;

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    let own = std::mem::size_of::<Value>();
    match value {
        Value::String(text) => own + text.len(),
        Value::Array(list) => own + list.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            let nodes = map.len().div_ceil(11) * MAP_NODE;
            own + nodes + map.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => own,
    }
}

#[cfg(test)]
#[path = "calls/tests.rs"]
mod tests;
