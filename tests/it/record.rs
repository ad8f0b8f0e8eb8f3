//! T01, T13: a session is recorded between a client and a server.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use t2m_tests::{HostCli, Outcome, TestEnv};

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
    let ran = record(&env, "exit 3")?.output()?.expect_code(6)?;
    assert!(ran.stderr.contains("server-failed") && ran.stderr.contains("exit status: 3"), "{ran:?}");
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
