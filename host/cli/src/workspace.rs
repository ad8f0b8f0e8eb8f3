//! The folder `.t2m` of a workspace, where plugins keep what outlives a call.
//!
//! Owns making it, closed to everybody else and to version control. Refuses a link in its place: what a plugin keeps
//! must not land where somebody else's repository points.
//!
//! **Invariant:** each plugin has a folder of its own, named by the plugin's name.

use std::io;
use std::path::{Path, PathBuf};

use t2m_core::code::Code;
use t2m_core::id::PluginId;

use crate::failure::{Failure, Result};
use crate::files;

/// The folder's name.
const FOLDER: &str = ".t2m";

/// The store of a plugin in a workspace, made if it isn't there.
pub(crate) fn store(workspace: &Path, plugin: &PluginId) -> Result<PathBuf> {
    let own = workspace.join(FOLDER);
    if make(&own)? {
        let ignore = own.join(".gitignore");
        std::fs::write(&ignore, "*\n").map_err(|error| failed(&ignore, &error))?;
    }
    let stores = own.join("kv");
    make(&stores)?;
    // Something before the name, so that one of dots is a folder like any other.
    let store = stores.join(format!("plugin-{plugin}"));
    make(&store)?;
    Ok(store)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::of_file(path, Code::GrantInvalid, files::reason(error))
}

/// Makes one folder, and says whether it is new.
fn make(path: &Path) -> Result<bool> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    match builder.create(path) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(path, &error)),
    }
    let about = std::fs::symlink_metadata(path).map_err(|error| failed(path, &error))?;
    if about.is_dir() {
        return Ok(false);
    }
    Err(Failure::of_file(path, Code::GrantInvalid, "no folder, or a link to one"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// P03: a store is private, each plugin's own, and never behind a link.
    #[test]
    fn a_store_is_a_private_folder_of_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let name = |text: &str| PluginId::new(text).unwrap();
        for plugin in ["memory", "other", "memory", ".."] {
            let path = store(folder.path(), &name(plugin)).unwrap();
            assert_eq!(path, folder.path().join(format!(".t2m/kv/plugin-{plugin}")));
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(std::fs::read_to_string(folder.path().join(".t2m/.gitignore")).unwrap(), "*\n");

        let (other, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(target.path(), other.path().join(".t2m")).unwrap();
        assert!(store(other.path(), &name("memory")).is_err());
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
    }
}
