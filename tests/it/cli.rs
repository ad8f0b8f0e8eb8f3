//! The program as a person uses it: files in, result out, exit statuses, golden texts.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use t2m_tests::{HostCli, Outcome, TestEnv, data_dir, golden};

/// A clean place with the compiled workflow of the hypotenuse in it.
fn hypotenuse(env: &TestEnv) -> Outcome<PathBuf> {
    let trace = data_dir("cli").join("hypotenuse/trace.json");
    let out =
        HostCli::new(env)?.arg("compile").arg(trace).args(["--out", "workflow.json"]).output()?.success()?;
    assert_eq!(out.stdout, "", "with --out, standard output is empty for people");
    Ok(env.work().join("workflow.json"))
}

/// T02, T08, P12: from a recording to a result, with recorded inputs and with others.
#[test]
fn a_recording_becomes_a_workflow_that_runs() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let run = |args: &[&str]| HostCli::new(&env)?.arg("run").arg(&workflow).args(args).output();
    assert_eq!(run(&[])?.success()?.json()?, json!({"result": 65}));
    let other = run(&["--input", "first=5", "--input", "second=12"])?.success()?;
    assert_eq!(other.json()?, json!({"result": 13}));
    assert!(!other.stderr.contains('\u{1b}'), "no colours and no bar where nobody looks");

    let machine = run(&["--format", "json", "--run-id", "r"])?.success()?.json()?;
    assert_eq!(machine["status"], "done");
    assert_eq!(machine["output"], json!({"result": 65}));
    assert_eq!(machine["nodes"].as_array().map(Vec::len), Some(4));
    assert_eq!(machine["nodes"][0]["state"], "done");
    Ok(())
}

/// The README's first command, with the binary that is there.
#[test]
fn the_example_of_the_readme_runs() -> Outcome<()> {
    let env = TestEnv::new()?;
    let example = data_dir("../../plugins/math/examples/hypotenuse.json");
    let out = HostCli::new(&env)?
        .arg("run")
        .arg(example)
        .args(["--input", "first=5", "--input", "second=12"])
        .output()?;
    assert_eq!(out.success()?.json()?, json!({"result": 13}));
    Ok(())
}

/// T13, W184: what is written can be read by its owner alone.
#[test]
fn written_files_are_private() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    assert_eq!(std::fs::metadata(workflow)?.permissions().mode() & 0o777, 0o600);
    Ok(())
}

/// T29, T05, T06, T04: explanations and diagrams name every decision; both are golden files.
#[test]
fn explanations_and_diagrams_are_as_expected() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let case = data_dir("cli").join("hypotenuse");
    for (name, args) in [
        ("explain.txt", vec!["explain"]),
        ("graph.mmd", vec!["graph"]),
        ("graph.dot", vec!["graph", "--as", "dot"]),
    ] {
        let (command, rest) = args.split_at(1);
        let out = HostCli::new(&env)?.args(command).arg(&workflow).args(rest).output()?.success()?;
        golden::check(&case, name, &out.stdout)?;
    }
    Ok(())
}

