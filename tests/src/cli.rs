//! Runs the real `t2m-host` program.
//!
//! It owns arguments, input, the time limit and what came out. It refuses to interpret output beyond JSON.
//!
//! **Invariant:** `Debug` of an output shows the command, the status and both streams, so an assertion that
//! prints it is enough to understand a failure.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child::Running;
use crate::{Failure, Outcome, TestEnv, cache_dir, guests_dir, host_binary};

/// Longer than any command takes on two busy cores, shorter than nextest's own limit.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a killed program's pipes may stay open: a grandchild that holds them is reported, not awaited.
const DRAIN: Duration = Duration::from_secs(2);

/// One call of the program.
pub struct HostCli {
    command: Command,
    input: Vec<u8>,
    limit: Duration,
}

impl HostCli {
    /// The built binary in the environment of a test.
    pub fn new(env: &TestEnv) -> Outcome<Self> {
        Ok(Self::of(env.command(host_binary()?)).env("T2M_CACHE_DIR", cache_dir()))
    }

    /// Another program, run and reported in the same way.
    pub fn of(command: Command) -> Self {
        Self { command, input: Vec::new(), limit: LIMIT }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Starts it in another folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// What it reads on standard input; nothing by default.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// How long it may run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Lets it build plugins: with the toolchain of this test, what cargo has fetched, and no network.
    #[must_use]
    pub fn with_cargo(self) -> Self {
        let home = |name: &str, usual: &str| {
            std::env::var_os(name)
                .or_else(|| {
                    std::env::var_os("HOME").map(|home| Path::new(&home).join(usual).into_os_string())
                })
                .unwrap_or_default()
        };
        let with = self
            .env("CARGO_HOME", home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", home("RUSTUP_HOME", ".rustup"))
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", guests_dir());
        match std::env::var_os("RUSTUP_TOOLCHAIN") {
            Some(toolchain) => with.env("RUSTUP_TOOLCHAIN", toolchain),
            None => with,
        }
    }

    /// Starts it, for a test that reads what it says while it runs.
    pub fn start(mut self) -> Outcome<Running> {
        Running::start(&mut self.command)
    }

    /// The command, for a test that talks with the program while it runs.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs it to its end. Running out of time is a failure that shows what came until then.
    pub fn output(mut self) -> Outcome<CliOutput> {
        let command = show(&self.command);
        let until = Instant::now() + self.limit;
        let mut running = Running::start(&mut self.command)?;
        running.feed(self.input);
        let status = running.wait(until)?;
        if status.is_none() {
            running.kill();
        }
        let drained = Instant::now() + DRAIN;
        let stdout = running.rest(drained);
        let stderr = running.errors(drained).to_owned();
        let (held, stdout) = match stdout {
            Ok(text) => (false, text),
            Err(_) => (true, String::new()),
        };
        let output = CliOutput { command, code: status.and_then(|status| status.code()), stdout, stderr };
        if status.is_none() {
            return Err(Failure::new(format!("stopped after {:?}\n{output:?}", self.limit)));
        }
        if held {
            return Err(Failure::new(format!("a child still holds standard output\n{output:?}")));
        }
        Ok(output)
    }
}

/// What a finished program left.
#[derive(Clone, PartialEq, Eq)]
pub struct CliOutput {
    /// The command line.
    pub command: String,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CliOutput {
    /// Fails unless the program ended with this code.
    pub fn expect_code(self, code: i32) -> Outcome<Self> {
        if self.code == Some(code) {
            return Ok(self);
        }
        Err(Failure::new(format!("expected exit code {code}\n{self:?}")))
    }

    /// Fails unless the program succeeded.
    pub fn success(self) -> Outcome<Self> {
        self.expect_code(0)
    }

    /// Standard output as one JSON value.
    pub fn json(&self) -> Outcome<Value> {
        serde_json::from_str(&self.stdout).map_err(|why| Failure::new(format!("not JSON: {why}\n{self:?}")))
    }
}

impl fmt::Debug for CliOutput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or_else(|| "ended by a signal".to_owned(), |code| code.to_string());
        writeln!(out, "command: {}", self.command)?;
        writeln!(out, "status:  {code}")?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            writeln!(out, "{name}:")?;
            for line in text.lines() {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// The command line, quoted where a reader would need it.
fn show(command: &Command) -> String {
    let quote = |word: &OsStr| {
        let text = word.to_string_lossy();
        let plain = |sign: char| sign.is_alphanumeric() || "-_./=:,@%+".contains(sign);
        if text.is_empty() || !text.chars().all(plain) { format!("'{text}'") } else { text.into_owned() }
    };
    let words: Vec<OsString> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect();
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(env: &TestEnv, script: &str) -> HostCli {
        HostCli::of(env.command("sh")).args(["-c", script])
    }

    #[test]
    fn a_failed_expectation_shows_command_status_and_both_streams() {
        let env = TestEnv::new().unwrap();
        let output = shell(&env, "cat; echo talk >&2; exit 3").input("data\n").output().unwrap();
        let fault = output.success().unwrap_err().to_string();
        let expected = "expected exit code 0\ncommand: sh -c 'cat; echo talk >&2; exit 3'\nstatus:  3\nstdout:\n  data\nstderr:\n  talk\n";
        assert_eq!(fault, expected);
    }

    #[test]
    fn a_program_that_hangs_is_stopped_and_what_it_said_is_shown() {
        let env = TestEnv::new().unwrap();
        let start = Instant::now();
        let fault = shell(&env, "echo before; exec sleep 600").limit(Duration::from_millis(300)).output();
        let fault = fault.unwrap_err().to_string();
        assert!(fault.starts_with("stopped after 300ms\n") && fault.contains("  before\n"), "{fault}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn input_larger_than_a_pipe_reaches_the_program_and_output_comes_back_whole() {
        let env = TestEnv::new().unwrap();
        let input = "line\n".repeat(100_000);
        let output = shell(&env, "cat").input(input.clone()).output().unwrap().success().unwrap();
        assert_eq!(output.stdout.len(), input.len());
    }

    #[test]
    fn a_program_that_reads_nothing_is_no_failure() {
        let env = TestEnv::new().unwrap();
        let output = shell(&env, "echo '{\"a\":1}'").input("x".repeat(1 << 20)).output().unwrap();
        assert_eq!(output.json().unwrap(), serde_json::json!({"a": 1}));
    }
}
