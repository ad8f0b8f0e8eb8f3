//! What a run did, as records, and the one function that says what they mean.
//!
//! Owns the records and the state they lead to. Refuses storage: a [`JournalStore`] keeps records.
//!
//! **Invariant:** live runs and recovered runs change state only through [`RunState::apply`]. A record that
//! can't follow the ones before it is an error for the user, never a panic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::Code;
use crate::digest::Digest;
use crate::dispatch::BoxFuture;
use crate::id::{NodeId, RunId};

/// Version of the record format. Records of another major version are refused.
pub const JOURNAL_VERSION: u32 = 1;

/// One thing that happened. It is written before whatever it announces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The run begins. Always first.
    RunStarted {
        /// [`JOURNAL_VERSION`] of the writer.
        version: u32,
        /// The run.
        run: RunId,
        /// The workflow, pinned.
        workflow: Digest,
        /// Inputs with defaults filled in.
        inputs: Map<String, Value>,
    },
    /// A node's call begins. Without a record of its end, its outcome is in doubt.
    NodeStarted {
        /// The node.
        node: NodeId,
        /// 1 for the first attempt.
        attempt: u32,
        /// Whether the call changes nothing, by its reviewed contract.
        read_only: bool,
        /// Digest of the resolved arguments.
        arguments: Digest,
    },
    /// A node's call gave a result.
    NodeFinished {
        /// The node.
        node: NodeId,
        /// The result.
        result: Value,
    },
    /// A node's call failed.
    NodeFailed {
        /// The node.
        node: NodeId,
        /// Why.
        code: Code,
        /// Why, for people.
        message: String,
        /// Whether its handler may have acted.
        may_have_acted: bool,
    },
    /// A node's call was stopped. What changes nothing is cancelled; anything else is in doubt.
    NodeStopped {
        /// The node.
        node: NodeId,
    },
    /// The run ends. Always last.
    RunFinished {
        /// Why it failed, if it did.
        code: Option<Code>,
    },
}

/// Where one node stands. A node without a state waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum NodeState {
    /// Its call runs.
    Running {
        /// 1 for the first attempt.
        attempt: u32,
        /// Whether the call changes nothing.
        read_only: bool,
    },
    /// It has a result.
    Done,
    /// It failed.
    Failed {
        /// Why.
        code: Code,
        /// Why, for people.
        message: String,
        /// Whether its handler may have acted.
        may_have_acted: bool,
    },
    /// It was stopped and changed nothing.
    Cancelled,
    /// It was stopped and may have acted.
    InDoubt,
}

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunState {
    started: Option<Started>,
    nodes: BTreeMap<NodeId, NodeState>,
    results: BTreeMap<NodeId, Value>,
    finished: Option<Option<Code>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Started {
    run: RunId,
    workflow: Digest,
    inputs: Map<String, Value>,
}

/// A record that can't follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {position} can't be: {reason}")]
pub struct IllegalTransition {
    /// Which record, counted from 1; 0 if it isn't part of a log.
    pub position: usize,
    /// Why not.
    pub reason: String,
}

fn illegal(reason: impl Into<String>) -> IllegalTransition {
    IllegalTransition { position: 0, reason: reason.into() }
}

impl RunState {
    /// The state after all of these records.
    pub fn replay<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<RunState, IllegalTransition> {
        let mut state = RunState::default();
        for (index, record) in records.into_iter().enumerate() {
            state
                .apply(record.clone())
                .map_err(|error| IllegalTransition { position: index + 1, ..error })?;
        }
        Ok(state)
    }

    /// The state after one more record.
    pub fn apply(&mut self, record: Record) -> Result<(), IllegalTransition> {
        if self.finished.is_some() {
            return Err(illegal("the run is finished"));
        }
        if let Record::RunStarted { version, run, workflow, inputs } = record {
            if self.started.is_some() {
                return Err(illegal("the run has already started"));
            }
            if version != JOURNAL_VERSION {
                return Err(illegal(format!(
                    "journal version {version}, this program reads {JOURNAL_VERSION}"
                )));
            }
            self.started = Some(Started { run, workflow, inputs });
            return Ok(());
        }
        if self.started.is_none() {
            return Err(illegal("the run has not started"));
        }
        match record {
            Record::RunStarted { .. } => {}
            Record::NodeStarted { node, attempt, read_only, .. } => match self.nodes.get(&node) {
                Some(NodeState::Running { .. } | NodeState::Done | NodeState::InDoubt) => {
                    return Err(illegal(format!("node `{node}` runs or has ended")));
                }
                _ => {
                    self.nodes.insert(node, NodeState::Running { attempt, read_only });
                }
            },
            Record::NodeFinished { node, result } => {
                self.running(&node)?;
                self.results.insert(node.clone(), result);
                self.nodes.insert(node, NodeState::Done);
            }
            Record::NodeFailed { node, code, message, may_have_acted } => {
                self.running(&node)?;
                self.nodes.insert(node, NodeState::Failed { code, message, may_have_acted });
            }
            Record::NodeStopped { node } => {
                let state = if self.running(&node)? { NodeState::Cancelled } else { NodeState::InDoubt };
                self.nodes.insert(node, state);
            }
            Record::RunFinished { code } => {
                if let Some((node, _)) =
                    self.nodes.iter().find(|(_, state)| matches!(state, NodeState::Running { .. }))
                {
                    return Err(illegal(format!("node `{node}` still runs")));
                }
                self.finished = Some(code);
            }
        }
        Ok(())
    }

    /// Whether a running node changes nothing; an error if it doesn't run.
    fn running(&self, node: &NodeId) -> Result<bool, IllegalTransition> {
        match self.nodes.get(node) {
            Some(NodeState::Running { read_only, .. }) => Ok(*read_only),
            _ => Err(illegal(format!("node `{node}` doesn't run"))),
        }
    }

    /// The run, once it started.
    pub fn run(&self) -> Option<&RunId> {
        self.started.as_ref().map(|started| &started.run)
    }

    /// The digest of its workflow, once it started.
    pub fn workflow(&self) -> Option<Digest> {
        self.started.as_ref().map(|started| started.workflow)
    }

    /// Its inputs, once it started.
    pub fn inputs(&self) -> Option<&Map<String, Value>> {
        self.started.as_ref().map(|started| &started.inputs)
    }

    /// Nodes that don't wait any more.
    pub fn nodes(&self) -> &BTreeMap<NodeId, NodeState> {
        &self.nodes
    }

    /// Results by node.
    pub fn results(&self) -> &BTreeMap<NodeId, Value> {
        &self.results
    }

    /// How it ended, once it did: nothing inside means well.
    pub fn finished(&self) -> Option<Option<Code>> {
        self.finished
    }
}

/// Keeps the records of one run.
pub trait JournalStore: Send {
    /// Keeps a record. What it announces happens only after this succeeded.
    fn append<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), JournalError>>;
}