/// Each class of failure has its exit status, its code and, in JSON, its place.
#[test]
fn failures_have_their_codes_and_statuses() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let path = workflow.to_string_lossy().into_owned();
    let mut altered: Value = serde_json::from_str(&env.read("workflow.json")?)?;
    altered["nodes"][0]["effect"] = json!("read");
    env.write("altered.json", altered.to_string())?;
    env.write("broken.json", "{\"format\": ")?;
    env.write("words.json", "{\"neither\": \"trace nor log\"}")?;
    env.write("empty.json", "{\"inputs\": {}, \"events\": []}")?;
    env.write("plugin.wasm", "no component")?;
    env.write("t2m-deny.toml", "[policy.effects]\npure = \"deny\"\n")?;
    env.write("t2m-ask.toml", "[policy.tools]\nadd = \"approval\"\n")?;
    env.write("t2m-wrong.toml", "[polcy]\n")?;
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run"], 2, "Usage"),
        (&["run", "none.json"], 3, "file-unreadable"),
        (&["run", "broken.json"], 3, "json-syntax"),
        (&["run", "altered.json"], 4, "digest-mismatch"),
        (&["run", &path, "--input", "frist=1"], 3, "did you mean `first`?"),
        (&["run", &path, "--input", "first=one"], 3, "input-invalid"),
        (&["run", &path, "--input", "first=1", "--input", "first=2"], 2, "usage-invalid"),
        (&["run", &path, "--input", "first"], 2, "usage-invalid"),
        (&["run", &path, "--tool", "mat"], 6, "did you mean `math`?"),
        (&["run", &path, "--tool", "plugin.wasm"], 6, "plugin-invalid"),
        (&["run", &path, "--tool", "files", "--dir", "."], 3, "tool-unknown"),
        (&["run", &path, "--tool", "math", "--tool", "math"], 3, "tool-duplicate"),
        (&["run", &path, "--events", &path], 3, "this file is the input"),
        (&["compile", "empty.json", "--out", "empty.json"], 3, "this file is the input"),
        (&["run", &path, "--dir", "nowhere"], 3, "grant-invalid"),
        (&["run", &path, "--config", "t2m-deny.toml"], 4, "policy-denied"),
        (&["run", &path, "--config", "t2m-ask.toml"], 5, "approval-required"),
        (&["run", &path, "--config", "t2m-wrong.toml"], 3, "did you mean `policy`?"),
        (&["run", &path, "--approve", "add"], 2, "not a digest"),
        (&["run", &path, "--input", "first=1e300"], 6, "tool-failed"),
        (&["import", "words.json"], 3, "format-unknown"),
        (&["import", "words.json", "--from", "claude"], 2, "claude-code"),
        (&["import", &path, "--max-bytes", "10"], 3, "file-too-large"),
        (&["import", "."], 3, "not a regular file"),
        (&["compile", "empty.json"], 3, "trace-empty"),
        (&["compile", "none.json"], 3, "file-unreadable"),
        (&["explain", "altered.json"], 4, "digest-mismatch"),
    ];
    for (args, status, text) in cases {
        let out = HostCli::new(&env)?.args(*args).output()?.expect_code(*status)?;
        assert!(out.stderr.contains(text), "expected `{text}`: {out:?}");
        assert_eq!(out.stdout, "", "a failure is no data: {out:?}");
    }
    let out =
        HostCli::new(&env)?.args(["run", "broken.json", "--format", "json"]).output()?.expect_code(3)?;
    let error: Value = serde_json::from_str(&out.stderr)?;
    assert_eq!(error["error"]["code"], "json-syntax");
    assert!(error["error"]["problems"][0]["place"]["line_column"].is_array(), "{error}");
    Ok(())
}

/// T24: a review pins exactly what was shown; a changed contract refuses to run and says what changed.
#[test]
fn a_reviewed_contract_that_drifts_refuses_to_run() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let review = |args: &[String]| {
        HostCli::new(&env)?
            .arg("review")
            .arg(&workflow)
            .args(["--format", "json", "--reviewer", "ann"])
            .args(args)
            .output()
    };
    let shown = review(&[])?.success()?.json()?;
    let approvals: Vec<String> = shown["contracts"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|c| {
            let (tool, digest) =
                (c["tool"].as_str().unwrap_or_default(), c["digest"].as_str().unwrap_or_default());
            ["--approve".to_owned(), format!("{tool}@{digest}")]
        })
        .collect();
    assert_eq!(approvals.len(), 6, "three tools: {shown}");
    let agreed = review(&approvals)?.success()?.json()?;
    assert!(agreed["contracts"].as_array().is_some_and(|list| list.iter().all(|c| c["reviewed"] == true)));
    let run = || HostCli::new(&env)?.arg("run").arg(&workflow).output();
    assert_eq!(run()?.success()?.json()?, json!({"result": 65}));

    let mut file: Value = serde_json::from_str(&env.read("workflow.contracts.json")?)?;
    file["contracts"][0]["effect"] = json!("read");
    env.write("workflow.contracts.json", file.to_string())?;
    let out = run()?.expect_code(4)?;
    assert!(out.stderr.contains("contract-drift"), "{out:?}");
    assert!(out.stderr.contains("effect: \"read\" became \"pure\""), "{out:?}");
    file["contracts"][0]["effect"] = json!("pure");
    file["contracts"][0]["review"]["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    env.write("workflow.contracts.json", file.to_string())?;
    assert!(run()?.expect_code(4)?.stderr.contains("contract-unreviewed"));
    let misspelt = review(&["--approve".into(), format!("ad@sha256:{}", "0".repeat(64))])?.expect_code(3)?;
    assert!(misspelt.stderr.contains("nothing here calls `ad`; did you mean `add`?"), "{}", misspelt.stderr);
    let stale = review(&["--approve".into(), format!("add@sha256:{}", "0".repeat(64))])?.expect_code(4)?;
    assert!(stale.stderr.contains("contract-drift"), "{stale:?}");
    Ok(())
}

