//! A client that speaks JSON-RPC to an MCP server over its standard streams, and as badly as a test wants.
//!
//! It owns ids, time limits and what was received but not yet asked for. It refuses to interpret results:
//! an answer is handed over as it came.
//!
//! **Invariant:** writing never blocks a test, reading ends at the limit, and the server dies with the client.

use std::collections::VecDeque;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::Running;
use crate::{Failure, Outcome};

/// The revision that begins with `initialize`.
pub const LEGACY: &str = "2025-11-25";

/// The revision whose requests each carry what they need in `_meta`.
pub const MODERN: &str = "2026-07-28";

/// Ids below are for tests that write their own messages.
const FIRST_ID: u64 = 1_000_000;

/// Time for the last words of a server that has just ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running server and the messages it sent.
#[derive(Debug)]
pub struct McpClient {
    server: Running,
    limit: Duration,
    last_id: u64,
    /// Messages that were read while another one was awaited.
    kept: VecDeque<Value>,
}

impl McpClient {
    /// Starts a server. Whatever is awaited must come within `limit`.
    pub fn start(command: &mut Command, limit: Duration) -> Outcome<Self> {
        let mut server = Running::start(command)?;
        server.write_in_background();
        Ok(Self { server, limit, last_id: FIRST_ID, kept: VecDeque::new() })
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: impl Into<Vec<u8>>) -> Outcome<()> {
        self.server.queue(bytes.into())
    }

    /// Sends one message as one line.
    pub fn send(&mut self, message: &Value) -> Outcome<()> {
        self.send_bytes(format!("{message}\n"))
    }

    /// Sends a request with the next id, which is returned.
    pub fn begin(&mut self, method: &str, params: &Value) -> Outcome<u64> {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}))?;
        Ok(self.last_id)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) -> Outcome<()> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Sends a request and waits for its answer, result or error.
    pub fn request(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        let id = self.begin(method, params)?;
        self.answer(&json!(id)).map_err(|why| Failure::new(format!("`{method}`: {why}")))
    }

    /// Calls a tool of a legacy session and waits for the whole answer.
    pub fn call_tool(&mut self, name: &str, arguments: &Value) -> Outcome<Value> {
        self.request("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    /// The legacy handshake. Returns the result of `initialize`.
    pub fn initialize(&mut self) -> Outcome<Value> {
        let mut answer = self.request("initialize", &Self::hello(LEGACY))?;
        match answer.get_mut("result").map(Value::take) {
            Some(result) => {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
                Ok(result)
            }
            None => Err(Failure::new(format!("`initialize` was refused: {answer}"))),
        }
    }

    /// The parameters of `initialize` for a revision.
    pub fn hello(version: &str) -> Value {
        json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "t2m-tests", "version": "0"},
        })
    }

    /// Parameters of a modern request: `params` with the `_meta` that each must carry.
    pub fn modern(mut params: Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t2m-tests", "version": "0"},
        });
        if let Some(params) = params.as_object_mut() {
            match params.get_mut("_meta").and_then(Value::as_object_mut) {
                Some(own) => own.extend(meta.as_object().cloned().unwrap_or_default()),
                None => {
                    params.insert("_meta".to_owned(), meta);
                }
            }
        }
        params
    }

    /// The next message, whatever it is; `None` when the server has closed its output.
    pub fn receive(&mut self) -> Outcome<Option<Value>> {
        match self.kept.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.read(Instant::now() + self.limit),
        }
    }

    /// The answer to `id`. What comes before it is kept for [`McpClient::receive`], in its order.
    pub fn answer(&mut self, id: &Value) -> Outcome<Value> {
        self.take(|message| message.get("method").is_none() && message.get("id") == Some(id))
    }

    /// The first message that `fits`. What comes before it is kept.
    pub fn take(&mut self, fits: impl Fn(&Value) -> bool) -> Outcome<Value> {
        if let Some(at) = self.kept.iter().position(&fits) {
            return self.kept.remove(at).ok_or_else(|| Failure::new("the message is gone"));
        }
        let until = Instant::now() + self.limit;
        loop {
            match self.read(until)? {
                Some(message) if fits(&message) => return Ok(message),
                Some(message) => self.kept.push_back(message),
                None => return Err(self.explain("the server closed its output")),
            }
        }
    }

    /// From now on, whatever is awaited must come within `limit`.
    pub fn within(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Fails if a message comes before `time` is over.
    pub fn silence(&mut self, time: Duration) -> Outcome<()> {
        let until = Instant::now() + time;
        match (self.kept.front(), self.server.line(until)) {
            (None, Err(_)) => Ok(()),
            (Some(message), _) => Err(Failure::new(format!("nobody asked for {}", show(message)))),
            (_, Ok(line)) => Err(Failure::new(format!("nobody asked for {line:?}"))),
        }
    }

    /// Messages that came while others were awaited and that nobody took.
    pub fn kept(&self) -> &VecDeque<Value> {
        &self.kept
    }

    /// Closes the server's input after what was sent, which asks it to end.
    pub fn close_stdin(&mut self) {
        self.server.close_stdin();
    }

    /// Stops reading: the server's next message is lost and the one after it breaks its pipe.
    pub fn close_stdout(&mut self) {
        self.server.close_stdout();
    }

    /// Waits for the server's end by itself.
    pub fn wait(&mut self) -> Outcome<ExitStatus> {
        match self.server.wait(Instant::now() + self.limit)? {
            Some(status) => Ok(status),
            None => Err(self.explain(&format!("the server still runs after {:?}", self.limit))),
        }
    }

    /// The server's standard error so far.
    pub fn errors(&mut self) -> &str {
        self.server.errors(Instant::now() + LAST_WORDS)
    }

    /// The server's process id.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    fn read(&mut self, until: Instant) -> Outcome<Option<Value>> {
        loop {
            let line = match self.server.line(until) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(why) => return Err(self.explain(&why.to_string())),
            };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            return match serde_json::from_str(line) {
                Ok(message) => Ok(Some(message)),
                Err(why) => {
                    let shown: String = line.chars().take(300).collect();
                    Err(self.explain(&format!("the server wrote `{shown}`, which is not JSON: {why}")))
                }
            };
        }
    }

    fn explain(&mut self, why: &str) -> Failure {
        let kept: Vec<String> = self.kept.iter().map(show).collect();
        let errors = self.errors().to_owned();
        Failure::new(format!("{why}\nnot asked for: {kept:?}\nthe server's standard error:\n{errors}"))
    }
}

