//! The audit log of a command that makes calls.
//!
//! Owns the way from the configuration to a log and its end. Refuses to go on without one that is configured.
//!
//! **Invariant:** a command that ends well has written all of its records.

use std::path::{Path, PathBuf};
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
        check_grants(config, plugins)?;
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

/// Refuses a log in a folder that a plugin may write to, or around one: it could make it anew.
pub(crate) fn check_grants(config: &Config, plugins: &PluginArgs) -> Result<()> {
    let Some(folder) = &config.audit.dir else { return Ok(()) };
    let Some(real) = real(folder) else { return Ok(()) };
    let dirs = config.plugin.iter().flat_map(|plugin| &plugin.dirs).chain(&plugins.dirs);
    // A grant that can't be read is refused where it is given.
    for grant in dirs.filter_map(|dir| dir.parse::<DirGrant>().ok()) {
        let Ok(granted) = grant.path.canonicalize() else { continue };
        if grant.access == Access::ReadWrite && (real.starts_with(&granted) || granted.starts_with(&real)) {
            let message =
                format!("the audit log lies in `{}`, where a plugin may write", grant.path.display());
            return Err(Failure::of_file(folder, Code::GrantInvalid, message)
                .with_next("set `audit.dir` to a folder that no plugin is granted"));
        }
    }
    Ok(())
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.ancestors().find_map(|above| {
        let rest = absolute.strip_prefix(above).ok()?;
        above.canonicalize().ok().map(|above| above.join(rest))
    })
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
