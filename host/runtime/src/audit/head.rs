//! The files of a log, and the small file beside them that says how far it had come.
//!
//! Owns names, and reading and writing `head.json`. Refuses to move a head back.
//!
//! **Invariant:** the head names a record that is on the disk; it is the old one or the new one, never half.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use t2m_core::audit::Link;
use t2m_core::code::Code;
use t2m_core::digest::Digest;

use super::AuditError;

const HEAD: &str = "head.json";
const HEAD_FORMAT: &str = "t2m/audit-head@1";
const MAX_HEAD_BYTES: u64 = 4_096;

/// The last record that was on the disk for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The record; nothing for a log that has none yet.
    pub link: Option<Link>,
    /// The number of its file.
    pub file: u32,
    /// Where its line ends.
    pub end: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadFile {
    format: String,
    seq: u64,
    hash: Option<Digest>,
    file: u32,
    end: u64,
}

impl Head {
    /// The head of a log without records.
    pub(super) fn start() -> Head {
        Head { link: None, file: 1, end: 0 }
    }

    pub(super) fn seq(&self) -> u64 {
        self.link.map_or(0, |link| link.seq)
    }

    /// Writes it in place of the one that is there.
    pub(super) fn write(&self, folder: &Path, durable: bool) -> Result<(), AuditError> {
        let file = HeadFile {
            format: HEAD_FORMAT.to_owned(),
            seq: self.seq(),
            hash: self.link.map(|link| link.hash),
            file: self.file,
            end: self.end,
        };
        let path = folder.join(HEAD);
        // Only one process at a time is here: it holds the lock.
        let new = folder.join("head.json.new");
        let written = || -> std::io::Result<()> {
            let mut text = serde_json::to_string(&file)?;
            text.push('\n');
            // What a killed writer left, or a link.
            let _ = std::fs::remove_file(&new);
            let mut out = private().write(true).create_new(true).open(&new)?;
            out.write_all(text.as_bytes())?;
            if durable {
                out.sync_all()?;
            }
            std::fs::rename(&new, &path)
        };
        written().map_err(|error| AuditError::io(&path, &error))
    }
}

/// How far the log of a folder had come; nothing if it has no head.
pub fn audit_head(folder: &Path) -> Result<Option<Head>, AuditError> {
    let path = folder.join(HEAD);
    is_plain(&path)?;
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AuditError::unreadable(&path, &error)),
    };
    let wrong = |message: String| AuditError::new(Code::AuditChanged, &path, format!("`{HEAD}`: {message}"));
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_HEAD_BYTES), &mut text)
        .map_err(|error| AuditError::unreadable(&path, &error))?;
    let read: HeadFile = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if read.format != HEAD_FORMAT {
        let message = format!("format `{}` isn't supported; this program reads `{HEAD_FORMAT}`", read.format);
        return Err(AuditError { code: Code::VersionUnsupported, ..wrong(message) });
    }
    let link = match (read.seq, read.hash) {
        (0, None) => None,
        (seq, Some(hash)) if seq > 0 => Some(Link { seq, hash }),
        _ => return Err(wrong("`seq` and `hash` don't belong together".to_owned())),
    };
    Ok(Some(Head { link, file: read.file, end: read.end }))
}

/// Refuses what is no plain file: a pipe would be waited for, and a link leads elsewhere.
pub(super) fn is_plain(path: &Path) -> Result<(), AuditError> {
    match path.symlink_metadata() {
        Ok(there) if !there.is_file() => {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            Err(AuditError::new(Code::AuditChanged, path, format!("`{file}` is no plain file")))
        }
        _ => Ok(()),
    }
}

/// The files of a folder's log with their numbers, oldest first.
pub(super) fn files(folder: &Path) -> Result<Vec<(u32, PathBuf)>, AuditError> {
    let unreadable = |error: std::io::Error| AuditError::unreadable(folder, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let number = name.to_str().and_then(number_of);
        found.extend(number.map(|number| (number, folder.join(name))));
    }
    found.sort();
    Ok(found)
}

/// The name of a file of the log.
pub(super) fn name_of(number: u32) -> String {
    format!("audit-{number:08}.jsonl")
}

fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// Files are their owner's alone.
pub(super) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}
