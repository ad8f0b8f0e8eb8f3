//! Reading and writing files that a person names.
//!
//! Owns size limits on reading and private, atomic writing. Refuses anything that isn't a regular file.
//!
//! **Invariant:** a file this module writes has mode 0600 and is either the old or the new one, never half.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use t2m_core::code::Code;

use crate::failure::{Failure, Result};

/// Reads a file of at most `limit` bytes; `-` is standard input.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let (reader, length) = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length.unwrap_or(0).min(most)).unwrap_or(0));
    let unreadable = |error: std::io::Error| Failure::of_file(path, Code::FileUnreadable, reason(&error));
    reader.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        let message = format!("larger than {limit} bytes");
        return Err(Failure::of_file(path, Code::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Which of our own formats a file that couldn't be used says it has.
pub(crate) fn own_format(path: &Path) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
    }
    if path == Path::new("-") {
        return None;
    }
    let bytes = read(path, t2m_core::json::Limits::default().bytes).ok()?;
    let head: Head = serde_json::from_slice(&bytes).ok()?;
    Some(head.format).filter(|format| format.starts_with("t2m/"))
}

/// Opens a file to be read bit by bit, and says how long it is; `-` is standard input, whose length isn't
/// known.
pub(crate) fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(std::io::stdin().lock()), None));
    }
    let unreadable = |error: std::io::Error| Failure::of_file(path, Code::FileUnreadable, reason(&error));
    let (dir, name) = open_parent(path)?;
    // Asked before opening, because opening a named pipe waits for its other end.
    let about = dir.metadata(&name).map_err(unreadable)?;
    if !about.is_file() {
        return Err(Failure::of_file(path, Code::FileUnreadable, "not a regular file"));
    }
    // The standard library's own file reads into memory that it needn't clear first.
    let file = dir.open(&name).map_err(unreadable)?.into_std();
    Ok((Box::new(file), Some(about.len())))
}

/// Writes a file so that nobody else can read it and no reader sees half of it.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let unwritable = |error: std::io::Error| Failure::of_file(path, Code::FileUnwritable, reason(&error));
    let mut file = begin_private(path)?;
    file.write_all(bytes).map_err(unwritable)?;
    file.as_file().sync_all().map_err(unwritable)?;
    file.persist(path).map_err(|error| unwritable(error.error))?;
    Ok(())
}

/// A file beside the place that it is to take once it is whole.
pub(crate) fn begin_private(path: &Path) -> Result<tempfile::NamedTempFile> {
    check_target(path)?;
    // tempfile makes the file with mode 0600, and renaming keeps it.
    tempfile::NamedTempFile::new_in(folder_of(path))
        .map_err(|error| Failure::of_file(path, Code::FileUnwritable, reason(&error)))
}

/// The folder that a path stands in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file for writing bit by bit that nobody else can read. What it held before is gone.
pub(crate) fn create_private(path: &Path) -> Result<std::fs::File> {
    check_target(path)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map_err(|error| Failure::of_file(path, Code::FileUnwritable, reason(&error)))
}

/// Refuses to replace what is no regular file: a device, a pipe or a link is there for a reason.
fn check_target(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => {
            Err(Failure::of_file(path, Code::FileUnwritable, "it exists and is not a regular file"))
        }
        _ => Ok(()),
    }
}

/// Refuses an output that is one of the inputs: writing it would lose what was read.
pub(crate) fn refuse_overwrite(output: Option<&Path>, inputs: &[&Path]) -> Result<()> {
    let same = |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    match output.filter(|output| inputs.iter().any(|input| same(output, input))) {
        Some(output) => Err(Failure::of_file(output, Code::FileUnwritable, "this file is the input")
            .with_next("name another file")),
        None => Ok(()),
    }
}

/// `workflow.json` → `workflow.contracts.json`, in the same folder.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{suffix}.json"))
}

/// The folder of a path as a handle, and the name in it. Links in the name itself are followed only inside
/// that folder.
fn open_parent(path: &Path) -> Result<(Dir, PathBuf)> {
    let unreadable = |error: std::io::Error| Failure::of_file(path, Code::FileUnreadable, reason(&error));
    // The person's own path may go through links; it is resolved once, here.
    let full = std::fs::canonicalize(path).map_err(unreadable)?;
    let (Some(parent), Some(name)) = (full.parent(), full.file_name()) else {
        return Err(Failure::of_file(path, Code::FileUnreadable, "not a regular file"));
    };
    let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(unreadable)?;
    Ok((dir, PathBuf::from(name)))
}

/// An operating system's message without its number, in our wording.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
