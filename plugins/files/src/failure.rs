//! Errors in the words of the official server, which are those of Node.
//!
//! Owns the table from kinds of I/O errors to codes and texts. Refuses to guess a cause beyond what the
//! system said.
//!
//! INVARIANT: a message names the path the caller gave or that was resolved from it, never a temporary file.

use std::io::{self, ErrorKind};

use t2m_plugin_sdk::Error;

/// What the system refused while it did `action` to `path`.
pub(crate) fn io(error: &io::Error, action: &str, path: &str) -> Error {
    of(error, &format!("{action} '{path}'"))
}

/// As [`io`], for an action on two paths.
pub(crate) fn io_pair(error: &io::Error, action: &str, from: &str, to: &str) -> Error {
    of(error, &format!("{action} '{from}' -> '{to}'"))
}

/// Something was done to a directory that only a file allows.
pub(crate) fn is_directory(what: &str) -> Error {
    Error::new("is-a-directory", format!("EISDIR: illegal operation on a directory, {what}"))
}

/// Something is neither a file nor a directory: a pipe, a device, a socket.
pub(crate) fn not_regular(path: &str) -> Error {
    Error::new("not-a-file", format!("'{path}' is not a regular file"))
}

fn of(error: &io::Error, what: &str) -> Error {
    let (code, name, text) = describe(error);
    let text = if text.is_empty() { error.to_string() } else { text.to_owned() };
    Error::new(code, format!("{name}: {text}, {what}"))
}

fn describe(error: &io::Error) -> (&'static str, &'static str, &'static str) {
    match error.kind() {
        ErrorKind::NotFound => ("not-found", "ENOENT", "no such file or directory"),
        ErrorKind::PermissionDenied if error.raw_os_error() == Some(EPERM) => {
            ("not-permitted", "EPERM", "operation not permitted")
        }
        ErrorKind::PermissionDenied => ("not-permitted", "EACCES", "permission denied"),
        ErrorKind::ReadOnlyFilesystem => ("not-permitted", "EROFS", "read-only file system"),
        ErrorKind::AlreadyExists => ("already-exists", "EEXIST", "file already exists"),
        ErrorKind::NotADirectory => ("not-a-directory", "ENOTDIR", "not a directory"),
        ErrorKind::IsADirectory => ("is-a-directory", "EISDIR", "illegal operation on a directory"),
        ErrorKind::DirectoryNotEmpty => ("not-empty", "ENOTEMPTY", "directory not empty"),
        ErrorKind::StorageFull => ("storage-full", "ENOSPC", "no space left on device"),
        ErrorKind::QuotaExceeded => ("storage-full", "EDQUOT", "disk quota exceeded"),
        ErrorKind::FileTooLarge => ("storage-full", "EFBIG", "file too large"),
        ErrorKind::CrossesDevices => ("cross-device", "EXDEV", "cross-device link not permitted"),
        ErrorKind::InvalidFilename => ("invalid-arguments", "ENAMETOOLONG", "name too long"),
        ErrorKind::InvalidInput => ("invalid-arguments", "EINVAL", "invalid argument"),
        _ => ("failed", "UNKNOWN", ""),
    }
}

/// The number of EPERM, which `ErrorKind` doesn't tell from EACCES.
const EPERM: i32 = if cfg!(target_os = "wasi") { 63 } else { 1 };
