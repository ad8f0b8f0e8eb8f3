//! `t2m-host check`: a workflow against further recordings.
//!
//! Owns reading them and the report. Refuses to run or change anything.
//!
//! **Invariant:** the exit status says whether every argument of every recording agrees.

use std::path::PathBuf;

use serde_json::json;
use t2m_core::check;

use super::import::{ImportArgs, note_report};
use super::run::read_workflow;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::{Out, one_line};

/// Compare a workflow with further recordings of the same task.
///
/// The first call of a tool is compared with the first node of that tool, the second with the second, and so
/// on. Each argument is made from that recording's inputs and results: it agrees with what was recorded,
/// differs, or can't be bound.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host check workflow.json --against tuesday.json
  t2m-host check workflow.json --against tuesday.jsonl --against friday.jsonl --format json

The exit status is 0 if everything agrees and 10 if not.")]
pub(crate) struct Check {
    /// The workflow file
    workflow: PathBuf,
    /// A recording, in any format that `import` reads; repeat for more
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    against: Vec<PathBuf>,
    #[command(flatten)]
    import: ImportArgs,
}

impl Check {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let verified = read_workflow(&self.workflow)?;
        let mut checks = Vec::with_capacity(self.against.len());
        for file in &self.against {
            let imported = self.import.read(file, out)?;
            note_report(&imported, out);
            let check = check::check(verified.workflow(), &imported.trace);
            checks.push((file.display().to_string(), check));
        }
        let fits = checks.iter().all(|(_, check)| check.fits());
        let human = || {
            let lines = checks.iter().flat_map(|(file, check)| {
                let mut lines = check.lines().into_iter();
                let first = lines.next().map(|first| format!("{file}: {first}"));
                first.into_iter().chain(lines.map(|line| format!("  {line}")))
            });
            lines.map(|line| one_line(&line)).collect::<Vec<_>>().join("\n")
        };
        let machine = || {
            let checks: Vec<_> = checks
                .iter()
                .map(|(file, check)| json!({"file": file, "fits": check.fits(), "check": check}))
                .collect();
            json!({"fits": fits, "recordings": checks})
        };
        out.data(human, machine);
        Ok(Exit::of_comparison(fits))
    }
}
