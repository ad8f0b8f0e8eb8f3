//! What a component may import.
//!
//! Owns the list of interfaces, which grant each one needs, and the linker made from it. Refuses to link
//! anything that wasn't granted: a component that wants more fails when it is loaded, not when it is called.
//!
//! **Invariant:** sockets are in no linker of this crate, and HTTP goes through [`crate::http`] alone.

use std::collections::BTreeSet;

use t2m_core::code::Code;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi_http::WasiHttp;
use wasmtime_wasi_http::p2::bindings::http;
use wasmtime_wasi_io::bindings::wasi::io;

use crate::bindings::{context, kv, log, secrets, tools, types};
use crate::clock::HasClock;
use crate::disk::HasFiles;
use crate::error::SandboxError;
use crate::sdk::{HOST, Version, WIT_VERSION};
use crate::state::{State, printable};

/// Interfaces of WASI that there are. Those for which no capability stands show a guest nothing of this machine: no
/// arguments, no environment, captured output, virtual clocks, seeded randomness. A granted date is read through the
/// clock that is there anyway.
const KNOWN: [&str; 22] = [
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
    "wasi:http/outgoing-handler",
    "wasi:http/types",
];

type IsGranted = fn(Capabilities) -> bool;

/// Packages of which an import stands for a capability, how to see whether it was granted, and what would grant it.
const CAPABILITIES: [(&str, IsGranted, &str); 7] = [
    ("wasi:filesystem/", |granted| granted.files, "grant a folder"),
    ("wasi:http/", |granted| granted.http, "grant a host"),
    ("t2m:plugin/secrets", |granted| granted.secrets, "lend it a secret"),
    ("t2m:plugin/kv", |granted| granted.kv, "let it keep values"),
    ("wasi:sockets/", |_| false, "this host grants no sockets"),
    ("wasi:keyvalue/", |_| false, "this host has `t2m:plugin/kv` instead"),
    ("wasi:config/", |_| false, "this host grants no configuration values"),
];

/// What of the capabilities a plugin has. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// A folder.
    pub files: bool,
    /// A host to send requests to.
    pub http: bool,
    /// A secret to put into requests.
    pub secrets: bool,
    /// A store for values.
    pub kv: bool,
}

impl Capabilities {
    /// Everything that can be granted.
    pub fn all() -> Capabilities {
        Capabilities { files: true, http: true, secrets: true, kv: true }
    }
}

/// What this host itself offers.
const OURS: [&str; 6] = [
    "t2m:plugin/context",
    "t2m:plugin/kv",
    "t2m:plugin/log",
    "t2m:plugin/secrets",
    "t2m:plugin/tools",
    "t2m:plugin/types",
];

/// Every import that can't be had, by name. `types_alone` are those that nobody has to serve.
pub(crate) fn problems(
    imports: &[String],
    types_alone: &BTreeSet<String>,
    granted: Capabilities,
) -> impl Iterator<Item = SandboxError> {
    imports.iter().filter(|import| !types_alone.contains(*import) || is_ours(import)).filter_map(
        move |import| {
            check_one(import, granted).err().map(|(code, message)| SandboxError::new(code, message))
        },
    )
}

/// Types of this host's own have a version to be checked all the same.
fn is_ours(import: &str) -> bool {
    OURS.contains(&import.split_once('@').map_or(import, |(name, _)| name))
}