/// The beginning of a message, for a failure.
fn show(message: &Value) -> String {
    message.to_string().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestEnv;

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(20);

    fn shell(env: &TestEnv, script: &str, limit: Duration) -> McpClient {
        McpClient::start(env.command("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn answers_are_found_by_id_and_the_rest_is_kept_in_its_order() {
        let env = TestEnv::new().unwrap();
        let script = r#"
read one; read two
echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}'
echo '{"jsonrpc":"2.0","id":1000002,"result":"b"}'
echo '{"jsonrpc":"2.0","id":1000001,"result":"a"}'
"#;
        let mut client = shell(&env, script, LONG);
        let first = client.begin("a", &json!({})).unwrap();
        let second = client.begin("b", &json!({})).unwrap();
        assert_eq!(client.answer(&json!(first)).unwrap()["result"], "a");
        assert_eq!(client.kept().len(), 2);
        assert_eq!(client.receive().unwrap().unwrap()["params"]["n"], 1);
        assert_eq!(client.answer(&json!(second)).unwrap()["result"], "b");
        assert!(client.receive().unwrap().is_none());
    }

    #[test]
    fn a_server_that_neither_reads_nor_answers_is_reported_with_its_last_words() {
        let env = TestEnv::new().unwrap();
        let mut client = shell(&env, "echo stuck >&2; exec sleep 600", SHORT);
        client.send_bytes(vec![b' '; 10 << 20]).unwrap();
        let fault = client.request("ping", &json!({})).unwrap_err().to_string();
        assert!(fault.starts_with("`ping`: no line in time") && fault.contains("stuck"), "{fault}");
        assert!(client.wait().unwrap_err().to_string().contains("still runs"));
    }

    #[test]
    fn what_was_sent_arrives_before_the_end_of_input() {
        let env = TestEnv::new().unwrap();
        let mut client = shell(&env, "wc -c", LONG);
        client.send_bytes(vec![b'x'; 5 << 20]).unwrap();
        client.close_stdin();
        assert_eq!(client.receive().unwrap().unwrap(), json!(5 << 20));
        assert!(client.wait().unwrap().success());
        assert!(client.send(&json!({})).is_err(), "the input is closed");
    }

    #[test]
    fn a_modern_request_keeps_its_own_meta() {
        let params = McpClient::modern(json!({"_meta": {"progressToken": 1}, "name": "add"}));
        assert_eq!(params["_meta"]["progressToken"], 1);
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
    }
}
