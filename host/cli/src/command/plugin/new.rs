//! `t2m-host plugin new`: the project of a new plugin.
//!
//! Owns where it is written. Refuses a folder that has something in it.
//!
//! **Invariant:** a project is there whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use t2m_core::code::Code;

use crate::author::template;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files;
use crate::out::Out;

/// Write the project of a new plugin.
///
/// The project has everything that building it needs, the SDK included, apart from what cargo fetches from
/// crates.io.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t2m-host plugin new hello\n  t2m-host plugin new hello --path plugins/hello"
)]
pub(crate) struct New {
    /// The plugin's name, which is its crate's as well
    name: String,
    /// The project's folder, which must be empty or not be there [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

impl New {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        template::check_name(&self.name)?;
        let folder = self.path.unwrap_or_else(|| PathBuf::from(&self.name));
        let unwritable =
            |error: io::Error| Failure::of_file(&folder, Code::FileUnwritable, files::reason(&error));
        match fs::read_dir(&folder).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                return Err(Failure::of_file(&folder, Code::FileUnwritable, "the folder isn't empty"));
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unwritable(error)),
        }
        let files: Vec<&str> = write(&self.name, &folder).map_err(unwritable)?;
        let next = next_steps(&folder);
        let shown = folder.display().to_string();
        out.data(
            || {
                let steps = next.join("\n  ");
                format!(
                    "{} is in {shown}; next (the first build takes a minute or two):\n  {steps}",
                    self.name
                )
            },
            || json!({"plugin": self.name, "folder": shown, "files": files, "next": next}),
        );
        Ok(Exit::Done)
    }
}

/// Writes beside the folder and moves the result there, so that a failure leaves nothing.
fn write(name: &str, folder: &Path) -> io::Result<Vec<&'static str>> {
    // The last part of `.` or `..` can't be moved over, so such a folder's inside is where to write.
    let parent = if folder.file_name().is_none() { folder } else { files::folder_of(folder) };
    fs::create_dir_all(parent)?;
    let stage = tempfile::Builder::new().prefix(".t2m-new-").tempdir_in(parent)?;
    // The temporary folder is private to its owner; the project gets the usual permissions.
    let project = stage.path().join("project");
    let mut written = Vec::new();
    for (path, text) in template::project(name) {
        let target = project.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(target, text)?;
        written.push(path);
    }
    if folder.exists() {
        // Somebody may stand in the empty folder, so it stays and gets the entries.
        move_entries(&project, folder)?;
    } else {
        fs::rename(&project, folder)?;
    }
    Ok(written)
}

/// Moves what is in one folder to another, or nothing.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    let mut moved = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if let Err(error) = fs::rename(entry.path(), &target) {
            for (old, new) in moved {
                let _ = fs::rename(new, old);
            }
            return Err(error);
        }
        moved.push((entry.path(), target));
    }
    Ok(())
}

/// What to do with a new project, as commands for a shell.
fn next_steps(folder: &Path) -> Vec<String> {
    let program = std::env::args().next().filter(|name| name.contains(std::path::MAIN_SEPARATOR));
    let program = program.unwrap_or_else(|| "t2m-host".to_owned());
    let (program, folder) = (quoted(&program), quoted(&folder.display().to_string()));
    // A bare word would be taken for a name.
    let tool = if folder.contains('/') || folder == "." { folder.clone() } else { format!("./{folder}") };
    vec![
        format!("{program} plugin test {folder}"),
        format!("{program} plugin run {folder} greet --arg name=Ada"),
        format!("{program} review --tool {tool}"),
        format!("{program} serve --tool {tool}"),
    ]
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
