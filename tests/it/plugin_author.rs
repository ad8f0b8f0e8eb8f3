//! From an empty folder to a tested plugin: `plugin new`, `build`, `check`, `test`, `inspect` and `run`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::{HostCli, Outcome, TestEnv};

/// A build may wait for another test's cargo.
const BUILD: Duration = Duration::from_secs(120);

/// P09: a plugin is written, built, checked, tested, looked at and called from an empty folder without a
/// checkout, even where the folder lies in another cargo workspace.
#[test]
fn a_plugin_goes_from_nothing_to_a_call() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("Cargo.toml", "[workspace]\nmembers = []\n")?;
    let host = |args: &[&str]| HostCli::new(&env)?.with_cargo().limit(BUILD).args(args).output();
    let made = host(&["plugin", "new", "hello", "--format", "json"])?.success()?.json()?;
    assert_eq!(made["folder"], "hello");
    assert!(made["next"][0].as_str().is_some_and(|next| next.ends_with("plugin test hello")), "{made}");

    let unbuilt = host(&["tools", "--tool", "./hello"])?.expect_code(3)?;
    assert!(unbuilt.stderr.contains("plugin build ./hello"), "{unbuilt:?}");

    let built = host(&["plugin", "build", "hello", "--format", "json"])?.success()?.json()?;
    assert_eq!((&built["errors"], &built["warnings"]), (&json!([]), &json!([])));
    assert!(built["bytes"].as_u64().is_some_and(|bytes| bytes < 400_000), "{built}");
    assert_eq!(
        host(&["plugin", "check", "hello", "--format", "json"])?.success()?.json()?["digest"],
        built["digest"]
    );

    let test = |args: &[&str]| host(&[&["plugin", "test", "hello", "--no-build"], args].concat());
    assert_eq!(test(&[])?.success()?.stdout, "ok     greets\nok     refuses-nobody\n2 passed, 0 failed\n");
    assert_eq!(test(&["--filter", "greet"])?.success()?.stdout, "ok     greets\n1 passed, 0 failed\n");

    let inspected = host(&["plugin", "inspect", "./hello", "--format", "json"])?.success()?.json()?;
    assert_eq!(inspected["digest"], built["digest"]);
    assert_eq!((&inspected["wit"], &inspected["tools"][0]["review"]), (&json!("0.1.0"), &json!("missing")));
    assert_eq!(inspected["exports"], json!(["t2m:plugin/handler@0.1.0"]));

    let run = |args: &[&str]| host(&[&["plugin", "run", "hello", "greet"], args].concat());
    let greeting = run(&["--arg", "name=Ada"])?.success()?;
    assert_eq!(greeting.json()?, json!({"text": "Hello, Ada!"}));
    assert!(greeting.stderr.contains(" fuel, "), "{greeting:?}");
    env.write("args.json", r#"{"name": "5"}"#)?;
    assert_eq!(run(&["--args", "@args.json"])?.success()?.json()?, json!({"text": "Hello, 5!"}));
    assert_eq!(run(&["--arg", "name=5"])?.success()?.json()?, json!({"text": "Hello, 5!"}));
    assert!(run(&["--arg", "name="])?.expect_code(6)?.stderr.contains("name-empty"));
    assert!(run(&["--arg", "nam=x"])?.expect_code(3)?.stderr.contains("arguments-invalid"));

    let copied = env.command("sh").args(["-c", made["next"][1].as_str().unwrap_or_default()]).output()?;
    assert_eq!(String::from_utf8_lossy(&copied.stdout), greeting.stdout, "printed commands work as they are");

    let tools = host(&["tools", "--tool", "hello", "--format", "json"])?.success()?.json()?;
    assert_eq!((&tools[0]["name"], &tools[0]["handler"]), (&json!("greet"), &built["digest"]));

    let broken = env.read("hello/src/lib.rs")?.replace("Ok(Greeting", "Okay(Greeting");
    env.write("hello/src/lib.rs", broken)?;
    let failed = host(&["plugin", "test", "hello"])?.expect_code(6)?;
    assert!(failed.stderr.contains("build-failed") && failed.stderr.contains("Okay"), "{failed:?}");
    assert_eq!(failed.stdout, "", "a failure is no data");
    Ok(())
}

