//! The audit log of the real program: what it holds for each route, and what it withstands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv, data_dir, golden};

fn configured(case: &str) -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    env.write("t2m.toml", fs::read(data_dir("audit").join(case).join("t2m.toml"))?)?;
    fs::create_dir(env.work().join("out"))?;
    Ok(env)
}

fn serve(env: &TestEnv) -> Outcome<McpClient> {
    let out = format!("{}:rw", env.work().join("out").display());
    let tools = ["serve", "--tool", "math", "--tool", "files", "--dir", &out];
    let mut client =
        McpClient::start(&mut HostCli::new(env)?.args(tools).into_command(), Duration::from_secs(60))?;
    client.initialize()?;
    Ok(client)
}

/// Waits for the server's end, so that all it had to write is written.
fn end(mut client: McpClient) -> Outcome<()> {
    client.close_stdin();
    while client.receive()?.is_some() {}
    client.wait()?;
    Ok(())
}

fn audit(env: &TestEnv, args: &[&str], status: i32) -> Outcome<Value> {
    let out = HostCli::new(env)?.arg("audit").args(args).args(["--format", "json"]).output()?;
    Ok(serde_json::from_str(&out.expect_code(status)?.stdout)?)
}

fn records(env: &TestEnv) -> Outcome<Vec<Value>> {
    let mut shown = audit(env, &["show", "--last", "1000"], 0)?;
    Ok(serde_json::from_value(shown["records"].take())?)
}

/// What is the same each time, one record a line.
fn lasting(records: &[Value]) -> String {
    let names = [
        "record", "phase", "decision", "stage", "code", "node", "tool", "effect", "depth", "approved",
        "nodes",
    ];
    let known = ["workflow", "contract", "arguments", "inputs", "approval", "result", "output", "usage"];
    let mut text = String::new();
    for record in records {
        let members = names.iter().filter(|name| !record[**name].is_null());
        let members: Vec<String> = members.map(|name| format!("{name}={}", record[*name])).collect();
        let has: Vec<&str> = known.into_iter().filter(|name| !record[*name].is_null()).collect();
        text.push_str(&format!("{} has {}\n", members.join(" ").replace('"', ""), has.join(" ")));
    }
    text
}

