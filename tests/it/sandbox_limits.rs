//! A hostile guest against the sandbox, through the dispatch like every call.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::contract::Contracts;
use t2m_core::dispatch::{Dispatcher, DispatcherParts, Registry, Trust};
use t2m_core::effect::Effect;
use t2m_core::id::ToolName;
use t2m_core::policy::{Action, Policy};
use t2m_sandbox::{Access, Grants, Limits, PluginSource, Sandbox, SandboxConfig};

use crate::hostile_host::{Host, config, grant, hostile, load, load_bytes, text_of};

fn short_wall() -> Limits {
    Limits { wall: Duration::from_millis(300), fuel: u64::MAX >> 1, ..Limits::default() }
}

/// P02: each limit has a guest that breaks it, a code of its own, and a host that serves the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_has_its_code_and_the_next_call_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let little_fuel = Limits { fuel: 50_000_000, ..Limits::default() };
    let much_memory = Limits { memory_bytes: 512 << 20, ..Limits::default() };
    let cases = [
        ("loop", little_fuel, Code::SandboxFuel),
        ("loop", short_wall(), Code::SandboxTimeout),
        ("poll_loop", short_wall(), Code::SandboxTimeout),
        ("sleep", short_wall(), Code::SandboxTimeout),
        ("alloc", Limits::default(), Code::SandboxMemory),
        ("recurse", Limits::default(), Code::SandboxStack),
        ("return_big", much_memory, Code::SandboxTransfer),
        ("log_big", much_memory, Code::SandboxTransfer),
        ("log_spam", Limits::default(), Code::SandboxLog),
        ("many_handles", Limits::default(), Code::SandboxHandles),
        ("trap", Limits::default(), Code::SandboxTrap),
        ("exit", Limits::default(), Code::SandboxTrap),
        ("bad_json", Limits::default(), Code::ResultNotJson),
        ("fail", Limits::default(), Code::ToolFailed),
    ];
    for (tool, limits, code) in cases {
        let grants = grant(folder.path(), Access::ReadOnly);
        let host = Host::of(&load(&sandbox, grants, limits).await.unwrap());
        let error = host.call(tool, "x").await.unwrap_err();
        assert_eq!(error.code, code, "{tool}: {error}");
        assert!(error.may_have_acted(), "{tool}");
        host.serves().await;
    }
}

/// P02: a guest that fills its folder is stopped, and what it wrote is within the limit.
#[tokio::test]
async fn a_guest_that_fills_its_folder_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().canonicalize().unwrap().join(name).display().to_string();
    let sandbox = Sandbox::new(config()).unwrap();
    let limits = Limits { written_bytes: 1 << 20, created_files: 10, ..Limits::default() };
    let grants = grant(folder.path(), Access::ReadWrite);
    let host = Host::of(&load(&sandbox, grants, limits).await.unwrap());
    std::fs::create_dir(at("files")).unwrap();
    std::fs::create_dir(at("folders")).unwrap();
    let cases = [
        ("fill", "full"),
        ("grow", "grown"),
        ("write_far", "far"),
        ("many_files", "files"),
        ("many_folders", "folders"),
    ];
    for (tool, name) in cases {
        let error = host.call(tool, &at(name)).await.unwrap_err();
        assert_eq!(error.code, Code::SandboxWritten, "{tool}: {error}");
        assert!(error.may_have_acted(), "{tool}");
        host.serves().await;
    }
    for name in ["full", "grown", "far"] {
        assert!(std::fs::metadata(at(name)).unwrap().len() <= 1 << 20, "{name}");
    }
    for name in ["files", "folders"] {
        assert_eq!(std::fs::read_dir(at(name)).unwrap().count(), 10, "{name}");
    }
    let reply = host.call("write", &at("small")).await.unwrap();
    assert_eq!(reply.usage.written_bytes, "written".len() as u64);
}

/// P02: a tool has its own limits, also where its plugin's would let it go on.
#[tokio::test]
async fn a_tool_has_limits_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let load = |tool: &str| {
        let own = Limits { fuel: 50_000_000, log_bytes: 1, ..Limits::default() };
        sandbox.load(PluginSource {
            grants: grant(folder.path(), Access::ReadOnly),
            limits: short_wall(),
            tool_limits: [(ToolName::new(tool).unwrap(), own)].into(),
            ..PluginSource::new("hostile".parse().unwrap(), hostile().into())
        })
    };
    let host = Host::of(&load("loop").await.unwrap());
    assert_eq!(host.text("loop", "").await, Err(Code::SandboxFuel));
    assert_eq!(host.text("sleep", "").await, Err(Code::SandboxTimeout));
    host.serves().await;
    assert_eq!(load("no_such_tool").await.unwrap_err().code(), Code::ToolUnknown);
}

