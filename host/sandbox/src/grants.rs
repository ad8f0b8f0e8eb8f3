//! What the operator gives to a plugin.
//!
//! Owns the grants, the short form of folders for command lines, and the directory handles behind them. Refuses
//! everything that is not named: without a grant a plugin has no file, folder, network or environment.
//!
//! **Invariant:** a granted folder is opened once, when the plugin is loaded, and every call gets that very
//! folder, whatever its path names by then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use t2m_core::code::Code;
use t2m_core::effect::Effect;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::clock::Date;
use crate::error::SandboxError;
use crate::http::{HostGrant, HostRule, Outside, SecretGrant};
use crate::imports::Capabilities;
use crate::kv::{KvGrant, Store};

/// What may be done in a granted folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// Read and list.
    #[default]
    ReadOnly,
    /// Also create, change and remove.
    ReadWrite,
}

/// One folder that a plugin may use, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirGrant {
    /// The folder. The plugin sees it under its absolute path, links resolved.
    pub path: PathBuf,
    /// What may be done there. A folder below a writable one is writable, whatever its own grant says.
    pub access: Access,
}

impl FromStr for DirGrant {
    type Err = SandboxError;

    /// Reads `FOLDER`, `FOLDER:ro` or `FOLDER:rw`; without an ending the folder is read-only.
    fn from_str(text: &str) -> Result<DirGrant, SandboxError> {
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "ro")) => (path, Access::ReadOnly),
            Some((path, "rw")) => (path, Access::ReadWrite),
            _ => (text, Access::ReadOnly),
        };
        if path.is_empty() {
            let message = format!("`{text}` names no folder; write `FOLDER`, `FOLDER:ro` or `FOLDER:rw`");
            return Err(SandboxError::new(Code::GrantInvalid, message));
        }
        Ok(DirGrant { path: path.into(), access })
    }
}

/// Everything that one plugin is given. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Folders.
    pub dirs: Vec<DirGrant>,
    /// Hosts to send HTTP requests to.
    pub hosts: Vec<HostRule>,
    /// Secrets to put into those requests.
    pub secrets: Vec<SecretGrant>,
    /// The folder, with mode 0700, in which it keeps values between calls.
    pub kv: Option<PathBuf>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// The date that it reads. It opens no interface: without it the date is virtual.
    pub clock: Option<Date>,
}

impl Grants {
    /// Which interfaces these open.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let (files, http) = (!self.dirs.is_empty(), !self.hosts.is_empty());
        Capabilities { files, http, secrets: !self.secrets.is_empty(), kv: self.kv.is_some() }
    }
}

/// Grants whose folders are open.
pub(crate) struct OpenGrants {
    dirs: Vec<OpenDir>,
    hosts: Option<HostGrant>,
    kv: Option<Arc<Store>>,
    env: BTreeMap<String, String>,
    clock: Option<Date>,
}

struct OpenDir {
    /// Kept open so that [`OpenDir::source`] stays good.
    _handle: Dir,
    /// Where the engine opens the folder again for each call.
    source: PathBuf,
    /// The name the guest sees.
    name: String,
    access: Access,
}

impl OpenGrants {
    /// Whether there is nothing to open for a call.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_wasi() && self.hosts.is_none() && self.kv.is_none() && self.clock.is_none()
    }

    /// Whether there are folders or variables.
    pub(crate) fn has_wasi(&self) -> bool {
        !self.dirs.is_empty() || !self.env.is_empty()
    }

    /// The hosts, if there are any. What a call may send there is narrowed by its effect.
    pub(crate) fn hosts(&self) -> Option<&HostGrant> {
        self.hosts.as_ref()
    }

    /// The store, if there is one, as a call of this effect may use it.
    pub(crate) fn kv(&self, effect: Effect) -> Option<KvGrant> {
        self.kv.as_ref().map(|store| KvGrant { store: Arc::clone(store), effect })
    }

    /// The date, if a call of this effect may read one that isn't its run's.
    pub(crate) fn date(&self, effect: Effect) -> Option<Date> {
        self.clock.filter(|_| effect != Effect::Pure)
    }

    /// Opens every folder and reports all that can't be.
    pub(crate) fn open(grants: &Grants, outside: &Arc<Outside>) -> Result<OpenGrants, SandboxError> {
        let mut dirs = Vec::<OpenDir>::new();
        let mut problems = Vec::new();
        for grant in &grants.dirs {
            match open_dir(grant) {
                Ok(dir) if dirs.iter().any(|other| other.name == dir.name) => {
                    problems.push(format!("folder `{}` is granted twice", dir.name));
                }
                Ok(dir) => dirs.push(dir),
                Err(problem) => problems.push(problem),
            }
        }
        let kv = match grants.kv.as_deref().map(Store::open).transpose() {
            Ok(kv) => kv.map(Arc::new),
            Err(error) => {
                problems.push(error.message().to_owned());
                None
            }
        };
        if problems.is_empty() {
            let hosts = (!grants.hosts.is_empty()).then(|| HostGrant {
                rules: grants.hosts.clone().into(),
                secrets: grants.secrets.clone().into(),
                outside: Arc::clone(outside),
            });
            Ok(OpenGrants { dirs, hosts, kv, env: grants.env.clone(), clock: grants.clock })
        } else {
            Err(SandboxError::new(Code::GrantInvalid, problems.join("; ")))
        }
    }

    /// Hands the folders and variables to one call, no wider than the effect of its reviewed contract: a pure tool gets
    /// none, and one that reads can't write, whatever the plugin was granted.
    pub(crate) fn install(&self, wasi: &mut WasiCtxBuilder, effect: Effect) -> wasmtime::Result<()> {
        if effect == Effect::Pure {
            return Ok(());
        }
        for (name, value) in &self.env {
            wasi.env(name, value);
        }
        for dir in &self.dirs {
            let permissions = match dir.access {
                Access::ReadWrite if !effect.is_read_only() => FsPerms::ReadWrite,
                _ => FsPerms::ReadOnly,
            };
            wasi.preopened_dir(&dir.source, &dir.name, permissions)?;
        }
        Ok(())
    }
}

