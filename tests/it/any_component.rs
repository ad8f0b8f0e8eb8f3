//! Components that know nothing of this host: every type there and back, failures, files, and what is refused.
//!
//! Owns the way through the real program. Refuses the laws of conversion: they stand beside the code.
//!
//! **Invariant:** the guests have no interface of the host's, so whatever works here works for any component.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use t2m_tests::{HostCli, McpClient, Outcome, TestEnv, data_dir, golden};

const LIMIT: Duration = Duration::from_secs(30);

/// The component `typed` as somebody might have it, with what its author wrote about it.
fn shapes() -> Outcome<TestEnv> {
    let env = TestEnv::new()?;
    let mut wasm = fs::read(env!("T2M_PLUGIN_TYPED"))?;
    let words = serde_json::from_slice::<Value>(&fs::read(data_dir("typed").join("docs.json"))?)?.to_string();
    let mut section = vec![b"package-docs".len() as u8];
    section.extend(b"package-docs\x01");
    section.extend(words.as_bytes());
    wasm.push(0);
    let mut length = section.len();
    while length > 127 {
        wasm.push(length as u8 & 127 | 128);
        length >>= 7;
    }
    wasm.push(length as u8);
    wasm.extend(section);
    env.write("shapes.wasm", wasm)?;
    Ok(env)
}

fn allowing(env: &TestEnv, more: &str) -> Outcome<()> {
    env.write("t2m.toml", format!("[policy.effects]\nunknown = \"allow\"\n{more}")).map(drop)
}

fn host(env: &TestEnv, args: &[&str]) -> Outcome<t2m_tests::CliOutput> {
    HostCli::new(env)?.args(args).output()
}

/// A client of the component's tools, whose description counts as reviewed.
fn client(env: &TestEnv) -> Outcome<McpClient> {
    let serve = HostCli::new(env)?.args(["serve", "--trust", "shapes", "--tool", "shapes.wasm"]);
    let mut client = McpClient::start(&mut serve.into_command(), LIMIT)?;
    client.initialize()?;
    Ok(client)
}

fn code(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    &answer["result"]["_meta"]["t2m-host/error"]["code"]
}

/// P08: a component with plain exports has tools with exact schemas and its author's words; what can't be a tool
/// is named with its reason, and imports of types alone need nothing.
#[test]
fn plain_exports_become_tools_with_exact_schemas() -> Outcome<()> {
    let env = shapes()?;
    let tools = host(&env, &["tools", "--tool", "shapes.wasm", "--format", "json"])?.success()?;
    let mut shown = tools.json()?;
    for tool in shown.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        tool.retain(|key, _| {
            matches!(
                key.as_str(),
                "name"
                    | "description"
                    | "effect"
                    | "idempotency"
                    | "input_schema"
                    | "output_schema"
                    | "contract"
            )
        });
    }
    golden::check(&data_dir("typed"), "tools.json", &format!("{shown:#}\n"))?;

    let inspected =
        host(&env, &["plugin", "inspect", "shapes.wasm", "--format", "json"])?.success()?.json()?;
    let left_out: Vec<_> =
        inspected["left_out"].as_array().into_iter().flatten().map(|out| out["function"].clone()).collect();
    let echo = |function: &str| json!(format!("t2m:shapes/echo@1.2.0#{function}"));
    assert_eq!(
        left_out,
        [echo("[constructor]counter"), echo("[method]counter.next"), echo("open")],
        "{inspected}"
    );
    let text = host(&env, &["plugin", "inspect", "shapes.wasm"])?.success()?.stdout;
    assert!(text.contains("result: a resource has no form in JSON"), "{text}");
    let checked = host(&env, &["plugin", "check", "shapes.wasm", "--format", "json"])?.success()?.json()?;
    assert_eq!(checked["errors"], json!([]));
    assert!(checked["warnings"].to_string().contains("echo@1.2.0#open"), "{checked}");

    // Nobody reviewed it, and what it does is unknown.
    assert!(host(&env, &["tools", "add", "--tool", "shapes.wasm"])?.success()?.stdout.contains("denied"));
    let refused =
        host(&env, &["plugin", "run", "shapes.wasm", "add", "--arg", "first=1", "--arg", "second=2"])?;
    assert!(refused.expect_code(4)?.stderr.contains("policy-denied"));
    Ok(())
}

