//! The server while guests never return.
//!
//! Owns the one question whether it still listens, answers and ends. Refuses figures: how long things take
//! is what `cargo xtask compare` measures.
//!
//! **Invariant:** every bound here is far above what a working server needs on two busy cores.

use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::process::processor_ticks;
use t2m_tests::{Failure, HostCli, McpClient, Outcome, TestEnv, data_dir};

/// For starting, and for ending.
const LIMIT: Duration = Duration::from_secs(20);

/// For an answer that waits for nobody.
const PROMPT: Duration = Duration::from_secs(2);

/// A window in which a process without work uses no processor time worth a tick or two.
const WINDOW: Duration = Duration::from_millis(200);

/// How many windows a cancelled guest may still use processor time in.
const WINDOWS: usize = 25;

/// Limits so high that only a cancellation or the end stops a guest.
const CONFIG: &str = "[limits]\nwall_ms = 600000\nfuel = 100000000000000\n";

/// The guest has tools that read, so it doesn't load without a folder.
const ASKS: &str =
    "name = \"hostile\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\ndirs = \"read\"\n";

fn server(env: &TestEnv) -> Outcome<McpClient> {
    let plugin = env.write("hostile/hostile.wasm", std::fs::read(env!("T2M_PLUGIN_HOSTILE"))?)?;
    env.write("hostile/plugin.toml", ASKS)?;
    std::fs::create_dir(env.work().join("data"))?;
    env.write("t2m.toml", CONFIG)?;
    let hypotenuse = data_dir("../../plugins/math/examples/hypotenuse.json");
    let cli = HostCli::new(env)?
        .args(["serve", "--tool", "math", "--dir", "data", "--trust", "hostile", "--tool"])
        .arg(plugin)
        .arg("--workflow")
        .arg(hypotenuse);
    let mut client = McpClient::start(&mut cli.into_command(), LIMIT)?;
    client.initialize()?;
    Ok(client)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, Into::into)
}

/// Starts guests that never return, and pings until the kernel has seen them run.
fn spin(client: &mut McpClient, tool: &str, guests: usize) -> Outcome<Vec<u64>> {
    const TICKS: u64 = 30;
    let before = processor_ticks(client.id())?;
    let call = json!({"name": tool, "arguments": {"arg": "x"}});
    let ids = (0..guests).map(|_| client.begin("tools/call", &call)).collect::<Outcome<Vec<_>>>()?;
    for _ in 0..1_000_000 {
        client.request("ping", &json!({}))?;
        if processor_ticks(client.id())? > before + TICKS {
            return Ok(ids);
        }
    }
    Err(Failure::new(format!("`{tool}` uses no processor time")))
}

