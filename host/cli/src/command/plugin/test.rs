//! `t2m-host plugin test`: the cases of a plugin, in the real sandbox.
//!
//! Owns the round of all cases and its report. Refuses to stop at the first failure.
//!
//! **Invariant:** the same component and cases give the same report.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_core::code::Code;

use crate::args::PluginArgs;
use crate::author;
use crate::author::bench::Bench;
use crate::author::trial::{self, Named, cases_of};
use crate::component::Component;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files;
use crate::out::{Out, one_line};
use crate::plugins;

/// Build a plugin and run its test cases in the sandbox.
///
/// Each file `tests/cases/*.json` is one call with what it should give; `config schema --kind plugin-case`
/// describes it. The plugin's own description counts as reviewed here, and its effects as approved, inside a
/// fresh directory of each case.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host plugin test
  t2m-host plugin test my-plugin --filter greets
  t2m-host plugin test my-plugin --bless")]
pub(crate) struct Test {
    /// The plugin's folder, or a component file with `tests/cases` beside it, which isn't built
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    path: PathBuf,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Write what was got as the expectation into the cases that fail
    #[arg(long)]
    bless: bool,
    /// Test the component that is there
    #[arg(long)]
    no_build: bool,
    /// Folder for compiled plugins [default: `t2m-host` in the user's cache folder]
    #[arg(long, env = "T2M_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Test {
    pub(crate) async fn run(self, config: &Config, out: &mut Out) -> Result<Exit> {
        let component = Component::find(&self.path)?;
        if self.path.is_dir() && !self.no_build {
            author::build::build(&component, out).await?;
        }
        let round =
            round(&component, config, self.cache_dir, self.filter.as_deref(), self.bless, out).await?;
        if let Some(round) = round {
            out.data(|| round.text(), || round.json());
            return Ok(round.exit());
        }
        Ok(Exit::Invalid)
    }
}

/// One case that was run.
struct Outcome {
    name: String,
    expected: Value,
    got: Value,
    files_after: Option<Value>,
    diff: Option<String>,
    blessed: bool,
}

/// All cases, once.
pub(crate) struct Round {
    outcomes: Vec<Outcome>,
}

/// Runs the cases of a component that is there. Nothing if a case can't be read, which is told at once.
pub(crate) async fn round(
    component: &Component,
    config: &Config,
    cache_dir: Option<PathBuf>,
    filter: Option<&str>,
    bless: bool,
    out: &mut Out,
) -> Result<Option<Round>> {
    let cases = match cases_of(component, filter) {
        Ok(cases) => cases,
        Err(failures) => {
            failures.iter().for_each(|failure| out.failure(failure));
            return Ok(None);
        }
    };
    if cases.is_empty() {
        let which = filter.map(|filter| format!(" whose name contains `{filter}`")).unwrap_or_default();
        let message = format!("there are no cases{which} in {}", trial::folder_of(component).display());
        return Err(Failure::new(Code::FileUnreadable, message));
    }
    let args = PluginArgs { cache_dir, ..PluginArgs::default() };
    let bench = Bench::new(plugins::sandbox(&args, config)?, component)?;
    let mut outcomes = Vec::new();
    for Named { name, path, case } in cases {
        let trial = trial::run(&bench, component.folder(), config.limits.to_limits(), &case).await;
        let trial =
            trial.map_err(|failure| Failure { file: failure.file.or(Some(path.clone())), ..failure })?;
        let blessed = bless && trial.diff.is_some();
        if blessed {
            write_case(&path, &case.blessed(trial.got.clone(), trial.files_after.clone()))?;
        }
        let expected = case.expected();
        outcomes.push(Outcome {
            name,
            expected,
            got: trial.got,
            files_after: trial.files_after,
            diff: trial.diff,
            blessed,
        });
    }
    Ok(Some(Round { outcomes }))
}

/// A case belongs to the project and keeps its permissions; it is there as before or as a whole.
fn write_case(path: &std::path::Path, text: &str) -> Result<()> {
    let about = std::fs::metadata(path)
        .map_err(|error| Failure::of_file(path, Code::FileUnwritable, files::reason(&error)))?;
    files::write_private(path, text.as_bytes())?;
    std::fs::set_permissions(path, about.permissions())
        .map_err(|error| Failure::of_file(path, Code::FileUnwritable, files::reason(&error)))
}

impl Round {
    fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.diff.is_some() && !outcome.blessed).count()
    }

    /// `N passed, N failed`, and how many were blessed if any were.
    pub(crate) fn summary(&self) -> String {
        let blessed = self.outcomes.iter().filter(|outcome| outcome.blessed).count();
        let failed = self.failed();
        let passed = self.outcomes.len() - failed - blessed;
        let more = if blessed > 0 { format!(", {blessed} blessed") } else { String::new() };
        format!("{passed} passed, {failed} failed{more}")
    }

    /// The failed cases with their differences.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self.outcomes.iter().filter(|outcome| !outcome.blessed);
        failed
            .filter_map(|outcome| {
                let diff = outcome.diff.as_ref()?.replace('\n', "\n  ");
                Some(format!("FAIL  {}\n  {diff}", one_line(&outcome.name)))
            })
            .collect()
    }

    fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.diff.is_none() || outcome.blessed)
            .map(|outcome| {
                format!("{}  {}", if outcome.blessed { "bless" } else { "ok   " }, one_line(&outcome.name))
            })
            .collect();
        lines.extend(self.failures());
        lines.push(self.summary());
        lines.join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let failed = self.failed();
        let cases: Vec<Value> = self
            .outcomes
            .iter()
            .map(|outcome| {
                let fails = outcome.diff.is_some() && !outcome.blessed;
                json!({
                    "case": outcome.name, "passed": !fails, "blessed": outcome.blessed,
                    "code": fails.then_some(Code::CaseFailed), "expected": outcome.expected, "got": outcome.got,
                    "files_after": outcome.files_after, "diff": outcome.diff,
                })
            })
            .collect();
        json!({"passed": self.outcomes.len() - failed, "failed": failed, "cases": cases})
    }

    fn exit(&self) -> Exit {
        if self.failed() == 0 { Exit::Done } else { Exit::of(Code::CaseFailed) }
    }
}

/// How long something took, for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