/// T17: the events of a run show every stage of every call, in order.
#[test]
fn the_events_of_a_run_show_the_stages_in_order() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    HostCli::new(&env)?.arg("run").arg(&workflow).args(["--events", "events.jsonl"]).output()?.success()?;
    let text = env.read("events.jsonl")?;
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for node in ["square-first", "square-second", "sum", "root"] {
        let stages: Vec<&str> = events
            .iter()
            .filter(|event| event["event"] == "stage" && event["node"] == node)
            .filter_map(|event| event["stage"].as_str())
            .collect();
        let order = [
            "verify",
            "bind",
            "policy",
            "approval",
            "input-schema",
            "guard",
            "audit",
            "handler",
            "output-schema",
        ];
        assert_eq!(stages, order, "{node}");
    }
    assert_eq!(events.first().map(|event| event["event"].clone()), Some(json!("run-started")));
    assert_eq!(events.last().map(|event| event["event"].clone()), Some(json!("run-finished")));
    Ok(())
}

/// The other commands answer people and programs.
#[test]
fn the_other_commands_answer() -> Outcome<()> {
    let env = TestEnv::new()?;
    let run = |args: &[&str]| HostCli::new(&env)?.args(args).output()?.success();
    let tools = run(&["tools", "--format", "json"])?.json()?;
    let names: Vec<&str> =
        tools.as_array().into_iter().flatten().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.contains(&"write_file") && names.contains(&"divide"), "{names:?}");
    assert!(run(&["tools", "write"])?.stdout.contains("needs approval"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&["completions", shell])?.stdout.contains("t2m-host"));
    }
    for kind in ["config", "trace", "workflow", "contracts", "approvals", "plugin", "plugin-case"] {
        let schema = run(&["config", "schema", "--kind", kind])?.json()?;
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{kind}");
    }
    env.write("t2m.toml", run(&["config", "show", "--defaults"])?.stdout)?;
    run(&["config", "check"])?;
    assert!(run(&["config", "show"])?.stdout.contains("concurrency = 8"));
    assert_eq!(run(&["doctor", "--format", "json"])?.json()?["plugins"].as_array().map(Vec::len), Some(6));
    assert!(run(&["doctor", "--codes"])?.stdout.contains("| `policy-denied` |"));
    Ok(())
}

/// Standard output that can't be written is a failure, not a success.
#[test]
fn a_full_disk_behind_standard_output_is_a_failure() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let mut command = HostCli::new(&env)?.arg("run").arg(&workflow).into_command();
    command
        .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full")?)
        .stderr(std::process::Stdio::null());
    assert_eq!(command.status()?.code(), Some(3));
    Ok(())
}

/// T23: an approval given before the run covers what is known of the arguments and nothing else: another
/// input needs another approval, whatever the rest turns out to be.
#[test]
fn an_approval_is_bound_to_the_inputs_of_the_run() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    env.write("t2m.toml", "[policy.tools]\nsqrt = \"approval\"\npower = \"approval\"\n")?;
    let run = |args: &[String]| {
        HostCli::new(&env)?.arg("run").arg(&workflow).args(["--format", "json"]).args(args).output()
    };
    let blocked = run(&[])?.expect_code(5)?.json()?;
    let entries = blocked["blocked"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0]["arguments"], json!({"base": 33, "exponent": 2}));
    assert_eq!(entries[2]["arguments"], json!({"a": "<sum.result>"}));
    let flags: Vec<String> = entries
        .iter()
        .flat_map(|entry| {
            ["--approve".to_owned(), entry["approval_id"].as_str().unwrap_or_default().to_owned()]
        })
        .collect();
    assert_eq!(run(&flags)?.success()?.json()?["output"], json!({"result": 65}));
    let other = [flags, vec!["--input".into(), "first=5".into()]].concat();
    let blocked = run(&other)?.expect_code(5)?.json()?;
    assert_eq!(blocked["blocked"][0]["node"], "square-first", "the approved base was 33");
    assert_eq!(blocked["blocked"].as_array().map(Vec::len), Some(1));
    Ok(())
}

/// T08: the published schemas can be used, and accept what the program writes.
#[test]
fn every_published_schema_can_be_compiled() -> Outcome<()> {
    let env = TestEnv::new()?;
    for kind in ["config", "trace", "workflow", "contracts", "approvals", "plugin", "plugin-case"] {
        let schema =
            HostCli::new(&env)?.args(["config", "schema", "--kind", kind]).output()?.success()?.json()?;
        assert!(t2m_core::schema::Schema::compile(&schema).is_ok(), "{kind}");
    }
    Ok(())
}

