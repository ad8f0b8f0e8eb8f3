//! What can be asked of a workflow after compiling, with the real program: does it fit another recording, does
//! it replay, what changed, what does it look like; and what becomes of recordings whose calls differ.
//!
//! Each case is a folder of `tests/data/compile` with `trace.json` and whatever the commands of `commands.json`
//! name; what each prints is a golden file. A command's name says which file it writes.

use std::path::Path;

use serde_json::Value;
use t2m_tests::{Failure, HostCli, Outcome, TestEnv, golden};

/// T15, T28, T29, T07: every case prints what is expected, for people and for programs, with its status.
#[test]
fn checks_replays_diffs_and_pictures_are_as_expected() -> Outcome<()> {
    for case in golden::cases("compile")? {
        let env = TestEnv::new()?;
        for entry in std::fs::read_dir(&case)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "json") {
                env.write(&name(&path), std::fs::read_to_string(&path)?)?;
            }
        }
        let commands: Value = serde_json::from_str(&env.read("commands.json")?)?;
        for command in commands.as_array().into_iter().flatten() {
            run(&env, &case, command)?;
        }
    }
    Ok(())
}

/// Runs one line `[golden file or "", status, argument...]`.
fn run(env: &TestEnv, case: &Path, command: &Value) -> Outcome<()> {
    let [file, status, arguments @ ..] = command.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err(Failure::new(format!("{}: a command is [file, status, argument...]", case.display())));
    };
    let arguments = arguments.iter().filter_map(Value::as_str);
    let status = status.as_i64().and_then(|status| i32::try_from(status).ok()).unwrap_or(-1);
    let output = HostCli::new(env)?.args(arguments).output()?.expect_code(status)?;
    match file.as_str() {
        Some(file) if !file.is_empty() => {
            // What a command says of its work is its result where it prints no data.
            let shown = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
            golden::check(case, file, shown)
        }
        _ => Ok(()),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
