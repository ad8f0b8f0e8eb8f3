//! `plugin watch`: a round for each change, none by itself.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use t2m_tests::{Failure, HostCli, Outcome, Running, TestEnv};

/// Longest wait for one line.
const WAIT: Duration = Duration::from_secs(30);

/// A plugin whose build copies a component and leaves a mark that differs each time.
fn project() -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    fs::copy(env!("T2M_PLUGIN_MATH"), env.work().join("made.wasm"))?;
    env.write("plugin.toml", MANIFEST)?;
    env.write("tests/cases/adds.json", case(3))?;
    Ok(env)
}

const MANIFEST: &str = "name = \"sums\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[build]\ncommand = [\"sh\", \"-c\", \"echo x >> log.txt; mkdir -p out; cp made.wasm out/s.wasm\"]\noutput = \"out/s.wasm\"\n";

fn case(sum: i64) -> String {
    json!({
        "format": "t2m/plugin-case@1", "tool": "add", "arguments": {"a": 1, "b": 2},
        "expect": {"structured": {"result": sum}},
    })
    .to_string()
}

/// The number of the next round that ends like this. The log that the build writes is taken for a person's change
/// until it has changed in five rounds, so the first change may lead to a few rounds, but never to more than that.
fn round(watch: &mut Running, ending: &str) -> Outcome<u32> {
    for _ in 0..6 {
        let line = loop {
            match watch.line(Instant::now() + WAIT)? {
                Some(line) if line.starts_with("round ") => break line,
                Some(_) => {}
                None => {
                    let errors = watch.errors(Instant::now() + WAIT);
                    return Err(Failure::new(format!("it ended: {errors}")));
                }
            }
        };
        let (number, rest) = line.trim_start_matches("round ").split_once(": ").unwrap();
        if rest.starts_with(ending) {
            return Ok(number.parse().unwrap());
        }
    }
    Err(Failure::new(format!("no round ended with `{ending}`")))
}

/// P09: a change leads to a round, a broken manifest or case is told and survived, and what the build writes
/// by itself leads to no endless rounds.
#[test]
fn each_change_is_tested_and_nothing_else() -> Outcome<()> {
    let env = project()?;
    let mut watch = HostCli::new(&env)?.args(["plugin", "watch"]).start()?;
    assert_eq!(round(&mut watch, "1 passed, 0 failed (")?, 1);
    env.write("tests/cases/adds.json", case(1234))?;
    round(&mut watch, "0 passed, 1 failed (")?;
    env.write("plugin.toml", "name = 1")?;
    round(&mut watch, "field-")?;
    env.write("plugin.toml", MANIFEST)?;
    round(&mut watch, "0 passed, 1 failed (")?;
    env.write("tests/cases/adds.json", case(3))?;
    let last = round(&mut watch, "1 passed, 0 failed (")?;
    assert!(last <= 24, "{last} rounds");
    Command::new("kill").args(["-INT", &watch.id().to_string()]).status()?;
    let ended = watch.wait(Instant::now() + WAIT)?;
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    Ok(())
}