/// A record that could not be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal can't be written: {0}")]
pub struct JournalError(pub String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn started() -> Record {
        Record::RunStarted {
            version: JOURNAL_VERSION,
            run: RunId::new("r").unwrap(),
            workflow: Digest::of_bytes(b"w"),
            inputs: Map::new(),
        }
    }

    fn record(choice: usize, name: &str) -> Record {
        let node = node(name);
        match choice {
            0 => started(),
            1 | 2 => Record::NodeStarted {
                node,
                attempt: 1,
                read_only: choice == 1,
                arguments: Digest::of_bytes(b"a"),
            },
            3 => Record::NodeFinished { node, result: Value::Null },
            4 => {
                Record::NodeFailed { node, code: Code::ToolFailed, message: "m".into(), may_have_acted: true }
            }
            5 => Record::NodeStopped { node },
            _ => Record::RunFinished { code: None },
        }
    }

    /// T30: a stopped call that only reads is cancelled, any other is in doubt.
    #[test]
    fn a_stopped_write_is_in_doubt() {
        let log = [started(), record(1, "read"), record(2, "write")];
        let mut state = RunState::replay(&log).unwrap();
        assert!(state.apply(record(6, "x")).is_err(), "nodes still run");
        state.apply(record(5, "read")).unwrap();
        state.apply(record(5, "write")).unwrap();
        assert_eq!(state.nodes()[&node("read")], NodeState::Cancelled);
        assert_eq!(state.nodes()[&node("write")], NodeState::InDoubt);
        assert!(state.apply(record(2, "write")).is_err(), "a node in doubt is not started again by itself");
        state.apply(record(6, "x")).unwrap();
        assert!(state.apply(record(1, "late")).is_err());
    }

    proptest! {
        /// Any prefix of a log that can be replayed can be replayed, and every illegal record is an error.
        #[test]
        fn every_prefix_of_a_legal_log_is_legal(choices in proptest::collection::vec((0..7usize, "[ab]"), 0..24)) {
            let mut state = RunState::default();
            let mut log = Vec::new();
            for (choice, name) in choices {
                let record = record(choice, &name);
                let before = state.clone();
                match state.apply(record.clone()) {
                    Ok(()) => log.push(record),
                    Err(_) => prop_assert_eq!(&state, &before),
                }
                prop_assert_eq!(&RunState::replay(&log).unwrap(), &state);
            }
            let text: Vec<String> = log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
            let read: Vec<Record> = text.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
            prop_assert_eq!(read, log);
        }
    }
}
