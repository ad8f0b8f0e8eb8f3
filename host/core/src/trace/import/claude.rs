//! Claude Code sessions.
//!
//! Owns records whose `parentUuid` makes a tree, messages that are split over several of them, and results
//! that stand in a user's record with a structured copy beside them. Refuses to link a subagent's calls by
//! time: they are left out and counted.
//!
//! **Invariant:** a call counts if a record of its message is on the way from the last record back to the
//! first, whichever way its answer went: parallel calls are siblings in this tree.

use std::collections::{BTreeMap, HashMap, HashSet};

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, CallId, Calls};
use super::read::{self, Reader};
use super::tree::{Before, EntryId, Tree};
use super::{content, names, texts};
use crate::problem::Place;
use crate::trace::model::Status;
use crate::trace::time::Timestamp;

const SUBAGENT: &str = "was made by a subagent";
const GIVEN_UP: &str = "is on a branch that was given up";

/// Whether a line is a record of a session.
pub(super) fn is_record(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    matches!(kind, Some("user" | "assistant"))
        && value.get("message").is_some_and(Value::is_object)
        && ["sessionId", "session_id", "uuid", "parentUuid", "isSidechain"]
            .iter()
            .any(|key| value.get(*key).is_some())
}

/// What places a record in the session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    #[serde(rename = "type")]
    kind: Option<String>,
    uuid: Option<String>,
    #[serde(rename = "parentUuid")]
    parent: Option<String>,
    #[serde(rename = "logicalParentUuid")]
    logical_parent: Option<String>,
    #[serde(rename = "isSidechain")]
    sidechain: Option<bool>,
    #[serde(rename = "isCompactSummary")]
    summary: Option<bool>,
    message: Option<HeadMessage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HeadMessage {
    id: Option<String>,
}

impl Head {
    fn of(value: &Value) -> Head {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| value.get(key).and_then(Value::as_bool);
        Head {
            kind: text(value, "type"),
            uuid: text(value, "uuid"),
            parent: text(value, "parentUuid"),
            logical_parent: text(value, "logicalParentUuid"),
            sidechain: flag("isSidechain"),
            summary: flag("isCompactSummary"),
            message: value.get("message").map(|message| HeadMessage { id: text(message, "id") }),
        }
    }
}

/// A conversation and the end of it.
#[derive(Default)]
struct Talk {
    tree: Tree,
    leaf: Option<EntryId>,
    /// The message of each record.
    records: Vec<(EntryId, usize)>,
}

#[derive(Default)]
pub(super) struct Session {
    /// The conversation with the user.
    main: Talk,
    /// What subagents said in between. A subagent's own file has nothing else.
    side: Talk,
    /// The number of each message.
    messages: HashMap<String, usize>,
    /// Where each call stands; a repeat of a call has two places.
    made: Vec<(CallId, Standing)>,
    /// Subagents whose calls stand in other files.
    subagents: HashSet<String>,
    metadata: Map<String, Value>,
}

#[derive(Debug, Clone, Copy)]
struct Standing {
    side: bool,
    entry: EntryId,
    message: Option<usize>,
}

impl Session {
    /// Notes where a record stands; nothing if it isn't part of a conversation.
    fn place(&mut self, head: &Head) -> Option<Standing> {
        let says = matches!(head.kind.as_deref(), Some("user" | "assistant"));
        if head.uuid.is_none() && !says {
            return None;
        }
        let side = head.sidechain == Some(true);
        let talk = if side { &mut self.side } else { &mut self.main };
        let before = match (&head.parent, &head.logical_parent) {
            (Some(parent), _) | (None, Some(parent)) => Before::Id(parent),
            // What was compacted was part of the session.
            (None, None) if head.summary == Some(true) || head.kind.as_deref() == Some("system") => {
                Before::Unnamed
            }
            (None, None) => Before::Nothing,
        };
        let (entry, new) = talk.tree.add(head.uuid.as_deref(), before);
        if says && new {
            talk.leaf = Some(entry);
        }
        let message = head.message.as_ref().and_then(|message| message.id.as_ref()).map(|id| {
            let next = self.messages.len();
            let message = *self.messages.entry(id.clone()).or_insert(next);
            talk.records.push((entry, message));
            message
        });
        Some(Standing { side, entry, message })
    }

    fn describe(&mut self, value: &Value) {
        for (from, to) in [
            ("sessionId", "id"),
            ("session_id", "id"),
            ("cwd", "cwd"),
            ("version", "version"),
            ("gitBranch", "git_branch"),
        ] {
            if let Some(found @ Value::String(_)) = value.get(from)
                && !self.metadata.contains_key(to)
            {
                self.metadata.insert(to.into(), found.clone());
            }
        }
    }