fn open_dir(grant: &DirGrant) -> Result<OpenDir, String> {
    let shown = grant.path.display();
    let path =
        grant.path.canonicalize().map_err(|error| format!("folder `{shown}` can't be opened: {error}"))?;
    let handle = Dir::open_ambient_dir(&path, ambient_authority())
        .map_err(|error| format!("folder `{shown}` can't be opened: {error}"))?;
    let name =
        path.to_str().ok_or_else(|| format!("folder `{shown}` has a name that is not UTF-8"))?.to_owned();
    Ok(OpenDir { source: reopen_path(&handle, &path), _handle: handle, name, access: grant.access })
}

/// A path that leads to the open folder itself. By its ordinary path, a guest that may write in the folder
/// above could put a link in its place between two calls.
#[cfg(target_os = "linux")]
fn reopen_path(handle: &Dir, _path: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", handle.as_raw_fd()).into()
}

/// Elsewhere there is no such path; grants must not lie inside each other there.
#[cfg(not(target_os = "linux"))]
fn reopen_path(_handle: &Dir, path: &Path) -> PathBuf {
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dirs: Vec<DirGrant>) -> Result<OpenGrants, SandboxError> {
        let outside = Arc::new(Outside::new(Arc::new(crate::http::SystemNetwork)));
        OpenGrants::open(&Grants { dirs, ..Grants::default() }, &outside)
    }

    fn read(text: &str) -> (String, Access) {
        let grant: DirGrant = text.parse().unwrap();
        (grant.path.display().to_string(), grant.access)
    }

    /// P04: a folder is read-only unless its grant says otherwise.
    #[test]
    fn a_grant_is_read_only_by_default() {
        assert_eq!(read("a/b"), ("a/b".into(), Access::ReadOnly));
        assert_eq!(read("a:ro"), ("a".into(), Access::ReadOnly));
        assert_eq!(read("a:rw"), ("a".into(), Access::ReadWrite));
        assert_eq!(read("a:b"), ("a:b".into(), Access::ReadOnly));
        assert_eq!(read("C:rw:ro"), ("C:rw".into(), Access::ReadOnly));
        for bad in ["", ":rw"] {
            assert_eq!(bad.parse::<DirGrant>().unwrap_err().code(), Code::GrantInvalid, "{bad}");
        }
    }

    /// P03: every grant that can't be given is named.
    #[test]
    fn all_missing_folders_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let missing = folder.path().join("missing");
        let dirs = [folder.path(), &missing, &file]
            .map(|path| DirGrant { path: path.into(), access: Access::ReadOnly });
        let error = open(dirs.into()).err().unwrap();
        assert_eq!(error.code(), Code::GrantInvalid);
        assert!(error.message().contains("missing") && error.message().contains("file"), "{error}");
    }

    /// P03: two grants for one folder leave open which one holds.
    #[test]
    fn a_folder_is_granted_once() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().display().to_string();
        let dirs = [format!("{text}:ro"), format!("{text}/.:rw")].map(|text| text.parse().unwrap());
        let error = open(dirs.into()).err().unwrap();
        assert_eq!(error.code(), Code::GrantInvalid);
    }
}