/// P09: a project is there whole or not at all.
#[test]
fn a_name_or_folder_that_can_not_be_used_leaves_nothing() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("full/file", "mine")?;
    env.write("plain", "a file")?;
    fs::create_dir(env.work().join("empty"))?;
    let cases: &[(&[&str], i32, &str)] = &[
        (&["Hello"], 3, "field-value"),
        (&["a b"], 3, "field-value"),
        (&["../x"], 3, "field-value"),
        (&["fn"], 3, "reserved in Rust"),
        (&["math"], 3, "built-in"),
        (&["hello", "--path", "full"], 3, "the folder isn't empty"),
        (&["hello", "--path", "plain"], 3, "file-unwritable"),
        (&["hello", "--path", "plain/x"], 3, "file-unwritable"),
    ];
    for (args, status, text) in cases {
        let out = HostCli::new(&env)?.args(["plugin", "new"]).args(*args).output()?.expect_code(*status)?;
        assert!(out.stderr.contains(text) && out.stdout.is_empty(), "expected `{text}`: {out:?}");
    }
    let mut left: Vec<_> = fs::read_dir(env.work())?.flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, ["empty", "full", "plain"]);
    HostCli::new(&env)?
        .args(["plugin", "new", "here", "--path", "."])
        .current_dir(env.work().join("empty"))
        .output()?
        .success()?;
    assert!(env.read("empty/src/lib.rs")?.contains("export!"));
    assert!(!env.read("empty/Cargo.toml")?.contains("{{"));
    Ok(())
}

/// P09: another language's build is a command of plugin.toml; what it fails at is said.
#[test]
fn a_build_command_makes_the_component() -> Outcome<()> {
    let env = TestEnv::new()?;
    fs::copy(env!("T2M_PLUGIN_MATH"), env.work().join("made.wasm"))?;
    let manifest = |build: &str| {
        let text = format!("name = \"sums\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n{build}");
        env.write("plugin.toml", text)
    };
    let build = |args: &[&str]| HostCli::new(&env)?.args(["plugin", "build"]).args(args).output();
    let table: &[(&str, i32, &str)] = &[
        (
            "[build]\ncommand = [\"sh\", \"-c\", \"echo talk; exit 3\"]\noutput = \"out.wasm\"\n",
            6,
            "build-failed",
        ),
        ("[build]\ncommand = [\"true\"]\noutput = \"out.wasm\"\n", 6, "did not make this file"),
        ("[build]\ncommand = [\"no-such-program\"]\noutput = \"out.wasm\"\n", 6, "can't be started"),
        (
            "[build]\ncommand = [\"sh\", \"-c\", \"echo > out.wasm\"]\noutput = \"out.wasm\"\n",
            6,
            "plugin-invalid",
        ),
        ("[build]\ncommand = []\noutput = \"\"\n", 3, "field-value"),
        ("[buld]\n", 3, "did you mean `build`?"),
        ("", 6, "needs a `[build]` table"),
    ];
    for (text, status, expected) in table {
        manifest(text)?;
        let out = build(&[])?.expect_code(*status)?;
        let said = format!("{}{}", out.stderr, out.stdout);
        assert!(said.contains(expected), "expected `{expected}`: {out:?}");
    }
    manifest(
        "[build]\ncommand = [\"sh\", \"-c\", \"echo building; cp made.wasm out.wasm\"]\noutput = \"out.wasm\"\n",
    )?;
    let out = build(&["--format", "json"])?.success()?;
    assert!(out.stderr.contains("building") && out.json()?["errors"] == json!([]), "{out:?}");
    assert_eq!(fs::read(env.work().join("sums.wasm"))?, fs::read(env.work().join("made.wasm"))?);
    Ok(())
}

/// P09: everything that is wrong with a component is said at once, and nothing of it runs.
#[test]
fn check_says_everything_that_is_wrong() -> Outcome<()> {
    let env = TestEnv::new()?;
    fs::copy(env!("T2M_PLUGIN_FILES"), env.work().join("files.wasm"))?;
    env.write("plugin.toml", "name = \"files\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.9\"\n")?;
    env.write("tests/cases/broken.json", "{\"format\": 1}")?;
    let check = |path: &str| HostCli::new(&env)?.args(["plugin", "check", path, "--format", "json"]).output();
    let found = check(".")?.expect_code(4)?.json()?;
    let codes = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|p| Some(p["code"].as_str()?.to_owned())).collect()
    };
    let errors = codes(&found["errors"]);
    assert_eq!(errors.first().map(String::as_str), Some("plugin-grant-missing"), "{found}");
    assert!(errors.iter().filter(|code| *code == "field-missing").count() >= 3, "{found}");
    assert!(codes(&found["warnings"]).contains(&"plugin-version".to_owned()), "{found}");
    assert!(found["describe"]["fuel"].as_u64().is_some_and(|fuel| fuel > 0), "{found}");

    env.write("other/core.wasm", b"\0asm\x01\0\0\0")?;
    assert!(check("other/core.wasm")?.expect_code(6)?.stdout.contains("wasm32-wasip2"));
    fs::copy(env!("T2M_PLUGIN_MATH"), env.work().join("other/math.wasm"))?;
    env.write(
        "other/plugin.toml",
        "name = \"math\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\ndirs = \"read\"\n",
    )?;
    let needless = check("other")?.success()?.json()?;
    assert!(needless["warnings"].to_string().contains("imports nothing that uses them"), "{needless}");
    let built_in = HostCli::new(&env)?.args(["plugin", "inspect", "math"]).output()?.success()?;
    assert!(built_in.stdout.starts_with("math, built in\n"), "{built_in:?}");
    Ok(())
}
