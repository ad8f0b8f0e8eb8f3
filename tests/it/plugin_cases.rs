//! `plugin test`: cases with directories, limits and refusals, differences and `--bless`.

use std::fs;

use serde_json::{Value, json};
use t2m_tests::{HostCli, Outcome, TestEnv};

/// The plugin `files` as if it were one's own, with cases.
fn files(cases: &[(&str, Value)]) -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    env.write(
        "plugin.toml",
        "name = \"files\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\ndirs = \"read-write\"\n",
    )?;
    fs::copy(env!("T2M_PLUGIN_FILES"), env.work().join("files.wasm"))?;
    for (name, case) in cases {
        let mut case = case.clone();
        case["format"] = json!("t2m/plugin-case@1");
        env.write(&format!("tests/cases/{name}.json"), case.to_string())?;
    }
    Ok(env)
}

fn test(env: &TestEnv, args: &[&str]) -> Outcome<t2m_tests::CliOutput> {
    HostCli::new(env)?.args(["plugin", "test", "files.wasm"]).args(args).output()
}

fn write_case(more: Value) -> Value {
    let mut case = json!({
        "tool": "write_file",
        "arguments": {"path": "{dir}/b.txt", "content": "B"},
        "files": {"access": "read-write", "content": {"a.txt": "A", "sub/": null}},
        "expect": {"text": "Successfully wrote to {dir}/b.txt"},
        "files_after": {"a.txt": "A", "b.txt": "B", "sub/": null},
    });
    if let (Some(case), Value::Object(more)) = (case.as_object_mut(), more) {
        case.extend(more);
    }
    case
}

/// P09: a case has a directory of its own, with what it grants and nothing else.
#[test]
fn a_case_acts_in_a_directory_of_its_own() -> Outcome<()> {
    let env = files(&[
        ("writes", write_case(json!({}))),
        (
            "read-only",
            write_case(json!({
                "files": {"content": {"a.txt": "A"}}, "expect": {"error": {"code": "plugin-grant-missing"}},
                "files_after": {"a.txt": "A"},
            })),
        ),
        (
            "unapproved",
            write_case(json!({
                "approved": false, "expect": {"error": {"code": "approval-required"}},
                "files_after": {"a.txt": "A", "sub/": null},
            })),
        ),
        (
            "starved",
            write_case(json!({
                "limits": {"fuel": 10}, "expect": {"error": {"code": "sandbox-fuel"}},
                "files_after": {"a.txt": "A", "sub/": null},
            })),
        ),
        (
            "from-a-folder",
            json!({
                "tool": "read_text_file", "arguments": {"path": "{dir}/deep/x.txt"},
                "files": {"folder": "tests/fixture"}, "expect": {"text": "X"},
            }),
        ),
        (
            "outside",
            json!({
                "tool": "read_text_file", "arguments": {"path": "{dir}/../x"},
                "expect": {"error": {"code": "tool-failed"}},
            }),
        ),
    ])?;
    env.write("tests/fixture/deep/x.txt", "X")?;
    let out = test(&env, &["--format", "json"])?;
    let report = out.json()?;
    assert_eq!((&report["passed"], &report["failed"]), (&json!(6), &json!(0)), "{report:#}");
    assert_eq!(
        out.success()?.stdout,
        test(&env, &["--format", "json"])?.stdout,
        "a second time is no different"
    );
    Ok(())
}

/// P09: a failing case shows expected and got, and `--bless` accepts what was got and nothing more.
#[test]
fn a_failing_case_shows_its_difference_and_can_be_blessed() -> Outcome<()> {
    let env = files(&[
        ("writes", write_case(json!({"expect": {"text": "nothing"}, "files_after": {}}))),
        ("fine", write_case(json!({}))),
    ])?;
    let fine = env.read("tests/cases/fine.json")?;
    let failed = test(&env, &[])?.expect_code(6)?;
    for line in [
        "FAIL  writes",
        "-    \"text\": \"nothing\"",
        "+    \"text\": \"Successfully wrote to {dir}/b.txt\"",
        "+    \"b.txt\": \"B\"",
        "1 passed, 1 failed",
    ] {
        assert!(failed.stdout.contains(line), "`{line}`: {failed:?}");
    }
    let machine = test(&env, &["--format", "json"])?.expect_code(6)?.json()?;
    assert_eq!(machine["cases"][1]["code"], "case-failed");
    let blessed = test(&env, &["--bless"])?.success()?;
    assert!(blessed.stdout.ends_with("1 passed, 0 failed, 1 blessed\n"), "{blessed:?}");
    assert!(test(&env, &[])?.success()?.stdout.ends_with("2 passed, 0 failed\n"));
    let case: Value = serde_json::from_str(&env.read("tests/cases/writes.json")?)?;
    assert_eq!(case, {
        let mut all = write_case(json!({}));
        all["format"] = json!("t2m/plugin-case@1");
        all
    });
    assert_eq!(env.read("tests/cases/fine.json")?, fine, "a passing case stays as it is");
    Ok(())
}

/// P09: every fault of every case file is told at once, and nothing runs.
#[test]
fn malformed_cases_are_told_at_once() -> Outcome<()> {
    let env = files(&[
        ("one", json!({"tool": "a b"})),
        ("two", write_case(json!({"files": {"content": {"../x": ""}}}))),
    ])?;
    env.write("tests/cases/three.json", "{")?;
    let out = test(&env, &[])?.expect_code(3)?;
    for text in [
        "one.json",
        "`arguments` is missing",
        "`expect` is missing",
        "two.json at /files/content/..~1x",
        "three.json at line 1",
    ] {
        assert!(out.stderr.contains(text), "`{text}`: {out:?}");
    }
    assert_eq!(out.stdout, "");
    let none = test(&env, &["--filter", "nowhere"])?.expect_code(3)?;
    assert!(none.stderr.contains("no cases"), "{none:?}");
    Ok(())
}

/// P09: a call on the bench obeys the policy: a write needs a switch or an approval, a deny stays.
#[test]
fn run_needs_a_switch_for_a_write() -> Outcome<()> {
    let env = files(&[])?;
    fs::create_dir(env.work().join("notes"))?;
    let run = |more: &[&str]| {
        let path = env.work().join("notes/n.txt");
        let args = json!({"path": path, "content": "N"}).to_string();
        HostCli::new(&env)?
            .args(["plugin", "run", "files.wasm", "write_file", "--args", &args, "--dir", "notes:rw"])
            .args(more)
            .output()
    };
    let blocked = run(&["--format", "json"])?.expect_code(5)?.json()?;
    assert_eq!(blocked["error"]["code"], "approval-required");
    assert!(!env.work().join("notes/n.txt").exists());
    run(&["--approve", blocked["approval_id"].as_str().unwrap_or_default()])?.success()?;
    assert_eq!(env.read("notes/n.txt")?, "N");
    env.write("t2m.toml", "[policy.effects]\nwrite = \"deny\"\n")?;
    assert!(run(&["--allow-effects"])?.expect_code(4)?.stderr.contains("policy-denied"));
    env.write("t2m.toml", "")?;
    run(&["--allow-effects"])?.success()?;
    Ok(())
}
