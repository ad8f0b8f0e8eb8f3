//! `t2m-host plugin`: from an empty folder to a tested plugin.
//!
//! Owns the list of its commands. Refuses logic: each command has a file, and [`crate::author`] what they share.
//!
//! **Invariant:** no command here grants a plugin anything outside what its command line or case names.

mod build;
mod check;
mod inspect;
mod new;
mod run;
mod test;
mod watch;

use std::path::Path;

use clap::Subcommand;

use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;

/// Write, build, check and test a plugin.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host plugin new hello
  t2m-host plugin test hello
  t2m-host plugin run hello greet --arg name=Ada
  t2m-host plugin watch hello")]
pub(crate) struct PluginCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the project of a new plugin
    New(new::New),
    /// Make a plugin's component and check it
    Build(build::Build),
    /// Say what is wrong with a component, its manifest and its cases, without running a tool
    Check(check::Check),
    /// Build a plugin and run its test cases in the sandbox
    Test(test::Test),
    /// Call one tool once
    Run(run::Run),
    /// Test again whenever a file of the plugin changes
    Watch(watch::Watch),
    /// Show what a plugin is, offers and asks for
    Inspect(inspect::Inspect),
}

impl PluginCommand {
    pub(crate) async fn run(self, named: Option<&Path>, config: Config, out: &mut Out) -> Result<Exit> {
        match self.action {
            Action::New(command) => command.run(out),
            Action::Build(command) => command.run(&config, out).await,
            Action::Check(command) => command.run(&config, out).await,
            Action::Test(command) => command.run(&config, out).await,
            Action::Run(command) => command.run(config, out).await,
            Action::Watch(command) => command.run(&config, out).await,
            Action::Inspect(command) => command.run(named, &config, out).await,
        }
    }
}
