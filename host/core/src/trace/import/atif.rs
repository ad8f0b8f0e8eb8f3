//! ATIF trajectories.
//!
//! Owns steps with calls and the observations that answer them. Refuses steps that were copied from another
//! trajectory, and trajectories of subagents: they are recordings of their own.
//!
//! **Invariant:** a call and its answer are in the same step.

use serde_json::{Map, Value};

use super::calls::{Answer, Arguments, Call, Calls};
use super::read::Reader;
use super::{content, names, places, texts};
use crate::problem::Place;
use crate::trace::time::Timestamp;

/// Whether a value is a trajectory.
pub(super) fn is_trajectory(value: &Value) -> bool {
    let version = value.get("schema_version").and_then(Value::as_str);
    version.is_some_and(|version| version.starts_with("ATIF-v")) && value.get("steps").is_some()
}

#[derive(Default)]
pub(super) struct Trajectory {
    metadata: Map<String, Value>,
}

impl Reader for Trajectory {
    fn begins_session(&self, value: &Value) -> bool {
        is_trajectory(value)
    }

    fn record(&mut self, place: &Place, mut value: Value, calls: &mut Calls) {
        let Some(Value::Array(steps)) = value.get_mut("steps").map(Value::take) else {
            return calls.skip(place.clone(), "an entry without steps");
        };
        for key in ["schema_version", "session_id", "trajectory_id", "continued_trajectory_ref"] {
            self.metadata.extend(value.get_mut(key).map(|value| (key.to_owned(), value.take())));
        }
        let subagents = value.get("subagent_trajectories").and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..subagents {
            let place = places::at(place, &format!("/subagent_trajectories/{index}"));
            calls.skip(place, "a subagent's trajectory, a recording of its own");
        }
        let mut copied = 0;
        for (index, step) in steps.into_iter().enumerate() {
            calls.count_record();
            let place = places::at(place, &format!("/steps/{index}"));
            if step.get("is_copied_context").and_then(Value::as_bool) == Some(true) {
                calls.skip(place, "a step that was copied from another trajectory");
                copied += 1;
            } else {
                read_step(&place, step, calls);
            }
        }
        if copied + subagents > 0 {
            calls.warn(format!(
                "{copied} copied steps and {subagents} trajectories of subagents were not taken"
            ));
        }
    }

    fn finish(&mut self, _: &mut Calls) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("session".into(), Value::Object(std::mem::take(&mut self.metadata)));
        metadata
    }
}

fn read_step(place: &Place, mut step: Value, calls: &mut Calls) {
    let time = step.get("timestamp").and_then(|time| Timestamp::read(time).ok());
    if let Some(Value::Array(list)) = step.get_mut("tool_calls").map(Value::take) {
        for (index, mut call) in list.into_iter().enumerate() {
            let place = places::at(place, &format!("/tool_calls/{index}"));
            let arguments = Arguments::of(call.get_mut("arguments").map(Value::take));
            let tool = call.get("function_name").and_then(Value::as_str).unwrap_or_default();
            let made = names::noted(Call::new(&place, tool, arguments).at(time.clone()));
            match call.get("tool_call_id").and_then(Value::as_str) {
                Some(key) => {
                    calls.call(key, made);
                }
                None => {
                    calls.skip(place, "a call without an id: its answer can't be found");
                    calls.add(made);
                }
            }
        }
    }
    let results = step.get_mut("observation").and_then(|found| found.get_mut("results")).map(Value::take);
    let Some(Value::Array(results)) = results else {
        return;
    };
    for (index, mut result) in results.into_iter().enumerate() {
        let place = places::at(place, &format!("/observation/results/{index}"));
        let inner = result.get_mut("content").map(Value::take).unwrap_or_default();
        let subagent = result.get_mut("subagent_trajectory_ref").map(Value::take).unwrap_or_default();
        let (value, blobs) = content::value_of_content(inner);
        calls.count_blobs(blobs);
        let status = texts::status_of(content::text_of(&value));
        match result.get("source_call_id").and_then(Value::as_str) {
            Some(key) => calls.answer(key, Answer::new(&place, value, status).with("subagent", subagent)),
            None => calls.skip(place, "a result that names no call"),
        }
    }
}
