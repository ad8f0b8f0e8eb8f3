//! T01, T13: a session is recorded between a client and a server, and by a server itself.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv};

const LIMIT: Duration = Duration::from_secs(30);

fn call(id: u64) -> String {
    let params = json!({"name": "add", "arguments": {"n": id}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

fn answer(id: u64) -> String {
    let result = json!({"content": [], "structuredContent": {"sum": id}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn record(env: &TestEnv, script: &str) -> Outcome<HostCli> {
    Ok(HostCli::new(env)?.args(["record", "--out", "session.jsonl", "--", "/bin/sh", "-c", script]))
}

fn events(env: &TestEnv) -> Outcome<Vec<Value>> {
    HostCli::new(env)?.args(["import", "session.jsonl", "--out", "trace.json"]).output()?.success()?;
    let trace: Value = serde_json::from_str(&env.read("trace.json")?)?;
    Ok(trace["events"].as_array().cloned().unwrap_or_default())
}

#[test]
fn the_client_sees_every_byte_and_the_file_holds_the_calls() -> Outcome<()> {
    let env = TestEnv::new()?;
    // What isn't JSON, or would end the entry that holds it, is passed on and noted.
    let said = format!("hello\n1}},{{\"a\":2\n{}no end", answer(1));
    env.write("said", &said)?;
    let ran = record(&env, "read line; cat said; echo talk >&2")?.input(call(1)).output()?.success()?;
    assert_eq!(ran.stdout, said, "{ran:?}");
    assert!(ran.stderr.contains("talk"), "{ran:?}");
    assert!(ran.stderr.contains("3 lines are no JSON that can be read"), "{ran:?}");
    let mode = std::fs::metadata(env.work().join("session.jsonl"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let file = env.read("session.jsonl")?;
    assert_eq!(file.matches("not_recorded").count(), 3, "{file}");
    let events = events(&env)?;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["arguments"], json!({"n": 1}));
    assert!(events[0].to_string().contains("\"sum\":1"), "{events:?}");
    Ok(())
}

#[test]
fn a_large_message_passes_whole() -> Outcome<()> {
    let env = TestEnv::new()?;
    let text = "x".repeat(4 << 20);
    let message =
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"t": text}}));
    let ran = record(&env, "cat")?.input(message.clone()).output()?.success()?;
    assert!(ran.stdout == message);
    assert_eq!(env.read("session.jsonl")?.matches(&text).count(), 2);
    Ok(())
}

#[test]
fn an_existing_file_is_refused_before_the_server_starts() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("session.jsonl", "mine")?;
    let ran = record(&env, "touch started")?.output()?.expect_code(3)?;
    assert!(ran.stderr.contains("file-unwritable"), "{ran:?}");
    assert_eq!(env.read("session.jsonl")?, "mine");
    assert!(!env.work().join("started").exists());
    Ok(())
}

#[test]
fn a_server_that_fails_or_cannot_start_is_named() -> Outcome<()> {
    let env = TestEnv::new()?;
    let missing = HostCli::new(&env)?.args(["record", "--out", "session.jsonl", "--", "/no/such/server"]);
    let ran = missing.output()?.expect_code(6)?;
    assert!(ran.stderr.contains("server-failed"), "{ran:?}");
    assert!(!env.work().join("session.jsonl").exists());
    let ran = record(&env, "exit 3")?.output()?.expect_code(3)?;
    assert!(ran.stderr.contains("exit status: 3"), "{ran:?}");
    Ok(())
}

#[test]
fn signals_reach_the_server_whose_status_is_passed_on() -> Outcome<()> {
    for signal in ["HUP", "INT", "TERM"] {
        let env = TestEnv::new()?;
        let script = format!("trap 'cat said; exit 7' {signal}; echo ready; read a; read b");
        env.write("said", answer(1))?;
        let mut running = record(&env, &script)?.start()?;
        let until = Instant::now() + LIMIT;
        assert_eq!(running.line(until)?.as_deref(), Some("ready\n"));
        running.write(&call(1))?;
        let recorded = |env: &TestEnv| env.read("session.jsonl").is_ok_and(|file| file.lines().count() >= 2);
        while !recorded(&env) && Instant::now() < until {
            std::thread::yield_now();
        }
        Command::new("kill").args([&format!("-{signal}"), &running.id().to_string()]).status()?;
        assert_eq!(running.rest(until)?, answer(1), "{signal}");
        let status = running.wait(until)?;
        assert_eq!(status.and_then(|status| status.code()), Some(7), "{signal}");
        assert_eq!(events(&env)?.len(), 1, "the file is whole");
    }
    Ok(())
}

#[test]
fn a_server_that_goes_on_without_its_client_is_ended() -> Outcome<()> {
    // The second one needs a moment until it ignores the signal.
    for (script, grace, code) in [("exec sleep 600", "0", 143), ("trap '' TERM; sleep 600", "2", 137)] {
        let env = TestEnv::new()?;
        let args = ["record", "--grace", grace, "--out", "session.jsonl", "--", "/bin/sh", "-c", script];
        let ran = HostCli::new(&env)?.args(args).input(call(1)).output()?.expect_code(code)?;
        assert!(ran.stderr.contains("went on after its client had gone"), "{ran:?}");
        assert_eq!(events(&env)?.len(), 1);
    }
    Ok(())
}

#[test]
fn requests_that_no_workflow_repeats_are_said_at_the_end() -> Outcome<()> {
    let env = TestEnv::new()?;
    let read = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "a:b"}});
    let ran = record(&env, "cat >/dev/null")?.input(format!("{}{read}\n", call(1))).output()?.success()?;
    assert!(ran.stderr.contains("1 `resources/read`"), "{ran:?}");
    Ok(())
}

