//! Components that cost their compiler too much.
//!
//! Owns the proof that compiling happens in a process with limits. Refuses to measure time: the limits are what
//! ends the compiler.
//!
//! **Invariant:** after each of them the next plugin is compiled.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use t2m_core::code::Code;
use t2m_sandbox::{CompileLimits, Compiler, Plugin, PluginSource, Sandbox, SandboxConfig, SandboxError};
use t2m_tests::{HostCli, Outcome, TestEnv, host_binary};

/// Blocks in each other, each with a jump to any of those around it: for compilers the work grows with the square.
fn bomb(blocks: usize) -> Vec<u8> {
    let mut text = String::from("(component (core module (func (param i32) ");
    text.push_str(&"(block ".repeat(blocks));
    for around in (1..=blocks).rev() {
        text.push_str("(br_table");
        for target in 0..around {
            write!(text, " {target}").unwrap();
        }
        text.push_str(" (local.get 0)))");
    }
    text.push_str(")) (instance $handler) (export \"t2m:plugin/handler@0.1.0\" (instance $handler)))");
    wat::parse_str(text).unwrap()
}

fn sandbox(compile: CompileLimits) -> Sandbox {
    let program = host_binary().unwrap();
    // As the program itself does.
    let environment = vec![("MIMALLOC_ARENA_EAGER_COMMIT".into(), "0".into())];
    let compiler = Some(Compiler { program, arguments: vec!["compile-component".into()], environment });
    Sandbox::new(SandboxConfig {
        slots: 2,
        pooling: Some(false),
        compile,
        compiler,
        ..SandboxConfig::default()
    })
    .unwrap()
}

async fn load(sandbox: &Sandbox, wasm: Vec<u8>) -> Result<Arc<Plugin>, SandboxError> {
    sandbox.load(PluginSource::new("plugin".parse().unwrap(), wasm.into())).await
}

fn math() -> Vec<u8> {
    std::fs::read(env!("T2M_PLUGIN_MATH")).unwrap()
}

/// P02: a component that would be compiled for hours ends its compiler, and the next one is compiled.
#[tokio::test]
async fn a_compiler_that_takes_too_long_is_ended() {
    let sandbox = sandbox(CompileLimits { cpu_seconds: 2, ..CompileLimits::default() });
    let error = load(&sandbox, bomb(500)).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginCompileLimit, "{error}");
    assert_eq!(error.message(), "compiling took more than 2 s of processor time");
    assert_eq!(load(&sandbox, bomb(1)).await.unwrap_err().code(), Code::PluginInvalid);
}

/// P02: the same for memory.
#[tokio::test]
async fn a_compiler_that_takes_too_much_memory_is_ended() {
    let sandbox = sandbox(CompileLimits { memory_bytes: 24 << 20, ..CompileLimits::default() });
    let error = load(&sandbox, bomb(500)).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginCompileLimit, "{error}");
    assert_eq!(error.message(), "compiling took more than 24 MiB of memory");
}

/// P02: what the process made is loaded, and what it refuses is told in its words.
#[tokio::test]
async fn the_process_compiles_and_refuses() {
    let sandbox = sandbox(CompileLimits::default());
    assert!(!load(&sandbox, math()).await.unwrap().tools().is_empty());
    let mut broken = bomb(1);
    // The last instruction of the function's body, inside of the component.
    let end = broken.windows(2).rposition(|bytes| bytes == [0x0b, 0x0b]).unwrap();
    broken[end] = 0x1a;
    let error = load(&sandbox, broken).await.unwrap_err();
    assert_eq!(error.code(), Code::PluginInvalid, "{error}");
    assert!(error.message().contains("WebAssembly translation error"), "{error}");
}

/// P02: a compiler whose parent has gone goes too, however the parent ended.
#[cfg(target_os = "linux")]
#[test]
fn no_compiler_outlives_its_parent() -> Outcome<()> {
    let env = TestEnv::new()?;
    env.write("bomb.wasm", bomb(1_500))?;
    let host = HostCli::new(&env)?.args(["plugin", "inspect", "bomb.wasm"]).start()?;
    let until = Instant::now() + Duration::from_secs(30);
    let of_host = |entry: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
        status.contains(&format!("\nPPid:\t{}\n", host.id())).then(|| status.lines().find_map(pid)).flatten()
    };
    let child = loop {
        if let Some(child) = std::fs::read_dir("/proc")?.find_map(of_host) {
            break child;
        }
        assert!(Instant::now() < until, "it starts no compiler");
        std::thread::yield_now();
    };
    std::process::Command::new("kill").args(["-9", &host.id().to_string()]).status()?;
    // A process that has ended and that nobody waits for is a zombie.
    let is_there = || {
        std::fs::read_to_string(format!("/proc/{child}/status")).is_ok_and(|text| !text.contains("State:\tZ"))
    };
    while is_there() {
        assert!(Instant::now() < until, "the compiler is still there");
        std::thread::yield_now();
    }
    Ok(())
}

fn pid(line: &str) -> Option<u32> {
    line.strip_prefix("Pid:\t")?.parse().ok()
}

/// P02: a program that isn't a compiler is a fault of this host, not of the plugin.
#[tokio::test]
async fn a_missing_compiler_is_a_fault_of_the_host() {
    let compiler =
        Some(Compiler { program: "/no/such/program".into(), arguments: Vec::new(), environment: Vec::new() });
    let sandbox = Sandbox::new(SandboxConfig { slots: 2, compiler, ..SandboxConfig::default() }).unwrap();
    assert_eq!(load(&sandbox, math()).await.unwrap_err().code(), Code::Internal);
}
