//! `t2m-host diff`: two recordings, or two workflows.
//!
//! Owns finding out what each file is. Refuses to compare a recording with a workflow: `check` does that.
//!
//! **Invariant:** the exit status says whether both mean the same.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::diff;
use t2m_core::json::Limits;
use t2m_core::trace::Trace;
use t2m_core::workflow::{VerifiedWorkflow, WORKFLOW_FORMAT};

use super::import::ImportArgs;
use super::run::read_workflow;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files;
use crate::out::{Out, one_line};

/// Compare two recordings, or two workflows.
///
/// Events and nodes are found again by id, or else by tool and order. Times, durations, run ids, notes of the
/// recorder and the compiler's reasons aren't compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host diff monday.jsonl tuesday.jsonl
  t2m-host diff old-workflow.json workflow.json --format json

The exit status is 0 if both mean the same and 10 if not.")]
pub(crate) struct Diff {
    /// A recording in any format that `import` reads, or a workflow
    before: PathBuf,
    /// Another one of the same kind
    after: PathBuf,
    #[command(flatten)]
    import: ImportArgs,
}

/// What a file is.
enum Side {
    Trace(Trace),
    Workflow(Box<VerifiedWorkflow>),
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Side::Trace(_) => "a recording",
            Side::Workflow(_) => "a workflow",
        }
    }
}

impl Diff {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let (before, after) = (self.side(&self.before, out)?, self.side(&self.after, out)?);
        let diff = match (&before, &after) {
            (Side::Trace(before), Side::Trace(after)) => diff::traces(before, after),
            (Side::Workflow(before), Side::Workflow(after)) => {
                diff::workflows(before.workflow(), after.workflow())
            }
            _ => {
                let message = format!(
                    "`{}` is {} and this is {}: compare two of a kind, or use `check` for a workflow and a recording",
                    self.before.display(),
                    before.name(),
                    after.name()
                );
                return Err(Failure::of_file(&self.after, Code::FieldValue, message));
            }
        };
        let lines = || diff.lines().iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n");
        out.data(lines, || json!({"same": diff.is_same(), "diff": diff}));
        Ok(Exit::of_comparison(diff.is_same()))
    }

    fn side(&self, path: &Path, out: &Out) -> Result<Side> {
        let bytes = files::read(path, self.import.max_bytes())?;
        let limits = Limits { bytes: self.import.max_bytes(), ..Limits::default() };
        let format = t2m_core::json::parse(&bytes, limits)
            .ok()
            .and_then(|value| value.get("format").and_then(Value::as_str).map(str::to_owned));
        // Any version, so that an unknown one is called by its name.
        let family = WORKFLOW_FORMAT.split('@').next().unwrap_or(WORKFLOW_FORMAT);
        if format.is_some_and(|format| format.split('@').next() == Some(family)) {
            return read_workflow(path).map(Box::new).map(Side::Workflow);
        }
        Ok(Side::Trace(self.import.read(path, out)?.trace))
    }
}