fn serve(env: &TestEnv, args: &[&str]) -> Outcome<McpClient> {
    let args = ["serve", "--record", "session.jsonl"].iter().chain(args);
    let mut client = McpClient::start(&mut HostCli::new(env)?.args(args).into_command(), LIMIT)?;
    client.initialize()?;
    Ok(client)
}

/// The id, the tool, the status and the parent of each event.
fn outline(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line =
        |event: &Value| [&event["id"], &event["status"], &event["metadata"]["parent"]].map(text).join(" ");
    events.iter().map(line).collect()
}

/// T01: a server records what it serves; what a workflow and a tool call themselves are children.
#[test]
fn a_server_records_its_calls_and_those_made_in_them() -> Outcome<()> {
    let env = TestEnv::new()?;
    let flow = t2m_tests::data_dir("../../plugins/math/examples/hypotenuse.json");
    env.write("triangle.json", std::fs::read(flow)?)?;
    env.write("hostile/hostile.wasm", std::fs::read(env!("T2M_PLUGIN_HOSTILE"))?)?;
    let asks =
        "name = \"hostile\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\ndirs = \"read\"\n";
    env.write("hostile/plugin.toml", asks)?;
    let plugin =
        ["--tool", "math", "--tool", "hostile/hostile.wasm", "--dir", "hostile", "--trust", "hostile"];
    let mut client = serve(&env, &[&plugin[..], &["--workflow", "triangle.json"]].concat())?;
    client.call_tool("triangle", &json!({"first": 3, "second": 4}))?;
    client.call_tool("nested", &json!({"arg": "echo"}))?;
    client.call_tool("add", &json!({"x": "no number"}))?;
    client.close_stdin();
    assert!(client.wait()?.success());
    let mode = std::fs::metadata(env.work().join("session.jsonl"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let events = events(&env)?;
    assert_eq!(
        outline(&events),
        [
            "triangle-1 success -",
            "power-1 success triangle-1",
            "power-2 success triangle-1",
            "add-1 success triangle-1",
            "sqrt-1 success triangle-1",
            "nested-1 success -",
            "echo-1 success nested-1",
            "add-2 failed -",
        ]
    );
    assert_eq!(events[0]["result"], json!({"result": 5}));
    assert!(events[0]["started_at"].is_number() && events[0]["ended_at"].is_number(), "{}", events[0]);
    // The workflow's own calls stand for it, and a tool makes its calls again itself.
    let plugin = &plugin[..4];
    HostCli::new(&env)?
        .args(["compile", "session.jsonl", "--out", "flow.json"])
        .args(plugin)
        .output()?
        .success()?;
    let flow: Value = serde_json::from_str(&env.read("flow.json")?)?;
    let nodes = flow["nodes"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    assert_eq!(ids, ["power-1", "power-2", "add-1", "sqrt-1", "nested-1"]);
    Ok(())
}

/// T01, T13: a server that is ended, or breaks off, leaves what was called; an existing file is refused.
#[test]
fn a_server_that_is_stopped_or_killed_leaves_a_file_that_can_be_read() -> Outcome<()> {
    for signal in ["TERM", "KILL"] {
        let env = TestEnv::new()?;
        let mut client = serve(&env, &["--tool", "math"])?;
        client.call_tool("add", &json!({"a": 1, "b": 2}))?;
        let until = Instant::now() + LIMIT;
        while env.read("session.jsonl")?.lines().count() < 2 && Instant::now() < until {
            std::thread::yield_now();
        }
        Command::new("kill").args([&format!("-{signal}"), &client.id().to_string()]).status()?;
        let status = client.wait()?;
        assert_eq!(status.success(), signal == "TERM", "{status:?}");
        assert_eq!(events(&env)?.len(), 1);
        let again = HostCli::new(&env)?.args(["serve", "--record", "session.jsonl"]).output()?;
        assert!(again.expect_code(3)?.stderr.contains("file-unwritable"));
    }
    Ok(())
}

#[test]
fn a_killed_recorder_leaves_what_was_said() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("said", answer(1))?;
    let until = Instant::now() + Duration::from_secs(20);
    let mut running = record(&env, "read a; cat said; read b; echo '{}'; read c")?.start()?;
    running.write(&(call(1) + &call(2)))?;
    let both = |env: &TestEnv| env.read("session.jsonl").is_ok_and(|file| file.lines().count() >= 4);
    while !both(&env) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    running.kill();
    let events = events(&env)?;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].to_string().contains("\"sum\":1"), "{events:?}");
    assert!(!events[1].to_string().contains("\"sum\""), "{events:?}");
    Ok(())
}
