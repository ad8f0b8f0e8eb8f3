//! What `serve` offers, allows and reads again.
//!
//! Owns grants, approvals and reloads as a client sees them. Refuses the protocol's corners: `mcp_abuse` has
//! them.
//!
//! **Invariant:** whatever is refused has left no file.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv};

const LIMIT: Duration = Duration::from_secs(30);

fn serve(env: &TestEnv, args: &[&str]) -> Outcome<McpClient> {
    McpClient::start(&mut HostCli::new(env)?.arg("serve").args(args).into_command(), LIMIT)
}

fn hangup(client: &McpClient) -> Outcome<()> {
    assert!(Command::new("kill").args(["-HUP", &client.id().to_string()]).status()?.success());
    Ok(())
}

fn code(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    &answer["result"]["_meta"]["t2m-host/error"]["code"]
}

fn names(client: &mut McpClient, params: &Value) -> Outcome<Vec<String>> {
    let list = client.request("tools/list", params)?;
    let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
    Ok(tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect())
}

/// P13: without configuration reads run, and a write is refused with what it lacks: first the grant, then the
/// approval, which counts for exactly the calls it was given for.
#[test]
fn a_write_needs_a_grant_and_an_approval() -> Outcome<()> {
    let env = TestEnv::new()?;
    let file = env.write("data/read.txt", "text")?;
    let data = file.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let target = format!("{data}/written.txt");
    let write = json!({"path": target, "content": "new"});

    let mut client = serve(&env, &["--tool", "files", "--dir", &data])?;
    client.initialize()?;
    let read = client.call_tool("read_text_file", &json!({"path": file.display().to_string()}))?;
    assert_eq!(read["result"]["structuredContent"], json!({"content": "text"}), "{read}");
    assert_eq!(code(&client.call_tool("write_file", &write)?), "plugin-grant-missing");

    let writable = format!("{data}:rw");
    let mut client = serve(&env, &["--tool", "files", "--dir", &writable])?;
    client.initialize()?;
    let refused = client.call_tool("write_file", &write)?;
    assert_eq!(code(&refused), "approval-required");
    let id = refused["result"]["_meta"]["t2m-host/error"]["approval"].as_str().unwrap_or_default().to_owned();
    assert!(!std::path::Path::new(&target).exists(), "what is refused leaves no file");

    let mut client = serve(&env, &["--tool", "files", "--dir", &writable, "--approve", &id])?;
    client.initialize()?;
    let other = json!({"path": target, "content": "other"});
    assert_eq!(code(&client.call_tool("write_file", &other)?), "approval-required");
    let written = client.call_tool("write_file", &write)?;
    assert_eq!(written["result"]["isError"], json!(false), "{written}");
    assert_eq!(std::fs::read_to_string(&target)?, "new");
    assert_eq!(code(&client.call_tool("write_file", &write)?), "approval-used-up");
    Command::new("kill").args(["-HUP", &client.id().to_string()]).status()?;
    client.take(|message| message["method"] == "notifications/tools/list_changed")?;
    assert_eq!(
        code(&client.call_tool("write_file", &write)?),
        "approval-used-up",
        "a reload gives nothing back"
    );
    Ok(())
}

/// P13: SIGHUP reads everything again, the client hears of it, and a broken file changes nothing.
#[test]
fn a_reload_changes_the_list_or_nothing() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("data/f", "")?;
    env.write("t2m.toml", "[[plugin]]\nname = \"math\"\n")?;
    let mut client = serve(&env, &[])?;
    client.initialize()?;
    assert!(!names(&mut client, &json!({}))?.contains(&"read_text_file".to_owned()));

    env.write("t2m.toml", "[[plugin]]\nname = \"math\"\n[[plugin]]\nname = \"files\"\ndirs = [\"data\"]\n")?;
    hangup(&client)?;
    client.take(|message| message["method"] == "notifications/tools/list_changed")?;
    let tools = names(&mut client, &json!({}))?;
    assert!(tools.contains(&"read_text_file".to_owned()) && tools.contains(&"add".to_owned()), "{tools:?}");

    env.write("t2m.toml", "[[plugin]]\nname = 5\n")?;
    hangup(&client)?;
    while !client.errors().contains("the reload failed") {
        client.request("ping", &json!({}))?;
    }
    assert_eq!(names(&mut client, &json!({}))?, tools);
    assert!(client.kept().is_empty(), "nothing changed, so nothing is told: {:?}", client.kept());
    Ok(())
}

/// P03: a grant that the file takes away is gone with the next reload, and with it the plugin that needs it; the
/// rest of the file counts as well.
#[test]
fn a_grant_that_is_taken_away_is_gone() -> Outcome<()> {
    let env = TestEnv::new()?;
    let file = env.write("data/f", "text")?.display().to_string();
    let files = "[[plugin]]\nname = \"files\"\n";
    let math = "[[plugin]]\nname = \"math\"\n";
    env.write("t2m.toml", format!("{math}{files}dirs = [\"data\"]\n"))?;
    let mut client = serve(&env, &[])?;
    client.initialize()?;
    let read = client.call_tool("read_text_file", &json!({"path": file}))?;
    assert_eq!(read["result"]["isError"], json!(false), "{read}");

    env.write("t2m.toml", format!("[policy.tools]\nmultiply = \"deny\"\n{math}{files}"))?;
    hangup(&client)?;
    client.take(|message| message["method"] == "notifications/tools/list_changed")?;
    let tools = names(&mut client, &json!({}))?;
    assert!(tools.contains(&"add".to_owned()) && !tools.contains(&"read_text_file".to_owned()), "{tools:?}");
    let read = client.call_tool("read_text_file", &json!({"path": file}))?;
    assert_eq!(read["error"]["code"], json!(-32602), "{read}");
    let denied = client.call_tool("multiply", &json!({"a": 1, "b": 2}))?;
    assert_eq!(code(&denied), "policy-denied");
    assert!(client.errors().contains("until then its tools are not served"), "{}", client.errors());
    Ok(())
}