/// T08: the published schema accepts what `compile` writes.
#[test]
fn compiled_files_match_the_published_schemas() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let schema =
        HostCli::new(&env)?.args(["config", "schema", "--kind", "workflow"]).output()?.success()?.json()?;
    let file: Value = serde_json::from_str(&std::fs::read_to_string(workflow)?)?;
    let problems = t2m_core::schema::problems(&schema, &file);
    assert!(problems.is_empty(), "{problems:?}");
    Ok(())
}

/// With `--format json` standard error holds one JSON value and nothing else, a usage error's too.
#[test]
fn failures_in_json_stand_alone() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write(
        "trace.json",
        r#"{"inputs": {}, "events": [{"id": "a", "tool": "t", "arguments": {}, "status": "failed"}]}"#,
    )?;
    for (args, code, status) in [
        (vec!["compile", "trace.json", "--format", "json"], "trace-empty", 3),
        (vec!["--format", "json", "run"], "usage-invalid", 2),
        (vec!["compile", "trace.json", "--no-such", "--format=json"], "usage-invalid", 2),
    ] {
        let out = HostCli::new(&env)?.args(&args).output()?.expect_code(status)?;
        let error: Value = serde_json::from_str(&out.stderr)?;
        assert_eq!(error["error"]["code"], code, "{out:?}");
        assert!(error["error"]["problems"][0]["message"].is_string(), "{out:?}");
    }
    let out = HostCli::new(&env)?.args(["compile", "trace.json", "--no-such"]).output()?.expect_code(2)?;
    assert!(out.stderr.starts_with("error: ") && out.stderr.contains("Usage:"), "{out:?}");
    // What stands behind `--` is another program's.
    let args = ["record", "--no-such", "--", "server", "--format", "json"];
    let out = HostCli::new(&env)?.args(args).output()?.expect_code(2)?;
    assert!(out.stderr.starts_with("error: "), "{out:?}");
    Ok(())
}

/// A file of another kind than the command takes leads to the command that takes it.
#[test]
fn a_file_of_another_kind_leads_to_its_command() -> Outcome<()> {
    let env = TestEnv::new()?;
    let workflow = hypotenuse(&env)?;
    let trace = data_dir("cli").join("hypotenuse/trace.json");
    let import = HostCli::new(&env)?.arg("import").arg(&workflow).output()?.expect_code(3)?;
    assert!(import.stderr.contains("next: this is a workflow"), "{import:?}");
    let run = HostCli::new(&env)?.arg("run").arg(&trace).output()?.expect_code(3)?;
    assert!(run.stderr.contains("next: this is a recording: `t2m-host compile"), "{run:?}");
    Ok(())
}

/// T22, T23: the value of a secret input stands in no message.
#[test]
fn a_secret_input_stands_in_no_message() -> Outcome<()> {
    let env = TestEnv::new()?;
    let call =
        json!({"id": "w", "tool": "write_file", "arguments": {"path": "f", "content": "x"}, "result": {}});
    let mut trace = json!({"inputs": {}, "events": [call]});
    trace["events"][0]["arguments"]["content"] = json!("[T2M-REDACTED:password:1]");
    env.write("trace.json", trace.to_string())?;
    HostCli::new(&env)?.args(["compile", "trace.json", "--out", "flow.json"]).output()?.success()?;
    let granted = format!("{}:rw", env.work().display());
    for format in ["human", "json"] {
        let args = ["run", "flow.json", "--dir", &granted, "--input", "content=hunter22", "--format", format];
        let out = HostCli::new(&env)?.args(args).output()?;
        let said = format!("{}{}", out.stdout, out.stderr);
        assert!(said.contains("approval-required") && said.contains("<secret content>"), "{out:?}");
        assert!(!said.contains("hunter22"), "{out:?}");
    }
    // Another recording of it says nothing of the secret either.
    HostCli::new(&env)?.args(["check", "flow.json", "--against", "trace.json"]).output()?.success()?;
    let plain = trace.to_string().replace("[T2M-REDACTED:password:1]", "hunter22");
    env.write("plain.json", plain)?;
    let out = HostCli::new(&env)?.args(["check", "flow.json", "--against", "plain.json"]).output()?;
    assert!(!out.success()?.stdout.contains("hunter22"), "it is read off, not shown");
    Ok(())
}

