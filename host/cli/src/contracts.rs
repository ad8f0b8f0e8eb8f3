//! Which contracts are in force.
//!
//! Owns where contracts files are looked for. Refuses the folder of a plugin's component: a downloaded
//! plugin must not review itself.
//!
//! **Invariant:** for a tool in two files, the one that was named or belongs to the workflow wins.

use std::path::{Path, PathBuf};

use t2m_core::contract::Contracts;
use t2m_core::json::Limits;

use crate::failure::{InFile, Result};
use crate::files;

/// The file that holds for every workflow and client, beside the `t2m.toml` in use or, without one, in the
/// current folder.
pub(crate) fn shared_file(config: Option<&Path>) -> PathBuf {
    let folder = config.and_then(Path::parent).unwrap_or(Path::new(""));
    folder.join("t2m.contracts.json")
}

/// The contracts in force without a workflow: those of the named file over the shared ones. `config` is the
/// configuration file that the command line names.
pub(crate) fn default_contracts(config: Option<&Path>, named: Option<&Path>) -> Result<Contracts> {
    let shared = shared_file(config);
    let mut contracts = if shared.exists() { read(&shared)? } else { Contracts::default() };
    if let Some(named) = named {
        for contract in read(named)?.iter() {
            contracts.insert(contract.clone());
        }
    }
    Ok(contracts)
}

/// The file of a workflow: the named one, or the one beside it.
pub(crate) fn workflow_file(workflow: &Path, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| files::sibling(workflow, "contracts"), Path::to_path_buf)
}

/// The contracts in force for a workflow.
pub(crate) fn workflow_contracts(
    config: Option<&Path>,
    workflow: &Path,
    named: Option<&Path>,
) -> Result<Contracts> {
    let file = workflow_file(workflow, named);
    let own = Some(file.as_path()).filter(|file| named.is_some() || file.exists());
    default_contracts(config, own)
}

/// Reads one contracts file.
pub(crate) fn read(path: &Path) -> Result<Contracts> {
    let bytes = files::read(path, Limits::default().bytes)?;
    Contracts::parse(&bytes, Limits::default()).in_file(path)
}
