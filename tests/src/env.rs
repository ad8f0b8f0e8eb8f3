//! A folder and an environment of its own for one test.
//!
//! It owns the folder's layout: `home`, `work`, `tmp`. It refuses to hand on the developer's environment.
//!
//! **Invariant:** a program started through [`TestEnv::command`] sees only the variables listed here, so a
//! test gives one result on every machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Failure, Outcome, Redactor};

/// A temporary folder that goes when this value goes.
#[derive(Debug)]
pub struct TestEnv {
    // Held so that the folder is removed at the end of the test.
    _dir: TempDir,
    root: PathBuf,
}

impl TestEnv {
    /// Makes the folder.
    pub fn new() -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        // Programs report paths with symbolic links resolved; redaction must know that form.
        let root = dir.path().canonicalize()?;
        let env = Self { _dir: dir, root };
        for folder in [env.home(), env.work(), env.root.join("tmp")] {
            fs::create_dir(&folder).map_err(|why| Failure::at(folder.display(), why))?;
        }
        Ok(env)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where programs start.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Writes a file below [`TestEnv::work`], with the folders it needs.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Outcome<PathBuf> {
        let path = self.work().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|why| Failure::at(folder.display(), why))?;
        }
        fs::write(&path, content).map_err(|why| Failure::at(path.display(), why))?;
        Ok(path)
    }

    /// Reads a file below [`TestEnv::work`].
    pub fn read(&self, name: &str) -> Outcome<String> {
        let path = self.work().join(name);
        fs::read_to_string(&path).map_err(|why| Failure::at(path.display(), why))
    }

    /// A program with the sanitised environment, to be started in [`TestEnv::work`].
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().current_dir(self.work());
        // Without PATH no upstream server and no guard hook would be found.
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        let home = self.home();
        command
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_CACHE_HOME", home.join(".cache"))
            .env("XDG_DATA_HOME", home.join(".local/share"))
            .env("XDG_STATE_HOME", home.join(".local/state"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1");
        command
    }

    /// Replaces this folder's path by `[env]`, and times by zeros.
    pub fn redactor(&self) -> Redactor {
        Redactor::new().path(&self.root, "[env]").times()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_see_nothing_of_the_developers_environment() {
        let env = TestEnv::new().unwrap();
        let output = env.command("env").output().unwrap();
        let text = env.redactor().redact(&String::from_utf8(output.stdout).unwrap());
        let mut names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "HOME",
                "LANG",
                "NO_COLOR",
                "PATH",
                "TMPDIR",
                "TZ",
                "XDG_CACHE_HOME",
                "XDG_CONFIG_HOME",
                "XDG_DATA_HOME",
                "XDG_STATE_HOME"
            ]
        );
        assert!(text.contains("HOME=[env]/home\n"), "{text}");
    }

    #[test]
    fn the_folder_goes_with_the_value() {
        let env = TestEnv::new().unwrap();
        env.write("a/b.txt", "text").unwrap();
        assert_eq!(env.read("a/b.txt").unwrap(), "text");
        let root = env.root().to_owned();
        drop(env);
        assert!(!root.exists());
    }
}
