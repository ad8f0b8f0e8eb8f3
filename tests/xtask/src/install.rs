//! What the tests need on a machine, and how it gets there.
//!
//! It owns the pinned versions. It refuses to touch anything outside the target folder, except the
//! components and targets of the toolchain, which only rustup can add.
//!
//! **Invariant:** something of the right version that is there already is used and nothing is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::shell::{Repo, probe, program, run as run_program, say};

/// The target of plugins and guests.
const WASM_TARGET: &str = "wasm32-wasip2";

/// The newest nextest that the pinned toolchain compiles; an installed one that is newer will do.
const NEXTEST: Version = Version(0, 9, 143);

/// The oldest Node.js that every package in `tests/xtask/npm/package-lock.json` accepts.
const NODE: Version = Version(20, 0, 0);

/// The file that proves the servers are there; tests start it with `node`.
const FILESYSTEM_SERVER: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

/// One thing a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The compiler's library for plugins.
    WasmTarget,
    /// `cargo fmt`.
    Rustfmt,
    /// `cargo clippy`.
    Clippy,
    /// MCP servers from npm that the tests compare ours with.
    McpServers,
    /// `cargo nextest`.
    Nextest,
}

impl Need {
    /// Every need, quick ones first: a missing Node.js is reported before nextest is compiled.
    pub(crate) const ALL: [Self; 5] =
        [Self::WasmTarget, Self::Rustfmt, Self::Clippy, Self::McpServers, Self::Nextest];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64, u64, u64);

impl std::fmt::Display for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Installs what is missing of `needs`.
pub(crate) fn run(repo: &Repo, needs: &[Need]) -> Result<()> {
    for need in needs {
        match need {
            Need::WasmTarget => wasm_target(repo)?,
            Need::Rustfmt => component(repo, "rustfmt", "fmt")?,
            Need::Clippy => component(repo, "clippy", "clippy")?,
            Need::Nextest => {
                nextest(repo)?;
            }
            Need::McpServers => mcp_servers(repo)?,
        }
    }
    Ok(())
}

fn wasm_target(repo: &Repo) -> Result<()> {
    let args = ["--print", "target-libdir", "--target", WASM_TARGET];
    let there = probe("rustc", &args, &repo.root).is_some_and(|path| Path::new(path.trim()).is_dir());
    if there {
        return Ok(());
    }
    rustup(repo, &["target", "add", WASM_TARGET])
}

fn component(repo: &Repo, component: &str, subcommand: &str) -> Result<()> {
    if probe("cargo", &[subcommand, "--version"], &repo.root).is_some() {
        return Ok(());
    }
    rustup(repo, &["component", "add", component])
}

fn rustup(repo: &Repo, args: &[&str]) -> Result<()> {
    if probe("rustup", &["--version"], &repo.root).is_none() {
        bail!("rustup is missing; install it, or provide what `rustup {}` would add", args.join(" "));
    }
    run_program(program("rustup").args(args).current_dir(&repo.root))
}

/// `cargo nextest`, installed first if neither the machine nor the target folder has one that is new enough.
pub(crate) fn nextest(repo: &Repo) -> Result<Command> {
    let suits =
        |text: Option<String>| text.and_then(|text| find_version(&text)).is_some_and(|v| v >= NEXTEST);
    if suits(probe("cargo", &["nextest", "--version"], &repo.root)) {
        let mut command = repo.cargo();
        command.arg("nextest");
        return Ok(command);
    }
    let tools = repo.target.join("tools");
    let binary = tools.join("bin").join(format!("cargo-nextest{}", std::env::consts::EXE_SUFFIX));
    let name = binary.to_string_lossy().into_owned();
    if !suits(probe(&name, &["nextest", "--version"], &repo.root)) {
        say(&format!("xtask: installing cargo-nextest {NEXTEST} into {}", tools.display()));
        run_program(
            repo.cargo()
                .args(["install", "cargo-nextest", "--locked", "--force"])
                .arg(format!("--version={NEXTEST}"))
                .arg("--root")
                .arg(&tools),
        )?;
    }
    let mut command = program(&name);
    command.arg("nextest").current_dir(&repo.root);
    Ok(command)
}

fn mcp_servers(repo: &Repo) -> Result<()> {
    let hint = "on Debian: apt-get install nodejs npm";
    let node = probe("node", &["--version"], &repo.root).with_context(|| {
        format!("Node.js {NODE} or newer is needed to run the official MCP servers; {hint}")
    })?;
    if find_version(&node).is_none_or(|version| version < NODE) {
        bail!("Node.js {NODE} or newer is needed to run the official MCP servers, this is {}", node.trim());
    }
    let source = repo.root.join("tests/xtask/npm");
    let folder = repo.target.join("npm");
    if servers_are_current(&source, &folder)? {
        return Ok(());
    }
    if probe("npm", &["--version"], &repo.root).is_none() {
        bail!("npm is needed to install the official MCP servers; {hint}");
    }
    say(&format!("xtask: installing MCP servers into {}", folder.display()));
    fs::create_dir_all(&folder).with_context(|| format!("can't create `{}`", folder.display()))?;
    copy(&source.join("package.json"), &folder.join("package.json"))?;
    let lock = folder.join("package-lock.json");
    copy(&source.join("package-lock.json"), &lock)?;
    let installed = run_program(
        program("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .arg(&folder)
            .current_dir(&folder),
    );
    if installed.is_err() {
        // The lock in the target folder means that the installation is complete.
        fs::remove_file(&lock).with_context(|| format!("can't remove `{}`", lock.display()))?;
    }
    installed
}

/// Whether `folder` holds a finished installation of exactly the lock file in `source`.
fn servers_are_current(source: &Path, folder: &Path) -> Result<bool> {
    let wanted = source.join("package-lock.json");
    let wanted = fs::read(&wanted).with_context(|| format!("can't read `{}`", wanted.display()))?;
    let have = fs::read(folder.join("package-lock.json")).ok();
    Ok(have.as_deref() == Some(wanted.as_slice()) && folder.join(FILESYSTEM_SERVER).is_file())
}

fn copy(from: &Path, to: &PathBuf) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("can't copy `{}` to `{}`", from.display(), to.display()))?;
    Ok(())
}

/// The first `a.b.c` in what a program says about itself.
fn find_version(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.trim_start_matches('v').split('.').map(|part| part.parse::<u64>().ok());
        match (numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()) {
            (major, minor, patch, None) => Some(Version(major, minor, patch)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let nextest = "cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143\n";
        assert_eq!(find_version(nextest), Some(Version(0, 9, 143)));
        assert_eq!(find_version("v20.20.2\n"), Some(Version(20, 20, 2)));
        assert_eq!(find_version("no version here"), None);
        assert!(Version(0, 10, 0) > NEXTEST && Version(0, 9, 99) < NEXTEST);
    }

    #[test]
    fn servers_are_installed_again_when_the_lock_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (source, folder) = (dir.path().join("source"), dir.path().join("npm"));
        let server = folder.join(FILESYSTEM_SERVER);
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(server.parent().unwrap()).unwrap();
        fs::write(source.join("package-lock.json"), "one").unwrap();
        assert!(!servers_are_current(&source, &folder).unwrap(), "nothing is installed yet");

        fs::write(folder.join("package-lock.json"), "one").unwrap();
        assert!(!servers_are_current(&source, &folder).unwrap(), "the server itself is missing");

        fs::write(server, "").unwrap();
        assert!(servers_are_current(&source, &folder).unwrap());

        fs::write(source.join("package-lock.json"), "two").unwrap();
        assert!(!servers_are_current(&source, &folder).unwrap(), "the lock has changed");
    }
}
