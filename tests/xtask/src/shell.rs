//! Other programs, the repository's folders, and what is said on standard error.
//!
//! It owns how children are started and how their failure reads. It refuses shells: every argument is
//! passed as it is.
//!
//! **Invariant:** children don't see the variables that cargo set for xtask itself, so a build started from
//! here and one started by hand have equal fingerprints.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Where the repository and its build output are.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Repo {
    /// Asks cargo, so that `CARGO_TARGET_DIR` and cargo's configuration count.
    pub(crate) fn find() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: serde_json::Value =
            serde_json::from_str(&read(&mut command)?).context("cargo metadata is not JSON")?;
        let folder = |key: &str| {
            metadata
                .get(key)
                .and_then(serde_json::Value::as_str)
                .map(PathBuf::from)
                .with_context(|| format!("cargo metadata has no `{key}`"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")? })
    }

    /// The binary of a dev build.
    pub(crate) fn binary(&self) -> PathBuf {
        self.target.join("debug").join(format!("t2m-host{}", std::env::consts::EXE_SUFFIX))
    }

    /// Builds every binary and test with the one feature set that nextest uses as well.
    ///
    /// Choosing packages with `-p` would choose features too and compile the sandbox engine a second time.
    pub(crate) fn build(&self) -> Result<()> {
        run(self.cargo().args(["build", "--workspace", "--bins", "--tests"]))
    }

    /// Cargo, to be run at the repository's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }
}

fn cargo() -> Command {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// A program to be run without the variables that describe xtask's own package.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if ours.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&key);
        }
    }
    command
}

/// Runs a program with our own streams and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    let status = command.status().with_context(|| format!("can't start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a program and returns its standard output; its standard error is ours.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let line = show(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("can't start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something that isn't UTF-8"))
}

/// Standard output of a program that may be missing: `None` if it can't start or fails.
pub(crate) fn probe(name: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = program(name).args(args).current_dir(folder).stdin(Stdio::null()).output().ok()?;
    if output.status.success() { String::from_utf8(output.stdout).ok() } else { None }
}

/// Says one line to the person who runs this.
pub(crate) fn say(line: &str) {
    // If standard error is closed nobody is listening, and the exit status still tells.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn show(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
