//! `t2m-host compile-component`: this program as the compiler of another one of it.
//!
//! Owns the start of that. Refuses configuration and files: a component comes in, machine code goes out.
//!
//! **Invariant:** nothing of the component is looked at before the limits hold.

use std::ffi::OsString;
use std::io::{Write as _, stderr, stdin, stdout};
use std::process::ExitCode;

use t2m_core::code::Code;
use t2m_sandbox::{CompileLimits, Compiler, compile_component};

use crate::failure::{Failure, Result};

/// The command's name.
const NAME: &str = "compile-component";

/// Compile the component on standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct CompileComponent {
    #[arg(long)]
    cpu_seconds: u64,
    #[arg(long)]
    memory_bytes: u64,
    #[arg(long)]
    wasm_bytes: usize,
}

impl CompileComponent {
    pub(crate) fn run(self) -> ExitCode {
        let CompileComponent { cpu_seconds, memory_bytes, wasm_bytes } = self;
        let limits = CompileLimits { cpu_seconds, memory_bytes, wasm_bytes };
        match compile_component(stdin().lock(), stdout().lock(), limits) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                // The other one reads this, unless it has gone.
                let _ = writeln!(stderr(), "{message}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Lets the allocator take memory when it needs it. Otherwise it takes a gigabyte at its start, which counts, and none
/// that the limit could refuse later.
const ON_DEMAND: [&str; 2] = ["MIMALLOC_ARENA_EAGER_COMMIT", "0"];

/// This program, as a compiler.
pub(crate) fn compiler() -> Result<Compiler> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Code::Internal, format!("this program can't find itself to compile plugins: {error}"))
    })?;
    Ok(Compiler {
        program,
        arguments: vec![NAME.into()],
        environment: vec![ON_DEMAND.map(OsString::from).into()],
    })
}
