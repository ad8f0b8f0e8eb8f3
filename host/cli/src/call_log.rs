//! The calls of a server, recorded as it makes them.
//!
//! Owns the way from a dispatched call to lines of a recording: a request and its answer, in the words of MCP,
//! each with the call in which it was made. Refuses to hold a call up: the writer's thread has the file.
//!
//! **Invariant:** a call stands before the calls made in it, and each names the one it was made in.

use serde_json::{Map, Value, json};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{CallError, CallLog, LoggedCall};
use t2m_core::id::{RunId, ToolName};
use t2m_core::tool::Reply;
use t2m_mcp::WorkflowFailure;

use crate::tape::{Sender, Tape};

/// Writes calls to a recording.
pub(crate) struct CallRecorder {
    tape: Tape,
}

impl CallRecorder {
    pub(crate) fn new(tape: Tape) -> CallRecorder {
        CallRecorder { tape }
    }

    /// A workflow was called. Its nodes are dispatched, and recorded, one by one.
    pub(crate) fn workflow_began(
        &self,
        run: &RunId,
        name: &ToolName,
        inputs: &Map<String, Value>,
        workflow: Digest,
    ) {
        let about = format!("\"workflow\":{},", json!(workflow.to_string()));
        self.request(about, run.as_str(), name, &json!(inputs));
    }

    /// It ended.
    pub(crate) fn workflow_ended(&self, run: &RunId, outcome: Result<&Value, &WorkflowFailure>) {
        self.answer(run.as_str(), t2m_mcp::workflow_result_json(outcome));
    }

    fn request(&self, about: String, id: &str, tool: &ToolName, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.tape.note(Sender::Client, about, message.to_string().into_bytes());
    }

    fn answer(&self, id: &str, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.tape.note(Sender::Server, String::new(), message.to_string().into_bytes());
    }
}

impl CallLog for CallRecorder {
    fn began(&self, call: LoggedCall<'_>) {
        let parent = match (call.caller, call.workflow) {
            (Some(node), _) => Some(format!("{}/{node}", call.run)),
            // The call of the workflow has the run's own id.
            (None, Some(_)) => Some(call.run.to_string()),
            (None, None) => None,
        };
        let about = parent.map(|parent| format!("\"parent\":{},", json!(parent))).unwrap_or_default();
        self.request(about, &id_of(&call), call.tool, call.arguments);
    }

    fn ended(&self, call: LoggedCall<'_>, outcome: Result<&Reply, &CallError>) {
        self.answer(&id_of(&call), t2m_mcp::result_json(outcome));
    }
}

fn id_of(call: &LoggedCall<'_>) -> String {
    format!("{}/{}", call.run, call.node)
}