/// P08: every type goes through a real component and comes back without loss.
#[test]
fn every_type_comes_back_as_it_went() -> Outcome<()> {
    let env = shapes()?;
    allowing(&env, "")?;
    let mut client = client(&env)?;
    let everything = json!({
        "truth": true, "letter": "\u{1f980}", "text": "a\u{0}b \u{10ffff}", "bytes": "AP+A",
        "numbers": [0, -1, 9_007_199_254_740_991_i64, "9007199254740992", "-9223372036854775808"],
        "colour": "dark-blue", "access": ["read", "run"], "place": {"x": -0.0, "y": "NaN", "label": null},
        "figure": {"circle": [{"x": 1e300, "y": 0.1, "label": "c"}, "Infinity"]},
        "outcome": {"ok": "18446744073709551615"}, "done": {"err": null}, "pair": ["p", 4_294_967_295_u32],
        "maybe": {"some": null},
    });
    let other = json!({
        "truth": false, "letter": "\u{0}", "text": "", "bytes": "", "numbers": [], "colour": "red", "access": [],
        "place": {"x": 5e-324, "y": 1.5, "label": ""}, "figure": "nothing", "outcome": {"err": "no"},
        "done": {"ok": null}, "pair": ["", null], "maybe": {"some": 255},
    });
    for value in [everything, other] {
        let answer = client.call_tool("all", &json!({"value": value}))?;
        assert_eq!(answer["result"]["structuredContent"], json!({"result": value}), "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(serde_json::from_str::<Value>(text)?, json!({"result": value}));
    }
    let table = [
        (
            "small",
            json!({"a": 255, "b": -128, "c": 65535, "d": -32768, "e": 4_294_967_295_u32, "f": -2_147_483_648}),
            json!({"result": [255, -128, 65535, -32768, 4_294_967_295_u32, -2_147_483_648]}),
        ),
        ("large", json!({"unsigned": 12, "signed": "-12"}), json!({"result": [12, -12]})),
        (
            "large",
            json!({"unsigned": "18446744073709551615", "signed": "9223372036854775807"}),
            json!({"result": ["18446744073709551615", "9223372036854775807"]}),
        ),
        ("floats", json!({"single": 0.5, "double": "-Infinity"}), json!({"result": [0.5, "-Infinity"]})),
        ("floats", json!({"single": "NaN", "double": 1}), json!({"result": ["NaN", 1.0]})),
        ("echo.text", json!({"value": "x"}), json!({"result": "x"})),
        ("trouble.text", json!({}), json!({"result": "trouble"})),
        ("shout", json!({"value": "a"}), json!({"result": "A"})),
        ("shout", json!({"value": "a", "times": 3}), json!({"result": "AAA"})),
        ("now", json!({}), json!({})),
        (
            "add-both",
            json!({"both": {"first": 2_147_483_647, "second": 1}}),
            json!({"result": -2_147_483_648}),
        ),
        ("check", json!({"truth": true}), json!({})),
        ("fail", json!({}), json!({"result": 7})),
    ];
    for (tool, arguments, expected) in table {
        let answer = client.call_tool(tool, &arguments)?;
        assert_eq!(answer["result"]["structuredContent"], expected, "{tool}: {answer}");
    }
    Ok(())
}

/// P08: arguments outside the types are refused with their place; an error that a function returns is a failure
/// with a code, its words and the whole error, and no retry is promised.
#[test]
fn what_does_not_fit_is_refused_and_errors_are_failures() -> Outcome<()> {
    let env = shapes()?;
    allowing(&env, "")?;
    let mut client = client(&env)?;
    let small = |name: &str, value: Value| {
        let mut arguments = json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1});
        arguments[name] = value;
        arguments
    };
    let refused = [
        ("small", small("a", json!(256)), "/a"),
        ("small", small("b", json!(-129)), "/b"),
        ("small", small("f", json!(1.5)), "/f"),
        ("small", small("g", json!(1)), "the top level"),
        ("large", json!({"unsigned": 9_007_199_254_740_993_u64, "signed": 0}), "/unsigned"),
        ("large", json!({"unsigned": "18446744073709551616", "signed": 0}), "/unsigned"),
        ("large", json!({"signed": 0}), "the top level"),
        ("fail", json!({"why": {"not-found": null}}), "/why"),
        ("fail", json!({"why": "denied"}), "/why"),
        ("shout", json!({"value": "a", "times": -1}), "/times"),
    ];
    for (tool, arguments, place) in refused {
        let answer = client.call_tool(tool, &arguments)?;
        assert_eq!(code(&answer), "arguments-invalid", "{tool} {arguments}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains(place), "{tool} {arguments}: {text}");
    }
    let failures = [
        (
            "divide",
            json!({"first": 1, "second": 0}),
            "error",
            "1 can't be divided by 0",
            json!("1 can't be divided by 0"),
        ),
        ("fail", json!({"why": "not-found"}), "not-found", "the error `not-found`", json!("not-found")),
        ("fail", json!({"why": {"denied": "not you"}}), "denied", "not you", json!({"denied": "not you"})),
        ("check", json!({"truth": false}), "error", "the function returned an error", Value::Null),
    ];
    for (tool, arguments, own, words, details) in failures {
        let answer = client.call_tool(tool, &arguments)?;
        assert_eq!(code(&answer), "tool-failed", "{tool} {arguments}");
        let error = &answer["result"]["_meta"]["t2m-host/error"];
        assert_eq!((&error["toolCode"], &error["details"]), (&json!(own), &details), "{answer}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(words)), "{answer}");
    }
    Ok(())
}

/// P02, P08: a plain component has the limits that every plugin has, and the next call is served.
#[test]
fn plain_functions_have_every_limit() -> Outcome<()> {
    let env = shapes()?;
    allowing(
        &env,
        "[[plugin]]\nname = \"shapes\"\npath = \"shapes.wasm\"\nlimits = {fuel = 50000000, transfer_bytes = 100000}\n",
    )?;
    let serve = HostCli::new(&env)?.args(["serve", "--trust", "shapes"]);
    let mut client = McpClient::start(&mut serve.into_command(), LIMIT)?;
    client.initialize()?;
    let long = "x".repeat(60_000);
    let table = [
        ("spin", json!({}), "sandbox-fuel"),
        ("panic", json!({"message": "oh no"}), "sandbox-trap"),
        // A value takes more here than the byte that it is in the guest.
        ("flood", json!({"count": 50_000}), "sandbox-transfer"),
        ("flood", json!({"count": 100_000_000}), "sandbox-memory"),
        // It may come in as it is, and is twice as long as JSON.
        ("echo.text", json!({"value": "\"".repeat(60_000)}), "sandbox-transfer"),
        ("all", json!({"value": {"truth": true}}), "arguments-invalid"),
    ];
    for (tool, arguments, expected) in table {
        let answer = client.call_tool(tool, &arguments)?;
        assert_eq!(code(&answer), expected, "{tool}: {answer}");
        let answer = client.call_tool("echo.text", &json!({"value": long}))?;
        assert_eq!(answer["result"]["structuredContent"]["result"], json!(long));
    }
    let answer = client.call_tool("panic", &json!({"message": "oh no"}))?;
    assert!(
        answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("oh no")),
        "{answer}"
    );
    let answer = client.call_tool("flood", &json!({"count": 5}))?;
    assert_eq!(answer["result"]["structuredContent"], json!({"result": "eHh4eHg="}));
    let much = client.call_tool("echo.text", &json!({"value": "x".repeat(120_000)}))?;
    assert_eq!(code(&much), "arguments-invalid");
    Ok(())
}

