//! The second walk: the copy.
//!
//! Owns the replacement and the report. Refuses to judge: the first walk did.
//!
//! **Invariant:** texts are visited in the order of [`scan`](super::scan).

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::everywhere::Everywhere;
use super::scan::{Local, Scanned};
use super::{Kept, RedactReport, Secret, marker};
use crate::code::Code;
use crate::id::NodeId;
use crate::problem::{Problem, Problems, child, item};
use crate::trace::{Event, Status, Trace};

/// Most places of one secret that a report names.
const MAX_PLACES: usize = 20;

struct Rewrite<'s> {
    found: &'s Scanned,
    everywhere: Everywhere,
    secrets: Vec<Secret>,
    texts: usize,
    /// Pointers of texts that stayed.
    stayed: BTreeMap<usize, String>,
    problems: Vec<Problem>,
}

pub(super) fn rewrite(trace: &Trace, found: Scanned) -> Result<(Trace, RedactReport), Problems> {
    let wanted = found.secrets.iter().enumerate().filter(|(_, secret)| secret.everywhere);
    let secrets = found.secrets.iter().enumerate().map(|(index, secret)| Secret {
        marker: marker::marker(&secret.kind, found.first_number + index),
        count: 0,
        places: Vec::new(),
        everywhere: secret.everywhere,
    });
    let mut walk = Rewrite {
        everywhere: Everywhere::new(wanted.map(|(index, secret)| (index, secret.text.as_str())))?,
        secrets: secrets.collect(),
        texts: 0,
        stayed: found.kept.iter().map(|stayed| (stayed.text, String::new())).collect(),
        problems: Vec::new(),
        found: &found,
    };
    let copy = walk.trace(trace);
    Problems::from_list(std::mem::take(&mut walk.problems))?;
    let mut report = RedactReport::default();
    for stayed in &found.kept {
        report.kept.push(Kept {
            key: walk.replaced(&stayed.key, &[], &mut |_| {}).unwrap_or_else(|| stayed.key.clone()),
            pointer: walk.stayed.get(&stayed.text).cloned().unwrap_or_default(),
            count: stayed.count,
            reason: stayed.reason.to_owned(),
        });
    }
    for (secret, known) in walk.secrets.iter().zip(&found.secrets) {
        *report.kinds.entry(known.kind.clone()).or_default() += 1;
        report.secrets.push(secret.clone());
    }
    Ok((copy, report))
}

