//! The servers that are compared, ready to be started.
//!
//! It owns what each needs in `target/compare`: components, configuration, compiled caches. It refuses to
//! build t2m-host, which takes minutes; it says how.
//!
//! **Invariant:** every host offers `add` of two integers, and but for the bare one `spin`, from the same code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::wassette;
use crate::shell::{Repo, program, run, say};

/// Limits so high that only a cancellation or the end stops a guest.
const CONFIG: &str = "[limits]\nwall_ms = 600000\nfuel = 100000000000000\n";

/// One server.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    words: Vec<String>,
    envs: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
    /// The rest of a request that adds.
    pub(crate) add: String,
    /// The rest of a request that never ends.
    pub(crate) spin: String,
    /// Whether it has guests at all.
    pub(crate) spins: bool,
}

impl Host {
    pub(crate) fn new(name: &'static str, words: Vec<String>, folder: &Path) -> Self {
        let call = |tool: &str, arguments: &str| {
            format!(r#""method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}"#)
        };
        Self {
            name,
            words,
            envs: vec![("HOME", folder.to_owned())],
            folder: folder.to_owned(),
            add: call("add", r#"{"first":1,"second":2}"#),
            spin: call("spin", "{}"),
            spins: true,
        }
    }

    /// The command that starts it, with an environment of its own.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words).env_clear().envs(self.envs.iter().map(|(key, value)| (key, value)));
        command.current_dir(&self.folder);
        command
    }
}

/// Every host that runs on this machine.
pub(crate) fn all(repo: &Repo, binary: Option<&Path>) -> Result<Vec<Host>> {
    let folder = repo.target.join("compare");
    fs::create_dir_all(&folder).with_context(|| format!("can't create `{}`", folder.display()))?;
    let mut hosts = vec![own(repo, &folder, binary)?, bare(repo, &folder)?];
    let component = component(repo, "t2m-guest-add-wit")?;
    match wassette::host(repo, &folder.join("wassette"), &component) {
        Ok(host) => hosts.push(host),
        Err(why) => say(&format!("xtask: without wassette: {why:#}")),
    }
    Ok(hosts)
}

fn own(repo: &Repo, folder: &Path, binary: Option<&Path>) -> Result<Host> {
    let binary = match binary {
        Some(binary) => std::path::absolute(binary)?,
        None => release(repo, "t2m-host"),
    };
    if !binary.is_file() {
        bail!("`{}` is not built; run `cargo build --release`, or give `--binary PATH`", binary.display());
    }
    let folder = folder.join("t2m-host");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("t2m.toml"), CONFIG)?;
    fs::copy(component(repo, "t2m-guest-add")?, folder.join("add.wasm"))?;
    let words = ["serve", "--tool", "add.wasm", "--trust", "add"].map(str::to_owned);
    let words = [binary.to_string_lossy().into_owned()].into_iter().chain(words).collect();
    let mut host = Host::new("t2m-host", words, &folder);
    host.envs.push(("T2M_CACHE_DIR", folder.join("cache")));
    Ok(host)
}

fn bare(repo: &Repo, folder: &Path) -> Result<Host> {
    run(repo.cargo().args(["build", "--quiet", "--release", "--package", "t2m-bare-server"]))?;
    let binary = release(repo, "t2m-bare-server");
    let mut host = Host::new("bare rmcp", vec![binary.to_string_lossy().into_owned()], folder);
    host.spins = false;
    Ok(host)
}

fn release(repo: &Repo, name: &str) -> PathBuf {
    repo.target.join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Compiles a guest as `t2m-plugin-build` does, in the same folder.
fn component(repo: &Repo, package: &str) -> Result<PathBuf> {
    let target = repo.target.join("guests");
    run(program("cargo")
        .current_dir(&repo.root)
        .args(["build", "--quiet", "--locked", "--profile", "guest", "--target", "wasm32-wasip2", "--lib"])
        .args(["--package", package, "--target-dir"])
        .arg(&target))?;
    let name = format!("{}.wasm", package.replace('-', "_"));
    Ok(target.join("wasm32-wasip2").join("guest").join(name))
}
