//! Pi sessions.
//!
//! Owns the tree of entries that later versions write and the plain list of the first one, calls as content
//! blocks, and results as messages of their own. Refuses a user's own commands: no model called them.
//!
//! **Invariant:** a call counts if its entry is on the way from the last entry back to the header.

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, CallId, Calls};
use super::read::{self, Reader};
use super::tree::{Before, EntryId, Tree};
use super::{content, names};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

const GIVEN_UP: &str = "is on a branch that was given up";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    id: Option<String>,
    #[serde(rename = "parentId")]
    parent: Option<String>,
}

impl Head {
    fn of(value: &Value) -> Head {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Head { id: text("id"), parent: text("parentId") }
    }
}

#[derive(Default)]
pub(super) struct Session {
    tree: Tree,
    leaf: Option<EntryId>,
    made: Vec<(CallId, EntryId)>,
    metadata: Map<String, Value>,
}

impl Session {
    fn place(&mut self, head: &Head) -> EntryId {
        let before = match (&head.id, &head.parent) {
            (_, Some(parent)) => Before::Id(parent),
            (Some(_), None) => Before::Nothing,
            // The first version has no ids.
            (None, None) => Before::Unnamed,
        };
        let (entry, new) = self.tree.add(head.id.as_deref(), before);
        if new {
            self.leaf = Some(entry);
        }
        entry
    }

    fn message(
        &mut self,
        place: &Place,
        mut message: Value,
        time: Option<Timestamp>,
        entry: EntryId,
        calls: &mut Calls,
    ) {
        match message.get("role").and_then(Value::as_str) {
            Some("assistant") => {
                let Some(Value::Array(blocks)) = message.get_mut("content").map(Value::take) else {
                    return;
                };
                for mut block in blocks {
                    if block.get("type").and_then(Value::as_str) != Some("toolCall") {
                        continue;
                    }
                    let arguments = Arguments::of(block.get_mut("arguments").map(Value::take));
                    let tool = block.get("name").and_then(Value::as_str).unwrap_or_default();
                    let call = names::noted(Call::new(place, tool, arguments).at(time.clone()));
                    let id = match block.get("id").and_then(Value::as_str) {
                        Some(key) => calls.call(key, call),
                        None => {
                            calls.skip(place.clone(), "a call without an id: its answer can't be found");
                            calls.add(call)
                        }
                    };
                    self.made.extend(id.map(|id| (id, entry)));
                }
            }
            Some("toolResult") => {
                match message.get("toolCallId").and_then(Value::as_str).map(str::to_owned) {
                    Some(key) => {
                        let answer = read_result(place, &mut message, calls);
                        calls.answer(&key, answer.at(time));
                    }
                    None => calls.skip(place.clone(), "a result that names no call"),
                }
            }
            Some("bashExecution") => {
                calls.skip(place.clone(), "a command of the user, which no model called")
            }
            _ => {}
        }
    }
}

fn read_result(place: &Place, message: &mut Value, calls: &mut Calls) -> Answer {
    let failed = message.get("isError").and_then(Value::as_bool) == Some(true);
    let status = if failed { Status::failed() } else { Status::success() };
    let (result, blobs) =
        content::value_of_content(message.get_mut("content").map(Value::take).unwrap_or_default());
    calls.count_blobs(blobs);
    let details = message.get_mut("details").map(Value::take).unwrap_or_default();
    Answer::new(place, result, status).with("details", details)
}

impl Reader for Session {
    fn matters(&self, line: &[u8]) -> bool {
        [&b"toolCall"[..], b"toolResult", b"bashExecution", b"\"session\""]
            .iter()
            .any(|part| memmem::find(line, part).is_some())
    }

    fn ignores(&self) -> &'static [&'static [&'static str]] {
        &[
            &["message", "usage"],
            &["message", "content", "thinking"],
            &["message", "content", "thinkingSignature"],
        ]
    }

    fn pass(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        self.place(&read::head(line, Head::of)?);
        Ok(())
    }

    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        if value.get("type").and_then(Value::as_str) == Some("session") {
            for key in ["id", "version", "harness", "cwd", "timestamp", "parentSession"] {
                self.metadata.extend(value.get_mut(key).map(|value| (key.to_owned(), value.take())));
            }
            return;
        }
        let entry = self.place(&Head::of(&value));
        let time = value.get("timestamp").and_then(|time| Timestamp::read(time).ok());
        if let Some(message) = value.get_mut("message").map(Value::take) {
            self.message(place, message, time, entry, calls);
        }
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        let line = self.tree.main_line(self.leaf);
        let mut given_up: Vec<CallId> = self.made.iter().map(|(id, _)| *id).collect();
        let on: std::collections::BTreeSet<CallId> =
            self.made.iter().filter(|(_, entry)| line.has(*entry)).map(|(id, _)| *id).collect();
        given_up.retain(|id| !on.contains(id));
        given_up.dedup();
        for id in &given_up {
            calls.leave_out(*id, GIVEN_UP);
        }
        if !given_up.is_empty() {
            calls.warn(format!(
                "{} calls are on branches that were given up and are left out",
                given_up.len()
            ));
        }
        if line.gaps > 0 {
            calls.warn(format!(
                "{} entries name an entry before them that isn't in the file; the one above was taken for it",
                line.gaps
            ));
        }
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}
