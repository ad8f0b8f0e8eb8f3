//! What is known about a file, and which directories are granted.
//!
//! Owns the look of both. Refuses to make up what WASI doesn't tell: the time a file was made and its
//! permission bits are `unknown`.
//!
//! INVARIANT: the lines are those of the official server, in its order.

use std::fs::{self, Metadata};
use std::time::SystemTime;

use t2m_plugin_sdk::{Error, NoArguments, Reply};

use crate::{PathArgs, Text, failure, format, roots, text};

pub(crate) fn get_file_info(args: PathArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    let metadata = fs::metadata(&path).map_err(|error| failure::io(&error, "stat", &path))?;
    Ok(text(describe(&metadata)))
}

pub(crate) fn list_allowed_directories(_: NoArguments) -> Result<Reply<Text>, Error> {
    Ok(text(format!("Allowed directories:\n{}", roots::list().join("\n"))))
}

fn describe(metadata: &Metadata) -> String {
    let date = |time: Option<SystemTime>| time.map_or("unknown".to_owned(), format::date);
    [
        format!("size: {}", metadata.len()),
        "created: unknown".to_owned(),
        format!("modified: {}", date(metadata.modified().ok())),
        format!("accessed: {}", date(metadata.accessed().ok())),
        format!("isDirectory: {}", metadata.is_dir()),
        format!("isFile: {}", metadata.is_file()),
        "permissions: unknown".to_owned(),
    ]
    .join("\n")
}
