//! A secret that a guest may spend and nobody may see, through the real program.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::web::WebServer;
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv};

/// What must not be found anywhere but at the server.
const CANARY: &str = "canary/7f3a+9c=value";

/// Its forms, and halves that no cut may let through.
const TRACES: [&str; 5] =
    ["canary/7f3a", "7f3a+9c", "9c=value", "canary%2F7f3a", "Y2FuYXJ5LzdmM2ErOWM9dmFsdW"];

fn environment(server: &WebServer, hosts: &str) -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    std::fs::create_dir(env.work().join("lent"))?;
    std::fs::copy(env!("T2M_PLUGIN_LENT"), env.work().join("lent/lent.wasm"))?;
    env.write("lent/plugin.toml", include_str!("../guests/lent/plugin.toml"))?;
    let token = env.write("token", format!("{CANARY}\n"))?;
    std::fs::set_permissions(token, std::fs::Permissions::from_mode(0o600))?;
    let port = server.address.port();
    let config = format!(
        "[policy.effects]\nexternal_side_effect = \"allow\"\n\
         [secrets.canary]\nfile = \"token\"\nhosts = [{hosts}]\nquery = true\n\
         [secrets.other]\nenv = \"NOT_SET_ANYWHERE\"\nhosts = [\"https://a.example\"]\n\
         [[plugin]]\nname = \"lent\"\npath = \"lent\"\nhosts = [\"http://127.0.0.1:{port}\", \"http://localhost:{port}\"]\n\
         secrets = [\"canary\", \"other\"]\n"
    );
    env.write("t2m.toml", config)?;
    Ok(env)
}

fn clean(what: &str, text: &str) {
    for trace in TRACES {
        assert!(!text.contains(trace), "{what} holds `{trace}`: {text}");
    }
}

