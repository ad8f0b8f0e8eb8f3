//! An MCP client that costs next to nothing: whole lines written to a pipe, whole lines read from one.
//!
//! It owns the child, its reader thread and what the kernel says about it. It refuses JSON on the measured
//! path: an answer is recognised by its id.
//!
//! **Invariant:** every wait has a limit, and the child is killed with this value.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::hosts::Host;

const HELLO: &str = r#""method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"compare","version":"0"}}"#;

/// How often a process is asked for what the kernel doesn't announce.
const POLL: Duration = Duration::from_millis(1);

/// A process that uses no processor time for this long is idle; the kernel counts in hundredths of a second.
const IDLE: Duration = Duration::from_millis(60);

/// The kernel's unit of processor time.
const TICK: Duration = Duration::from_millis(10);

/// What a server holds, in MiB.
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) anonymous: f64,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    limit: Duration,
    last_id: u64,
}

impl Server {
    pub(crate) fn start(host: &Host, limit: Duration) -> Result<Self> {
        let mut command = host.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("can't start {}", host.name))?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let (sender, lines) = channel();
        thread::spawn(move || {
            loop {
                let mut line = String::new();
                if !stdout.read_line(&mut line).is_ok_and(|read| read > 0) || sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, stdin, lines, limit, last_id: 0 })
    }

    pub(crate) fn initialize(&mut self) -> Result<()> {
        self.call(HELLO)?;
        self.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    /// Asks until a tool is listed and answers: some hosts load components after the handshake, and list them
    /// before they can be called.
    pub(crate) fn first_result(&mut self, host: &Host) -> Result<()> {
        let until = Instant::now() + self.limit;
        while Instant::now() < until {
            if self.call(r#""method":"tools/list""#)?.contains("\"add\"") && self.call(&host.add).is_ok() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        bail!("{} never has its tool", host.name)
    }

    /// Sends a request without its beginning and returns the line of its answer.
    pub(crate) fn call(&mut self, request: &str) -> Result<String> {
        let id = self.send(request)?;
        match self.answer(id, self.limit)? {
            Some(line) if line.contains("\"error\":{") || line.contains("\"isError\":true") => {
                bail!("`{request}` was refused: {line}")
            }
            Some(line) => Ok(line),
            None => bail!("`{request}` was not answered within {:?}", self.limit),
        }
    }

    /// Whether a request is answered in time.
    pub(crate) fn call_within(&mut self, request: &str, limit: Duration) -> Result<bool> {
        let id = self.send(request)?;
        Ok(self.answer(id, limit)?.is_some())
    }

    /// Keeps `width` requests in flight until `times` were answered.
    pub(crate) fn pipelined(&mut self, request: &str, times: usize, width: usize) -> Result<()> {
        let mut sent = 0;
        for _ in 0..width {
            self.send(request)?;
            sent += 1;
        }
        let mut answered = 0;
        while answered < times {
            let line = self.line(self.limit)?.context("no answer in time")?;
            if is_note(&line) {
                continue;
            }
            answered += 1;
            if sent < times {
                self.send(request)?;
                sent += 1;
            }
        }
        Ok(())
    }

    /// Starts guests that never return and waits until they use the processor.
    pub(crate) fn spin(&mut self, host: &Host, guests: usize, limit: Duration) -> Result<Vec<u64>> {
        let before = self.cpu()?;
        let ids = (0..guests).map(|_| self.send(&host.spin)).collect::<Result<Vec<_>>>()?;
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if self.cpu()?.saturating_sub(before) > Duration::from_millis(300) {
                return Ok(ids);
            }
            thread::sleep(POLL);
        }
        bail!("the endless guests of {} use no processor time", host.name)
    }

    /// Cancels requests; an upper bound of how long the process then used processor time, `None` if it never
    /// stops.
    pub(crate) fn cancel(&mut self, ids: &[u64], limit: Duration) -> Result<Option<Duration>> {
        for id in ids {
            self.write(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
            ))?;
        }
        let start = Instant::now();
        let (mut used, mut changed) = (self.cpu()?, Duration::ZERO);
        while start.elapsed() < limit {
            thread::sleep(POLL);
            let now = self.cpu()?;
            if now != used {
                (used, changed) = (now, start.elapsed());
            } else if start.elapsed().saturating_sub(changed) > IDLE {
                return Ok(Some(changed + TICK));
            }
        }
        Ok(None)
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Whether the process ends by itself in time.
    pub(crate) fn exit(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    /// Processor time of all threads so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is the program's name in brackets, which may hold spaces.
        let (_, rest) = stat.rsplit_once(')').context("an odd stat file")?;
        let times = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = times.collect::<Result<Vec<_>, _>>()?.iter().sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let read = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            Ok(number.with_context(|| format!("no {name}"))?.parse::<f64>()? / 1024.0)
        };
        Ok(Memory { resident: read("VmRSS:")?, anonymous: read("RssAnon:")? })
    }

    fn send(&mut self, request: &str) -> Result<u64> {
        self.last_id += 1;
        self.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{request}}}\n", self.last_id))?;
        Ok(self.last_id)
    }

    /// Messages here are far shorter than a pipe, so this doesn't wait for a server that doesn't read.
    fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        stdin.write_all(text.as_bytes()).context("the server reads no more")
    }

    fn answer(&mut self, id: u64, limit: Duration) -> Result<Option<String>> {
        let wanted = format!("\"id\":{id}");
        loop {
            let Some(line) = self.line(limit)? else { return Ok(None) };
            let found = line.split_once(&wanted).is_some_and(|(_, after)| after.starts_with([',', '}']));
            if found && !is_note(&line) {
                return Ok(Some(line));
            }
        }
    }

    fn line(&self, limit: Duration) -> Result<Option<String>> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the server closed its output"),
        }
    }
}

fn is_note(line: &str) -> bool {
    line.contains("\"method\":\"notifications/")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_no_answers() {
        assert!(is_note(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
        assert!(!is_note(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    }
}