/// P02: nothing is left of hostile calls: no descriptor, no memory. `T2M_SOAK=10000` makes more of them.
#[tokio::test]
async fn hostile_calls_in_any_order_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let limits = Limits {
        wall: Duration::from_millis(50),
        fuel: 5_000_000,
        memory_bytes: 8 << 20,
        written_bytes: 1 << 20,
        created_files: 10,
        ..Limits::default()
    };
    let grants = grant(folder.path(), Access::ReadWrite);
    let source = PluginSource {
        grants,
        limits,
        // The call that has to be served may take as long as a busy machine likes.
        tool_limits: [(ToolName::new("echo").unwrap(), Limits::default())].into(),
        ..PluginSource::new("hostile".parse().unwrap(), hostile().into())
    };
    let plugin = sandbox.load(source).await.unwrap();
    let host = Host::of(&plugin);
    let path = folder.path().canonicalize().unwrap().join("file").display().to_string();
    let tools: Vec<String> = plugin.tools().iter().map(|tool| tool.name.to_string()).collect();
    let rounds: usize = std::env::var("T2M_SOAK").map_or(200, |text| text.parse().unwrap());
    let mut order = 1_u64;
    let mut before = None;
    for round in 0..rounds {
        // A generator of Lehmer's: any order will do, if it is the same each time.
        order = order * 48_271 % 0x7fff_ffff;
        let tool = &tools[order as usize % tools.len()];
        let _ = host.call(tool, &path).await;
        host.serves().await;
        if round == rounds / 2 {
            before = Some(held());
        }
    }
    let ((files, memory), (files_before, memory_before)) = (held(), before.unwrap());
    assert!(files <= files_before + 2, "{files_before} descriptors, then {files}");
    assert!(memory <= memory_before + (8 << 20), "{memory_before} bytes, then {memory}");
}

/// Open descriptors and resident bytes of this process.
fn held() -> (usize, u64) {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (files, line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
}

/// P02: what a component needs from its start counts as well.
#[tokio::test]
async fn a_component_that_needs_more_than_its_limits_is_refused_at_load() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let default = Limits::default();
    let cases = [
        (Limits { instances: 1, ..default }, Code::SandboxResources),
        (Limits { memories: 0, ..default }, Code::SandboxResources),
        (Limits { tables: 0, ..default }, Code::SandboxResources),
        (Limits { table_elements: 1, ..default }, Code::SandboxResources),
        (Limits { memory_bytes: 65_536, ..default }, Code::SandboxMemory),
        (Limits { fuel: 10, ..default }, Code::SandboxFuel),
        (Limits { transfer_bytes: 100, ..default }, Code::SandboxTransfer),
    ];
    for (limits, code) in cases {
        let grants = grant(folder.path(), Access::ReadOnly);
        let error = load(&sandbox, grants, limits).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

/// P02: a refused growth is the guest's to handle; it need not be its end.
#[tokio::test]
async fn a_guest_may_live_within_its_memory() {
    let host = Host::new(config(), Limits::default()).await;
    let reply = host.call("alloc_politely", "").await.unwrap();
    let got = reply.structured.and_then(|value| value.as_u64()).unwrap();
    assert!((50..64).contains(&got), "{got} MiB");
    assert!(reply.usage.memory_bytes > 50 << 20 && reply.usage.memory_bytes <= 64 << 20);
    assert!(reply.usage.fuel > 0);
}

/// P02: standard output is capped without ending the call.
#[tokio::test]
async fn printing_too_much_is_refused_to_the_guest() {
    let host = Host::new(config(), Limits::default()).await;
    assert_eq!(host.text("print_spam", "").await, Ok("true".into()));
}

/// P03: a caller reads the guest's own words, without a path of any machine.
#[tokio::test]
async fn failures_carry_no_path() {
    let host = Host::new(config(), Limits::default()).await;
    let error = host.call("trap", "no such thing").await.unwrap_err();
    assert!(error.message.contains("the words of the guest: no such thing"), "{error}");
    assert!(!error.message.contains('/'), "{error}");

    let error = host.call("fail", "thing").await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("not-found"));
    assert_eq!((error.message.as_str(), error.retryable), ("no `thing`", true));
    assert_eq!(error.details, Some(json!({"at": 1})));
}

/// The hostile plugin as if it had been built for another version of `wit/`.
fn built_for(version: &str) -> Vec<u8> {
    let mut wasm = hostile();
    let names =
        ["context", "handler", "log", "tools", "types"].map(|name| format!("t2m:plugin/{name}@0.1.0"));
    for name in names {
        let there: Vec<_> = wasm
            .windows(name.len())
            .enumerate()
            .filter(|(_, window)| *window == name.as_bytes())
            .map(|(at, _)| at + name.len() - version.len())
            .collect();
        for at in there {
            wasm[at..at + version.len()].copy_from_slice(version.as_bytes());
        }
    }
    wasm
}

/// P01: a plugin built for another patch version loads and runs, one for another minor version doesn't.
#[tokio::test]
async fn a_plugin_of_another_patch_version_loads() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(config()).unwrap();
    let load = |version| {
        let grants = grant(folder.path(), Access::ReadOnly);
        load_bytes(&sandbox, built_for(version), grants, Limits::default())
    };
    Host::of(&load("0.1.7").await.unwrap()).serves().await;
    for other in ["0.2.0", "1.0.0"] {
        assert_eq!(load(other).await.unwrap_err().code(), Code::PluginVersion, "{other}");
    }
}

