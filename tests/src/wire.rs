//! Records a session with a real MCP server on standard input and output.
//!
//! It owns the client's side of the protocol as far as a recording needs it: the handshake, the list of
//! tools, and calls one after another. It refuses everything a server may ask of a client.
//!
//! **Invariant:** the log holds every message of both sides, in the order seen here; the server's are the
//! bytes it sent.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::child::Running;
use crate::{Failure, Outcome};

/// The protocol version that recordings are made with.
const PROTOCOL: &str = "2025-06-18";

/// How long a server may take to end after its input is closed.
const GOODBYE: Duration = Duration::from_secs(5);

/// A running server and the log of what was said.
#[derive(Debug)]
pub struct McpWireRecorder {
    server: Running,
    log: String,
    limit: Duration,
    last_id: u64,
}

impl McpWireRecorder {
    /// Starts a server. Each answer must come within `limit`.
    pub fn start(command: &mut Command, limit: Duration) -> Outcome<Self> {
        Ok(Self { server: Running::start(command)?, log: String::new(), limit, last_id: 0 })
    }

    /// The handshake: `initialize`, then the notification that it's done. Returns the server's result.
    pub fn initialize(&mut self) -> Outcome<Value> {
        let client = json!({"name": "t2m-host-recorder", "version": "0"});
        let params = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", &params)?;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        result_of("initialize", answer)
    }

    /// `tools/list`, all pages. Returns the tools.
    pub fn list_tools(&mut self) -> Outcome<Vec<Value>> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let answer = self.request("tools/list", &params)?;
            let result = result_of("tools/list", answer)?;
            tools.extend(result.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
            match result.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(tools),
            }
        }
    }

    /// `tools/call`. Returns the whole answer, since a refusal is worth recording as well.
    pub fn call_tool(&mut self, name: &str, arguments: &Value) -> Outcome<Value> {
        self.request("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    /// The log so far: one JSON object per line with `ts`, `direction` and `message`.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Closes the server's input, waits for its end and returns the log.
    pub fn finish(mut self) -> Outcome<String> {
        self.server.close_stdin();
        if self.server.wait(Instant::now() + GOODBYE)?.is_none() {
            return Err(Failure::new(format!(
                "the server still runs {GOODBYE:?} after its input was closed"
            )));
        }
        Ok(std::mem::take(&mut self.log))
    }

    /// The process id of the server.
    pub fn server_id(&self) -> u32 {
        self.server.id()
    }

    fn request(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
            .and_then(|()| self.answer(id, Instant::now() + self.limit))
            .map_err(|why| self.explain(method, &why))
    }

    /// Reads until the answer to `id`; other messages are logged, and requests of the server refused.
    fn answer(&mut self, id: u64, until: Instant) -> Outcome<Value> {
        loop {
            let Some(line) = self.server.line(until)? else {
                return Err(Failure::new("the server closed its output"));
            };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let message: Value = serde_json::from_str(line).map_err(|why| {
                Failure::new(format!("the server wrote `{line}`, which is not JSON: {why}"))
            })?;
            self.record("server_to_client", line);
            let message_id = message.get("id");
            match (message_id, message.get("method")) {
                (Some(theirs), Some(_)) => {
                    let error = r#"{"code":-32601,"message":"this client only records"}"#;
                    self.send(&format!(r#"{{"jsonrpc":"2.0","id":{theirs},"error":{error}}}"#))?;
                }
                (Some(theirs), None) if theirs.as_u64() == Some(id) => return Ok(message),
                _ => {}
            }
        }
    }

    fn send(&mut self, message: &str) -> Outcome<()> {
        self.record("client_to_server", message);
        self.server.write(&format!("{message}\n"))
    }

    fn record(&mut self, direction: &str, message: &str) {
        let ts = now_rfc3339();
        // Writing to a string can't fail.
        let _ = writeln!(self.log, r#"{{"ts": "{ts}", "direction": "{direction}", "message": {message}}}"#);
    }

    fn explain(&mut self, method: &str, why: &Failure) -> Failure {
        // Time for the last words of a server that has just ended.
        let errors = self.server.errors(Instant::now() + Duration::from_millis(200));
        Failure::new(format!("`{method}`: {why}\nthe server's standard error:\n{errors}"))
    }
}

fn result_of(method: &str, mut answer: Value) -> Outcome<Value> {
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Failure::new(format!("`{method}` was refused: {answer}"))),
    }
}

/// The time now in UTC with microseconds, such as `2026-11-29T20:55:00.816808Z`.
pub fn now_rfc3339() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(now)
}

fn rfc3339(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestEnv;

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(20);

    fn shell(env: &TestEnv, script: &str, limit: Duration) -> McpWireRecorder {
        McpWireRecorder::start(env.command("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn a_server_that_hangs_fails_the_test_and_is_killed() {
        let env = TestEnv::new().unwrap();
        let mut recorder = shell(&env, "echo stuck >&2; exec sleep 600", SHORT);
        let fault = recorder.initialize().unwrap_err().to_string();
        assert!(fault.starts_with("`initialize`: no line in time") && fault.contains("stuck"), "{fault}");

        let process = format!("/proc/{}", recorder.server_id());
        let process = std::path::Path::new(&process);
        let seen = process.exists();
        drop(recorder);
        assert!(!process.exists(), "the server outlives its recorder (seen before: {seen})");
    }

    #[test]
    fn a_server_that_ends_or_talks_nonsense_is_reported_with_its_last_words() {
        let env = TestEnv::new().unwrap();
        let fault = shell(&env, "read x; echo goodbye >&2", LONG).initialize().unwrap_err().to_string();
        assert!(fault.contains("closed its output") && fault.contains("goodbye"), "{fault}");
        let fault = shell(&env, "echo hello; read x", LONG).initialize().unwrap_err().to_string();
        assert!(fault.contains("`hello`, which is not JSON"), "{fault}");
    }

    #[test]
    fn notifications_are_logged_and_requests_of_the_server_are_refused() {
        let env = TestEnv::new().unwrap();
        let script = r#"
read request
echo '{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
echo '{"jsonrpc":"2.0","id":"s1","method":"roots/list"}'
read refusal
echo '{"jsonrpc":"2.0","id":1,"result":{"z":1,"a":2}}'
read done
"#;
        let mut recorder = shell(&env, script, LONG);
        assert_eq!(recorder.initialize().unwrap(), json!({"a": 2, "z": 1}));
        let log = recorder.finish().unwrap();
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let directions: Vec<&str> = lines.iter().filter_map(|line| line["direction"].as_str()).collect();
        let (ours, theirs) = ("client_to_server", "server_to_client");
        assert_eq!(directions, [ours, theirs, theirs, ours, theirs, ours]);
        assert_eq!(lines[3]["message"]["error"]["code"], -32601);
        assert!(log.contains(r#""result":{"z":1,"a":2}"#), "the server's bytes were changed: {log}");
    }

    #[test]
    fn times_are_right_around_leap_days() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), expected);
        }
    }
}