/// P06: the server gets the value, and neither result, error, log, recording nor any file shows a part of it, whatever
/// the guest and the server do.
#[test]
fn a_value_reaches_its_host_and_nothing_else() -> Outcome<()> {
    let server = WebServer::start()?;
    let port = server.address.port();
    let env = environment(&server, &format!("\"http://127.0.0.1:{port}\""))?;
    let mut command: Command = HostCli::new(&env)?
        .args(["-vvv", "serve", "--tool", "lent", "--trust", "lent", "--record", "session.jsonl"])
        .into_command();
    command.env("T2M_LOG", "trace");
    let mut client = McpClient::start(&mut command, Duration::from_secs(60))?;
    client.initialize()?;
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    for (place, sent) in [
        ("bearer", format!("authorization: Bearer {CANARY}\r\n")),
        ("basic", "authorization: Basic dXNlcjpjYW5hcnkvN2YzYSs5Yz12YWx1ZQ==\r\n".to_owned()),
        ("query", "POST /echo?key=canary%2F7f3a%2B9c%3Dvalue HTTP/1.1\r\n".to_owned()),
    ] {
        for fail in [false, true] {
            // `/echo` says the whole request back, in pieces of seven bytes and in a header.
            let answer =
                client.call_tool("spend", &json!({"url": url("/echo"), "place": place, "fail": fail}))?;
            let seen = server.take_seen();
            assert_eq!(seen.len(), 1, "{place}: {answer}");
            assert!(seen[0].contains(&sent), "{place}: {seen:?}");
            assert!(seen[0].contains("accept-encoding: identity\r\n"), "{seen:?}");
            clean(place, &answer.to_string());
            if !fail {
                let value = &answer["result"]["structuredContent"];
                let text = value["text"].as_str().unwrap_or_default();
                assert!(text.starts_with("t2m-secret-"), "{answer}");
                // A credential in base64 has its own text in base64.
                assert!(
                    place == "basic" || value["body"].as_str().unwrap_or_default().contains(text),
                    "{answer}"
                );
            }
        }
    }
    // Elsewhere the text is a text, and means nothing to the next call.
    for place in ["body", "path"] {
        let answer = client.call_tool("spend", &json!({"url": url("/echo"), "place": place}))?;
        let seen = server.take_seen();
        clean(place, &seen[0]);
        clean(place, &answer.to_string());
        let old = answer["result"]["structuredContent"]["text"].clone();
        let given = json!({"url": url("/echo"), "place": "given", "given": old});
        client.call_tool("spend", &given)?;
        clean("a text of another call", &server.take_seen()[0]);
    }
    // Another host, also this one by another name.
    let elsewhere = format!("http://localhost:{port}/echo");
    let refused = client.call_tool("spend", &json!({"url": elsewhere, "place": "bearer"}))?;
    assert!(refused.to_string().contains("request-denied"), "{refused}");
    let pure = client.call_tool("peek", &json!({}))?;
    assert!(pure.to_string().contains("secret-missing"), "{pure}");
    assert!(server.take_seen().is_empty());
    client.close_stdin();
    client.wait()?;

    let logged = client.errors().to_owned();
    clean("the log", &logged);
    assert!(logged.contains("t2m-secret-"), "the guest's log is there: {logged}");
    assert!(std::fs::read_to_string(env.work().join("session.jsonl"))?.contains("t2m-secret-"));
    for entry in std::fs::read_dir(env.work())? {
        let path = entry?.path();
        if path.is_file() && !path.ends_with("token") {
            let bytes = std::fs::read(&path)?;
            clean(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
        }
    }
    for args in [
        &["config", "show"][..],
        &["config", "check"],
        &["plugin", "inspect", "lent", "--format", "json"],
        &["review", "--tool", "lent", "--format", "json"],
        &["doctor"],
    ] {
        let output = HostCli::new(&env)?.args(args).output()?;
        clean(&format!("{args:?}"), &format!("{output:?}"));
    }
    Ok(())
}

/// P06: the author of a plugin tries it with what the configuration lends it, and sees as little.
#[test]
fn plugin_run_has_what_the_configuration_grants() -> Outcome<()> {
    let server = WebServer::start()?;
    let url = format!("http://127.0.0.1:{}/echo", server.address.port());
    let env = environment(&server, &format!("\"http://127.0.0.1:{}\"", server.address.port()))?;
    let args = json!({"url": url, "place": "bearer"}).to_string();
    let output =
        HostCli::new(&env)?.args(["-vvv", "plugin", "run", "lent", "spend", "--args", &args]).output()?;
    assert!(server.take_seen().concat().contains(CANARY), "{output:?}");
    clean("plugin run", &format!("{:?}", output.success()?));
    Ok(())
}

/// P06: a secret that can't be kept is refused before anything runs, by name and without its value.
#[test]
fn a_secret_that_cannot_be_kept_is_refused() -> Outcome<()> {
    let server = WebServer::start()?;
    let port = server.address.port();
    let refused = |hosts: &str, change: &dyn Fn(&TestEnv) -> Outcome<()>, word: &str| -> Outcome<()> {
        let env = environment(&server, hosts)?;
        change(&env)?;
        let output = HostCli::new(&env)?.args(["tools", "--tool", "lent", "--format", "json"]).output()?;
        let serve = HostCli::new(&env)?.args(["serve", "--tool", "lent", "--format", "json"]).output()?;
        let text = format!("{}{}", output.stderr, serve.stderr);
        assert!(text.contains("grant-invalid") && text.contains(word), "{word}: {text}");
        clean(word, &text);
        Ok(())
    };
    let literal = format!("\"http://127.0.0.1:{port}\"");
    let mode = |env: &TestEnv| {
        Ok(std::fs::set_permissions(env.work().join("token"), std::fs::Permissions::from_mode(0o644))?)
    };
    refused(&literal, &mode, "chmod 600")?;
    refused("\"http://api.example.com\"", &|_| Ok(()), "in the clear")?;
    let empty = |env: &TestEnv| Ok(std::fs::write(env.work().join("token"), "short\n")?);
    refused(&literal, &empty, "8 to 8192")?;
    let gone = |env: &TestEnv| Ok(std::fs::remove_file(env.work().join("token"))?);
    refused(&literal, &gone, "can't be read")?;
    Ok(())
}

/// P05, P06: the built-in `fetch` reaches what it was granted, and says what to grant where it was not.
#[test]
fn fetch_reads_a_granted_page() -> Outcome<()> {
    let server = WebServer::start()?;
    let port = server.address.port();
    let env = TestEnv::new()?;
    let mut command =
        HostCli::new(&env)?.args(["serve", "--host", &format!("http://127.0.0.1:{port}")]).into_command();
    let mut client = McpClient::start(&mut command, Duration::from_secs(60))?;
    client.initialize()?;
    let ask = |client: &mut McpClient, path: &str| -> Outcome<Value> {
        client.call_tool("fetch", &json!({"url": format!("http://127.0.0.1:{port}{path}")}))
    };
    let page = ask(&mut client, "/page?html")?;
    assert_eq!(page["result"]["structuredContent"]["content"], "# Title\n\nSome **bold** text.", "{page}");
    assert_eq!(page["result"]["isError"], json!(false));
    let moved = ask(&mut client, "/redirect?/page?html")?;
    assert_eq!(moved["result"]["structuredContent"]["url"], format!("http://127.0.0.1:{port}/page?html"));
    server.take_seen();
    for away in
        [format!("/redirect?http://localhost:{port}/"), "/redirect?http://169.254.169.254/".to_owned()]
    {
        let refused = ask(&mut client, &away)?;
        assert!(refused.to_string().contains("request-denied"), "{refused}");
    }
    let seen = server.take_seen();
    assert!(seen.len() == 2 && seen.iter().all(|request| request.starts_with("GET /redirect?")), "{seen:?}");

    let without = HostCli::new(&env)?.args(["serve", "--tool", "fetch"]).output()?;
    assert!(without.stderr.contains("`--host RULE`"), "{without:?}");
    Ok(())
}
