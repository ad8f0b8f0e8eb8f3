//! Where secrets come from.
//!
//! Owns reading one from the environment or a file of its own. Refuses a value in the configuration, and a file that
//! others may read.
//!
//! **Invariant:** no message of this module holds a value.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_core::code::Code;
use t2m_sandbox::{HostRule, SandboxError, SecretGrant};

use super::Config;
use crate::failure::{Failure, Result};
use crate::files;

/// Largest file that is read, in bytes: the longest value and a line break.
const MAX_BYTES: usize = (8 << 10) + 2;

const ONE_SOURCE: &str = "it comes from either `env` or `file`";

/// One secret: where its value comes from, and which hosts it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretConfig {
    /// The variable of the environment that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) env: Option<String>,
    /// The file that holds it, with or without a line break at its end; only its owner may read it. Relative to this
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) file: Option<PathBuf>,
    /// Hosts that it may be sent to, each as `[METHOD,... ]SCHEME://HOST[:PORT][ private]`.
    #[schemars(length(min = 1))]
    pub(crate) hosts: Vec<String>,
    /// Whether it may also stand in the query of a request, where servers commonly log it.
    #[serde(default)]
    pub(crate) query: bool,
}

impl SecretConfig {
    /// What is wrong with it, as far as that can be said without its value.
    pub(crate) fn problem(&self, name: &str) -> Option<String> {
        if self.env.is_some() == self.file.is_some() {
            return Some(ONE_SOURCE.to_owned());
        }
        let hosts: Vec<HostRule> = self.hosts.iter().filter_map(|rule| rule.parse().ok()).collect();
        SecretGrant::new(name, "any value", hosts, self.query).err().map(|error| error.message().to_owned())
    }
}

/// Reads a secret.
pub(crate) fn read(config: &Config, name: &str) -> Result<SecretGrant> {
    let invalid = |message: String| Failure::new(Code::GrantInvalid, format!("secret `{name}`: {message}"));
    let Some(secret) = config.secrets.get(name) else {
        return Err(invalid(format!("the configuration has no `[secrets.{name}]`")));
    };
    let value = match (&secret.env, &secret.file) {
        (Some(variable), None) => {
            std::env::var(variable).map_err(|_| invalid(format!("the variable `{variable}` isn't set")))?
        }
        (None, Some(path)) => from_file(path).map_err(invalid)?,
        _ => return Err(invalid(ONE_SOURCE.to_owned())),
    };
    let hosts = secret.hosts.iter().map(|rule| rule.parse());
    let hosts = hosts.collect::<std::result::Result<Vec<HostRule>, SandboxError>>()?;
    Ok(SecretGrant::new(name, &value, hosts, secret.query)?)
}

fn from_file(path: &Path) -> std::result::Result<String, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path)
        .map_err(|error| format!("the file `{shown}` can't be read: {}", files::reason(&error)))?;
    if !metadata.is_file() {
        return Err(format!("`{shown}` is no file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(format!("the file `{shown}` may be read by others; `chmod 600 {shown}`"));
        }
    }
    let bytes = files::read(path, MAX_BYTES).map_err(|failure| failure.problems.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("the file `{shown}` isn't UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// P06: a file that others may read is no place for a secret, and no message says what it holds.
    #[test]
    fn a_secret_is_read_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "canary-value-1\n").unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            from_file(&path)
        };
        assert_eq!(with_mode(0o600).unwrap(), "canary-value-1");
        let refused = with_mode(0o640).unwrap_err();
        assert!(refused.contains("chmod 600") && !refused.contains("canary"), "{refused}");
        assert!(from_file(folder.path()).is_err() && from_file(&folder.path().join("none")).is_err());
    }
}
