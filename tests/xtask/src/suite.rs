//! `cargo xtask test`: everything that must hold before a commit.
//!
//! It owns the list of steps and their order, quick ones first. It refuses to repair: a step reports what
//! is wrong and the person decides.
//!
//! **Invariant:** `.ci/run` and a developer run this same function, so there is no check that only one of
//! them sees.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::install::{self, Need};
use crate::shell::{Repo, run as run_program, say};
use crate::{codegen, tidy};

/// One step, in the order of [`Step::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Install,
    Fmt,
    Tidy,
    Codegen,
    Clippy,
    Nextest,
    Doc,
}

impl Step {
    /// Every step in the order they run.
    pub(crate) const ALL: [Self; 7] =
        [Self::Install, Self::Fmt, Self::Tidy, Self::Codegen, Self::Clippy, Self::Nextest, Self::Doc];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Codegen => "codegen",
            Self::Clippy => "clippy",
            Self::Nextest => "nextest",
            Self::Doc => "doc",
        }
    }

    /// The step of that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }

    /// What must be on the machine before the step can run.
    fn needs(self) -> &'static [Need] {
        match self {
            // Build scripts compile guests, so whatever compiles the workspace needs their target.
            Self::Codegen | Self::Doc => &[Need::WasmTarget],
            Self::Fmt => &[Need::Rustfmt],
            Self::Clippy => &[Need::WasmTarget, Need::Clippy],
            Self::Nextest => &[Need::WasmTarget, Need::Nextest, Need::McpPackages, Need::McpPython],
            Self::Tidy => &[],
            Self::Install => &Need::ALL,
        }
    }
}

/// Runs the chosen steps (all if none is chosen) and stops at the first that fails.
pub(crate) fn run(repo: &Repo, only: &[Step], nextest: &[String]) -> Result<()> {
    let chosen = |step: Step| only.is_empty() || only.contains(&step);
    let steps: Vec<Step> = Step::ALL.into_iter().filter(|step| chosen(*step)).collect();
    let needs: Vec<Need> =
        Need::ALL.into_iter().filter(|need| steps.iter().any(|step| step.needs().contains(need))).collect();

    let mut times = Vec::new();
    timed(&mut times, Step::Install, || install::run(repo, &needs))?;
    for step in steps.into_iter().filter(|step| *step != Step::Install) {
        timed(&mut times, step, || run_step(repo, step, nextest))?;
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    let parts: Vec<String> =
        times.iter().map(|(step, time)| format!("{} {}", step.name(), seconds(*time))).collect();
    say(&format!("xtask: all passed in {} ({})", seconds(total), parts.join(", ")));
    Ok(())
}

fn run_step(repo: &Repo, step: Step, nextest: &[String]) -> Result<()> {
    match step {
        Step::Install => Ok(()),
        Step::Fmt => run_program(repo.cargo().args(["fmt", "--all", "--", "--check"])),
        Step::Tidy => tidy::run(repo),
        Step::Codegen => codegen::run(repo, true, None),
        Step::Clippy => {
            run_program(repo.cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        }
        Step::Nextest => {
            // nextest builds test binaries only; the end-to-end tests drive the real program.
            repo.build()?;
            run_program(install::nextest(repo)?.args(["run", "--workspace"]).args(nextest))
        }
        Step::Doc => run_program(repo.cargo().args(["test", "--workspace", "--doc"])),
    }
}

fn timed(times: &mut Vec<(Step, Duration)>, step: Step, work: impl FnOnce() -> Result<()>) -> Result<()> {
    say(&format!("xtask: {} ...", step.name()));
    let start = Instant::now();
    let result = work();
    let time = start.elapsed();
    times.push((step, time));
    let word = if result.is_ok() { "passed" } else { "failed" };
    say(&format!("xtask: {} {word} in {}", step.name(), seconds(time)));
    result.with_context(|| format!("step `{}`", step.name()))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_found_by_its_name() {
        for step in Step::ALL {
            assert_eq!(Step::parse(step.name()), Some(step));
        }
        assert_eq!(Step::parse("lunch"), None);
    }

    #[test]
    fn a_failing_step_is_named_and_timed() {
        let mut times = Vec::new();
        let fault = timed(&mut times, Step::Doc, || anyhow::bail!("broken")).unwrap_err();
        assert_eq!(format!("{fault:#}"), "step `doc`: broken");
        assert_eq!(times.len(), 1);
    }

    #[test]
    fn tidy_alone_needs_nothing_installed() {
        assert!(Step::Tidy.needs().is_empty());
    }
}
