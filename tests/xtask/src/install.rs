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

/// The oldest Node.js that the machine's npm runs with. What npm installs runs with the Node.js that
/// `tests/xtask/npm/package.json` brings, because the inspector asks for 22.
const NODE: Version = Version(20, 0, 0);

/// The files that prove an installation of npm's packages; tests start them with `node`.
const NPM_FILES: [&str; 2] = [
    "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
    "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
];

/// The oldest Python that every pin in `tests/xtask/python/requirements.txt` accepts.
const PYTHON: Version = Version(3, 11, 0);

/// What a venv holds once the pins are installed: the program that tests start.
const VENV_PYTHON: &str = "bin/python";

/// One thing a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The compiler's library for plugins.
    WasmTarget,
    /// `cargo fmt`.
    Rustfmt,
    /// `cargo clippy`.
    Clippy,
    /// MCP servers and clients from npm, and the Node.js that they run with.
    McpPackages,
    /// The MCP client from PyPI, in a virtual environment of its own.
    McpPython,
    /// `cargo nextest`.
    Nextest,
}

impl Need {
    /// Every need, quick ones first: a missing Node.js is reported before nextest is compiled.
    pub(crate) const ALL: [Self; 6] =
        [Self::WasmTarget, Self::Rustfmt, Self::Clippy, Self::McpPackages, Self::McpPython, Self::Nextest];
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
            Need::McpPackages => mcp_packages(repo)?,
            Need::McpPython => mcp_python(repo)?,
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

fn mcp_packages(repo: &Repo) -> Result<()> {
    let source = repo.root.join("tests/xtask/npm");
    let folder = repo.target.join("npm");
    if is_current(&source, &folder, "package-lock.json", &NPM_FILES)? {
        return Ok(());
    }
    let hint = "on Debian: apt-get install nodejs npm";
    let node = probe("node", &["--version"], &repo.root)
        .with_context(|| format!("Node.js {NODE} or newer is needed to install MCP packages; {hint}"))?;
    if find_version(&node).is_none_or(|version| version < NODE) {
        bail!("Node.js {NODE} or newer is needed to install MCP packages, this is {}", node.trim());
    }
    if probe("npm", &["--version"], &repo.root).is_none() {
        bail!("npm is needed to install MCP packages; {hint}");
    }
    say(&format!("xtask: installing MCP packages into {}", folder.display()));
    fs::create_dir_all(&folder).with_context(|| format!("can't create `{}`", folder.display()))?;
    copy(&source.join("package.json"), &folder.join("package.json"))?;
    let lock = folder.join("package-lock.json");
    copy(&source.join("package-lock.json"), &lock)?;
    let installed = run_program(
        program("npm")
            // npm itself runs with the machine's Node.js, which may be older than the packages ask for.
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(&folder)
            .current_dir(&folder),
    );
    if installed.is_err() {
        // The lock in the target folder means that the installation is complete.
        fs::remove_file(&lock).with_context(|| format!("can't remove `{}`", lock.display()))?;
    }
    installed
}

fn mcp_python(repo: &Repo) -> Result<()> {
    let source = repo.root.join("tests/xtask/python");
    let folder = repo.target.join("python");
    if is_current(&source, &folder, "requirements.txt", &[VENV_PYTHON])? {
        return Ok(());
    }
    let hint = "on Debian: apt-get install python3-venv";
    let python = probe("python3", &["--version"], &repo.root)
        .with_context(|| format!("Python {PYTHON} or newer is needed for an MCP client; {hint}"))?;
    if find_version(&python).is_none_or(|version| version < PYTHON) {
        bail!("Python {PYTHON} or newer is needed for an MCP client, this is {}", python.trim());
    }
    if probe("python3", &["-c", "import venv, ensurepip"], &repo.root).is_none() {
        bail!("`python3 -m venv` doesn't work here; {hint}");
    }
    say(&format!("xtask: installing the MCP client for Python into {}", folder.display()));
    run_program(program("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let pins = source.join("requirements.txt");
    run_program(
        program(&folder.join(VENV_PYTHON).to_string_lossy())
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary=:all:", "--requirement"])
            .arg(&pins),
    )?;
    // Copied last: it means that the installation is complete.
    copy(&pins, &folder.join("requirements.txt"))
}

/// Whether `folder` holds a finished installation of exactly the `pins` file in `source`.
fn is_current(source: &Path, folder: &Path, pins: &str, files: &[&str]) -> Result<bool> {
    let wanted = source.join(pins);
    let wanted = fs::read(&wanted).with_context(|| format!("can't read `{}`", wanted.display()))?;
    let have = fs::read(folder.join(pins)).ok();
    Ok(have.as_deref() == Some(wanted.as_slice()) && files.iter().all(|file| folder.join(file).is_file()))
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
        assert_eq!(find_version("Python 3.11.7\n"), Some(Version(3, 11, 7)));
        assert_eq!(find_version("no version here"), None);
        assert!(Version(0, 10, 0) > NEXTEST && Version(0, 9, 99) < NEXTEST);
    }

    #[test]
    fn packages_are_installed_again_when_the_pins_change() {
        let dir = tempfile::tempdir().unwrap();
        let (source, folder) = (dir.path().join("source"), dir.path().join("there"));
        let current = || is_current(&source, &folder, "pins", &["a/one", "two"]).unwrap();
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(source.join("pins"), "one").unwrap();
        assert!(!current(), "nothing is installed yet");

        fs::write(folder.join("pins"), "one").unwrap();
        fs::write(folder.join("a/one"), "").unwrap();
        assert!(!current(), "one of the files is missing");

        fs::write(folder.join("two"), "").unwrap();
        assert!(current());

        fs::write(source.join("pins"), "two").unwrap();
        assert!(!current(), "the pins have changed");
    }
}
