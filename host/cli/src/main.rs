//! The `t2m-host` program.
//!
//! Owns nothing but the start: arguments in, exit status out. Refuses logic.
//!
//! **Invariant:** the process ends only here, with a documented [`exit::Exit`] or the status that `record` passes on.
#![forbid(unsafe_code)]

mod args;
mod author;
mod call_log;
mod command;
mod component;
mod config;
mod contracts;
mod exit;
mod failure;
mod files;
mod manifest;
mod out;
mod plugins;
mod progress;
mod tape;
mod toml_file;
mod workflow_tool;

use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = args::Args::parse();
    let mut out = out::Out::new(args.format, args.quiet);
    out::init_log(args.verbose, args.command.is_server());
    let ran = command::run(args, &mut out);
    match ran.and_then(|exit| out.check().map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            out.failure(&failure);
            failure.exit().into()
        }
    }
}
