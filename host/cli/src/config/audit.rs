//! `[audit]`: where decisions are recorded.
//!
//! Owns the shape of the table. Refuses to open a log.
//!
//! **Invariant:** without `dir` there is no log.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_runtime::AuditSync;

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditConfig {
    /// The log's folder, relative to this file, made if it isn't there. Without it nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) dir: Option<PathBuf>,
    /// When a record is on the disk for sure.
    pub(crate) sync: SyncConfig,
    /// Bytes of a file after which the next one begins.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) max_file_bytes: u64,
}

/// When a record is on the disk for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SyncConfig {
    /// The decision of a call that may change something before it runs, everything else within a second.
    Each,
    /// Everything within a second.
    Interval,
    /// When the system writes it.
    Never,
}

impl From<SyncConfig> for AuditSync {
    fn from(sync: SyncConfig) -> AuditSync {
        match sync {
            SyncConfig::Each => AuditSync::Each,
            SyncConfig::Interval => AuditSync::Interval,
            SyncConfig::Never => AuditSync::Never,
        }
    }
}