/// P11: a changed file in the cache is compiled again, and the plugin works.
#[tokio::test]
async fn a_changed_cache_file_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let config = SandboxConfig { cache_dir: Some(cache.clone()), ..config() };
    let start = || Host::new(config.clone(), Limits::default());
    start().await.serves().await;
    let files: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let good = std::fs::read(file).unwrap();
    std::fs::write(file, &good[..good.len() / 2]).unwrap();
    start().await.serves().await;
    assert_eq!(std::fs::read(file).unwrap().len(), good.len());
}

/// P03: nothing that a call leaves in memory reaches the next one, with and without a pool.
#[tokio::test]
async fn each_call_gets_a_fresh_instance() {
    for pooling in [Some(true), Some(false)] {
        let host = Host::new(SandboxConfig { pooling, ..config() }, Limits::default()).await;
        for _ in 0..3 {
            assert_eq!(host.text("canary", "").await, Ok("1".into()), "{pooling:?}");
        }
    }
}

/// P03: no environment, no arguments, no folder but the granted one.
#[tokio::test]
async fn a_guest_sees_nothing_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let host = Host::with_folder(&path, Access::ReadOnly).await;
    let expected = format!("env 0 args 0 folders {:?} passwd false", [path.display().to_string()]);
    assert_eq!(host.text("surroundings", "").await, Ok(expected));
}

/// P03: an interface that wasn't granted is refused by name when the plugin is loaded.
#[tokio::test]
async fn an_ungranted_interface_is_refused_at_load() {
    let sandbox = Sandbox::new(config()).unwrap();
    let error = load(&sandbox, Grants::default(), Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginGrantMissing);
    assert!(error.message().contains("wasi:filesystem/types@0.2"), "{error}");
    let missing = grant(Path::new("/no/such/folder"), Access::ReadOnly);
    let error = load(&sandbox, missing, Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::GrantInvalid);
}

