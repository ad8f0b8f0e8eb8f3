//! A log as it stands at one moment, to be read while others write to it.
//!
//! Owns taking the moment: no write is under way, so no line is half. Refuses to write or to wait for long.
//!
//! **Invariant:** what is read ends where the log ended at that moment.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AuditError;
use super::head::{Head, audit_head, files, is_plain};
use super::store::Held;

/// A log at one moment.
#[derive(Debug, Clone)]
pub struct AuditSnapshot {
    /// How far it had come for sure; nothing if that isn't said.
    pub head: Option<Head>,
    files: Vec<(PathBuf, u64)>,
}

impl AuditSnapshot {
    /// Looks at the log of a folder. A copy of one has no lock, and nobody who writes to it.
    pub fn take(folder: &Path) -> Result<AuditSnapshot, AuditError> {
        is_plain(&folder.join("lock"))?;
        let lock = File::open(folder.join("lock")).ok().map(Arc::new);
        let _held = lock.map(|lock| Held::take(&lock, folder)).transpose()?;
        let mut found = Vec::new();
        for (_, path) in files(folder)? {
            is_plain(&path)?;
            let length = path.metadata().map_err(|error| AuditError::unreadable(&path, &error))?.len();
            found.push((path, length));
        }
        Ok(AuditSnapshot { head: audit_head(folder)?, files: found })
    }

    /// Its files, oldest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// One of its files, to be read.
    pub fn open(&self, path: &Path) -> Result<Box<dyn BufRead>, AuditError> {
        let length = self.files.iter().find(|(own, _)| own == path).map_or(0, |(_, length)| *length);
        let file = File::open(path).map_err(|error| AuditError::unreadable(path, &error))?;
        Ok(Box::new(BufReader::with_capacity(64 << 10, file.take(length))))
    }
}
