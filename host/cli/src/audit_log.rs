//! The audit log of a command that makes calls.
//!
//! Owns the way from the configuration to a log and its end. Refuses to go on without one that is configured.
//!
//! **Invariant:** a command that ends well has written all of its records.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use t2m_core::audit::AuditLog;
use t2m_core::code::Code;
use t2m_runtime::{AuditCloser, AuditError, AuditOptions, SystemClock, start_audit};
use t2m_sandbox::{Access, DirGrant};

use crate::args::PluginArgs;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// A log that is written.
pub(crate) struct OpenAudit {
    log: Arc<dyn AuditLog>,
    closer: AuditCloser,
}

impl OpenAudit {
    /// Opens the log of the configuration, if there is one.
    pub(crate) fn of(config: &Config, plugins: &PluginArgs) -> Result<Option<OpenAudit>> {
        let Some(folder) = &config.audit.dir else { return Ok(None) };
        check_grants(folder, config, plugins)?;
        let options = AuditOptions {
            folder: folder.clone(),
            sync: config.audit.sync.into(),
            max_file_bytes: config.audit.max_file_bytes,
            program: concat!("t2m-host ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let (log, closer) = start_audit(options, Arc::new(SystemClock)).map_err(failure)?;
        Ok(Some(OpenAudit { log, closer }))
    }

    /// What the dispatch writes to.
    pub(crate) fn log(&self) -> Arc<dyn AuditLog> {
        Arc::clone(&self.log)
    }

    /// Waits until everything is written.
    pub(crate) fn close(self) -> Result<()> {
        self.closer.close().map_err(failure)
    }
}

/// Refuses a log in a folder that a plugin may write to, or around one: it could make it anew. Folders that aren't
/// there yet count as well, since they may be made.
pub(crate) fn check_grants(folder: &Path, config: &Config, plugins: &PluginArgs) -> Result<()> {
    let dirs = config.plugin.iter().flat_map(|plugin| &plugin.dirs).chain(&plugins.dirs);
    // A grant that can't be read is refused where it is given.
    refuse_overlap(folder, dirs.filter_map(|dir| dir.parse().ok()))
}

/// The same for single grants.
pub(crate) fn refuse_overlap(folder: &Path, grants: impl IntoIterator<Item = DirGrant>) -> Result<()> {
    let log = real(folder);
    let refuse = |message: String| {
        Err(Failure::of_file(folder, Code::GrantInvalid, message)
            .with_next("set `audit.dir` to a folder that no plugin is granted"))
    };
    for grant in grants.into_iter().filter(|grant| grant.access == Access::ReadWrite) {
        let shown = grant.path.display();
        let (Some(log), Some(granted)) = (&log, real(&grant.path)) else {
            return refuse(format!(
                "where the audit log and `{shown}` lead can't be told: a part of a path isn't there"
            ));
        };
        if log.starts_with(&granted) || granted.starts_with(log) {
            return refuse(format!("the audit log lies in `{shown}`, where a plugin may write"));
        }
    }
    Ok(())
}

/// A path without links, as far as it is there; nothing if the rest leads back up.
fn real(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute
        .ancestors()
        .find_map(|above| {
            let rest = absolute.strip_prefix(above).ok()?;
            above.canonicalize().ok().map(|above| (above, rest))
        })
        .filter(|(_, rest)| !rest.components().any(|part| part == Component::ParentDir))
        .map(|(above, rest)| above.join(rest))
}

/// In the words of the command line.
pub(crate) fn failure(error: AuditError) -> Failure {
    let failure = Failure::of_file(&error.path, error.code, error.message);
    match error.code {
        Code::AuditChanged | Code::AuditMissing | Code::AuditOrder | Code::AuditInserted => failure.with_next(
            "`t2m-host audit verify` says what is wrong; to go on, put the folder away, keep it, and start with a new one",
        ),
        _ => failure,
    }
}