/// P08: a workflow of plain functions is compiled from a recording, reviewed and run like any other.
#[test]
fn a_workflow_of_plain_functions_runs() -> Outcome<()> {
    let env = shapes()?;
    let trace = data_dir("typed").join("trace.json").display().to_string();
    host(&env, &["compile", &trace, "--tool", "shapes.wasm", "--out", "workflow.json"])?.success()?;
    allowing(&env, "")?;
    let run = || host(&env, &["run", "workflow.json", "--tool", "shapes.wasm", "--input", "third=-1"]);
    assert!(run()?.expect_code(4)?.stderr.contains("contract-missing"));
    let review = ["review", "workflow.json", "--tool", "shapes.wasm", "--format", "json"];
    let shown = host(&env, &review)?.expect_code(5)?.json()?;
    let mut args = vec!["review", "workflow.json", "--tool", "shapes.wasm", "--reviewer", "ann"];
    let agreed: Vec<String> = shown["contracts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|contract| {
            Some(format!("{}@{}", contract["tool"].as_str()?, contract["digest"].as_str()?))
        })
        .collect();
    for one in &agreed {
        args.extend(["--approve", one]);
    }
    host(&env, &args)?.success()?;
    assert_eq!(run()?.success()?.json()?, json!({"result": 4296}));
    env.write("t2m.toml", "")?;
    assert!(
        run()?.expect_code(4)?.stderr.contains("policy-denied"),
        "unknown effects run only where they are allowed"
    );
    Ok(())
}

