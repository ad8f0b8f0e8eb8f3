//! What an MCP client may do wrong, against the real server.
//!
//! Owns the steps that `tests/data/mcp/abuse/*.jsonl` is written in: `send` a message, `bytes` as they are,
//! `expect` answers in any order, `may` come, `close` a stream, `ends` with a status, `peak_mib` of memory.
//! Refuses to know what is right: that stands in the data.
//!
//! **Invariant:** after every case that leaves its connection open the same connection answers a `ping` and
//! calls a tool, and nothing was sent that no step expects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::pattern::fits;
use t2m_tests::process::peak_memory_kib;
use t2m_tests::{Failure, HostCli, McpClient, Outcome, TestEnv, data_dir};

/// Longer than any answer takes with a dev build on two busy cores.
const LIMIT: Duration = Duration::from_secs(20);

/// A server that kept every message would need gigabytes for 10,000 calls; one that doesn't needs less.
const PIPELINE_PEAK_KIB: u64 = 512 * 1024;

fn server(env: &TestEnv) -> Outcome<McpClient> {
    let hypotenuse = data_dir("../../plugins/math/examples/hypotenuse.json");
    let cli = HostCli::new(env)?.args(["serve", "--tool", "math", "--workflow"]).arg(hypotenuse);
    McpClient::start(&mut cli.into_command(), LIMIT)
}

fn fault(text: impl Into<String>) -> Failure {
    Failure::new(text)
}

/// The beginning of a text, since some are megabytes long.
fn short(value: &Value) -> String {
    value.to_string().chars().take(400).collect()
}

/// The bytes of a step: texts, `{"repeat": TEXT, "times": N}` and `{"hex": DIGITS}`.
fn bytes(parts: &Value) -> Outcome<Vec<u8>> {
    let mut all = Vec::new();
    for part in parts.as_array().into_iter().flatten() {
        if let Some(text) = part.as_str() {
            all.extend(text.bytes());
        } else if let (Some(text), Some(times)) = (part["repeat"].as_str(), part["times"].as_u64()) {
            all.extend(text.repeat(usize::try_from(times).unwrap_or_default()).bytes());
        } else if let Some(digits) = part["hex"].as_str() {
            let byte = |at| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
            let read: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
            all.extend(read.ok_or_else(|| fault(format!("`{digits}` is no hex")))?);
        } else {
            return Err(fault(format!("{part} is no part of a line")));
        }
    }
    Ok(all)
}

/// A case as it is played.
struct Play {
    client: McpClient,
    ready: bool,
    open: bool,
    may: Vec<Value>,
}

impl Play {
    fn step(&mut self, step: &Value) -> Outcome<()> {
        let (key, value) =
            step.as_object().and_then(|map| map.iter().next()).ok_or_else(|| fault("an empty step"))?;
        match key.as_str() {
            "about" | "start" => Ok(()),
            "send" => self.client.send(value),
            "bytes" => self.client.send_bytes(bytes(value)?),
            "expect" => self.expect(value.as_array().cloned().unwrap_or_default()),
            "may" => {
                self.may = value.as_array().cloned().unwrap_or_default();
                Ok(())
            }
            "ready" => {
                self.ready = true;
                Ok(())
            }
            "close" => {
                self.open = false;
                self.client.close_stdin();
                Ok(())
            }
            "ends" => self.ends(value),
            "peak_mib" => {
                let peak = peak_memory_kib(self.client.id())? / 1024;
                if value.as_u64().is_some_and(|most| peak <= most) {
                    return Ok(());
                }
                Err(fault(format!("the server needed {peak} MiB, expected at most {value}")))
            }
            _ => Err(fault(format!("`{key}` is no step"))),
        }
    }

    fn expect(&mut self, mut patterns: Vec<Value>) -> Outcome<()> {
        while !patterns.is_empty() {
            let wanted = || patterns.iter().map(short).collect::<Vec<_>>().join("\n  ");
            let message = match self.client.receive() {
                Ok(Some(message)) => message,
                Ok(None) => return Err(fault(format!("the output ended, expected\n  {}", wanted()))),
                Err(why) => return Err(fault(format!("{why}\nexpected\n  {}", wanted()))),
            };
            match patterns.iter().position(|pattern| fits(pattern, &message)) {
                Some(at) => {
                    patterns.remove(at);
                }
                None => return Err(fault(format!("{}\nbut expected\n  {}", short(&message), wanted()))),
            }
        }
        Ok(())
    }

    fn ends(&mut self, code: &Value) -> Outcome<()> {
        self.nothing_else_until_the_end()?;
        let status = self.client.wait()?;
        if status.code().map(i64::from) == code.as_i64() {
            return Ok(());
        }
        Err(fault(format!("ended with {status}, expected {code}\n{}", self.client.errors())))
    }

    fn nothing_else_until_the_end(&mut self) -> Outcome<()> {
        while let Some(message) = self.client.receive()? {
            if !self.may.iter().any(|pattern| fits(pattern, &message)) {
                return Err(fault(format!("nobody asked for {}", short(&message))));
            }
        }
        Ok(())
    }