/// P14: clocks and randomness are those of the run, and nothing else.
#[tokio::test]
async fn the_same_run_sees_the_same_chance() {
    let host = Host::new(config(), Limits::default()).await;
    let first = text_of(host.call_in("run-1", "chance", "").await).unwrap();
    let again = text_of(host.call_in("run-1", "chance", "").await).unwrap();
    let other = text_of(host.call_in("run-2", "chance", "").await).unwrap();
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// P14: an instance that was made before its call gives what a new one gives, down to the fuel.
#[tokio::test]
async fn an_instance_made_ahead_is_like_a_new_one() {
    let sandbox = Sandbox::new(config()).unwrap();
    let wasm = std::fs::read(env!("T2M_PLUGIN_MATH")).unwrap();
    let plugin = load_bytes(&sandbox, wasm, Grants::default(), Limits::default()).await.unwrap();
    let host = Host::of(&plugin);
    let mut replies = Vec::new();
    for ahead in [false, true, true] {
        assert_eq!(plugin.has_instance_ahead(), ahead);
        let arguments = json!({"a": 2.5, "b": 4.0});
        replies.push(host.call_with("run", "add", arguments).await.unwrap());
        // The next one is made once nothing is left to do.
        let by = Instant::now() + Duration::from_secs(30);
        while !plugin.has_instance_ahead() {
            assert!(Instant::now() < by, "no instance is made ahead");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(replies[0].structured, Some(json!({"result": 6.5})));
    assert!(replies.iter().all(|reply| reply == &replies[0]), "{replies:?}");
}

/// P01: a guest learns which call it serves.
#[tokio::test]
async fn a_guest_knows_its_call() {
    let host = Host::new(config(), Limits::default()).await;
    let about = host.call("context", "").await.unwrap().structured.unwrap();
    assert_eq!(about["run"], "run");
    assert_eq!(about["node"], "node");
    assert_eq!(about["attempt"], 1);
    let left = about["deadline"].as_u64().unwrap();
    assert!(left <= 30_000 && left % 100 == 0, "{left}");
}

/// P07: a nested call is served with a single slot, and endless nesting ends.
#[tokio::test]
async fn nested_calls_need_no_slot_of_their_own() {
    let one = SandboxConfig { slots: 1, ..config() };
    let host = Host::new(one, Limits::default()).await;
    let reply = host.call("nested", "echo").await.unwrap();
    assert_eq!(reply.structured, Some(json!({"arg": "nested"})));
    assert_eq!(reply.usage.nested_calls, 1);

    let error = host.call("nested", "nested").await.unwrap_err();
    assert_eq!(error.code, Code::ToolFailed);
    let mut innermost = json!({"tool_code": error.tool_code, "details": error.details});
    while innermost["details"].is_object() {
        innermost = innermost["details"].take();
    }
    assert_eq!(innermost["tool_code"], Value::from("nested-too-deep"));
    let error = host.call("nested", "no-such-tool").await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("tool-unknown"));
    host.serves().await;
}

/// P02: a dropped call stops its guest and frees its slot at once.
#[tokio::test]
async fn dropping_a_call_stops_the_guest() {
    let one = SandboxConfig { slots: 1, ..config() };
    let endless = Limits { fuel: u64::MAX >> 1, ..Limits::default() };
    let host = Host::new(one, endless).await;
    for tool in ["loop", "sleep"] {
        let dropped = tokio::time::timeout(Duration::from_millis(100), host.call(tool, "")).await;
        assert!(dropped.is_err(), "{tool}");
        host.serves().await;
    }
}

/// P02: when every slot is taken for too long, the caller is told to come back.
#[tokio::test]
async fn a_full_sandbox_is_busy() {
    let one = SandboxConfig { slots: 1, wait: Duration::from_millis(50), ..config() };
    let host = Host::new(one, Limits::default()).await;
    let sleeper = host.clone();
    let sleeper = tokio::spawn(async move { sleeper.call("sleep", "60000").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(host.text("echo", "").await, Err(Code::SandboxBusy));
    sleeper.abort();
    let _ = sleeper.await;
    host.serves().await;
}

/// P02: guests that run on every core leave the host responsive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_guests_leave_room_for_others() {
    let limits = Limits { wall: Duration::from_secs(5), fuel: u64::MAX >> 1, ..Limits::default() };
    let host = Host::new(SandboxConfig { slots: 8, ..config() }, limits).await;
    let guests: Vec<_> = (0..4)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.call("loop", "").await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    host.serves().await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    for guest in guests {
        guest.abort();
        assert!(guest.await.is_err());
    }
}

/// P03, T22: a grant is never wider than the effect of the reviewed contract: the same handler under a
/// contract that says `read` can't write in a folder it was granted for writing, and under `pure` sees none.
#[tokio::test]
async fn a_call_gets_no_more_than_its_contracts_effect() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().canonicalize().unwrap().join("file");
    let path = target.to_string_lossy().into_owned();
    let sandbox = Sandbox::new(config()).unwrap();
    let plugin = load(&sandbox, grant(folder.path(), Access::ReadWrite), Limits::default()).await.unwrap();
    for (effect, written) in [(Effect::Pure, false), (Effect::Read, false), (Effect::Write, true)] {
        let mut registration = plugin.registration(Trust::BuiltIn);
        for tool in &mut registration.tools {
            tool.effect = effect;
        }
        let effects: BTreeMap<_, _> = Effect::ALL.map(|effect| (effect, Action::Allow)).into();
        let dispatcher = Dispatcher::new(DispatcherParts {
            policy: Policy { effects, ..Policy::default() },
            ..DispatcherParts::new(Registry::build([registration], &Contracts::default()).unwrap())
        });
        let answer = Host { dispatcher }.call("write", &path).await;
        assert_eq!(answer.is_ok(), written, "{effect}: {answer:?}");
        assert_eq!(target.exists(), written, "{effect}");
    }
}