    fn blocks(&mut self, place: &Place, mut value: Value, standing: Standing, calls: &mut Calls) {
        let time = value.get("timestamp").and_then(|time| Timestamp::read(time).ok());
        let parent = value.get("parent_tool_use_id").and_then(Value::as_str).map(str::to_owned);
        let structured = value.get_mut("toolUseResult").map(Value::take);
        for key in ["agentId", "runId"] {
            let id = structured.as_ref().and_then(|result| result.get(key)).and_then(Value::as_str);
            self.subagents.extend(id.map(str::to_owned));
        }
        let Some(Value::Array(blocks)) = value.pointer_mut("/message/content").map(Value::take) else {
            if structured.is_some() {
                calls.skip(place.clone(), "a result that names no call");
            }
            return;
        };
        let is_result = |block: &Value| block_type(block).ends_with("tool_result");
        // With several results in one record nothing says whose the structured one is.
        let mut structured =
            structured.filter(|_| blocks.iter().filter(|block| is_result(block)).count() == 1);
        for mut block in blocks {
            if is_result(&block) {
                let key = block.get("tool_use_id").and_then(Value::as_str).map(str::to_owned);
                match key {
                    Some(key) => {
                        let answer = read_result(place, &mut block, structured.take(), calls);
                        calls.answer(&key, answer.at(time.clone()));
                    }
                    None => calls.skip(place.clone(), "a result that names no call"),
                }
            } else if block_type(&block).ends_with("tool_use") {
                let mut call = read_call(place, &mut block).at(time.clone());
                call.parent = parent.clone();
                let id = match block.get("id").and_then(Value::as_str) {
                    Some(key) => calls.call(key, call),
                    None => {
                        calls.skip(place.clone(), "a call without an id: its answer can't be found");
                        calls.add(call)
                    }
                };
                self.made.extend(id.map(|id| (id, standing)));
            }
        }
    }

    /// Leaves out what isn't on the main line.
    fn choose(&mut self, calls: &mut Calls) {
        let only_side = self.main.leaf.is_none();
        let talk = if only_side { &self.side } else { &self.main };
        let line = talk.tree.main_line(talk.leaf);
        let on_line = talk.records.iter().filter(|(entry, _)| line.has(*entry));
        let messages: HashSet<usize> = on_line.map(|(_, message)| *message).collect();
        let mut reasons: BTreeMap<CallId, Option<&str>> = BTreeMap::new();
        for (id, standing) in &self.made {
            let on_line =
                line.has(standing.entry) || standing.message.is_some_and(|id| messages.contains(&id));
            let reason = match standing.side == only_side {
                false => Some(SUBAGENT),
                true => (!on_line).then_some(GIVEN_UP),
            };
            let known = reasons.entry(*id).or_insert(reason);
            *known = (*known).and(reason);
        }
        let (mut inner, mut given_up) = (0, 0);
        for (id, reason) in reasons {
            if let Some(reason) = reason {
                let count = if reason == SUBAGENT { &mut inner } else { &mut given_up };
                *count += 1;
                calls.leave_out(id, reason);
            }
        }
        if inner > 0 {
            calls.warn(format!("{inner} calls were made by subagents and are left out: they belong to the call that started the subagent"));
        }
        if given_up > 0 {
            calls.warn(format!("{given_up} calls are on branches that were given up and are left out"));
        }
        if line.gaps > 0 {
            calls.warn(format!(
                "{} records name a record before them that isn't in the file; the one above was taken for it",
                line.gaps
            ));
        }
        if !self.subagents.is_empty() {
            calls.warn(format!(
                "{} subagents were started: what they called stands in their own files, `subagents/agent-*.jsonl` beside this one, each of which can be imported by itself",
                self.subagents.len()
            ));
        }
    }
}

impl Reader for Session {
    fn matters(&self, line: &[u8]) -> bool {
        memmem::find(line, b"tool_use").is_some() || memmem::find(line, b"toolUseResult").is_some()
    }

    fn ignores(&self) -> &'static [&'static [&'static str]] {
        &[&["message", "usage"], &["message", "content", "thinking"], &["message", "content", "signature"]]
    }

    fn pass(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        self.place(&read::head(line, Head::of)?);
        Ok(())
    }

    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls) {
        let Some(standing) = self.place(&Head::of(&value)) else {
            return;
        };
        if matches!(value.get("type").and_then(Value::as_str), Some("user" | "assistant")) {
            self.describe(&value);
            self.blocks(place, value, standing, calls);
        }
    }

    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value> {
        self.choose(calls);
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}

fn block_type(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn read_call(place: &Place, block: &mut Value) -> Call {
    let arguments = Arguments::of(block.get_mut("input").map(Value::take));
    let tool = block.get("name").and_then(Value::as_str).unwrap_or_default();
    let call = names::noted(Call::new(place, tool, arguments));
    match block.get("server_name").and_then(Value::as_str) {
        Some(server) => call.with("server", server).with("tool", tool),
        None => call,
    }
}

fn read_result(place: &Place, block: &mut Value, structured: Option<Value>, calls: &mut Calls) -> Answer {
    let (shown, blobs) =
        content::value_of_content(block.get_mut("content").map(Value::take).unwrap_or_default());
    let text = content::text_of(&shown);
    let failed = match block.get("is_error").and_then(Value::as_bool) {
        Some(flag) => flag || text.starts_with("<tool_use_error>"),
        None => texts::is_failure(text),
    };
    let interrupted =
        structured.as_ref().and_then(|result| result.get("interrupted")) == Some(&Value::Bool(true));
    let status = match (failed, interrupted) {
        (true, _) => Status::failed(),
        (false, true) => Status::new("interrupted"),
        (false, false) => Status::success(),
    };
    match structured {
        Some(result @ Value::Object(_)) => Answer::new(place, result, status).with("content", shown),
        _ => {
            calls.count_blobs(blobs);
            Answer::new(place, shown, status)
        }
    }
}
