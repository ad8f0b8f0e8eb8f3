//! Reviewing a plugin without a workflow, folders as plugins, and what `config check` looks at.

use std::fs;

use serde_json::json;
use t2m_tests::{HostCli, Outcome, TestEnv, data_dir};

/// The plugin `math` as if somebody else had sent it, in the folder `sums`.
fn sums() -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    env.write("sums/plugin.toml", "name = \"sums\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n")?;
    fs::copy(env!("T2M_PLUGIN_MATH"), env.work().join("sums/sums.wasm"))?;
    let trace = data_dir("cli").join("hypotenuse/trace.json");
    HostCli::new(&env)?.arg("compile").arg(trace).args(["--out", "workflow.json"]).output()?.success()?;
    Ok(env)
}

/// P09, T24: the tools of a plugin are reviewed once for every workflow, and the agreement holds for exactly
/// what was looked at. A file that lies beside the component agrees to nothing.
#[test]
fn a_plugin_is_reviewed_without_a_workflow() -> Outcome<()> {
    let env = sums()?;
    let host = |args: &[&str]| HostCli::new(&env)?.args(args).output();
    let run = || host(&["run", "workflow.json", "--tool", "sums"]);
    assert!(run()?.expect_code(4)?.stderr.contains("contract-missing"));
    let shown = host(&["review", "--tool", "sums", "--format", "json"])?.expect_code(5)?.json()?;
    assert_eq!(shown["contracts_file"], "t2m.contracts.json");
    let mut args =
        vec!["review".to_owned(), "--tool".into(), "sums".into(), "--reviewer".into(), "ann".into()];
    for contract in shown["contracts"].as_array().into_iter().flatten() {
        if let (Some(tool), Some(digest)) = (contract["tool"].as_str(), contract["digest"].as_str()) {
            args.extend(["--approve".to_owned(), format!("{tool}@{digest}")]);
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    host(&args)?.success()?;
    assert_eq!(run()?.success()?.json()?, json!({"result": 65}));
    let tools = host(&["tools", "add", "--tool", "sums", "--format", "json"])?.success()?.json()?;
    assert_eq!(tools[0]["contract"], "reviewed");

    // The workflow's own file wins for a tool that is in both.
    let mut own: serde_json::Value = serde_json::from_str(&env.read("t2m.contracts.json")?)?;
    own["contracts"].as_array_mut().into_iter().for_each(|list| list.retain(|c| c["tool"] == "add"));
    own["contracts"][0]["effect"] = json!("read");
    env.write("workflow.contracts.json", own.to_string())?;
    assert!(run()?.expect_code(4)?.stderr.contains("contract-drift"));
    fs::remove_file(env.work().join("workflow.contracts.json"))?;

    // Beside the component, the same file counts for nothing.
    fs::rename(env.work().join("t2m.contracts.json"), env.work().join("sums/t2m.contracts.json"))?;
    fs::copy(env.work().join("sums/t2m.contracts.json"), env.work().join("sums/sums.contracts.json"))?;
    assert!(run()?.expect_code(4)?.stderr.contains("contract-missing"));
    let named = host(&["run", "workflow.json", "--tool", "sums", "--contracts", "sums/sums.contracts.json"])?;
    assert_eq!(named.success()?.json()?, json!({"result": 65}), "named, it is the operator's own choice");

    // Beside the configuration in use.
    fs::rename(env.work().join("sums/t2m.contracts.json"), env.work().join("t2m.contracts.json"))?;
    env.write("other/t2m.toml", "[[plugin]]\nname = \"sums\"\npath = \"../sums\"\n")?;
    assert!(
        host(&["run", "workflow.json", "--config", "other/t2m.toml"])?
            .expect_code(4)?
            .stderr
            .contains("contract-missing")
    );
    fs::rename(env.work().join("t2m.contracts.json"), env.work().join("other/t2m.contracts.json"))?;
    host(&["run", "workflow.json", "--config", "other/t2m.toml"])?.success()?;
    assert!(host(&["review"])?.expect_code(3)?.stderr.contains("nothing to review"));
    Ok(())
}

/// P09: `config check` reports everything that isn't there with its line, and doubtful names as warnings.
#[test]
fn config_check_looks_whether_everything_is_there() -> Outcome<()> {
    let env = sums()?;
    let check = || HostCli::new(&env)?.args(["config", "check", "--format", "json"]).output();
    env.write(
        "t2m.toml",
        "[[plugin]]\nname = \"mat\"\n[[plugin]]\nname = \"a\"\npath = \"none.wasm\"\n[[plugin]]\nname = \"a\"\npath = \"sums\"\ndirs = [\"sums\", \"nowhere:rw\"]\n",
    )?;
    let out = check()?.expect_code(6)?;
    let found: serde_json::Value = serde_json::from_str(&out.stderr)?;
    let places: Vec<String> = found["error"]["problems"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| format!("{} {}", p["code"].as_str().unwrap_or_default(), p["place"]["line_column"][0]))
        .collect();
    assert_eq!(
        places,
        ["plugin-invalid 2", "file-unreadable 5", "id-duplicate 7", "plugin-invalid 6", "grant-invalid 9"],
        "{found:#}"
    );

    env.write("t2m.toml", "[[plugin]]\nname = \"sums\"\npath = \"sums\"\ndirs = [\"sums\"]\nlimits = {fuel = 5}\ntool_limits = {sun = {fuel = 5}}\n[policy.tools]\nadd = \"deny\"\nad = \"deny\"\n")?;
    let fine = check()?.success()?.json()?;
    let warnings: Vec<&str> =
        fine["warnings"].as_array().into_iter().flatten().filter_map(|w| w.as_str()).collect();
    assert!(warnings.len() == 2 && warnings[0].contains("`ad`") && warnings[1].contains("`sun`"), "{fine}");
    Ok(())
}
