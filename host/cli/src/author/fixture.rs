//! The directory of one test case.
//!
//! Owns making it and looking at it afterwards. Refuses paths that lead out of it or, for a folder that is
//! copied, out of the plugin's own.
//!
//! **Invariant:** a fixture goes when its value goes.

use std::io::Read;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Map, Value, json};
use t2m_core::digest::Digest;
use tempfile::TempDir;

use super::case::Files;

/// Most of a file that is looked at, in bytes. A larger one counts by its size.
const MAX_LOOK: u64 = 16 << 20;

/// Levels of folders that are copied or looked at.
const MAX_DEPTH: usize = 32;

/// A directory made for one call.
pub(crate) struct Fixture {
    // Held so that the directory is removed at the end.
    _temporary: TempDir,
    dir: Dir,
    path: String,
}

impl Fixture {
    /// Makes the directory. `project` is the folder that a copied one must be inside.
    pub(crate) fn make(files: Option<&Files>, project: &Path) -> std::io::Result<Fixture> {
        let temporary = tempfile::Builder::new().prefix("t2m-case-").tempdir()?;
        // The plugin sees the folder under its path with links resolved.
        let path = temporary.path().canonicalize()?.to_string_lossy().into_owned();
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        if let Some(content) = files.and_then(|files| files.content.as_ref()) {
            for (name, text) in content {
                if let Some(folder) = Path::new(name).parent().filter(|folder| !folder.as_os_str().is_empty())
                {
                    dir.create_dir_all(folder)?;
                }
                match text {
                    Value::String(text) => dir.write(name, text)?,
                    _ => dir.create_dir_all(name)?,
                }
            }
        }
        if let Some(folder) = files.and_then(|files| files.folder.as_ref()) {
            let project = Dir::open_ambient_dir(project, ambient_authority())?;
            copy(&project.open_dir(folder)?, &dir, 0)?;
        }
        Ok(Fixture { _temporary: temporary, dir, path })
    }

    /// Its path, which `{dir}` stands for.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What lies in it now, in the form of a case's `files_after`. `expected` says which files are compared
    /// by digest.
    pub(crate) fn content(&self, expected: &Map<String, Value>) -> std::io::Result<Value> {
        let mut found = Map::new();
        look(&self.dir, "", expected, &mut found, 0)?;
        Ok(Value::Object(found))
    }
}

fn too_deep() -> std::io::Error {
    std::io::Error::other(format!("more than {MAX_DEPTH} levels of folders"))
}

fn copy(from: &Dir, to: &Dir, depth: usize) -> std::io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    for entry in from.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            to.create_dir(&name)?;
            copy(&entry.open_dir()?, &to.open_dir(&name)?, depth + 1)?;
        } else {
            // A link is followed only inside the plugin's folder: `from` is a handle that can't be left.
            from.copy(&name, to, &name)?;
        }
    }
    Ok(())
}

fn look(
    dir: &Dir,
    prefix: &str,
    expected: &Map<String, Value>,
    found: &mut Map<String, Value>,
    depth: usize,
) -> std::io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut empty = true;
    for entry in dir.entries()? {
        let entry = entry?;
        empty = false;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            look(&entry.open_dir()?, &format!("{path}/"), expected, found, depth + 1)?;
            continue;
        }
        let value = if kind.is_symlink() {
            json!({"link": dir.read_link_contents(entry.file_name())?.to_string_lossy()})
        } else if entry.metadata()?.len() > MAX_LOOK {
            json!({"bytes": entry.metadata()?.len()})
        } else {
            let mut bytes = Vec::new();
            entry.open()?.take(MAX_LOOK).read_to_end(&mut bytes)?;
            let by_digest = expected.get(&path).is_some_and(Value::is_object);
            match String::from_utf8(bytes) {
                Ok(text) if !by_digest => Value::String(text),
                Ok(text) => json!({"digest": Digest::of_bytes(text.as_bytes())}),
                Err(error) => json!({"digest": Digest::of_bytes(error.as_bytes())}),
            }
        };
        found.insert(path, value);
    }
    if empty && !prefix.is_empty() {
        found.insert(prefix.to_owned(), Value::Null);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(value: Value) -> Files {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_put_there_is_found_again() {
        let content = json!({"a.txt": "A", "b/c.txt": "C", "empty/": null});
        let fixture = Fixture::make(Some(&files(json!({"content": content}))), Path::new(".")).unwrap();
        assert_eq!(fixture.content(&Map::new()).unwrap(), content);
        let by_digest = json!({"a.txt": {"digest": "sha256:..."}});
        let found = fixture.content(by_digest.as_object().unwrap()).unwrap();
        assert_eq!(found["a.txt"], json!({"digest": Digest::of_bytes(b"A")}));
        let path = fixture.path().to_owned();
        drop(fixture);
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn a_copied_folder_is_inside_the_plugins_own() {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(project.path().join("p/data/sub")).unwrap();
        std::fs::write(project.path().join("p/data/sub/x"), [0xff]).unwrap();
        let copied =
            Fixture::make(Some(&files(json!({"folder": "data"}))), &project.path().join("p")).unwrap();
        assert_eq!(
            copied.content(&Map::new()).unwrap(),
            json!({"sub/x": {"digest": Digest::of_bytes(&[0xff])}})
        );
        std::fs::write(project.path().join("secret"), "s").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../../secret", project.path().join("p/data/link")).unwrap();
        assert!(Fixture::make(Some(&files(json!({"folder": "data"}))), &project.path().join("p")).is_err());
        assert!(Fixture::make(Some(&files(json!({"folder": "../"}))), &project.path().join("p")).is_err());
    }
}
