//! One session with the official MCP filesystem server, recorded live.
//!
//! It owns the folder the session starts from and the calls it makes, so that a test can give our `files`
//! plugin the same folder and the same calls. It refuses to install the server.
//!
//! **Invariant:** in a recording the session's folder is called [`ROOT`], whatever folder it ran in, so
//! recordings of different machines and times are equal but for times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Failure, McpWireRecorder, Outcome, Redactor, TestEnv, filesystem_server, node};

/// What a recording calls the session's folder.
pub const ROOT: &str = "/home/user/project";

/// The name of the recording, here and in `tests/data/recordings/`.
pub const RECORDING: &str = "filesystem-write.jsonl";

/// Node.js takes a second to start; on two busy cores it may take several.
const LIMIT: Duration = Duration::from_secs(30);

/// Puts the files of the session's start into `root`.
pub fn seed(root: &Path) -> Outcome<()> {
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    write("notes.txt", "Release notes\n\n- sandbox limits are totals per call\n- policy denies by default\n")
        .and_then(|()| write("docs/readme.md", "# Project\n\nNothing here yet.\n"))
        .map_err(|why| Failure::at(root.display(), why))
}

/// The calls of the session, in order. The last one fails.
pub fn calls(root: &str) -> Vec<(&'static str, Value)> {
    let path = |name: &str| format!("{root}/{name}");
    let report = "# Report\n\nStatus: draft\n\n1. Read the notes.\n2. Write the report.\n";
    vec![
        ("list_directory", json!({"path": root})),
        ("read_text_file", json!({"path": path("notes.txt")})),
        ("write_file", json!({"path": path("report.md"), "content": report})),
        ("read_text_file", json!({"path": path("report.md")})),
        (
            "edit_file",
            json!({
                "path": path("report.md"),
                "edits": [{"oldText": "Status: draft", "newText": "Status: final"}],
            }),
        ),
        ("create_directory", json!({"path": path("archive")})),
        ("move_file", json!({"source": path("report.md"), "destination": path("archive/report.md")})),
        ("get_file_info", json!({"path": path("archive/report.md")})),
        ("read_text_file", json!({"path": path("report.md")})),
    ]
}

/// Runs the session in `dir/project`, which is made, and writes `dir/filesystem-write.jsonl`.
///
/// The folder is left as the session leaves it, for comparison with what another server makes of it.
pub fn record_filesystem_session(dir: &Path) -> Outcome<PathBuf> {
    let dir = dir.canonicalize().map_err(|why| Failure::at(dir.display(), why))?;
    let root = dir.join("project");
    seed(&root)?;
    let env = TestEnv::new()?;
    let mut command = env.command(node());
    command.arg(filesystem_server()?).arg(&root);

    let mut recorder = McpWireRecorder::start(&mut command, LIMIT)?;
    recorder.initialize()?;
    recorder.list_tools()?;
    for (tool, arguments) in calls(&root.to_string_lossy()) {
        recorder.call_tool(tool, &arguments)?;
    }
    let log = Redactor::new().path(&root, ROOT).redact(&recorder.finish()?);

    let recording = dir.join(RECORDING);
    fs::write(&recording, log).map_err(|why| Failure::at(recording.display(), why))?;
    Ok(recording)
}

/// The messages of a recording without what differs between two sessions: direction and message of each line.
///
/// That is the `ts` of each line, and the times and permissions that `get_file_info` reports; permissions
/// depend on the user's umask.
pub fn comparable(recording: &str) -> Outcome<Vec<(String, Value)>> {
    let mut messages = Vec::new();
    for line in recording.lines() {
        let entry: Value = serde_json::from_str(line)?;
        let direction = entry.get("direction").and_then(Value::as_str).unwrap_or_default();
        let mut message = entry.get("message").cloned().unwrap_or_default();
        level(&mut message);
        messages.push((direction.to_owned(), message));
    }
    Ok(messages)
}

fn level(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("\nmodified: ") => {
            let names = ["created: ", "modified: ", "accessed: ", "permissions: "];
            let shorten = |line: &str| {
                let name = names.iter().find(|name| line.starts_with(**name));
                name.map_or_else(|| line.to_owned(), |name| format!("{name}[differs]"))
            };
            *text = text.lines().map(shorten).collect::<Vec<_>>().join("\n");
        }
        Value::Array(items) => items.iter_mut().for_each(level),
        Value::Object(fields) => fields.values_mut().for_each(level),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{data_dir, golden};

    #[test]
    fn committed_recording_is_what_the_pinned_server_says() -> Outcome<()> {
        let dir = tempfile::tempdir()?;
        let live = fs::read_to_string(record_filesystem_session(dir.path())?)?;
        let committed = data_dir("recordings").join(RECORDING);
        if golden::blessing() {
            return Ok(fs::write(committed, live)?);
        }
        let (before, now) = (comparable(&fs::read_to_string(committed)?)?, comparable(&live)?);
        let first = before.iter().zip(&now).find(|(before, now)| before != now);
        if first.is_none() && before.len() == now.len() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the server no longer says what tests/data/recordings/{RECORDING} holds: {} messages before, {} now, \
             first difference {first:#?}\nif that is right: {}",
            before.len(),
            now.len(),
            golden::bless_command()
        )))
    }

    #[test]
    fn the_session_leaves_the_folder_as_its_calls_say() -> Outcome<()> {
        let dir = tempfile::tempdir()?;
        let log = fs::read_to_string(record_filesystem_session(dir.path())?)?;
        let root = dir.path().join("project");
        assert!(!root.join("report.md").exists());
        let report = fs::read_to_string(root.join("archive/report.md"))?;
        assert!(report.contains("Status: final"), "{report}");

        let last: Value = serde_json::from_str(log.lines().last().unwrap_or_default())?;
        assert_eq!(last["message"]["result"]["isError"], true, "{last}");
        assert!(!log.contains(&*dir.path().to_string_lossy()), "the real folder is in the log");
        assert!(log.contains(ROOT));
        Ok(())
    }
}
