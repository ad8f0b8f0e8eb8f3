//! `t2m-host replay`: a workflow gone through with what was recorded.
//!
//! Owns the inputs and the report. Refuses to run anything: no plugin is loaded and no guard is asked.
//!
//! **Invariant:** the exit status says whether every recorded result stands.

use std::path::PathBuf;

use serde_json::json;
use t2m_core::replay;
use t2m_core::workflow;

use super::run::{InputArgs, read_workflow};
use crate::exit::Exit;
use crate::failure::{InFile, Result};
use crate::out::{Out, one_line};

/// Go through a workflow with its recorded results; nothing runs.
///
/// Each node's arguments are made from the inputs and the recorded results, and compared with the recorded
/// arguments. Where they differ, the recorded result is that of another call: it is stale, and so is all that
/// follows from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host replay workflow.json
  t2m-host replay workflow.json --input city=Lisbon --format json

The exit status is 0 if every recorded result stands and 10 if not.")]
pub(crate) struct Replay {
    /// The workflow file
    workflow: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
}

impl Replay {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let verified = read_workflow(&self.workflow)?;
        let inputs = workflow::bind_inputs(&verified, self.inputs.given(&verified)?)?;
        let replay = replay::replay(&verified, &inputs).in_file(&self.workflow)?;
        let lines = || replay.lines().iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n");
        out.data(lines, || json!(replay));
        Ok(Exit::of_comparison(replay.stands()))
    }
}