    /// The connection still works, and no message came that wasn't expected.
    fn fence(&mut self) -> Outcome<()> {
        if !self.ready {
            self.client.initialize()?;
        }
        let pong = self.client.request("ping", &json!({}))?;
        let sum = self.client.call_tool("add", &json!({"a": 20, "b": 22}))?;
        if pong["result"] != json!({}) || sum["result"]["structuredContent"] != json!({"result": 42}) {
            return Err(fault(format!("no longer works: {} {}", short(&pong), short(&sum))));
        }
        match self.client.kept().iter().find(|message| !self.may.iter().any(|p| fits(p, message))) {
            Some(message) => Err(fault(format!("nobody asked for {}", short(message)))),
            None => Ok(()),
        }
    }
}

fn play(case: &Path) -> Outcome<()> {
    let text = std::fs::read_to_string(case)?;
    let steps: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    let ready = !steps.iter().any(|step| step["start"] == "none");
    if ready {
        client.initialize()?;
    }
    let mut play = Play { client, ready, open: true, may: Vec::new() };
    for (number, step) in steps.iter().enumerate() {
        let place = |why| fault(format!("line {}: {why}", number + 1));
        play.step(step).map_err(place)?;
    }
    if play.open { play.fence() } else { Ok(()) }
}

/// The cases are played in this many tests, none of which takes long.
const PARTS: usize = 3;

fn play_part(part: usize) -> Outcome<()> {
    let mut cases: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(data_dir("mcp/abuse"))? {
        cases.push(entry?.path());
    }
    cases.sort();
    assert!(cases.len() > 30, "the cases are not there");
    let mut faults = Vec::new();
    for case in cases.iter().skip(part).step_by(PARTS) {
        let name = case.file_stem().unwrap_or_default().to_string_lossy();
        if let Err(why) = play(case) {
            faults.push(format!("== {name}\n{why}\n"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// P14: whatever a client sends, each line gets the answer that MCP gives it and the connection goes on.
#[test]
fn every_abuse_gets_its_answer_and_the_connection_goes_on_1() -> Outcome<()> {
    play_part(0)
}

/// P14: as the first part.
#[test]
fn every_abuse_gets_its_answer_and_the_connection_goes_on_2() -> Outcome<()> {
    play_part(1)
}

/// P14: as the first part.
#[test]
fn every_abuse_gets_its_answer_and_the_connection_goes_on_3() -> Outcome<()> {
    play_part(PARTS - 1)
}

/// P14: 10,000 calls that are sent before the first answer is read: each id is answered once, progress comes
/// before its result, and memory stays bounded.
#[test]
fn pipelined_calls_are_each_answered_once_and_progress_comes_before_its_result() -> Outcome<()> {
    const CALLS: i64 = 10_000;
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    client.initialize()?;
    let mut lines = String::new();
    for id in 1..=CALLS {
        // One in a hundred runs a workflow, which has progress to tell.
        let params = if id % 100 == 0 {
            json!({"name": "hypotenuse", "arguments": {"first": 3, "second": 4}, "_meta": {"progressToken": id}})
        } else {
            json!({"name": "add", "arguments": {"a": id, "b": 1}})
        };
        lines.push_str(
            &json!({"jsonrpc": "2.0", "id": id + 1000, "method": "tools/call", "params": params}).to_string(),
        );
        lines.push('\n');
    }
    client.send_bytes(lines)?;
    let mut answered = BTreeMap::new();
    while answered.len() < usize::try_from(CALLS).unwrap_or_default() {
        let message = client.receive()?.ok_or_else(|| fault("the output ended"))?;
        if message["method"] == "notifications/progress" {
            let token = message["params"]["progressToken"].as_i64().unwrap_or_default();
            assert!(!answered.contains_key(&(token + 1000)), "progress after its result: {message}");
            continue;
        }
        let id = message["id"].as_i64().unwrap_or_default();
        let expected = if id % 100 == 0 { 5 } else { id - 999 };
        assert_eq!(message["result"]["structuredContent"], json!({"result": expected}), "{message}");
        assert_eq!(answered.insert(id, ()), None, "answered twice: {message}");
    }
    let peak = peak_memory_kib(client.id())?;
    assert!(peak < PIPELINE_PEAK_KIB, "{peak} KiB");
    client.request("ping", &json!({}))?;
    assert!(client.kept().is_empty(), "{:?}", client.kept());
    Ok(())
}

/// P14: a client that stops reading while calls are pending ends the server.
#[test]
fn a_server_whose_output_is_closed_ends() -> Outcome<()> {
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    client.initialize()?;
    client.close_stdout();
    for _ in 0..200 {
        client.begin("tools/call", &json!({"name": "add", "arguments": {"a": 1, "b": 2}}))?;
    }
    // Standard input stays open: the broken pipe alone has to end it.
    client.wait()?;
    Ok(())
}