fn files(env: &TestEnv) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(env.work().join("log"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// T27, F65, T22: each call of a client leaves its decision with the exact code, and its end; what was denied had
/// no effect; no argument stands in the log, which is its owner's alone.
#[test]
fn each_call_of_a_client_is_recorded() -> Outcome<()> {
    use std::os::unix::fs::PermissionsExt;
    let env = configured("serve")?;
    let case = data_dir("audit").join("serve");
    let work = env.work().display().to_string();
    let calls: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(case.join("calls.json"))?.replace("$WORK", &work))?;
    let mut client = serve(&env)?;
    for call in &calls {
        client.call_tool(call["tool"].as_str().unwrap_or_default(), &call["arguments"])?;
    }
    end(client)?;
    golden::check(&case, "records.txt", &lasting(&records(&env)?))?;
    assert!(env.work().join("out/note.txt").exists());
    assert!(!env.work().join("out/new").exists() && !env.work().join("out/moved.txt").exists());
    for path in files(&env)? {
        let text = fs::read_to_string(&path)?;
        assert!(!text.contains("token-of-the-caller") && !text.contains("note.txt"), "{text}");
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    }
    let verified = audit(&env, &["verify"], 0)?;
    assert_eq!((&verified["valid"], &verified["torn"]), (&json!(true), &json!([])));
    let denied = audit(&env, &["show", "--only", "denied"], 0)?;
    assert!(
        denied["records"].as_array().is_some_and(|list| list.iter().all(|one| one["decision"] == "denied"))
    );
    Ok(())
}

/// T27, T23: a run that is blocked leaves what stopped it, one that runs its inputs, approvals and results.
#[test]
fn a_run_is_recorded_from_what_blocked_it_to_its_result() -> Outcome<()> {
    let env = configured("run")?;
    let case = data_dir("audit").join("run");
    let trace = data_dir("cli").join("hypotenuse/trace.json");
    HostCli::new(&env)?.arg("compile").arg(trace).args(["--out", "workflow.json"]).output()?.success()?;
    let run = |approve: &[String]| {
        let args = ["run", "workflow.json", "--format", "json", "--concurrency", "1", "--run-id", "r"];
        HostCli::new(&env)?.args(args).args(approve.iter().flat_map(|id| ["--approve", id])).output()
    };
    let blocked = run(&[])?.expect_code(5)?.json()?;
    let ids: Vec<String> = blocked["blocked"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["approval_id"].as_str().map(str::to_owned))
        .collect();
    run(&ids)?.success()?;
    let records = records(&env)?;
    golden::check(&case, "records.txt", &lasting(&records))?;
    let used: Vec<&Value> = records.iter().filter(|record| record["approved"] == true).collect();
    assert!(
        !used.is_empty() && used.iter().all(|one| ids.iter().any(|id| one["approval"] == *id)),
        "{used:?}"
    );

    let one = HostCli::new(&env)?
        .args(["audit", "export", "--run", "r", "--out", "r.jsonl"])
        .output()?
        .success()?;
    assert_eq!(one.stdout, "");
    let (exported, whole) = (env.read("r.jsonl")?, fs::read_to_string(&files(&env)?[0])?);
    assert!(
        exported.lines().count() > 4 && exported.lines().all(|line| whole.contains(line)),
        "byte by byte"
    );
    let later = HostCli::new(&env)?.args(["audit", "export", "--since", "2999-01-01T00:00:00Z"]).output()?;
    assert_eq!(later.success()?.stdout, "");
    Ok(())
}

/// T27, F65: whatever is done to the files, `verify` says what and where, and ends with status 4.
#[test]
fn tampering_is_found() -> Outcome<()> {
    type Change = fn(&Path, &str) -> std::io::Result<()>;
    fn lines(path: &Path, change: impl FnOnce(&mut Vec<&str>), text: &str) -> std::io::Result<()> {
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        change(&mut lines);
        fs::write(path, lines.concat())
    }
    let table: &[(&str, Change, &str)] = &[
        (
            "changed",
            |path, text| fs::write(path, text.replacen("policy-denied", "policy-allowed", 1)),
            "audit-changed",
        ),
        ("removed", |path, text| lines(path, |lines| lines[3] = "", text), "audit-missing"),
        ("swapped", |path, text| lines(path, |lines| lines.swap(2, 3), text), "audit-order"),
        ("inserted", |path, text| lines(path, |lines| lines.insert(2, lines[2]), text), "audit-inserted"),
        (
            "cut at a record",
            |path, text| lines(path, |lines| lines.truncate(lines.len() - 1), text),
            "audit-missing",
        ),
        ("cut in a record", |path, text| fs::write(path, &text.as_bytes()[..text.len() - 20]), "audit-torn"),
        ("removed head", |path, _| fs::remove_file(path.with_file_name("head.json")), "audit-missing"),
        ("removed file", |path, _| fs::remove_file(path), "audit-missing"),
    ];
    let env = configured("serve")?;
    let mut client = serve(&env)?;
    for _ in 0..4 {
        client.call_tool("multiply", &json!({"a": 1, "b": 2}))?;
    }
    end(client)?;
    let log = env.work().join("log");
    let path = files(&env)?.remove(0);
    let (text, head) = (fs::read_to_string(&path)?, fs::read_to_string(log.join("head.json"))?);
    let known = audit(&env, &["verify"], 0)?["last"]["hash"].as_str().unwrap_or_default().to_owned();
    for (name, change, code) in table {
        change(&path, &text)?;
        let found = audit(&env, &["verify"], 4)?;
        let faults = found["faults"].as_array().cloned().unwrap_or_default();
        assert!(faults.iter().any(|fault| fault["code"] == *code), "{name}: {found}");
        assert_eq!(found["valid"], false, "{name}");
        fs::write(&path, &text)?;
        fs::write(log.join("head.json"), &head)?;
    }
    // Who can write the head as well is found by a hash that was kept elsewhere.
    audit(&env, &["verify", "--expect-head", &known], 0)?;
    fs::remove_dir_all(&log)?;
    end(serve(&env)?)?;
    audit(&env, &["verify"], 0)?;
    audit(&env, &["verify", "--expect-head", &known], 4)?;
    let none = HostCli::new(&env)?.args(["audit", "verify", "--dir", "out"]).output()?.expect_code(3)?;
    assert!(none.stderr.contains("file-unreadable"), "{none:?}");
    Ok(())
}

/// T27: a server that is killed leaves a log that verifies or says exactly what is torn, and the next one goes on.
/// What it had let write is in there.
#[test]
fn a_killed_server_leaves_a_log_that_is_whole_or_says_what_is_torn() -> Outcome<()> {
    let env = configured("serve")?;
    for round in 0..3 {
        let mut client = serve(&env)?;
        for at in 0..40 {
            let path = env.work().join(format!("out/{round}-{at}.txt"));
            let arguments = json!({"path": path, "content": "x"});
            client.begin("tools/call", &json!({"name": "write_file", "arguments": arguments}))?;
            client.begin("tools/call", &json!({"name": "add", "arguments": {"a": at, "b": 1}}))?;
        }
        let written = || fs::read_dir(env.work().join("out")).map(Iterator::count);
        let before = written()?;
        while written()? < before + 3 + round * 5 {
            client.receive()?;
        }
        Command::new("kill").args(["-9", &client.id().to_string()]).status()?;
        client.wait()?;
        let found = HostCli::new(&env)?.args(["audit", "verify", "--format", "json"]).output()?;
        let found: Value = serde_json::from_str(&found.stdout)?;
        let faults = found["faults"].as_array().cloned().unwrap_or_default();
        assert!(faults.len() <= 1 && faults.iter().all(|fault| fault["code"] == "audit-torn"), "{found}");
    }
    end(serve(&env)?)?;
    audit(&env, &["verify"], 0)?;
    let allowed = |record: &&Value| record["decision"] == "allowed" && record["tool"] == "write_file";
    let (allowed, written) =
        (records(&env)?.iter().filter(allowed).count(), fs::read_dir(env.work().join("out"))?.count());
    assert!(written > 0 && written <= allowed, "{written} files, {allowed} recorded");
    Ok(())
}

/// F65: two servers with one configuration write one chain.
#[test]
fn two_servers_share_a_log() -> Outcome<()> {
    let env = configured("serve")?;
    let (mut one, mut two) = (serve(&env)?, serve(&env)?);
    for _ in 0..5 {
        one.call_tool("multiply", &json!({"a": 1, "b": 2}))?;
        two.call_tool("add", &json!({"a": 1, "b": 2}))?;
    }
    end(one)?;
    end(two)?;
    audit(&env, &["verify"], 0)?;
    let decided = records(&env)?.iter().filter(|record| record["record"] == "call-decided").count();
    assert_eq!(decided, 10);
    Ok(())
}

/// F65: a log that a plugin could write to isn't one.
#[test]
fn a_log_where_a_plugin_may_write_is_refused() -> Outcome<()> {
    let env = configured("serve")?;
    let work = format!("{}:rw", env.work().display());
    let refused = HostCli::new(&env)?.args(["serve", "--tool", "files", "--dir", &work]).output()?;
    assert!(refused.stderr.contains("where a plugin may write"), "{refused:?}");
    refused.expect_code(3)?;
    let reads = env.work().display().to_string();
    HostCli::new(&env)?.args(["serve", "--tool", "files", "--dir", &reads]).output()?.success()?;
    // A folder that isn't there yet may be made, and so may one on the way back up.
    for granted in ["log:rw", "no/../log:rw"] {
        let refused = HostCli::new(&env)?.args(["serve", "--tool", "files", "--dir", granted]).output()?;
        assert!(refused.expect_code(3)?.stderr.contains("grant-invalid"), "{granted}");
    }
    let plain =
        ["plugin", "run", env!("T2M_PLUGIN_FILES"), "list_directory", "--arg", "path=.", "--dir", "log:rw"];
    let refused = HostCli::new(&env)?.args(plain).output()?.expect_code(3)?;
    assert!(refused.stderr.contains("where a plugin may write"), "{refused:?}");
    let with_plugin = env.read("t2m.toml")? + "[[plugin]]\nname = \"files\"\ndirs = [\"log:rw\"]\n";
    env.write("t2m.toml", with_plugin)?;
    let checked = HostCli::new(&env)?.args(["config", "check"]).output()?.expect_code(3)?;
    assert!(checked.stderr.contains("where a plugin may write"), "{checked:?}");
    Ok(())
}

/// T27, F65: without its log nothing runs, from the start or from the moment on when it can't be written.
#[test]
fn without_its_log_nothing_runs() -> Outcome<()> {
    let env = configured("serve")?;
    env.write("log", "no folder")?;
    let refused = HostCli::new(&env)?.args(["serve", "--tool", "math"]).output()?.expect_code(4)?;
    assert!(refused.stderr.contains("audit-unwritable"), "{refused:?}");
    let checked = HostCli::new(&env)?.args(["config", "check"]).output()?.expect_code(3)?;
    assert!(checked.stderr.contains("file-unwritable") && checked.stderr.contains("line 2"), "{checked:?}");
    fs::remove_file(env.work().join("log"))?;

    let mut client = serve(&env)?;
    fs::write(&files(&env)?[0], "")?;
    let path = env.work().join("out/note.txt");
    let arguments = json!({"path": path, "content": "x"});
    let answer = client.call_tool("write_file", &arguments)?;
    assert_eq!(answer["result"]["_meta"]["t2m-host/error"]["code"], "audit-unwritable", "{answer}");
    assert!(!path.exists());
    let answer = client.call_tool("add", &json!({"a": 1, "b": 2}))?;
    assert_eq!(answer["result"]["_meta"]["t2m-host/error"]["code"], "audit-unwritable", "{answer}");
    Ok(())
}

/// T27: a log that is removed or replaced while it is written lets nothing run, since its records would be gone.
#[test]
fn a_log_that_is_replaced_while_it_is_written_lets_nothing_run() -> Outcome<()> {
    for replaced in [files, |env: &TestEnv| Ok(vec![env.work().join("log/lock")])] {
        let env = configured("serve")?;
        let mut client = serve(&env)?;
        let path = replaced(&env)?.remove(0);
        let copy = path.with_extension("copy");
        fs::copy(&path, &copy)?;
        fs::rename(&copy, &path)?;
        let note = env.work().join("out/note.txt");
        for gone in [false, true] {
            let answer = client.call_tool("write_file", &json!({"path": note, "content": "x"}))?;
            let error = &answer["result"]["_meta"]["t2m-host/error"];
            assert_eq!(error["code"], "audit-unwritable", "{path:?}, gone: {gone}: {answer}");
            assert!(!note.exists());
            if !gone {
                fs::remove_dir_all(env.work().join("log"))?;
            }
        }
    }
    Ok(())
}

/// T27: what isn't a log's is refused with its name, and nothing waits for a pipe.
#[test]
fn strange_files_in_the_folder_are_faults() -> Outcome<()> {
    let env = configured("serve")?;
    let mut client = serve(&env)?;
    client.call_tool("add", &json!({"a": 1, "b": 2}))?;
    end(client)?;
    let log = files(&env)?.remove(0);
    let text = fs::read_to_string(&log)?;
    // A number after which there is none, under a hash that is right.
    let body = format!("{{\"seq\":{},\"at_ms\":1,\"prev\":null,\"record\":\"x\"", u64::MAX);
    let forged = format!("{body},\"hash\":\"{}\"}}\n", t2m_core::digest::Digest::of_bytes(body.as_bytes()));
    fs::write(&log, format!("{text}{forged}{}", text.lines().next().unwrap_or_default()))?;
    assert_eq!(audit(&env, &["verify"], 4)?["valid"], false);
    fs::write(&log, &text)?;
    audit(&env, &["verify"], 0)?;

    for name in ["head.json", "lock", "audit-00000002.jsonl"] {
        let path = env.work().join("log").join(name);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        Command::new("mkfifo").arg(&path).status()?;
        for command in [&["audit", "verify"][..], &["serve", "--tool", "math"]] {
            let refused = HostCli::new(&env)?.args(command).output()?.expect_code(4)?;
            assert!(refused.stderr.contains("is no plain file"), "{name}: {refused:?}");
        }
        fs::remove_file(&path)?;
        kept.map(|kept| fs::write(&path, kept)).transpose()?;
    }
    audit(&env, &["verify"], 0)?;

    for out in ["log/audit-00000001.jsonl", "log/copy.jsonl"] {
        HostCli::new(&env)?.args(["audit", "export", "--out", out]).output()?.expect_code(3)?;
    }
    assert_eq!(fs::read_to_string(&log)?, text);
    HostCli::new(&env)?
        .args(["audit", "export", "--dir", "none", "--out", "copy.jsonl"])
        .output()?
        .expect_code(3)?;
    assert!(!env.work().join("copy.jsonl").exists(), "nothing is made for a log that isn't there");
    Ok(())
}
