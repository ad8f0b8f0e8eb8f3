//! Clients that other people wrote, against the real server.
//!
//! Owns how each is started and which calls it makes. Refuses to speak the protocol: that is their part.
//!
//! **Invariant:** what a client shows of one session is a golden file in `tests/data/mcp/<client>-<era>/`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value, json};
use t2m_tests::{
    CliOutput, Failure, HostCli, Outcome, Redactor, TestEnv, data_dir, golden, inspector, node, python,
};

/// Node.js and Python take seconds to start on two busy cores.
const LIMIT: Duration = Duration::from_secs(60);

/// The tools that are shown in full; of the others the golden file has the names.
const SHOWN: [&str; 3] = ["add", "read_text_file", "hypotenuse"];

struct Session {
    env: TestEnv,
    server: Command,
}

impl Session {
    fn new() -> Outcome<Self> {
        let env = TestEnv::new()?;
        env.write("project/notes.txt", "line 1\nline 2\n")?;
        let cli = HostCli::new(&env)?
            .args(["serve", "--tool", "math", "--tool", "files", "--dir"])
            .arg(env.work().join("project"))
            .arg("--workflow")
            .arg(data_dir("../../plugins/math/examples/hypotenuse.json").canonicalize()?);
        Ok(Self { env, server: cli.into_command() })
    }

    /// A call of a plugin that computes, of one that reads a granted folder, of a workflow, and one that is
    /// refused.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        let path = |name: &str| self.env.work().join("project").join(name).to_string_lossy().into_owned();
        vec![
            ("add", json!({"a": 28, "b": 1})),
            ("read_text_file", json!({"path": path("notes.txt")})),
            ("hypotenuse", json!({"first": 5, "second": 12})),
            ("add", json!({"a": 28})),
            ("write_file", json!({"path": path("new.txt"), "content": "x"})),
        ]
    }

    /// The server as the configuration files of clients describe it.
    fn config(&self) -> Value {
        let args: Vec<_> = self.server.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let env: Map<String, Value> = self
            .server
            .get_envs()
            .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), json!(value?.to_str()?))))
            .collect();
        json!({"mcpServers": {"t2m": {
            "type": "stdio",
            "command": self.server.get_program().to_string_lossy(),
            "args": args,
            "env": env,
        }}})
    }

    fn check(&self, case: &str, transcript: &Value) -> Outcome<()> {
        let redactor = Redactor::new()
            .path(&self.env.work(), "[work]")
            .text(env!("CARGO_PKG_VERSION"), "[version]")
            .times();
        let text = redactor.redact(&format!("{transcript:#}\n"));
        golden::check(&data_dir("mcp").join(case), "transcript.json", &text)
    }
}

/// Tools by which the golden file isn't longer than a person would read.
fn shorten(tools: &Value) -> Value {
    let tools = tools.as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let shown: Vec<&Value> = tools.iter().filter(|tool| SHOWN.contains(&name(tool).as_str())).collect();
    json!({"names": tools.iter().map(name).collect::<Vec<_>>(), "shown": shown})
}

fn inspect(session: &Session, era: &str, method: &[&str]) -> Outcome<CliOutput> {
    let mut cli = HostCli::of(session.env.command(node()))
        .arg(inspector()?)
        .args(["--cli", "--format", "json", "-q", "--protocol-era", era, "--server", "t2m", "--config"])
        .arg(session.env.write("mcp.json", session.config().to_string())?)
        .limit(LIMIT);
    cli = cli.arg("--method").args(method);
    cli.output()
}

fn inspector_session(era: &str) -> Outcome<()> {
    let session = Session::new()?;
    let listed = inspect(&session, era, &["tools/list", "--strict"])?.success()?.json()?;
    let mut calls = Vec::new();
    for (tool, arguments) in session.calls() {
        let arguments = arguments.to_string();
        let out =
            inspect(&session, era, &["tools/call", "--tool-name", tool, "--tool-args-json", &arguments])?;
        calls.push(json!({"tool": tool, "exit": out.code, "answer": out.json()?}));
    }
    let transcript = json!({"tools": shorten(&listed["result"]["tools"]), "calls": calls});
    session.check(&format!("inspector-{era}"), &transcript)
}

fn python_session(mode: &str) -> Outcome<()> {
    let session = Session::new()?;
    let calls: Vec<Value> =
        session.calls().iter().map(|(tool, arguments)| json!([tool, arguments])).collect();
    let mut cli = HostCli::of(session.env.command(python()?))
        .arg(data_dir("mcp").join("client.py"))
        .args([mode.to_owned(), Value::Array(calls).to_string()])
        .arg(session.server.get_program())
        .args(session.server.get_args())
        .limit(LIMIT);
    for (key, value) in session.server.get_envs() {
        if let (Some(key), Some(value)) = (key.to_str(), value) {
            cli = cli.env(key, value);
        }
    }
    let mut transcript = cli.output()?.success()?.json()?;
    let tools = transcript.get("tools").cloned().ok_or_else(|| Failure::new("no tools"))?;
    transcript["tools"] = shorten(&tools);
    session.check(&format!("python-{mode}"), &transcript)
}

/// P13: the official inspector lists and calls tools in a session that begins with `initialize`.
#[test]
fn the_inspector_lists_and_calls_in_a_legacy_session() -> Outcome<()> {
    inspector_session("legacy")
}

/// P13: the official inspector lists and calls tools without a session.
#[test]
fn the_inspector_lists_and_calls_without_a_session() -> Outcome<()> {
    inspector_session("modern")
}

/// P13: the official client for Python lists and calls tools in a session that begins with `initialize`.
#[test]
fn the_python_client_lists_and_calls_in_a_legacy_session() -> Outcome<()> {
    python_session("legacy")
}

/// P13: the official client for Python lists and calls tools without a session.
#[test]
fn the_python_client_lists_and_calls_without_a_session() -> Outcome<()> {
    python_session("2026-07-28")
}
