//! `t2m-host explain`: why a workflow is as it is.
//!
//! Owns nothing but the way to standard output. Refuses to run or change anything.
//!
//! **Invariant:** everything shown stands in the workflow file.

use std::path::PathBuf;

use serde_json::json;
use t2m_core::workflow;

use super::run::read_workflow;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, one_line};

/// Say why a workflow is as it is.
///
/// For each node: where its arguments come from, what else would have fitted, and what it waits for.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t2m-host explain workflow.json\n  t2m-host explain workflow.json --format json"
)]
pub(crate) struct Explain {
    /// The workflow file
    workflow: PathBuf,
}

impl Explain {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let verified = read_workflow(&self.workflow)?;
        let explanation = workflow::explain(verified.workflow());
        let lines = || explanation.lines().iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n");
        out.data(lines, || json!(explanation));
        Ok(Exit::Done)
    }
}
