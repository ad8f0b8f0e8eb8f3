//! Making a plugin's component.
//!
//! Owns cargo's arguments, the wasm target and the author's own build command. Refuses to build for a
//! command that only loads plugins.
//!
//! **Invariant:** the component is replaced only by one that was built.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use t2m_core::code::Code;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

use crate::component::Component;
use crate::failure::{Failure, Result};
use crate::files;
use crate::manifest::Build;
use crate::out::Out;

const TARGET: &str = "wasm32-wasip2";

/// Builds the plugin of a folder and puts the component beside its manifest. What the build says goes to
/// standard error as it comes.
pub(crate) async fn build(component: &Component, out: &mut Out) -> Result<()> {
    let folder = component.folder();
    let Some(manifest) = &component.manifest else {
        let message = "there is no `plugin.toml`, so there is nothing to build";
        return Err(Failure::of_file(&component.manifest_file, Code::FileUnreadable, message));
    };
    let made = match &manifest.build {
        Some(build) => by_command(build, folder).await?,
        None => by_cargo(folder, out).await?,
    };
    if made == component.wasm {
        return Ok(());
    }
    // Written whole, so that whoever loads it meanwhile sees the old or the new one.
    let unwritable = |error: std::io::Error| {
        Failure::of_file(&component.wasm, Code::FileUnwritable, files::reason(&error))
    };
    let mut source = std::fs::File::open(&made)
        .map_err(|error| Failure::of_file(&made, Code::BuildFailed, files::reason(&error)))?;
    let mut target = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
    std::io::copy(&mut source, &mut target).map_err(unwritable)?;
    target.persist(&component.wasm).map_err(|error| unwritable(error.error))?;
    Ok(())
}

async fn by_command(build: &Build, folder: &Path) -> Result<PathBuf> {
    let Some((program, arguments)) = build.command.split_first() else {
        return Err(Failure::new(Code::FieldValue, "`build.command` is empty"));
    };
    let mut command = command(program, folder);
    command.args(arguments);
    run(command, program, |_| {}).await?;
    let made = folder.join(&build.output);
    if made.is_file() {
        return Ok(made);
    }
    Err(Failure::of_file(&made, Code::BuildFailed, "the build command succeeded and did not make this file"))
}

async fn by_cargo(folder: &Path, out: &mut Out) -> Result<PathBuf> {
    let manifest = folder.join("Cargo.toml");
    if !manifest.is_file() {
        let message = "there is no `Cargo.toml`; for another language `plugin.toml` needs a `[build]` table";
        return Err(Failure::of_file(&manifest, Code::BuildFailed, message));
    }
    add_target(folder, out).await?;
    let text = std::fs::read_to_string(&manifest)
        .map_err(|error| Failure::of_file(&manifest, Code::FileUnreadable, files::reason(&error)))?;
    let profile = if profile_of(&text).is_some() { "guest" } else { "release" };
    let mut command = command("cargo", folder);
    command.args(["build", "--lib", "--target", TARGET, "--profile", profile]);
    if out.is_quiet() {
        command.arg("--quiet");
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    let mut made = None;
    run(command, "cargo", |line| {
        if let Some(component) = made_by(line, &manifest) {
            made = Some(component);
        }
    })
    .await?;
    made.ok_or_else(|| {
        let message = "cargo made no component: `[lib]` needs `crate-type = [\"cdylib\"]`";
        Failure::of_file(&manifest, Code::BuildFailed, message)
    })
}

/// The profile `guest` of a Cargo.toml.
pub(crate) fn profile_of(manifest: &str) -> Option<toml::Value> {
    let table: toml::Table = manifest.parse().ok()?;
    table.get("profile")?.get("guest").cloned()
}

/// The component that a line of cargo's messages names, if it is the package's own.
fn made_by(line: &str, manifest: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let ours =
        message.get("manifest_path").and_then(Value::as_str).is_some_and(|path| Path::new(path) == manifest);
    let files = message.get("filenames").filter(|_| ours)?.as_array()?;
    let mut paths = files.iter().filter_map(Value::as_str).map(PathBuf::from);
    paths.find(|path| path.extension().is_some_and(|extension| extension == "wasm"))
}

/// Adds the wasm target to the toolchain of the folder if it isn't there.
async fn add_target(folder: &Path, out: &mut Out) -> Result<()> {
    let printed =
        command("rustc", folder).args(["--print", "sysroot"]).stderr(Stdio::inherit()).output().await;
    let printed = printed.map_err(|error| cannot_start("rustc", &error))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
    if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    out.note(format!("adding the target {TARGET} with rustup"));
    let mut rustup = command("rustup", folder);
    rustup.args(["target", "add", TARGET]);
    run(rustup, "rustup", |_| {}).await.map_err(|failure| {
        let message = format!(
            "the toolchain lacks the target {TARGET}; install it, with rustup: `rustup target add {TARGET}` ({})",
            failure.problems
        );
        Failure::new(Code::BuildFailed, message)
    })
}

fn command(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    // Whoever gives up waiting, such as `plugin watch` at Ctrl-C, leaves no build behind.
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn cannot_start(program: &str, error: &std::io::Error) -> Failure {
    let message = format!("`{program}` can't be started: {}", files::reason(error));
    Failure::new(Code::BuildFailed, message)
}

/// Runs a program. Its standard error is ours; lines of its standard output that aren't taken go there too.
async fn run(mut command: Command, program: &str, mut take: impl FnMut(&str)) -> Result<()> {
    let is_cargo = program == "cargo";
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|error| cannot_start(program, &error))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        while let Some(line) = next_line(&mut reader).await {
            if !is_cargo {
                crate::out::pass_on(&line);
            }
            take(&line);
        }
    }
    let status = child.wait().await.map_err(|error| cannot_start(program, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(Code::BuildFailed, format!("`{program}` failed ({status}), see above")))
}

async fn next_line(reader: &mut BufReader<impl AsyncRead + Unpin>) -> Option<String> {
    let mut bytes = Vec::new();
    let count = reader.read_until(b'\n', &mut bytes).await.unwrap_or(0);
    (count > 0).then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_component_of_the_package_itself_counts() {
        let manifest = Path::new("/p/Cargo.toml");
        let line =
            |path: &str, file: &str| format!(r#"{{"manifest_path": "{path}", "filenames": ["{file}"]}}"#);
        assert_eq!(made_by(&line("/p/Cargo.toml", "/t/p.wasm"), manifest), Some("/t/p.wasm".into()));
        assert_eq!(made_by(&line("/p/Cargo.toml", "/t/p.rlib"), manifest), None);
        assert_eq!(made_by(&line("/q/Cargo.toml", "/t/q.wasm"), manifest), None);
        assert_eq!(made_by("warning: text", manifest), None);
    }
}
