//! The page for people who set up a client: `docs/clients.md`.
//!
//! Owns the reading of its code blocks. Refuses to judge the clients' own keys, which only they know.
//!
//! **Invariant:** every command line that a reader would copy starts a server that shakes hands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use t2m_tests::{Failure, HostCli, McpClient, Outcome, TestEnv, data_dir};

const LIMIT: Duration = Duration::from_secs(20);

/// The program as the page names it.
const PROGRAM: &str = "/usr/local/bin/t2m-host";

/// A fenced block: its language and its text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        open = match (open, line.strip_prefix("```")) {
            (None, Some(language)) => Some((language.to_owned(), String::new())),
            (None, None) => None,
            (Some(block), Some(_)) => {
                found.push(block);
                None
            }
            (Some((language, text)), None) => Some((language, format!("{text}{line}\n"))),
        };
    }
    found
}

/// The command lines of a block.
fn command_lines(language: &str, text: &str) -> Outcome<Vec<Vec<String>>> {
    let servers = match language {
        "json" => {
            let value: Value = serde_json::from_str(text)?;
            ["mcpServers", "servers"].iter().filter_map(|key| value.get(key).cloned()).collect::<Vec<_>>()
        }
        "toml" => {
            let value: Value =
                toml::from_str(text).map_err(|why| Failure::new(format!("{why} in\n{text}")))?;
            value.get("mcp_servers").cloned().into_iter().collect()
        }
        "sh" => {
            let words = text.lines().filter_map(|line| line.split_once(" -- "));
            return Ok(words.map(|(_, line)| line.split(' ').map(str::to_owned).collect()).collect());
        }
        other => return Err(Failure::new(format!("a block of `{other}`, which nobody checks"))),
    };
    let mut lines = Vec::new();
    for server in servers.iter().filter_map(Value::as_object).flat_map(|servers| servers.values()) {
        let args = server["args"].as_array().into_iter().flatten().map(|arg| arg.as_str().map(str::to_owned));
        let words: Option<Vec<String>> =
            std::iter::once(server["command"].as_str().map(str::to_owned)).chain(args).collect();
        lines.push(words.ok_or_else(|| Failure::new(format!("no texts: {server}")))?);
    }
    Ok(lines)
}

/// The page's folders and files, as they are in the test.
struct Places {
    env: TestEnv,
}

impl Places {
    fn new(config: &str) -> Outcome<Self> {
        let env = TestEnv::new()?;
        env.write("srv/project/notes.txt", "notes\n")?;
        env.write("srv/team/project/notes.txt", "notes\n")?;
        env.write("srv/team/t2m.toml", config)?;
        let workflow = data_dir("../../plugins/math/examples/hypotenuse.json");
        env.write("srv/flows/report.json", std::fs::read(workflow)?)?;
        Ok(Self { env })
    }

    fn here(&self, word: &str) -> String {
        let work = self.env.work();
        let srv = work.join("srv");
        word.replace("/srv/", &format!("{}/", srv.display()))
            .replace("${workspaceFolder}", &srv.join("project").to_string_lossy())
    }
}

fn page() -> PathBuf {
    data_dir("../../docs/clients.md")
}

fn shakes_hands(places: &Places, line: &[String]) -> Outcome<()> {
    let [program, words @ ..] = line else { return Err(Failure::new("an empty command")) };
    assert_eq!(program, PROGRAM);
    let cli = HostCli::new(&places.env)?.args(words.iter().map(|word| places.here(word)));
    let mut client = McpClient::start(&mut cli.into_command(), LIMIT)?;
    client.initialize()?;
    let list = client.request("tools/list", &serde_json::json!({}))?;
    assert!(list["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{list}");
    client.close_stdin();
    assert!(client.wait()?.success(), "{}", client.errors());
    Ok(())
}

/// P13: every snippet of the page parses, and the command of each starts a server that lists tools.
#[test]
fn every_snippet_of_the_page_starts_a_server() -> Outcome<()> {
    let text = std::fs::read_to_string(page())?;
    let blocks = blocks(&text);
    let config = blocks.iter().find(|(language, text)| language == "toml" && text.contains("[[plugin]]"));
    let (_, config) = config.ok_or_else(|| Failure::new("no configuration on the page"))?;
    let places = Places::new(config)?;
    let mut count = 0;
    for (language, text) in &blocks {
        for line in command_lines(language, text)? {
            shakes_hands(&places, &line).map_err(|why| Failure::new(format!("{line:?}: {why}")))?;
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} command lines were found");
    Ok(())
}

/// P13: the file of approvals on the page is one, and the refusals it names are those that a model reads.
#[test]
fn the_refusals_of_the_page_are_those_of_the_server() -> Outcome<()> {
    let text = std::fs::read_to_string(page())?;
    let all = blocks(&text);
    let approvals = all.iter().find(|(_, text)| text.contains("t2m/approvals@1"));
    let (_, approvals) = approvals.ok_or_else(|| Failure::new("no approvals on the page"))?;
    let places = Places::new("")?;
    places.env.write("approvals.json", approvals)?;
    let project = places.env.work().join("srv/project");
    for (grant, code) in [("", "plugin-grant-missing"), (":rw", "approval-required")] {
        let dir = format!("{}{grant}", project.display());
        let args = ["serve", "--tool", "files", "--approvals", "approvals.json", "--dir", &dir];
        let cli = HostCli::new(&places.env)?.args(args);
        let mut client = McpClient::start(&mut cli.into_command(), LIMIT)?;
        client.initialize()?;
        let path = Path::new(&project).join("new.txt");
        let answer = client.call_tool("write_file", &serde_json::json!({"path": path, "content": "x"}))?;
        let said = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(said.starts_with(&format!("{code}: ")), "{answer}");
        assert!(text.contains(&format!("`{code}: ")), "the page doesn't name {code}");
        assert_eq!(answer["result"]["_meta"]["t2m-host/error"]["code"], code, "{answer}");
        assert!(!path.exists());
    }
    Ok(())
}
