//! Where built programs, installed servers and test data are.
//!
//! It refuses to build or install anything; it says which command does.
//!
//! **Invariant:** everything is found from the running test executable or this crate's folder, so any target
//! folder and profile works.

use std::path::{Path, PathBuf};

use crate::{Failure, Outcome};

/// The `t2m-host` binary of the profile that this test was built with.
pub fn host_binary() -> Outcome<PathBuf> {
    let name = format!("t2m-host{}", std::env::consts::EXE_SUFFIX);
    let test = std::env::current_exe()?;
    // Test executables are in `<profile>/deps/`, binaries in `<profile>/`.
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(&name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Failure::new(format!("`{name}` is not built; run `cargo xtask test --only nextest`, which builds it"))
    })
}

/// The main file of the official filesystem server, to be run with [`node`].
pub fn filesystem_server() -> Outcome<PathBuf> {
    installed("npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
}

/// The main file of the official inspector, to be run with [`node`].
pub fn inspector() -> Outcome<PathBuf> {
    installed("npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
}

/// The Node.js that came with the packages; where npm has none for this machine, the machine's own.
pub fn node() -> PathBuf {
    let own = ["x64", "arm64"].map(|cpu| format!("npm/node_modules/node-linux-{cpu}/bin/node"));
    own.iter().find_map(|file| installed(file).ok()).unwrap_or_else(|| PathBuf::from("node"))
}

/// The Python that has the MCP client.
pub fn python() -> Outcome<PathBuf> {
    installed("python/bin/python")
}

/// A file that `cargo xtask test` puts into the target folder.
fn installed(file: &str) -> Outcome<PathBuf> {
    let test = std::env::current_exe()?;
    let found = test.ancestors().skip(1).map(|folder| folder.join(file)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Failure::new(format!("`{file}` is not installed; run `cargo xtask test --only install`"))
    })
}

/// `tests/data/<area>`.
pub fn data_dir(area: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(area)
}

/// Cargo's target folder for plugins, in which their dependencies are compiled already.
pub fn guests_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let found = test.ancestors().map(|folder| folder.join("guests")).find(|folder| folder.is_dir());
    found.unwrap_or_else(|| PathBuf::from("guests"))
}

/// Compiled plugins, shared by all tests of a profile, so that each is compiled once.
pub fn cache_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.parent().and_then(Path::parent).unwrap_or(Path::new(".")).join("plugin-cache")
}
