//! The `t2m-host` program.
//!
//! Owns nothing but the start: arguments in, exit status out. Refuses logic.
//!
//! **Invariant:** the process ends only here, with a documented [`exit::Exit`].
#![forbid(unsafe_code)]

mod args;
mod command;
mod config;
mod exit;
mod failure;
mod files;
mod manifest;
mod out;
mod plugins;
mod workflow_tool;
mod progress;
mod toml_file;

use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = args::Args::parse();
    let mut out = out::Out::new(args.format, args.quiet);
    out::init_log(args.verbose);
    let ran = command::run(args, &mut out);
    let exit = match ran.and_then(|exit| out.check().map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            out.failure(&failure);
            failure.exit()
        }
    };
    exit.into()
}
