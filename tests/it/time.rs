//! The plugin `time` through the real program: the date that it is granted, and what is said where it isn't.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv, now_rfc3339};

/// The plugin `time` as if it were one's own, with its cases.
fn time() -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/time");
    env.write("time/plugin.toml", std::fs::read(own.join("plugin.toml"))?)?;
    std::fs::copy(env!("T2M_PLUGIN_TIME"), env.work().join("time/time.wasm"))?;
    for entry in std::fs::read_dir(own.join("tests/cases"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        env.write(&format!("time/tests/cases/{name}"), std::fs::read(&path)?)?;
    }
    Ok(env)
}

/// What a call says of now, and whether that lies between its begin and its end.
fn asked(call: impl FnOnce() -> Outcome<Value>) -> Outcome<(Value, bool)> {
    let second = |text: &str| text.get(..19).unwrap_or_default().to_owned();
    let before = second(&now_rfc3339());
    let answer = call()?;
    let (said, after) = (second(answer["datetime"].as_str().unwrap_or_default()), second(&now_rfc3339()));
    Ok((answer, before <= said && said <= after))
}

/// P03: `plugin run` gives the date with `--clock`, and says without it what is missing.
#[test]
fn plugin_run_reads_the_date_with_a_clock() -> Outcome<()> {
    let env = time()?;
    let run = ["plugin", "run", "time", "get_current_time", "--arg", "timezone=UTC"];
    let with_clock = || HostCli::new(&env)?.args(run).arg("--clock").output()?.success()?.json();
    let (found, is_now) = asked(with_clock)?;
    assert!(is_now, "{found}");
    let refused = HostCli::new(&env)?.args(run).output()?.expect_code(4)?;
    let said = &refused.stderr;
    assert!(said.contains("plugin-grant-missing") && said.contains("`--clock`"), "{refused:?}");
    // What isn't asked for isn't granted.
    env.write("time/plugin.toml", "name = \"time\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n")?;
    let found = with_clock()?;
    assert!(found["datetime"].as_str().is_some_and(|text| text.starts_with("2025-")), "{found}");
    Ok(())
}

/// P03: the built-in plugin is served where its grant is there, by option or by t2m.toml.
#[test]
fn the_built_in_plugin_needs_the_clock() -> Outcome<()> {
    let served = |env: &TestEnv, args: &[&str]| -> Outcome<Value> {
        let mut command = HostCli::new(env)?.arg("serve").args(args).into_command();
        let mut client = McpClient::start(&mut command, Duration::from_secs(60))?;
        client.initialize()?;
        let answer = client.call_tool("get_current_time", &json!({"timezone": "UTC"}))?;
        Ok(answer["result"]["structuredContent"].clone())
    };
    let env = TestEnv::new()?;
    let (found, is_now) = asked(|| served(&env, &["--clock"]))?;
    assert!(is_now, "{found}");
    assert_eq!(served(&env, &[])?, Value::Null, "it stays out by default");
    let refused = HostCli::new(&env)?.args(["serve", "--tool", "time"]).output()?.expect_code(4)?;
    assert!(refused.stderr.contains("`--clock`"), "{refused:?}");
    env.write("t2m.toml", "[[plugin]]\nname = \"time\"\nclock = true\n")?;
    let (found, is_now) = asked(|| served(&env, &[]))?;
    assert!(is_now, "{found}");
    Ok(())
}

/// P09: cases of a plugin with a clock have a date of their own, so they give the same on every day.
#[test]
fn cases_of_time_have_their_dates() -> Outcome<()> {
    let env = time()?;
    HostCli::new(&env)?.args(["plugin", "test", "time", "--no-build"]).output()?.success()?;
    let undated = json!({
        "format": "t2m/plugin-case@1", "tool": "get_current_time", "arguments": {"timezone": "UTC"},
        "expect": {"structured": {
            "timezone": "UTC", "datetime": "2025-01-01T00:00:00+00:00", "day_of_week": "Wednesday", "is_dst": false,
        }},
    });
    env.write("time/tests/cases/undated.json", undated.to_string())?;
    let test = ["plugin", "test", "time", "--no-build", "--filter", "undated"];
    HostCli::new(&env)?.args(test).output()?.success()?;
    Ok(())
}

/// P03, P09: asking for the clock is shown, and asking without reading one is said.
#[test]
fn the_clock_is_shown_with_what_is_missing() -> Outcome<()> {
    let env = time()?;
    let why = |args: &[&str]| -> Outcome<Value> {
        let shown = HostCli::new(&env)?.args(["--format", "json", "tools", "--why"]).args(args).output()?;
        Ok(shown.success()?.json()?[0]["grants"]["date"].clone())
    };
    let asked = json!(["to read the real one"]);
    assert_eq!(
        why(&["--tool", "time"])?,
        json!({"asked": asked, "has": [], "lacks": ["any; `--clock` grants one"], "not_asked_for": []})
    );
    assert_eq!(
        why(&["--tool", "time", "--clock"])?,
        json!({"asked": asked, "has": ["the real one"], "lacks": [], "not_asked_for": []})
    );
    assert_eq!(why(&["--tool", "math", "--clock"])?["not_asked_for"], json!(["the real one"]));
    let check = |path: &str| -> Outcome<Value> {
        let args = ["plugin", "check", path, "--format", "json"];
        HostCli::new(&env)?.args(args).output()?.json()
    };
    let fine = check("time/time.wasm")?;
    assert_eq!((&fine["errors"], &fine["warnings"]), (&json!([]), &json!([])), "{fine}");
    let inspected = HostCli::new(&env)?.args(["plugin", "inspect", "time"]).output()?.success()?;
    assert!(inspected.stdout.contains("to read the real date"), "{inspected:?}");
    std::fs::copy(env!("T2M_PLUGIN_MATH"), env.work().join("time/time.wasm"))?;
    let needless = check("time/time.wasm")?;
    assert!(needless["warnings"].to_string().contains("nothing that reads a date"), "{needless}");
    Ok(())
}