/// P13: a modern client hears of changed files if it listens, and what it is told names its subscription.
#[test]
fn a_modern_client_hears_of_changed_files() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("t2m.toml", "[[plugin]]\nname = \"math\"\n")?;
    let text = std::fs::read_to_string(t2m_tests::data_dir("../../plugins/math/examples/hypotenuse.json"))?;
    env.write("flow.json", text)?;
    let mut client = serve(&env, &["--watch"])?;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let id = client.begin("subscriptions/listen", &McpClient::modern(listen))?;
    client.take(|message| message["method"] == "notifications/subscriptions/acknowledged")?;
    env.write(
        "t2m.toml",
        "[[plugin]]\nname = \"math\"\n[[workflow]]\npath = \"flow.json\"\nname = \"triangle\"\n",
    )?;
    let told = client.take(|message| message["method"] == "notifications/tools/list_changed")?;
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(id), "{told}");
    assert!(names(&mut client, &McpClient::modern(json!({})))?.contains(&"triangle".to_owned()));
    let call = json!({"name": "triangle", "arguments": {"first": 3, "second": 4}});
    let sum = client.request("tools/call", &McpClient::modern(call))?;
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 5}), "{sum}");
    Ok(())
}

/// P13: a workflow tells its progress node by node before its result, and says everything that stops it.
#[test]
fn a_workflow_tells_its_progress_and_what_stops_it() -> Outcome<()> {
    let env = TestEnv::new()?;
    let flow = t2m_tests::data_dir("../../plugins/math/examples/hypotenuse.json").display().to_string();
    let mut client = serve(&env, &["--workflow", &flow])?;
    client.initialize()?;
    let call =
        json!({"name": "hypotenuse", "arguments": {"first": 5, "second": 12}, "_meta": {"progressToken": 7}});
    let id = client.begin("tools/call", &call)?;
    let mut told = Vec::new();
    loop {
        let message = client.receive()?.unwrap_or_default();
        if message["id"] == json!(id) {
            assert_eq!(message["result"]["structuredContent"], json!({"result": 13}), "{message}");
            break;
        }
        let progress = &message["params"];
        assert_eq!((&progress["progressToken"], &progress["total"]), (&json!(7), &json!(4.0)), "{message}");
        told.push(progress["progress"].as_f64());
    }
    assert_eq!(told, [1.0, 2.0, 3.0, 4.0].map(Some));
    let wrong = client.call_tool("hypotenuse", &json!({"first": "x", "secnd": 1}))?;
    assert_eq!(code(&wrong), "input-unknown");
    let problems = &wrong["result"]["_meta"]["t2m-host/error"]["problems"];
    assert_eq!(problems.as_array().map(Vec::len), Some(2), "both problems at once: {problems}");
    Ok(())
}

/// P04: what is neither a file nor a directory is refused at once, where reading it would wait for ever.
#[test]
fn a_pipe_in_a_granted_folder_is_no_file() -> Outcome<()> {
    let env = TestEnv::new()?;
    let file = env.write("data/f", "text")?;
    let pipe = file.with_file_name("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
    let mut client = serve(&env, &["--tool", "files", "--dir", "data"])?;
    client.initialize()?;
    let refused = client.call_tool("read_text_file", &json!({"path": pipe}))?;
    assert_eq!(code(&refused), "tool-failed");
    assert_eq!(refused["result"]["_meta"]["t2m-host/error"]["toolCode"], "not-a-file");
    Ok(())
}

/// P13: a client sees what it was offered, and a workflow still calls what it wasn't.
#[test]
fn only_what_is_offered_can_be_called() -> Outcome<()> {
    let env = TestEnv::new()?;
    let flow = t2m_tests::data_dir("../../plugins/math/examples/hypotenuse.json").display().to_string();
    let mut client = serve(&env, &["--tool", "math", "--workflow", &flow, "--offer", "hypotenuse"])?;
    client.initialize()?;
    assert_eq!(names(&mut client, &json!({}))?, ["hypotenuse"]);
    let hidden = client.call_tool("add", &json!({"a": 1, "b": 2}))?;
    assert_eq!(hidden["error"]["code"], json!(-32602), "{hidden}");
    let sum = client.call_tool("hypotenuse", &json!({"first": 3, "second": 4}))?;
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 5}), "{sum}");
    let mut client = serve(&env, &["--tool", "math", "--offer", "ad"])?;
    assert!(!client.wait()?.success());
    assert!(client.errors().contains("did you mean `add`"), "{}", client.errors());
    Ok(())
}