/// T14: a catalogue of one's own says what tools do that no plugin has.
#[test]
fn a_catalogue_of_ones_own_informs_the_order() -> Outcome<()> {
    let env = TestEnv::new()?;
    let trace = json!({"inputs": {}, "events": [
        {"id": "one", "tool": "acme_lookup", "arguments": {"key": "k-1"}, "result": {"v": 1}},
        {"id": "two", "tool": "acme_lookup", "arguments": {"key": "k-1"}, "result": {"v": 1}},
    ]});
    env.write("trace.json", trace.to_string())?;
    env.write(
        "tools.toml",
        "format = \"t2m/catalog@1\"\n[[tool]]\nnames = [\"acme_lookup\"]\neffect = \"read\"\n\
         idempotency = \"idempotent\"\nreason = \"looks a key up\"\n",
    )?;
    let nodes = |args: &[&str]| -> Outcome<Value> {
        let all = ["compile", "trace.json"].iter().chain(args);
        let flow = HostCli::new(&env)?.args(all).output()?.success()?.json()?;
        Ok(json!([flow["nodes"].as_array().map(Vec::len), flow["nodes"][0]["effect"]]))
    };
    assert_eq!(nodes(&[])?, json!([2, "unknown"]));
    assert_eq!(nodes(&["--catalog", "tools.toml"])?, json!([1, "read"]));
    env.write("broken.toml", "format = \"t2m/catalog@1\"\n[[tool]]\nnames = 5\n")?;
    let out = HostCli::new(&env)?.args(["compile", "trace.json", "--catalog", "broken.toml"]).output()?;
    assert!(out.expect_code(3)?.stderr.contains("broken.toml"));
    Ok(())
}

/// T05: the bench reads both kinds of data and measures what it says.
#[test]
fn inference_is_measured_on_both_kinds_of_data() -> Outcome<()> {
    let env = TestEnv::new()?;
    let bench = |data: PathBuf, args: &[&str]| -> Outcome<Value> {
        let command =
            HostCli::new(&env)?.args(["bench", "inference", "--format", "json", "--data"]).arg(data);
        command.args(args).output()?.success()?.json()
    };
    let found = bench(data_dir("bench").join("bookings.jsonl"), &["--held-out"])?;
    assert_eq!(found["items"], 2, "{found}");
    for figure in ["edge_precision", "edge_recall", "path_precision", "path_recall"] {
        assert_eq!(found[figure], 1.0, "{figure}: {found}");
    }
    assert_eq!(
        (&found["held_out"]["right"], &found["held_out"]["pairs"]),
        (&json!(1.0), &json!(2)),
        "{found}"
    );
    let found = bench(data_dir("bench").join("programs.jsonl"), &["--traces", "2"])?;
    assert_eq!(
        (&found["items"], &found["counterfactual"]["equivalent"]),
        (&json!(2), &json!(1.0)),
        "{found}"
    );
    env.write("broken.jsonl", "{}\n")?;
    let args = ["bench", "inference", "--data", "broken.jsonl"];
    assert!(HostCli::new(&env)?.args(args).output()?.expect_code(3)?.stderr.contains("line 1"));
    Ok(())
}

/// P03: what a plugin asks for, has and lacks is shown by name, without a value.
#[test]
fn grants_are_shown_with_what_is_missing() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("data/file", "")?;
    env.write(
        "t2m.toml",
        "[[plugin]]\nname = \"files\"\ndirs = [\"data\"]\n[[plugin]]\nname = \"fetch\"\n[[plugin]]\nname = \"math\"\n",
    )?;
    let shown =
        HostCli::new(&env)?.args(["--format", "json", "tools", "--why"]).output()?.success()?.json()?;
    let of = |at: usize, kind: &str, what: &str| shown[at]["grants"][kind][what].clone();
    assert_eq!(of(0, "directories", "asked"), json!(["to read and write"]), "{shown}");
    assert_eq!(of(0, "directories", "lacks"), json!([]), "{shown}");
    assert!(
        of(0, "directories", "has")[0].as_str().is_some_and(|dir| dir.ends_with("data (to read)")),
        "{shown}"
    );
    assert_eq!(of(1, "hosts", "has"), json!([]), "{shown}");
    assert_eq!(of(1, "hosts", "lacks"), json!(["any; `--host RULE` grants one"]), "{shown}");
    assert_eq!(shown[2], json!({"plugin": "math", "grants": {}}));
    let text = HostCli::new(&env)?
        .args(["tools", "--why", "--tool", "math", "--dir", "data"])
        .output()?
        .success()?;
    assert!(text.stdout.contains("allowed but not asked for"), "{text:?}");
    let kept =
        HostCli::new(&env)?.args(["tools", "--why", "--tool", "memory", "--kv"]).output()?.success()?;
    assert!(kept.stdout.contains("has one of its own") && !env.work().join(".t2m").exists(), "{kept:?}");
    Ok(())
}
