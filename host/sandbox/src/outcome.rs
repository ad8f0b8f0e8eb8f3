//! From what the engine reports to a stable code.
//!
//! Owns the mapping, and what of it a caller may read. Refuses to pass the engine's own words on: they go to
//! the log.
//!
//! **Invariant:** every way to stop a guest has one code; whatever isn't known is `sandbox-trap`.

use t2m_core::code::Code;
use t2m_core::tool::ToolFailure;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::{I32Exit, ResourceTableError};

use crate::disk::WroteTooMuch;
use crate::http::Breach;
use crate::limits::Limits;
use crate::state::{State, printable};

/// Longest part of a guest's panic message that a caller sees, in characters.
const MAX_PANIC: usize = 200;

/// Errors of the engine that have no type of their own, known by their text.
const TEXTS: [(&str, Code); 5] = [
    ("fuel allocated for hostcalls has been exhausted", Code::SandboxTransfer),
    ("store handle limit exceeded", Code::SandboxHandles),
    ("resource limit exceeded", Code::SandboxResources),
    ("exceeds memory limits", Code::SandboxMemory),
    ("exceeds table limits", Code::SandboxResources),
];

/// Why a guest stopped.
pub(crate) fn failure_of(error: &wasmtime::Error, state: &State) -> ToolFailure {
    tracing::debug!(target: "t2m_sandbox", error = %printable(&format!("{error:#}")), "guest stopped");
    let code = code_of(error, state);
    let message = match code {
        Code::SandboxTrap => trap_message(error, &state.stderr_text()),
        Code::SandboxBusy => "every slot of the sandbox is taken".to_owned(),
        code => format!("the plugin was stopped: {}", limit_text(code, state.limits())),
    };
    ToolFailure::host(code, message)
}

/// The failure of a guest that was still running when its time was over: that of the limits, or a shorter one
/// that the call brought along.
pub(crate) fn timed_out(wall: std::time::Duration, limits: Limits) -> ToolFailure {
    let whose = if wall < limits.wall { ", all that this call was given" } else { "" };
    let message = format!("the plugin was stopped after {} ms{whose}", wall.as_millis());
    ToolFailure::host(Code::SandboxTimeout, message)
}

/// The failure of a guest that broke a limit of HTTP.
pub(crate) fn http_limit(breach: Option<Breach>, limits: Limits) -> ToolFailure {
    let text =
        breach.map_or_else(|| "it broke a limit of HTTP".to_owned(), |breach| breach.text(limits.http));
    ToolFailure::host(Code::SandboxHttp, format!("the plugin was stopped: {text}"))
}

fn code_of(error: &wasmtime::Error, state: &State) -> Code {
    if let Some(code) = state.stopped {
        return code;
    }
    if error.is::<WroteTooMuch>() {
        return Code::SandboxWritten;
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Code::SandboxBusy;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Code::SandboxFuel,
        Some(Trap::Interrupt) => return Code::SandboxTimeout,
        Some(Trap::StackOverflow) => return Code::SandboxStack,
        _ => {}
    }
    if matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full)) {
        return Code::SandboxHandles;
    }
    for cause in error.chain() {
        let text = cause.to_string();
        if let Some((_, code)) = TEXTS.iter().find(|(part, _)| text.contains(part)) {
            return *code;
        }
    }
    // A guest whose growth was refused mostly gives up with an ordinary trap.
    if state.meter.memory_refused {
        Code::SandboxMemory
    } else if state.meter.table_refused {
        Code::SandboxResources
    } else {
        Code::SandboxTrap
    }
}

fn limit_text(code: Code, limits: Limits) -> String {
    match code {
        Code::SandboxFuel => format!("it used up its fuel of {}", limits.fuel),
        Code::SandboxTimeout => "it took too long".to_owned(),
        Code::SandboxStack => "its call stack overflowed".to_owned(),
        Code::SandboxMemory => format!("it wanted more memory than its {} bytes", limits.memory_bytes),
        Code::SandboxTransfer => format!("it handed over more than {} bytes", limits.transfer_bytes),
        Code::SandboxHandles => format!("it opened more than {} handles", limits.handles),
        Code::SandboxResources => format!(
            "it wanted more than {} instances, {} memories, {} tables or {} elements of tables",
            limits.instances, limits.memories, limits.tables, limits.table_elements
        ),
        Code::SandboxWritten => format!(
            "it wrote more than {} bytes, or made more than {} files",
            limits.written_bytes, limits.created_files
        ),
        Code::SandboxLog => {
            format!("it logged more than {} bytes or {} lines", limits.log_bytes, limits.log_lines)
        }
        _ => "it broke a limit".to_owned(),
    }
}

fn trap_message(error: &wasmtime::Error, stderr: &str) -> String {
    if error.is::<I32Exit>() {
        return "the plugin ended itself instead of returning".to_owned();
    }
    let kind = match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => "it broke the rules of the component model".to_owned(),
    };
    match panic_message(stderr) {
        Some(words) => format!("the plugin panicked: {words}"),
        None => format!("the plugin trapped: {kind}"),
    }
}

/// The words of a Rust panic, without the place in the source, which may name a path of the machine that
/// built the plugin.
fn panic_message(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.split_once("panicked at ")?;
    let (_, words) = rest.split_once('\n')?;
    let words = words.split("\nnote: ").next().unwrap_or(words).trim();
    if words.is_empty() {
        return None;
    }
    Some(printable(&words.chars().take(MAX_PANIC).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P03: a caller reads the guest's words, never a path.
    #[test]
    fn a_panic_is_reported_without_its_place() {
        let text = "\nthread 'main' panicked at /home/ann/p/src/lib.rs:3:5:\nno such thing\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(panic_message(text).as_deref(), Some("no such thing"));
        assert_eq!(panic_message("something else"), None);
        let long = format!("panicked at x\n{}", "a".repeat(1_000));
        assert_eq!(panic_message(&long).map(|m| m.len()), Some(MAX_PANIC));
    }
}