impl Rewrite<'_> {
    fn trace(&mut self, trace: &Trace) -> Trace {
        Trace {
            run_id: trace.run_id.as_ref().map(|text| self.text(text, "/run_id")),
            name: trace.name.as_ref().map(|text| self.text(text, "/name")),
            inputs: self.object(&trace.inputs, "/inputs"),
            events: trace
                .events
                .iter()
                .enumerate()
                .map(|(index, event)| self.event(event, &item("/events", index)))
                .collect(),
            metadata: self.object(&trace.metadata, "/metadata"),
        }
    }

    fn event(&mut self, event: &Event, pointer: &str) -> Event {
        let at = |field: &str| format!("{pointer}/{field}");
        let id = self.id(&event.id, &at("id"));
        let tool = self.text(&event.tool, &at("tool"));
        let status = self.text(event.status.as_str(), &at("status"));
        let arguments = self.object(&event.arguments, &at("arguments"));
        let result = self.value(&event.result, &at("result"));
        let ids = event.dependencies.iter().enumerate();
        let dependencies = ids.map(|(index, id)| self.id(id, &item(&at("dependencies"), index))).collect();
        let mut texts = |list: &[String], field: &str| -> Vec<String> {
            let list = list.iter().enumerate();
            list.map(|(index, text)| self.text(text, &item(&at(field), index))).collect()
        };
        let reads = texts(&event.reads, "reads");
        let writes = texts(&event.writes, "writes");
        let metadata = self.object(&event.metadata, &at("metadata"));
        let other = self.object(&event.other, pointer);
        Event {
            id,
            tool,
            arguments,
            result,
            status: if event.status.is_success() { event.status.clone() } else { Status::new(&status) },
            started_at: event.started_at.clone(),
            ended_at: event.ended_at.clone(),
            duration_ms: event.duration_ms,
            effect: event.effect,
            idempotency: event.idempotency,
            dependencies,
            reads,
            writes,
            metadata,
            other,
        }
    }

    fn id(&mut self, id: &NodeId, pointer: &str) -> NodeId {
        let text = self.text(id.as_str(), pointer);
        NodeId::new(text).unwrap_or_else(|_| {
            let message = "with its secret replaced the id is too long";
            self.problems.push(Problem::at(Code::FieldValue, pointer, message));
            id.clone()
        })
    }

    fn value(&mut self, value: &Value, pointer: &str) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, pointer)),
            Value::Number(number) => {
                self.texts += 1;
                let here = self.found.local.get(&self.texts).and_then(|local| local.first());
                let secret = here.map(|local| local.secret).or_else(|| {
                    let text = number.to_string();
                    let known = self.everywhere.find(&text);
                    known.into_iter().find(|(span, _)| *span == (0..text.len())).map(|(_, secret)| secret)
                });
                match secret {
                    Some(secret) => Value::String(self.mark(secret, pointer)),
                    None => Value::Number(number.clone()),
                }
            }
            Value::Array(list) => {
                let items = list.iter().enumerate();
                Value::Array(items.map(|(index, value)| self.value(value, &item(pointer, index))).collect())
            }
            Value::Object(map) => Value::Object(self.object(map, pointer)),
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, pointer: &str) -> Map<String, Value> {
        let mut made = Map::new();
        for (key, value) in map {
            let mut name = self.text(key, pointer);
            // Two forms of one secret as keys of one object: neither value may be lost.
            while made.contains_key(&name) {
                name.push('\'');
            }
            let value = self.value(value, &child(pointer, &name));
            made.insert(name, value);
        }
        made
    }

    fn text(&mut self, text: &str, pointer: &str) -> String {
        self.texts += 1;
        if let Some(stayed) = self.stayed.get_mut(&self.texts) {
            pointer.clone_into(stayed);
        }
        let found = self.found;
        let local = found.local.get(&self.texts).map(Vec::as_slice).unwrap_or_default();
        let mut marked = Vec::new();
        let made = self.replaced(text, local, &mut |secret| marked.push(secret));
        for secret in marked {
            self.mark(secret, pointer);
        }
        made.unwrap_or_else(|| text.to_owned())
    }

    /// The text with markers, or nothing if it has no secret.
    fn replaced(&self, text: &str, local: &[Local], marked: &mut dyn FnMut(usize)) -> Option<String> {
        let mut found: Vec<(Range<usize>, usize, &str)> =
            local.iter().map(|local| (local.span.clone(), local.secret, local.wrap.as_str())).collect();
        let known = self.everywhere.find(text);
        if found.is_empty() && known.is_empty() {
            return None;
        }
        let marks: Vec<Range<usize>> = marker::spans(text).collect();
        found.extend(
            known
                .into_iter()
                .filter(|(span, _)| marker::is_apart(&marks, span))
                .map(|(span, secret)| (span.clone(), secret, quotes_of_number(text, &span))),
        );
        found.sort_by_key(|(span, _, _)| (span.start, std::cmp::Reverse(span.end)));
        let mut merged: Vec<(Range<usize>, usize, &str, usize)> = Vec::new();
        for (span, secret, wrap) in found {
            match merged.last_mut() {
                Some((last, name, last_wrap, longest)) if span.start < last.end => {
                    if span.len() > *longest {
                        (*name, *last_wrap, *longest) = (secret, wrap, span.len());
                    }
                    last.end = last.end.max(span.end);
                }
                _ => {
                    let length = span.len();
                    merged.push((span, secret, wrap, length));
                }
            }
        }
        let mut made = String::with_capacity(text.len());
        let mut done = 0;
        for (span, secret, wrap, _) in &merged {
            made.push_str(text.get(done..span.start).unwrap_or_default());
            let mark = self.secrets.get(*secret).map_or("", |secret| secret.marker.as_str());
            made.push_str(wrap);
            made.push_str(mark);
            made.push_str(wrap);
            marked(*secret);
            done = span.end;
        }
        made.push_str(text.get(done..).unwrap_or_default());
        (!merged.is_empty()).then_some(made)
    }

    /// Counts a place of a secret and gives its marker.
    fn mark(&mut self, secret: usize, pointer: &str) -> String {
        let Some(secret) = self.secrets.get_mut(secret) else { return String::new() };
        secret.count += 1;
        if secret.places.len() < MAX_PLACES && secret.places.last().is_none_or(|last| last != pointer) {
            secret.places.push(pointer.to_owned());
        }
        secret.marker.clone()
    }
}

/// The quotes that a marker needs in place of a bare number of JSON that stands in a text.
fn quotes_of_number(text: &str, span: &Range<usize>) -> &'static str {
    let is_number = text.get(span.clone()).is_some_and(|found| found.parse::<f64>().is_ok());
    let before = text.get(..span.start).unwrap_or_default().trim_end();
    let after = text.get(span.end..).unwrap_or_default().trim_start();
    let bare = is_number && before.ends_with([':', '[', ',']) && after.starts_with([',', ']', '}']);
    match before.trim_end_matches([':', '[', ',']).trim_end() {
        _ if !bare => "",
        before if before.ends_with("\\\"") => "\\\"",
        before if before.ends_with(['"', '{', '}']) => "\"",
        _ => "",
    }
}
