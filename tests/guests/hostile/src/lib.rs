//! A plugin that breaks every limit of the sandbox, one tool for each.
//!
//! Owns misbehaviour. Refuses the SDK: a hostile author isn't bound to it, so this one speaks to `wit/`
//! directly. Arguments are whatever text the tool likes; it takes what stands between the outer quotes of
//! `{"arg":"..."}`.
//!
//! **Invariant:** each tool breaks one limit and no other, so that a test may expect one code.

// It is a guest and nothing else: native linkers refuse the names that a component exports.
#![cfg(target_arch = "wasm32")]
#![expect(clippy::panic, reason = "misbehaving is the purpose")]

use std::cell::Cell;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant, SystemTime};

use bindings::exports::t2m::plugin::handler::{Guest, Tool, ToolError, ToolResult};
use bindings::t2m::plugin::log::{self, Level};
use bindings::t2m::plugin::types::{Content, Effect, Idempotency};
use bindings::t2m::plugin::{context, tools};

mod bindings {
    wit_bindgen::generate!({ world: "plugin", path: "../../../wit", pub_export_macro: true });
}

#[expect(unsafe_code, unreachable_pub, reason = "generated: the exports of a component have C names")]
mod export {
    super::bindings::export!(Hostile with_types_in super::bindings);
    use super::Hostile;
}

/// Every tool, with what it may do.
const TOOLS: [(&str, Effect); 33] = [
    ("echo", Effect::Pure),
    ("loop", Effect::Pure),
    ("poll_loop", Effect::Pure),
    ("alloc", Effect::Pure),
    ("alloc_politely", Effect::Pure),
    ("recurse", Effect::Pure),
    ("return_big", Effect::Pure),
    ("log_spam", Effect::Pure),
    ("log_big", Effect::Pure),
    ("print_spam", Effect::Pure),
    ("trap", Effect::Pure),
    ("bad_json", Effect::Pure),
    ("sleep", Effect::Pure),
    ("exit", Effect::Pure),
    ("many_handles", Effect::Pure),
    ("fail", Effect::Pure),
    ("canary", Effect::Pure),
    ("chance", Effect::Pure),
    ("surroundings", Effect::Read),
    ("context", Effect::Pure),
    ("nested", Effect::Read),
    ("read", Effect::Read),
    ("write", Effect::Write),
    ("fill", Effect::Write),
    ("grow", Effect::Write),
    ("write_far", Effect::Write),
    ("many_files", Effect::Write),
    ("many_folders", Effect::Write),
    ("list", Effect::Read),
    ("link", Effect::Write),
    ("move_out", Effect::Write),
    ("read_through_link", Effect::Write),
    ("read_often", Effect::Read),
];

thread_local! {
    static CANARY: Cell<u32> = const { Cell::new(0) };
}

struct Hostile;

impl Guest for Hostile {
    fn describe() -> Vec<Tool> {
        let tools = TOOLS.iter().map(|(name, effect)| Tool {
            name: (*name).into(),
            title: None,
            description: format!("misbehaves by `{name}`"),
            input_schema: r#"{"type":"object"}"#.into(),
            output_schema: None,
            effect: *effect,
            idempotency: Idempotency::Idempotent,
            reads: vec![],
            writes: vec![],
        });
        tools.collect()
    }

    fn call(tool: String, arguments: String) -> Result<ToolResult, ToolError> {
        let arg = argument(&arguments);
        match tool.as_str() {
            "echo" => json(arguments.clone()),
            "loop" => endless(),
            "poll_loop" => alarms(),
            "alloc" => allocate(),
            "alloc_politely" => allocate_politely(),
            "recurse" => json(recurse(1).to_string()),
            "return_big" => text("x".repeat(100_000_000)),
            "log_spam" => spam(),
            "log_big" => {
                log::log(Level::Info, &"x".repeat(50_000_000));
                json("1")
            }
            "print_spam" => {
                let line = "z".repeat(4_096);
                let refused = (0..1_000).filter(|_| print_line(&line).is_err()).count();
                json((refused > 0).to_string())
            }
            "trap" => panic!("the words of the guest: {arg}"),
            "bad_json" => json("{\"a\": 1, \"a\": nan}"),
            "sleep" => {
                std::thread::sleep(Duration::from_millis(arg.parse().unwrap_or(1 << 40)));
                json("\"awake\"")
            }
            "exit" => std::process::exit(3),
            "many_handles" => handles(),
            "fail" => Err(ToolError {
                code: "not-found".into(),
                message: format!("no `{arg}`"),
                retryable: true,
                details: Some("{\"at\":1}".into()),
            }),
            "canary" => {
                CANARY.set(CANARY.get() + 1);
                json(CANARY.get().to_string())
            }
            "chance" => chance(),
            "surroundings" => surroundings(),
            "context" => {
                let here = context::current();
                json(format!(
                    "{{\"run\":{:?},\"node\":{:?},\"attempt\":{},\"key\":{:?},\"deadline\":{}}}",
                    here.run_id, here.node_id, here.attempt, here.idempotency_key, here.deadline_ms
                ))
            }
            "nested" => tools::call(arg, "{\"arg\":\"nested\"}"),
            "read" => files(fs::read_to_string(arg)),
            "write" => files(fs::write(arg, "written").map(|()| "written".to_owned())),
            "fill" => fill(arg),
            "grow" => files(grow(arg).map(|()| "grown".to_owned())),
            "write_far" => files(write_far(arg).map(|()| "written".to_owned())),
            "many_files" => many(|name| fs::write(format!("{arg}/{name}"), "")),
            "many_folders" => many(|name| fs::create_dir(format!("{arg}/{name}"))),
            "list" => files(fs::read_dir(arg).map(|names| names.count().to_string())),
            "link" => files(beside(arg, "stolen").and_then(|here| linked(arg, &here))),
            "move_out" => {
                files(beside(arg, "file").and_then(|file| fs::rename(file, arg)).map(|()| "moved".into()))
            }
            "read_through_link" => files(read_through_link(arg)),
            "read_often" => text(
                (0..100).map(|_| fs::read_to_string(arg).unwrap_or("refused ".into())).collect::<String>(),
            ),
            other => panic!("no tool `{other}`"),
        }
    }
}

