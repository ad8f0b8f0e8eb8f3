//! What a component may import.
//!
//! Owns the list of interfaces, which grant each one needs, and the linker made from it. Refuses to link
//! anything that wasn't granted: a component that wants more fails when it is loaded, not when it is called.
//!
//! **Invariant:** sockets and HTTP are in no linker of this crate.

use std::collections::BTreeSet;

use t2m_core::code::Code;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi_io::bindings::wasi::io;

use crate::bindings::Plugin;
use crate::clock::HasClock;
use crate::disk::HasFiles;
use crate::error::SandboxError;
use crate::sdk::{HOST, Version, WIT_VERSION};
use crate::state::{State, printable};

/// Interfaces that show a guest nothing of this machine: no arguments, no environment, captured output,
/// virtual clocks, seeded randomness.
const HARMLESS: [&str; 20] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:filesystem/types",
    "wasi:filesystem/preopens",
];

/// Packages of which an import stands for a capability, and what would grant it.
const CAPABILITIES: [(&str, &str); 5] = [
    ("wasi:filesystem/", "grant a folder"),
    ("wasi:sockets/", "this host grants no sockets"),
    ("wasi:http/", "this host grants no HTTP yet"),
    ("wasi:keyvalue/", "this host grants no key-value store yet"),
    ("wasi:config/", "this host grants no configuration values"),
];

/// What this host itself offers.
const OURS: [&str; 4] = ["t2m:plugin/context", "t2m:plugin/log", "t2m:plugin/tools", "t2m:plugin/types"];

/// Every import that can't be had, by name. `types_alone` are those that nobody has to serve.
pub(crate) fn problems(
    imports: &[String],
    types_alone: &BTreeSet<String>,
    files: bool,
) -> impl Iterator<Item = SandboxError> {
    imports.iter().filter(|import| !types_alone.contains(*import) || is_ours(import)).filter_map(
        move |import| check_one(import, files).err().map(|(code, message)| SandboxError::new(code, message)),
    )
}

/// Types of this host's own have a version to be checked all the same.
fn is_ours(import: &str) -> bool {
    OURS.contains(&import.split_once('@').map_or(import, |(name, _)| name))
}

fn check_one(import: &str, files: bool) -> Result<(), (Code, String)> {
    let shown = printable(import);
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    let version = Version::parse(version);
    if OURS.contains(&name) {
        return match version {
            Some(version) if version.works_with(HOST) => Ok(()),
            _ => {
                Err((Code::PluginVersion, format!("imports `{shown}`; this host has version {WIT_VERSION}")))
            }
        };
    }
    let capability = CAPABILITIES.iter().find(|(package, _)| name.starts_with(package));
    if let Some((package, how)) = capability
        && !(files && *package == "wasi:filesystem/")
    {
        return Err((Code::PluginGrantMissing, format!("imports `{shown}`, which isn't granted: {how}")));
    }
    let wasi = Version::parse("0.2.0");
    match (HARMLESS.contains(&name), version, wasi) {
        (true, Some(version), Some(wasi)) if version.works_with(wasi) => Ok(()),
        (true, ..) => Err((Code::PluginInvalid, format!("imports `{shown}`; this host has WASI 0.2"))),
        (false, ..) => Err((Code::PluginInvalid, format!("imports `{shown}`, which this host doesn't know"))),
    }
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// A linker with what every plugin may have, and files if a folder was granted.
pub(crate) fn linker(engine: &Engine, files: bool) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    Plugin::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    io::error::add_to_linker::<State, HasTable>(l, State::table)?;
    io::poll::add_to_linker::<State, HasTable>(l, State::table)?;
    io::streams::add_to_linker::<State, HasTable>(l, State::table)?;
    clocks::monotonic_clock::add_to_linker::<State, HasClock>(l, State::clock)?;
    clocks::wall_clock::add_to_linker::<State, WasiClocks>(l, State::clocks)?;
    random::random::add_to_linker::<State, WasiRandom>(l, State::random)?;
    random::insecure::add_to_linker::<State, WasiRandom>(l, State::random)?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(l, State::random)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    if files {
        filesystem::types::add_to_linker::<State, HasFiles>(l, State::files)?;
        filesystem::preopens::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str], files: bool) -> Result<(), Code> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        problems(&names, &BTreeSet::new(), files).next().map_or(Ok(()), |error| Err(error.code()))
    }

    /// P03: files need a grant, sockets and HTTP have none.
    #[test]
    fn an_import_without_its_grant_is_refused_by_name() {
        let files = ["wasi:filesystem/types@0.2.6"];
        assert_eq!(code(&files, false), Err(Code::PluginGrantMissing));
        assert_eq!(code(&files, true), Ok(()));
        for never in
            ["wasi:sockets/tcp@0.2.0", "wasi:http/outgoing-handler@0.2.0", "wasi:keyvalue/store@0.2.0"]
        {
            assert_eq!(code(&[never], true), Err(Code::PluginGrantMissing), "{never}");
        }
        let names = ["wasi:sockets/tcp@0.2.0".to_owned(), "evil:thing/x".to_owned()];
        let message = problems(&names, &BTreeSet::new(), true)
            .map(|error| error.message().to_owned())
            .collect::<String>();
        assert!(message.contains("wasi:sockets/tcp@0.2.0") && message.contains("evil:thing/x"), "{message}");
    }

    /// P01: versions that the linker could not serve are refused with the reason.
    #[test]
    fn an_import_of_another_version_is_refused() {
        assert_eq!(code(&["t2m:plugin/log@0.1.9", "wasi:io/poll@0.2.12"], false), Ok(()));
        assert_eq!(code(&["t2m:plugin/log@0.2.0"], false), Err(Code::PluginVersion));
        assert_eq!(code(&["wasi:io/poll@0.3.0"], false), Err(Code::PluginInvalid));
        assert_eq!(code(&["wasi:io/poll"], false), Err(Code::PluginInvalid));
        assert_eq!(code(&["t2m:plugin/secrets@0.1.0"], false), Err(Code::PluginInvalid));
    }
}
