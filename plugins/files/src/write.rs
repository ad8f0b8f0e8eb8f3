//! Writing, making directories, moving.
//!
//! Owns the one way a file's content is replaced. Refuses to keep permission bits: WASI can neither read
//! nor set them.
//!
//! INVARIANT: a file has its old or its new content at every moment, never a part of one.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};

use schemars::JsonSchema;
use serde::Deserialize;
use t2m_plugin_sdk::{Error, Reply};

use crate::{PathArgs, Text, failure, roots, text};

/// Names tried for a temporary file before giving up; so many writers don't meet in one directory.
const TEMPORARY_NAMES: u32 = 1000;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteArgs {
    path: String,
    content: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct MoveArgs {
    source: String,
    destination: String,
}

pub(crate) fn write_file(args: WriteArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    replace(&path, args.content.as_bytes())?;
    Ok(text(format!("Successfully wrote to {}", args.path)))
}

pub(crate) fn create_directory(args: PathArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    fs::create_dir_all(&path).map_err(|error| failure::io(&error, "mkdir", &path))?;
    Ok(text(format!("Successfully created directory {}", args.path)))
}

pub(crate) fn move_file(args: MoveArgs) -> Result<Reply<Text>, Error> {
    let source = roots::place(&args.source)?;
    let destination = roots::place(&args.destination)?;
    // WASI has no rename that fails if the target exists, so what appears after this look is replaced.
    match fs::symlink_metadata(&destination) {
        Ok(_) => {
            return Err(Error::new("already-exists", format!("Destination already exists: {destination}")));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failure::io(&error, "lstat", &destination)),
    }
    fs::rename(&source, &destination)
        .map_err(|error| failure::io_pair(&error, "rename", &source, &destination))?;
    Ok(text(format!("Successfully moved {} to {}", args.source, args.destination)))
}

/// Replaces the content of a file at a resolved path, or makes the file.
pub(crate) fn replace(path: &str, content: &[u8]) -> Result<(), Error> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Err(failure::is_directory(&format!("open '{path}'")));
    }
    let refused = |error: io::Error| failure::io(&error, "open", path);
    let temporary = write_temporary(roots::parent(path), content).map_err(refused)?;
    fs::rename(&temporary, path).map_err(|error| {
        // The temporary file is in the way of nobody; the first error is the one worth telling.
        drop(fs::remove_file(&temporary));
        refused(error)
    })
}

/// Writes a file under a name nobody has yet, beside its target because only that is one rename away.
fn write_temporary(directory: &str, content: &[u8]) -> io::Result<String> {
    for number in 0..TEMPORARY_NAMES {
        let path = roots::join(directory, &format!(".t2m-{number}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                if let Err(error) = file.write_all(content) {
                    drop(fs::remove_file(&path));
                    return Err(error);
                }
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