/// The text of `{"arg":"..."}`; no escapes, since a hostile guest has no manners.
fn argument(arguments: &str) -> &str {
    let rest = arguments.split_once("\"arg\":\"").map_or("", |(_, rest)| rest);
    rest.split_once('"').map_or("", |(arg, _)| arg)
}

fn json(structured: impl Into<String>) -> Result<ToolResult, ToolError> {
    Ok(ToolResult { content: vec![], structured: Some(structured.into()) })
}

fn text(text: String) -> Result<ToolResult, ToolError> {
    Ok(ToolResult { content: vec![Content::Text(text)], structured: None })
}

fn files(done: std::io::Result<String>) -> Result<ToolResult, ToolError> {
    done.map_err(|error| ToolError {
        code: "io".into(),
        message: error.to_string(),
        retryable: false,
        details: None,
    })
    .and_then(text)
}

/// A name in the first granted folder.
fn beside(_: &str, name: &str) -> std::io::Result<String> {
    let folders = wasip2::filesystem::preopens::get_directories();
    let (_, folder) = folders.into_iter().next().ok_or(std::io::ErrorKind::NotFound)?;
    Ok(format!("{folder}/{name}"))
}

/// Reads a file by another name for it.
fn linked(file: &str, name: &str) -> std::io::Result<String> {
    fs::hard_link(file, name)?;
    fs::read_to_string(name)
}

/// Reads through a link that it makes: `FOLDER|TARGET`.
fn read_through_link(arg: &str) -> std::io::Result<String> {
    let (folder, target) = arg.split_once('|').unwrap_or_default();
    let link = format!("{folder}/made");
    let _ = fs::remove_file(&link);
    #[expect(deprecated, reason = "the one that this target has")]
    fs::soft_link(target, &link)?;
    let entered = fs::read_dir(&link).map(|names| names.count().to_string());
    fs::read_to_string(&link).or(entered)
}

/// Writes into one file without end.
fn fill(path: &str) -> ! {
    let mut file = File::create(path).unwrap_or_else(|error| panic!("{error}"));
    loop {
        let _ = file.write_all(&[7; 65_536]);
    }
}

/// Makes a file large without writing.
fn grow(path: &str) -> std::io::Result<()> {
    File::create(path)?.set_len(1 << 40)
}

/// Writes a byte far behind the end.
fn write_far(path: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.seek(SeekFrom::Start(1 << 40))?;
    file.write_all(&[7])
}

fn many(make: impl Fn(u64) -> std::io::Result<()>) -> ! {
    let mut name = 0;
    loop {
        let _ = make(name);
        name += 1;
    }
}

fn endless() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

fn alarms() -> ! {
    loop {
        wasip2::clocks::monotonic_clock::subscribe_duration(0).block();
    }
}

fn allocate() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(vec![7_u8; 1 << 20]);
        black_box(&kept);
    }
}

fn allocate_politely() -> Result<ToolResult, ToolError> {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut more = Vec::new();
        if more.try_reserve_exact(1 << 20).is_err() {
            return json(kept.len().to_string());
        }
        more.resize(1 << 20, 7_u8);
        kept.push(more);
    }
}

/// Frames without arrays: those would lie in linear memory and leave it before the call stack ends.
#[expect(unconditional_recursion, reason = "the stack has to end")]
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    recurse(black_box(depth.wrapping_add(1))).wrapping_add(depth)
}

fn spam() -> ! {
    loop {
        log::log(Level::Info, "\u{1b}[2Jspam\nspam");
    }
}

#[expect(clippy::print_stdout, reason = "the output has to be captured")]
fn print_line(line: &str) -> std::io::Result<()> {
    println!("{}", line.len());
    writeln!(std::io::stderr(), "{line}")
}

fn handles() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(wasip2::clocks::monotonic_clock::subscribe_duration(1 << 60));
    }
}

fn chance() -> Result<ToolResult, ToolError> {
    let bytes = wasip2::random::random::get_random_bytes(8);
    let seed = wasip2::random::insecure_seed::insecure_seed();
    let other = wasip2::random::insecure::get_insecure_random_u64();
    let hash = std::collections::hash_map::RandomState::new().hash_one(1);
    let start = Instant::now();
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    std::thread::sleep(Duration::from_millis(2));
    let passed = start.elapsed().as_nanos();
    text(format!("{bytes:?} {seed:?} {other} {hash} {wall:?} {passed}"))
}

fn surroundings() -> Result<ToolResult, ToolError> {
    let folders: Vec<String> =
        wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect();
    text(format!(
        "env {} args {} folders {folders:?} passwd {}",
        std::env::vars().count(),
        std::env::args().count(),
        File::open("/etc/passwd").is_ok()
    ))
}
