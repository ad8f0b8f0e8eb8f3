//! Recordings of the official MCP filesystem server, run again with the sandboxed `files` plugin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use t2m_tests::filesystem::seed;
use t2m_tests::{CliOutput, Failure, HostCli, Outcome, TestEnv, data_dir, record_filesystem_session};

/// Every file and folder below a folder, with contents.
fn snapshot(root: &Path) -> Outcome<BTreeMap<PathBuf, Option<Vec<u8>>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let content = if path.is_dir() { None } else { Some(std::fs::read(&path)?) };
            if path.is_dir() {
                open.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), content);
        }
    }
    Ok(found)
}

struct Session {
    env: TestEnv,
    root: PathBuf,
}

impl Session {
    /// Imports and compiles a recording whose root was `old`, for a folder of this test.
    fn of(recording: &Path, old: &str) -> Outcome<Session> {
        let env = TestEnv::new()?;
        let root = env.work().join("project");
        std::fs::create_dir(&root)?;
        let root = root.canonicalize()?;
        let map = format!("{old}={}", root.display());
        HostCli::new(&env)?
            .arg("import")
            .arg(recording)
            .args(["--map", &map, "--out", "trace.json"])
            .output()?
            .success()?;
        HostCli::new(&env)?.args(["compile", "trace.json", "--out", "workflow.json"]).output()?.success()?;
        Ok(Session { env, root })
    }

    fn run(&self, grant: &str, args: &[String]) -> Outcome<CliOutput> {
        let dir = format!("{}{grant}", self.root.display());
        HostCli::new(&self.env)?
            .args(["run", "workflow.json", "--format", "json", "--dir", &dir])
            .args(args)
            .output()
    }

    /// Agrees to every contract, by the digests that `review` shows.
    fn review(&self) -> Outcome<()> {
        let review = |args: &[String]| {
            HostCli::new(&self.env)?
                .args(["review", "workflow.json", "--format", "json", "--reviewer", "ann"])
                .args(args)
                .output()
        };
        let shown = review(&[])?.success()?.json()?;
        let agreed = shown["contracts"].as_array().into_iter().flatten().flat_map(|contract| {
            let text = |field: &str| contract[field].as_str().unwrap_or_default().to_owned();
            ["--approve".to_owned(), format!("{}@{}", text("tool"), text("digest"))]
        });
        review(&agreed.collect::<Vec<_>>())?.success()?;
        Ok(())
    }

    /// The recorded result of each node, from the workflow.
    fn recorded(&self) -> Outcome<BTreeMap<String, Value>> {
        let workflow: Value = serde_json::from_str(&self.env.read("workflow.json")?)?;
        let nodes = workflow["nodes"].as_array().into_iter().flatten();
        Ok(nodes
            .map(|node| {
                (node["id"].as_str().unwrap_or_default().to_owned(), node["recorded"]["result"].clone())
            })
            .collect())
    }
}

/// Times and permissions differ from one day and system to the next.
fn lasting(value: &Value) -> Value {
    let Some(text) = value["content"].as_str() else { return value.clone() };
    let differs = ["created: ", "modified: ", "accessed: ", "permissions: "];
    let lines: Vec<&str> =
        text.lines().filter(|line| !differs.iter().any(|start| line.starts_with(start))).collect();
    json!({"content": lines.join("\n")})
}

/// T01, T02, T13, P04: a recorded session of reads gives the recorded results, with reading granted only.
#[test]
fn a_recorded_session_of_reads_gives_the_recorded_results() -> Outcome<()> {
    let session = Session::of(&data_dir("recordings").join("filesystem-read.jsonl"), "/home/user/repo")?;
    std::fs::create_dir(session.root.join(".git"))?;
    std::fs::write(session.root.join("notes.txt"), "line 1\nline 2\nline 3\n")?;
    session.review()?;
    let ungranted = HostCli::new(&session.env)?.args(["run", "workflow.json"]).output()?.expect_code(4)?;
    assert!(ungranted.stderr.contains("was granted no directory; add `--dir DIR`"), "{ungranted:?}");
    let before = snapshot(&session.root)?;
    let report = session.run("", &[])?.success()?.json()?;
    assert_eq!(snapshot(&session.root)?, before);
    let recorded = session.recorded()?;
    assert_eq!(recorded.len(), 5);
    let outputs = report["output"].as_object().cloned().unwrap_or_default();
    assert!(!outputs.is_empty());
    for (node, output) in &outputs {
        assert_eq!(lasting(output), lasting(&recorded[node]), "{node}");
    }
    Ok(())
}

/// T22, T23: without the approvals nothing changes and the message names each; with them the files are those
/// that the official server left.
#[test]
fn a_recorded_session_of_writes_needs_its_approvals() -> Outcome<()> {
    let live = tempfile::tempdir()?;
    let recording = record_filesystem_session(live.path())?;
    let session = Session::of(&recording, "/home/user/project")?;
    seed(&session.root)?;
    session.review()?;

    let before = snapshot(&session.root)?;
    let blocked = session.run(":rw", &[])?.expect_code(5)?.json()?;
    assert_eq!(snapshot(&session.root)?, before, "nothing ran");
    let missing = blocked["blocked"].as_array().cloned().unwrap_or_default();
    let tools: Vec<&str> = missing.iter().filter_map(|b| b["error"]["approval"]["tool"].as_str()).collect();
    assert_eq!(tools, ["write_file", "edit_file", "create_directory", "move_file"]);
    assert!(missing.iter().all(|b| b["error"]["code"] == "approval-required"), "{blocked:#}");

    let ids: Vec<&str> = missing.iter().filter_map(|b| b["approval_id"].as_str()).collect();
    let flags = |ids: &[&str]| {
        ids.iter().flat_map(|id| ["--approve".to_owned(), (*id).to_owned()]).collect::<Vec<_>>()
    };
    let partly = ids.get(..3).ok_or_else(|| Failure::new("fewer approvals than writes"))?;
    session.run(":rw", &flags(partly))?.expect_code(5)?;
    assert_eq!(snapshot(&session.root)?, before, "one approval is missing, so nothing ran");

    let read_only = session.run("", &flags(&ids))?.expect_code(4)?.json()?;
    assert_eq!(read_only["blocked"][0]["error"]["code"], "plugin-grant-missing", "an approval is no grant");
    assert_eq!(snapshot(&session.root)?, before);

    let report = session.run(":rw", &flags(&ids))?.success()?.json()?;
    assert_eq!(snapshot(&session.root)?, snapshot(&live.path().join("project"))?);
    let recorded = session.recorded()?;
    for (node, output) in report["output"].as_object().into_iter().flatten() {
        assert_eq!(lasting(output), lasting(&recorded[node]), "{node}");
    }
    Ok(())
}
