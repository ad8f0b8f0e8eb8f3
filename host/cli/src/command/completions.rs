//! `t2m-host completions`: completion scripts.
//!
//! Owns nothing. Refuses to install anything.
//!
//! **Invariant:** the script matches this very binary's options.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;

/// Write shell completions to standard output.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  t2m-host completions bash > ~/.local/share/bash-completion/completions/t2m-host"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "t2m-host", &mut script);
        // clap_complete names the states of a program with a hyphen in two ways (clap #6421); with one, bash
        // completes below the first word.
        let script = String::from_utf8_lossy(&script).replace("t2m__subcmd__host", "t2m__host");
        out.raw(&script);
        Ok(Exit::Done)
    }
}
