//! The audit log of a command that makes calls.
//!
//! Owns the way from the configuration to a log and its end. Refuses to go on without one that is configured.
//!
//! **Invariant:** a command that ends well has written all of its records.

use std::sync::Arc;

use t2m_core::audit::AuditLog;
use t2m_runtime::{AuditCloser, AuditError, AuditOptions, SystemClock, start_audit};

use crate::config::Config;
use crate::failure::{Failure, Result};

/// A log that is written.
pub(crate) struct OpenAudit {
    log: Arc<dyn AuditLog>,
    closer: AuditCloser,
}

impl OpenAudit {
    /// Opens the log of the configuration, if there is one.
    pub(crate) fn of(config: &Config) -> Result<Option<OpenAudit>> {
        let Some(folder) = &config.audit.dir else { return Ok(None) };
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

/// In the words of the command line.
pub(crate) fn failure(error: AuditError) -> Failure {
    Failure::of_file(&error.path, error.code, error.message)
}