fn still_serves(client: &mut McpClient) -> Outcome<()> {
    for round in 0..20 {
        let pong = client.request("ping", &json!({}))?;
        assert_eq!(pong["result"], json!({}), "{pong}");
        let sum = client.call_tool("add", &json!({"a": round, "b": 1}))?;
        assert_eq!(sum["result"]["structuredContent"], json!({"result": round + 1}), "{sum}");
    }
    let workflow = client.call_tool("hypotenuse", &json!({"first": 3, "second": 4}))?;
    assert_eq!(workflow["result"]["structuredContent"], json!({"result": 5}), "{workflow}");
    let list = client.request("tools/list", &json!({}))?;
    assert!(list["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 50), "{list}");
    Ok(())
}

fn cancel(client: &mut McpClient, id: &Value) -> Outcome<()> {
    client.notify("notifications/cancelled", &json!({"requestId": id, "reason": "enough"}))
}

/// Waits for windows in which nothing is said until one shows no work.
fn falls_quiet(client: &mut McpClient) -> Outcome<()> {
    const QUIET: u64 = 2;
    for _ in 0..WINDOWS {
        let before = processor_ticks(client.id())?;
        client.silence(WINDOW)?;
        if processor_ticks(client.id())? <= before + QUIET {
            return Ok(());
        }
    }
    Err(Failure::new("cancelled guests still use processor time"))
}

/// Waits for windows in which nothing is said until a guest was seen to work through one.
fn still_spins(client: &mut McpClient) -> Outcome<()> {
    for _ in 0..WINDOWS {
        let before = processor_ticks(client.id())?;
        client.silence(WINDOW)?;
        if processor_ticks(client.id())? > before + 2 {
            return Ok(());
        }
    }
    Err(Failure::new("the other call was stopped as well"))
}

/// P15: endless guests on every core, and twice as many: `ping`, other tools, workflows and lists are
/// answered; cancelling ends the guests without a response; the server works on and ends with its input.
#[test]
fn endless_guests_stop_nothing_but_themselves() -> Outcome<()> {
    for (tool, guests) in [("loop", cores()), ("loop", 2 * cores()), ("poll_loop", 2 * cores())] {
        let place = |why| Failure::new(format!("{guests} guests in `{tool}`: {why}"));
        let env = TestEnv::new()?;
        let mut client = server(&env)?;
        client.within(PROMPT);
        let ids = spin(&mut client, tool, guests).map_err(place)?;
        still_serves(&mut client).map_err(place)?;
        for id in &ids {
            cancel(&mut client, &json!(id))?;
        }
        falls_quiet(&mut client).map_err(place)?;
        still_serves(&mut client).map_err(place)?;
        assert!(client.kept().is_empty(), "a cancelled call has no response: {:?}", client.kept());
        client.close_stdin();
        client.within(LIMIT);
        assert!(client.wait().map_err(place)?.success(), "{}", client.errors());
    }
    Ok(())
}

/// P15: cancelling one of two endless calls ends that one alone.
#[test]
fn cancelling_one_call_leaves_the_other() -> Outcome<()> {
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    client.within(PROMPT);
    let ids = spin(&mut client, "loop", 2)?;
    cancel(&mut client, &json!(ids.first()))?;
    still_serves(&mut client)?;
    still_spins(&mut client)?;
    cancel(&mut client, &json!(ids.last()))?;
    falls_quiet(&mut client)
}

/// P15: the end of input while guests never return ends the server, and no call is answered with a result.
#[test]
fn the_end_of_input_ends_endless_guests() -> Outcome<()> {
    for guests in [1, 2 * cores()] {
        let env = TestEnv::new()?;
        let mut client = server(&env)?;
        spin(&mut client, "loop", guests)?;
        client.close_stdin();
        let status = client.wait()?;
        assert!(status.success(), "{guests} guests: {status}\n{}", client.errors());
        while let Some(message) = client.receive()? {
            let late = &message["result"];
            assert!(late.is_null() || late["isError"] == json!(true), "{message}");
        }
    }
    Ok(())
}

fn sleepers(client: &mut McpClient, guests: usize) -> Outcome<Vec<u64>> {
    let call = json!({"name": "sleep", "arguments": {"arg": "500000"}});
    (0..guests).map(|_| client.begin("tools/call", &call)).collect()
}

/// P15: sleeping guests, which use no processor time, don't hold the server either.
#[test]
fn sleeping_guests_stop_nothing() -> Outcome<()> {
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    client.within(PROMPT);
    let ids = sleepers(&mut client, 12)?;
    still_serves(&mut client)?;
    for id in ids {
        cancel(&mut client, &json!(id))?;
    }
    still_serves(&mut client)?;
    client.silence(WINDOW)?;
    client.close_stdin();
    client.within(LIMIT);
    assert!(client.wait()?.success(), "{}", client.errors());
    Ok(())
}

/// P15: when every slot of the sandbox is taken the server still answers what needs none, and cancelling
/// makes room, also of calls that wait for a slot.
#[test]
fn a_full_sandbox_listens_and_cancelling_makes_room() -> Outcome<()> {
    let env = TestEnv::new()?;
    let mut client = server(&env)?;
    client.within(PROMPT);
    let ids = sleepers(&mut client, 24)?;
    for _ in 0..20 {
        let pong = client.request("ping", &json!({}))?;
        assert_eq!(pong["result"], json!({}), "{pong}");
    }
    client.request("tools/list", &json!({}))?;
    for id in ids.iter().rev() {
        cancel(&mut client, &json!(id))?;
    }
    still_serves(&mut client)?;
    assert!(client.kept().is_empty(), "a cancelled call has no response: {:?}", client.kept());
    Ok(())
}
