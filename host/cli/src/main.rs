//! The `t2m-host` program.
//!
//! Owns nothing but the start: arguments in, exit status out. Refuses logic.
//!
//! **Invariant:** the process ends only here, with a documented [`exit::Exit`] or the status that `record` passes on.
#![forbid(unsafe_code)]

mod args;
mod audit_log;
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
mod workspace;

/// Compiling makes millions of small values and calls make dozens, which this one is quicker at than a libc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let args = match args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(refused) => return refused.show(),
    };
    let mut out = out::Out::new(args.format, args.quiet);
    out::init_log(args.verbose, args.command.is_server());
    if !args.command.is_server() {
        out.hold_notes();
    }
    let ran = command::run(args, &mut out);
    match ran.and_then(|exit| out.check().map(|()| exit)) {
        Ok(exit) => {
            out.say_notes();
            exit
        }
        Err(failure) => {
            out.failure(&failure);
            failure.exit().into()
        }
    }
}
