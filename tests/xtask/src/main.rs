//! `cargo xtask`: the chores of this repository as one small program.
//!
//! It owns the order in which the repository is checked, the rules no compiler checks, and the files that
//! are generated. It refuses to know anything about traces, workflows or plugins: what it needs of them it
//! asks the built `t2m-host` binary for.
//!
//! **Invariant:** it depends on no crate of this workspace, so it builds in seconds and can judge a tree
//! that doesn't compile.

mod args;
mod codegen;
mod compare;
mod install;
mod shell;
mod suite;
mod tidy;

use std::process::ExitCode;

use args::Command;
use shell::{Repo, say};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match args::parse(&words) {
        Ok(command) => command,
        Err(fault) => {
            say(&format!("xtask: {fault}\n\n{}", args::USAGE));
            return ExitCode::from(2);
        }
    };
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            say(&format!("xtask: {fault:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    if matches!(command, Command::Help) {
        say(args::USAGE);
        return Ok(());
    }
    let repo = Repo::find()?;
    match command {
        Command::Help => Ok(()),
        Command::Test { only, nextest } => suite::run(&repo, only, nextest),
        Command::Tidy => tidy::run(&repo),
        Command::Compare { json, binary } => compare::run(&repo, binary.as_deref(), *json),
        Command::Codegen { check, binary } => codegen::run(&repo, *check, binary.as_deref()),
    }
}
