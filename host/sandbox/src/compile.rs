//! Compiling in a process of its own.
//!
//! Owns both ends: the parent, which starts the process and takes what it made, and the process, which limits
//! itself before it reads a byte. Refuses to keep anything: the cache does.
//!
//! Compilers weren't written for hostile input: 240 KiB can cost more than ten seconds of a core, and a fault in
//! one would be a fault in this process. A process of its own can be stopped, and knows nothing worth stealing.
//!
//! **Invariant:** the process that compiles has no environment, no files but its pipes, and hard limits on
//! processor time and memory.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use t2m_core::code::Code;
use wasmtime::Engine;

use crate::engine;
use crate::error::SandboxError;
use crate::state::printable;

/// How many times its processor time a compiler may take on the wall. 20: it gives way to everything else, so a busy
/// machine leaves it a tenth of a core.
const WALL: u32 = 20;

/// Files open at once: the pipes, and what the compiler's threads need.
const OPEN_FILES: u64 = 64;

/// Bytes of compiled code that are taken. Ten times the largest interpreter's.
const MAX_CODE: u64 = 512 << 20;

/// Bytes of words about a failure that are taken.
const MAX_WORDS: u64 = 4 << 10;

/// Signals by their numbers, which are the same on every Unix.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// What Rust's and the C library's last words are when memory is refused.
const OUT_OF_MEMORY: [&str; 2] = ["memory allocation", "out of memory"];

/// What compiling one component may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Seconds of processor time. 120: the largest interpreter measured takes 38, and a plugin in Rust 0.2.
    pub cpu_seconds: u64,
    /// Bytes of memory. 2 GiB: a function of 1.2 MiB takes 200 MiB, the largest interpreter less than 1 GiB.
    pub memory_bytes: u64,
    /// Bytes of the component. 64 MiB: three times the largest interpreter.
    pub wasm_bytes: usize,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits { cpu_seconds: 120, memory_bytes: 2 << 30, wasm_bytes: 64 << 20 }
    }
}

/// The program that compiles a component: it has to call [`compile_component`] with its standard input and output, and
/// with the limits `--cpu-seconds=N --memory-bytes=N --wasm-bytes=N` that are added to its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program, usually the one that runs.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl CompileLimits {
    fn arguments(self) -> [String; 3] {
        [
            format!("--cpu-seconds={}", self.cpu_seconds),
            format!("--memory-bytes={}", self.memory_bytes),
            format!("--wasm-bytes={}", self.wasm_bytes),
        ]
    }
}

impl Compiler {
    /// Compiles a component in a process of its own. It blocks.
    pub(crate) fn compile(&self, wasm: &[u8], limits: CompileLimits) -> Result<Vec<u8>, SandboxError> {
        let fault = |error: io::Error| {
            let message = format!("the compiler `{}` can't be used: {error}", self.program.display());
            SandboxError::new(Code::Internal, message)
        };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(limits.arguments())
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fault)?;
        let wall = Duration::from_secs(limits.cpu_seconds).saturating_mul(WALL);
        let talked = talk(&mut child, wasm, wall);
        if talked.is_err() {
            // It may be waiting for what nobody reads any more. If it has ended, nothing is lost.
            let _ = child.kill();
        }
        let status = child.wait().map_err(fault)?;
        let (code, words) = talked.map_err(fault)?;
        if status.success() { Ok(code) } else { Err(why(status, &words, limits)) }
    }
}

/// Hands over the component; returns the code and what was said.
fn talk(child: &mut Child, wasm: &[u8], wall: Duration) -> io::Result<(Vec<u8>, String)> {
    let missing = || io::Error::other("it has no pipes");
    let mut input = child.stdin.take().ok_or_else(missing)?;
    let (output, errors) =
        (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
    // Nobody has waited for it yet, so the number is still its own.
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(missing)?;
    let (done, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(wall) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill_process(process, Signal::KILL);
            }
        });
        // Dropped when everything is read, which ends the watch.
        let _done = done;
        let words = scope.spawn(move || {
            let mut words = Vec::new();
            let mut errors = errors.take(MAX_WORDS);
            let read = errors.read_to_end(&mut words);
            // More is let go, so that the child never waits for a reader.
            read.and_then(|_| io::copy(&mut errors.into_inner(), &mut io::sink())).map(|_| words)
        });
        // A child that ended early says why by its status.
        let _ = input.write_all(wasm);
        drop(input);
        let mut code = Vec::new();
        let read = output.take(MAX_CODE + 1).read_to_end(&mut code);
        if code.len() as u64 > MAX_CODE {
            return Err(io::Error::other(format!("it made more than {MAX_CODE} bytes of code")));
        }
        read?;
        let words = words.join().map_err(|_| io::Error::other("its words couldn't be read"))??;
        Ok((code, String::from_utf8_lossy(&words).into_owned()))
    })
}

fn why(status: ExitStatus, words: &str, limits: CompileLimits) -> SandboxError {
    let limit = |message: String| SandboxError::new(Code::PluginCompileLimit, message);
    match status.signal() {
        Some(SIGXCPU) => {
            limit(format!("compiling took more than {} s of processor time", limits.cpu_seconds))
        }
        Some(SIGKILL) => limit(format!(
            "the compiler was killed: it took more than {} s, or the machine has no more memory",
            limits.cpu_seconds.saturating_mul(u64::from(WALL))
        )),
        Some(SIGABRT) if OUT_OF_MEMORY.iter().any(|said| words.contains(said)) => {
            limit(format!("compiling took more than {} MiB of memory", limits.memory_bytes >> 20))
        }
        Some(signal) => {
            limit(format!("the compiler was ended by signal {signal}: {}", printable(words.trim())))
        }
        None => SandboxError::new(Code::PluginInvalid, printable(words.trim())),
    }
}

/// Compiles the component that it reads and writes the code, under limits that it sets for this whole process: call
/// it in a process that does nothing else. The error's text is for the person who loads the plugin.
pub fn compile_component(
    input: impl Read,
    mut output: impl Write,
    limits: CompileLimits,
) -> Result<(), String> {
    confine(limits).map_err(|error| format!("the limits of the compiler can't be set: {error}"))?;
    let mut wasm = Vec::new();
    let most = u64::try_from(limits.wasm_bytes).unwrap_or(u64::MAX).saturating_add(1);
    input.take(most).read_to_end(&mut wasm).map_err(|error| error.to_string())?;
    if wasm.len() > limits.wasm_bytes {
        return Err(format!("more than {} bytes", limits.wasm_bytes));
    }
    let engine = Engine::new(&engine::settings(None)).map_err(|error| format!("{error:#}"))?;
    let code = engine.precompile_component(&wasm).map_err(|error| format!("{error:#}"))?;
    output.write_all(&code).and_then(|()| output.flush()).map_err(|error| error.to_string())
}

fn confine(limits: CompileLimits) -> io::Result<()> {
    let limit = |resource, most: u64, more: u64| {
        // Whoever started this program may have set less, which nobody can raise.
        let given = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit =
            Rlimit { current: Some(most.min(given)), maximum: Some(most.saturating_add(more).min(given)) };
        setrlimit(resource, limit).map_err(io::Error::from)
    };
    // A second between the signal that names the limit and the one that can't be caught.
    limit(Resource::Cpu, limits.cpu_seconds, 1)?;
    // Pages that can be written, which is what a compiler asks for without end.
    limit(Resource::Data, limits.memory_bytes, 0)?;
    limit(Resource::Nofile, OPEN_FILES, 0)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    // Nobody would take what it makes.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Calls that are being served go first.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
    Ok(())
}