/// P03, P08: plain functions that use files get the directory that is asked for and granted, and no other.
#[test]
fn plain_functions_use_granted_files_only() -> Outcome<()> {
    let env = TestEnv::new()?;
    fs::copy(env!("T2M_PLUGIN_TYPED_FILES"), env.work().join("plain.wasm"))?;
    let file = env.write("data/a.txt", "text")?.canonicalize()?;
    let data = file.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    allowing(&env, "")?;
    let tools = |args: &[&str]| host(&env, &[&["serve", "--tool", "plain.wasm"], args].concat());
    let refused = tools(&[])?.expect_code(4)?;
    assert!(
        refused.stderr.contains("plugin-grant-missing")
            && refused.stderr.contains("wasi:filesystem/types@0.2"),
        "{refused:?}"
    );
    let refused = tools(&["--dir", &data])?.expect_code(4)?;
    assert!(refused.stderr.contains("ask for that with `dirs = \"read\"` under `[asks]`"), "{refused:?}");

    // It is built for no WIT package of this host's, so its manifest names none.
    env.write("plugin.toml", "name = \"plain\"\nversion = \"0.1.0\"\n[asks]\ndirs = \"read-write\"\n")?;
    let run = |dir: &str, tool: &str, args: Value| {
        host(&env, &["plugin", "run", "plain.wasm", tool, "--args", &args.to_string(), "--dir", dir])
    };
    let path = file.display().to_string();
    assert_eq!(run(&data, "read-text", json!({"path": path}))?.success()?.json()?, json!({"result": "text"}));
    assert_eq!(
        run(&data, "list-names", json!({"path": data}))?.success()?.json()?,
        json!({"result": ["a.txt"]})
    );
    for outside in ["/etc/hostname", &format!("{data}/../../t2m.toml")] {
        let failed = run(&data, "read-text", json!({"path": outside}))?.expect_code(6)?;
        assert!(failed.stderr.contains("tool-failed") && !failed.stdout.contains("policy"), "{failed:?}");
    }
    let write = json!({"path": format!("{data}/b.txt"), "text": "B"});
    run(&data, "write-text", write.clone())?.expect_code(6)?;
    assert!(!env.work().join("data/b.txt").exists(), "the directory may be read only");
    assert_eq!(run(&format!("{data}:rw"), "write-text", write)?.success()?.json()?, json!({}));
    assert_eq!(env.read("data/b.txt")?, "B");
    let case = json!({
        "format": "t2m/plugin-case@1", "tool": "write-text", "arguments": {"path": "{dir}/b.txt", "text": "B"},
        "files": {"access": "read-write", "content": {"a.txt": "A"}}, "expect": {"structured": {}},
        "files_after": {"a.txt": "A", "b.txt": "B"},
    });
    env.write("tests/cases/writes.json", case.to_string())?;
    host(&env, &["plugin", "test", "plain.wasm"])?.success()?;
    let checked = host(&env, &["plugin", "check", "plain.wasm", "--format", "json"])?.success()?.json()?;
    assert_eq!(checked["errors"], json!([]));
    Ok(())
}

/// A component of one function over a core module, with what is put before it.
fn component(imports: &str, function: &str) -> Outcome<Vec<u8>> {
    let text = format!(
        r#"(component
            {imports}
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
                (func (export "none") (result i32) i32.const 0)
                (func (export "fetch") (param i32 i32) (result i32) i32.const 0))
            (core instance $i (instantiate $m))
            {function})"#
    );
    wat::parse_str(text).map_err(|why| t2m_tests::Failure::new(why.to_string()))
}

/// P03, P08: what can't be served is refused when the component is loaded, by the name of what is missing.
#[test]
fn what_can_not_be_served_is_refused_by_name() -> Outcome<()> {
    let env = TestEnv::new()?;
    let fetch = r#"(func (export "fetch") (param "url" string) (result (result string (error string)))
        (canon lift (core func $i "fetch") (memory $i "memory") (realloc (func $i "realloc"))))"#;
    let sockets = r#"(import "wasi:sockets/tcp@0.2.0" (instance (export "bind" (func))))"#;
    let types = r#"(import "wasi:http/types@0.2.0" (instance (type u8) (export "code" (type (eq 0)))))"#;
    let resource = r#"(type $r (resource (rep i32))) (export $e "handle" (type $r))
        (func (export "open") (result (own $e)) (canon lift (core func $i "none")))"#;
    let table = [
        (component(sockets, fetch)?, 4, "plugin-grant-missing", "wasi:sockets/tcp@0.2.0"),
        (
            component(r#"(import "some:thing/here@1.0.0" (instance (export "f" (func))))"#, fetch)?,
            6,
            "plugin-invalid",
            "some:thing/here@1.0.0",
        ),
        (component("", resource)?, 6, "plugin-invalid", "`open`: result: a resource has no form in JSON"),
        (component("", "")?, 6, "plugin-invalid", "exports neither `t2m:plugin/handler` nor a function"),
    ];
    for (wasm, status, code, words) in table {
        env.write("some.wasm", wasm)?;
        for command in [&["tools", "--tool", "some.wasm"][..], &["plugin", "inspect", "some.wasm"]] {
            let out = host(&env, command)?.expect_code(status)?;
            assert!(out.stderr.contains(code) && out.stderr.contains(words), "expected `{words}`: {out:?}");
        }
        let checked = host(&env, &["plugin", "check", "some.wasm"])?.expect_code(status)?;
        assert!(checked.stdout.contains(words), "expected `{words}`: {checked:?}");
    }
    env.write("some.wasm", component(types, fetch)?)?;
    assert!(host(&env, &["tools", "--tool", "some.wasm"])?.success()?.stdout.contains("fetch"));
    Ok(())
}
