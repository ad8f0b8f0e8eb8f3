//! The cargo inside cargo.
//!
//! Owns its arguments and environment. Refuses to pass on what the outer cargo meant for its own crates.
//!
//! INVARIANT: the nested cargo works in a target folder of its own; the outer one holds the lock of its
//! folder while a build script runs, and waiting for that would never end.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::place::Source;

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "guest";

/// What a nested build needs to know.
pub(crate) struct Nested {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Nested {
    /// Whether the toolchain in use can compile for wasm.
    pub(crate) fn has_target(&self) -> Result<bool, Failure> {
        let mut command = self.command(&self.rustc);
        let output =
            command.args(["--print", "sysroot"]).output().map_err(|error| cannot_run("rustc", &error))?;
        let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(sysroot.join("lib/rustlib").join(TARGET).is_dir())
    }

    /// Adds the target to the toolchain in use, which rustup finds by the workspace's folder.
    pub(crate) fn add_target(&self) -> Result<(), Failure> {
        let mut command = self.command("rustup");
        let status = command.args(["target", "add", TARGET]).stdout(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "plugins are compiled for {TARGET}, which this toolchain lacks and rustup could not add: \
             run `rustup target add {TARGET}` or install that target's standard library"
        )))
    }

    /// Compiles one plugin. One at a time, because the features of shared dependencies would otherwise
    /// depend on which plugins are compiled together.
    pub(crate) fn build(&self, source: &Source) -> Result<PathBuf, Failure> {
        let mut command = self.command(&self.cargo);
        command.args([
            "build",
            "--locked",
            "--profile",
            PROFILE,
            "--target",
            TARGET,
            "--package",
            &source.package,
        ]);
        if source.is_example {
            command.args(["--example", &source.name]);
        } else {
            command.arg("--lib");
        }
        command.arg("--target-dir").arg(&self.target);
        // Standard error is shown by the outer cargo if this fails; standard output would be read as
        // directives.
        let status = command.stdout(Stdio::null()).status().map_err(|error| cannot_run("cargo", &error))?;
        if !status.success() {
            return Err(Failure::new(format!(
                "the plugin {} does not compile ({status}), see above",
                source.name
            )));
        }
        let component = self.target.join(TARGET).join(PROFILE).join(source.file());
        if !component.is_file() {
            let path = component.display();
            return Err(Failure::new(format!(
                "{} made no {path}: its crate-type must be cdylib",
                source.package
            )));
        }
        Ok(component)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_for_outer_crates) {
                command.env_remove(name);
            }
        }
        command
    }
}

fn cannot_run(program: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run {program}: {error}"))
}

/// Tells whether a variable describes the outer crate or build. The job server (`CARGO_MAKEFLAGS`) and the
/// user's settings, such as a proxy, stay.
fn is_for_outer_crates(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["CARGO_FEATURE_", "CARGO_CFG_", "CARGO_PKG_", "CARGO_MANIFEST_", "DEP_"];
    const NAMES: [&str; 18] = [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_RUSTC_WRAPPER",
        "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
        "CLIPPY_ARGS",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET_DIR",
        "OUT_DIR",
        "TARGET",
        "HOST",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
        "RUSTC_LINKER",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Nested, is_for_outer_crates};
    use crate::place::{Source, workspace};

    #[test]
    fn the_job_server_stays_and_flags_go() {
        assert!(!is_for_outer_crates("CARGO_MAKEFLAGS"));
        assert!(!is_for_outer_crates("HTTPS_PROXY"));
        assert!(is_for_outer_crates("CARGO_FEATURE_X"));
        assert!(is_for_outer_crates("RUSTC_WORKSPACE_WRAPPER"));
    }

    /// Compiles for real: that the section survives linking and stripping can't be seen otherwise.
    #[test]
    fn the_example_is_a_component_that_names_its_versions() {
        let root = workspace(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let nested = Nested {
            cargo: PathBuf::from(env!("CARGO")),
            rustc: PathBuf::from("rustc"),
            target: target.join("guests"),
            root: root.clone(),
        };
        assert!(nested.has_target().unwrap());
        let component = nested.build(&Source::find(&root, "plugin-sdk#hello").unwrap()).unwrap();
        let bytes = std::fs::read(component).unwrap();
        // The preamble of a component, version 13, layer 1.
        assert!(bytes.starts_with(b"\0asm\x0d\0\x01\0"));
        let section = format!(r#"t2m-plugin{{"wit":"0.1.0","sdk":"{}"}}"#, env!("CARGO_PKG_VERSION"));
        assert!(bytes.windows(section.len()).any(|window| window == section.as_bytes()));
    }
}