fn check_one(import: &str, granted: Capabilities) -> Result<(), (Code, String)> {
    let shown = printable(import);
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    let version = Version::parse(version);
    let capability = CAPABILITIES.iter().find(|(package, ..)| name.starts_with(package));
    if let Some((_, is_granted, how)) = capability
        && !is_granted(granted)
    {
        return Err((Code::PluginGrantMissing, format!("imports `{shown}`, which isn't granted: {how}")));
    }
    if OURS.contains(&name) {
        return match version {
            Some(version) if version.works_with(HOST) => Ok(()),
            _ => {
                Err((Code::PluginVersion, format!("imports `{shown}`; this host has version {WIT_VERSION}")))
            }
        };
    }
    let wasi = Version::parse("0.2.0");
    match (KNOWN.contains(&name), version, wasi) {
        (true, Some(version), Some(wasi)) if version.works_with(wasi) => Ok(()),
        (true, ..) => Err((Code::PluginInvalid, format!("imports `{shown}`; this host has WASI 0.2"))),
        (false, ..) => Err((Code::PluginInvalid, format!("imports `{shown}`, which this host doesn't know"))),
    }
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// A linker with what every plugin may have, and what was granted.
pub(crate) fn linker(engine: &Engine, granted: Capabilities) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    context::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    log::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    tools::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    types::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
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
    if granted.files {
        filesystem::types::add_to_linker::<State, HasFiles>(l, State::files)?;
        filesystem::preopens::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;
    }
    if granted.secrets {
        secrets::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    }
    if granted.kv {
        kv::add_to_linker::<_, HasSelf<_>>(l, State::of_host)?;
    }
    if granted.http {
        let options = http::types::LinkOptions::default();
        http::outgoing_handler::add_to_linker::<State, WasiHttp>(l, State::http)?;
        http::types::add_to_linker::<State, WasiHttp>(l, &options, State::http)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str], granted: Capabilities) -> Result<(), Code> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        problems(&names, &BTreeSet::new(), granted).next().map_or(Ok(()), |error| Err(error.code()))
    }

    const NOTHING: Capabilities = Capabilities { files: false, http: false, secrets: false, kv: false };

    /// P03: files and HTTP need a grant, sockets have none.
    #[test]
    fn an_import_without_its_grant_is_refused_by_name() {
        let folder = Capabilities { files: true, ..NOTHING };
        let host = Capabilities { http: true, ..NOTHING };
        let (files, http) = (["wasi:filesystem/types@0.2.6"], ["wasi:http/outgoing-handler@0.2.12"]);
        for (names, granted, expected) in [
            (&files, folder, Ok(())),
            (&files, host, Err(Code::PluginGrantMissing)),
            (&http, host, Ok(())),
            (&http, folder, Err(Code::PluginGrantMissing)),
            (&["wasi:http/incoming-handler@0.2.0"], Capabilities::all(), Err(Code::PluginInvalid)),
            (&["wasi:sockets/tcp@0.2.0"], Capabilities::all(), Err(Code::PluginGrantMissing)),
            (&["wasi:keyvalue/store@0.2.0"], Capabilities::all(), Err(Code::PluginGrantMissing)),
        ] {
            assert_eq!(code(names, granted), expected, "{names:?} {granted:?}");
        }
        let names = ["wasi:sockets/tcp@0.2.0".to_owned(), "evil:thing/x".to_owned()];
        let none = BTreeSet::new();
        let all = problems(&names, &none, Capabilities::all());
        let message = all.map(|error| error.message().to_owned()).collect::<String>();
        assert!(message.contains("wasi:sockets/tcp@0.2.0") && message.contains("evil:thing/x"), "{message}");
    }

    /// P01: versions that the linker could not serve are refused with the reason.
    #[test]
    fn an_import_of_another_version_is_refused() {
        assert_eq!(code(&["t2m:plugin/log@0.1.9", "wasi:io/poll@0.2.12"], NOTHING), Ok(()));
        assert_eq!(code(&["t2m:plugin/log@0.2.0"], NOTHING), Err(Code::PluginVersion));
        assert_eq!(code(&["wasi:io/poll@0.3.0"], NOTHING), Err(Code::PluginInvalid));
        assert_eq!(code(&["wasi:io/poll"], NOTHING), Err(Code::PluginInvalid));
        assert_eq!(code(&["t2m:plugin/secrets@0.1.0"], NOTHING), Err(Code::PluginGrantMissing));
        assert_eq!(code(&["t2m:plugin/secrets@0.1.0"], Capabilities::all()), Ok(()));
        assert_eq!(code(&["t2m:plugin/kv@0.1.0"], NOTHING), Err(Code::PluginGrantMissing));
        assert_eq!(code(&["t2m:plugin/secrets@0.2.0"], Capabilities::all()), Err(Code::PluginVersion));
        assert_eq!(code(&["t2m:plugin/client@0.1.0"], Capabilities::all()), Err(Code::PluginInvalid));
    }
}
