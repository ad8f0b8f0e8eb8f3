//! `plugin.toml`: what a plugin says of itself and asks for.
//!
//! Owns the file's shape and the meeting of what is asked and what is allowed. Refuses to grant: it can only
//! make a grant smaller.
//!
//! **Invariant:** a plugin gets nothing that its manifest doesn't ask for, whatever the operator allows.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use t2m_core::code::Code;
use t2m_core::id::PluginId;
use t2m_core::problem::{Place, Problem, Problems};
use t2m_sandbox::{Access, DirGrant, Grants, HostRule};

use crate::toml_file;

/// The file's name, always the same.
pub(crate) const FILE: &str = "plugin.toml";

/// Largest manifest, in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 16;

/// A plugin's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Its name.
    #[schemars(with = "String", extend("pattern" = "^[A-Za-z0-9_.-]{1,128}$"))]
    pub(crate) name: PluginId,
    /// Its own version.
    #[schemars(extend("pattern" = "^[0-9]+\\.[0-9]+\\.[0-9]+([-+].*)?$"))]
    pub(crate) version: String,
    /// The WIT package it is built for, such as `t2m:plugin@0.1.0`. A component whose tools are its own functions
    /// is built for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("pattern" = "^t2m:plugin@[0-9]+\\.[0-9]+\\.[0-9]+$"))]
    pub(crate) wit: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: String,
    /// Whether what a call leaves in its memory means nothing to the next one, so that an operator may let an
    /// instance serve several (`calls_per_instance`).
    #[serde(default)]
    pub(crate) stateless: bool,
    /// What it asks for.
    #[serde(default)]
    pub(crate) asks: Asks,
    /// How `plugin build` makes the component; without it, cargo does. No other command minds it: a plugin
    /// that is loaded runs nothing outside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Build")]
    pub(crate) build: Option<Build>,
}

/// A build that isn't cargo's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Build {
    /// The program and its arguments, started in the folder of this file.
    #[schemars(length(min = 1))]
    pub(crate) command: Vec<String>,
    /// The component that it makes, relative to this file.
    #[schemars(with = "String", length(min = 1))]
    pub(crate) output: PathBuf,
}

/// What a plugin asks for. What isn't named isn't asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asks {
    /// Directories.
    #[serde(default)]
    pub(crate) dirs: AskedAccess,
    /// Hosts to send HTTP requests to, each as `[METHOD,... ]SCHEME://HOST[:PORT]`; `*` as host or port is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// Secrets to put into those requests, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<String>,
    /// Whether it keeps values between calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) kv: bool,
    /// Variables of the environment, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) env: Vec<String>,
    /// Whether it reads the real date. Otherwise the date follows from the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) clock: bool,
}

/// What a plugin wants to do in directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AskedAccess {
    /// Nothing.
    #[default]
    None,
    /// Read and list.
    Read,
    /// Also create, change and remove.
    ReadWrite,
}

impl Manifest {
    /// Reads the manifest of an embedded plugin, which a test has checked.
    pub(crate) fn embedded(bytes: &[u8]) -> Result<Manifest, Problems> {
        toml::from_slice(bytes)
            .map_err(|error| Problem::new(Code::Internal, Place::Whole, error.to_string()).into())
    }

    /// Reads a manifest.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Manifest, Problems> {
        let value = toml_file::read(bytes, &schema())?;
        let manifest: Manifest = serde_json::from_value(value)
            .map_err(|error| Problem::new(Code::Internal, Place::Whole, error.to_string()))?;
        let problems = host_problems(&manifest.asks.hosts, "/asks/hosts");
        Problems::from_list(problems).map_err(|problems| toml_file::placed(bytes, problems))?;
        Ok(manifest)
    }
}

/// What is wrong with the rules for hosts that stand at a place of a file.
pub(crate) fn host_problems(rules: &[String], place: &str) -> Vec<Problem> {
    let problem = |(at, rule): (usize, &String)| {
        let error = rule.parse::<HostRule>().err()?;
        Some(Problem::at(error.code(), format!("{place}/{at}"), error.message()))
    };
    rules.iter().enumerate().filter_map(problem).collect()
}

impl Manifest {
    /// Refuses a plugin that is built for a WIT package which this host doesn't have.
    pub(crate) fn check_wit(&self) -> Result<(), Problems> {
        let Some(wit) = self.wit.as_ref().filter(|wit| !wit.starts_with("t2m:plugin@0.1.")) else {
            return Ok(());
        };
        let message = format!("`{wit}`; this host has `t2m:plugin@0.1.0`");
        Err(Problem::at(Code::PluginVersion, "/wit", message).into())
    }
}

impl Asks {
    /// What is asked for, for people.
    pub(crate) fn describe(&self) -> String {
        let dirs = match self.dirs {
            AskedAccess::None => None,
            AskedAccess::Read => Some("to read in granted directories".to_owned()),
            AskedAccess::ReadWrite => Some("to read and write in granted directories".to_owned()),
        };
        let hosts = (!self.hosts.is_empty())
            .then(|| format!("to send requests to granted hosts of {}", self.hosts.join(", ")));
        let secrets =
            (!self.secrets.is_empty()).then(|| format!("to use the secrets {}", self.secrets.join(", ")));
        let env = (!self.env.is_empty()).then(|| format!("to read the variables {}", self.env.join(", ")));
        let kv = self.kv.then(|| "to keep values between calls".to_owned());
        let clock = self.clock.then(|| "to read the real date".to_owned());
        let all = [dirs, hosts, secrets, kv, env, clock];
        let asked: Vec<String> = all.into_iter().flatten().collect();
        if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") }
    }

    /// What is granted: what is asked for and allowed.
    pub(crate) fn granted(&self, allowed: Grants) -> Grants {
        let dirs = match self.dirs {
            AskedAccess::None => Vec::new(),
            AskedAccess::Read => {
                let read_only = |grant| DirGrant { access: Access::ReadOnly, ..grant };
                allowed.dirs.into_iter().map(read_only).collect()
            }
            AskedAccess::ReadWrite => allowed.dirs,
        };
        // Reading a manifest has refused what doesn't parse.
        let asked: Vec<HostRule> = self.hosts.iter().filter_map(|rule| rule.parse().ok()).collect();
        let both =
            |rule: &HostRule| asked.iter().filter_map(|asked| rule.asked_by(asked)).collect::<Vec<_>>();
        let hosts = allowed.hosts.iter().flat_map(both).collect();
        let secrets =
            allowed.secrets.into_iter().filter(|secret| self.asks_for_secret(secret.name())).collect();
        let kv = allowed.kv.filter(|_| self.kv);
        let env = allowed.env.into_iter().filter(|(name, _)| self.env.contains(name)).collect();
        let clock = allowed.clock.filter(|_| self.clock);
        Grants { dirs, hosts, secrets, kv, env, clock }
    }

    /// Whether a secret of this name is asked for. One that isn't is never read.
    pub(crate) fn asks_for_secret(&self, name: &str) -> bool {
        self.secrets.iter().any(|asked| asked == name)
    }

    /// What it asks for and what would grant it, each in a word or two: "directory and no host", and the options of the
    /// command line.
    pub(crate) fn lacking(&self) -> (String, String) {
        let all = [
            (self.dirs != AskedAccess::None, "directory", "`--dir DIR`"),
            (!self.hosts.is_empty(), "host", "`--host RULE`"),
            (self.kv, "store", "`--kv`"),
            (self.clock, "clock", "`--clock`"),
        ];
        let asked: Vec<_> = all.into_iter().filter(|(asked, ..)| *asked).collect();
        let asked = if asked.is_empty() { vec![(true, "directory", "`--dir DIR`")] } else { asked };
        let kinds: Vec<_> = asked.iter().map(|(_, kind, _)| *kind).collect();
        let options: Vec<_> = asked.iter().map(|(.., option)| *option).collect();
        (kinds.join(" and no "), options.join(" or "))
    }
}

/// The published JSON Schema of the file.
pub(crate) fn schema() -> Value {
    t2m_core::schema::of_type::<Manifest>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P03: granted is what is asked for and allowed.
    #[test]
    fn a_grant_is_never_more_than_was_asked_for() {
        let dirs = vec!["/a:rw".parse::<DirGrant>().unwrap(), "/b".parse().unwrap()];
        let hosts = vec!["https://*.example.com".parse().unwrap(), "http://localhost:80".parse().unwrap()];
        let secret = |name: &str| {
            let hosts = vec!["https://api.example.com".parse().unwrap()];
            t2m_sandbox::SecretGrant::new(name, "12345678", hosts, false).unwrap()
        };
        let secrets = vec![secret("one"), secret("two")];
        let env = [("A", "1"), ("B", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let clock = Some(t2m_sandbox::Date::Now);
        let allowed = Grants { dirs, hosts, secrets, kv: Some("kv".into()), env, clock };
        let asks = |dirs, hosts: &[&str]| {
            let hosts = hosts.iter().map(|rule| (*rule).to_owned()).collect();
            Asks { dirs, hosts, secrets: vec!["two".into(), "three".into()], ..Asks::default() }
                .granted(allowed.clone())
        };
        assert_eq!(
            asks(AskedAccess::None, &[]),
            Grants { secrets: vec![secret("two")], ..Grants::default() }
        );
        let read = asks(AskedAccess::Read, &[]);
        assert!(read.dirs.len() == 2 && read.dirs.iter().all(|grant| grant.access == Access::ReadOnly));
        assert!(Asks { kv: true, ..Asks::default() }.granted(allowed.clone()).kv.is_some());
        assert_eq!(Asks { clock: true, ..Asks::default() }.granted(allowed.clone()).clock, clock);
        assert_eq!(Asks { clock: true, ..Asks::default() }.granted(Grants::default()), Grants::default());
        let some = Asks { env: vec!["B".into(), "C".into()], ..Asks::default() }.granted(allowed.clone());
        assert_eq!(some.env, [("B".to_owned(), "2".to_owned())].into());
        let all = asks(AskedAccess::ReadWrite, &["https://*:*", "http://*"]);
        assert_eq!((all.dirs, all.hosts), (allowed.dirs.clone(), allowed.hosts.clone()));
        let some = asks(AskedAccess::None, &["GET https://api.example.com", "https://other.example"]);
        assert_eq!(some.hosts, ["GET https://api.example.com".parse().unwrap()]);
    }

    #[test]
    fn malformed_manifests_are_refused_with_their_places() {
        let good = "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n";
        assert!(Manifest::parse(good.as_bytes()).is_ok());
        let table: &[(&str, Code, &str)] = &[
            ("", Code::FieldMissing, "line 1"),
            ("name = \"a b\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n", Code::FieldValue, "line 1"),
            ("name = \"a\"\nversion = \"one\"\nwit = \"t2m:plugin@0.1.0\"\n", Code::FieldValue, "line 2"),
            ("name = \"a\"\nversion = \"0.1.0\"\nwit = \"other@0.1.0\"\n", Code::FieldValue, "line 3"),
            ("name = \"a\"\nversion = 1\nwit = \"t2m:plugin@0.1.0\"\n", Code::FieldType, "line 2"),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[ask]\n",
                Code::FieldUnknown,
                "line 4",
            ),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\ndirs = \"all\"\n",
                Code::FieldValue,
                "line 5",
            ),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\nsockets = true\n",
                Code::FieldUnknown,
                "line 5",
            ),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[asks]\nhosts = [\n\"https://a\",\n\"a\"]\n",
                Code::GrantInvalid,
                "line 7",
            ),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[build]\ncommand = []\n",
                Code::FieldMissing,
                "line 4",
            ),
            (
                "name = \"a\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[build]\ncommand = \"make\"\noutput = \"\"\n",
                Code::FieldType,
                "line 5",
            ),
        ];
        for (text, code, place) in table {
            let problems = Manifest::parse(text.as_bytes()).unwrap_err();
            assert!(
                problems.iter().any(|p| p.code == *code && p.place.to_string().starts_with(place)),
                "{text:?}: expected {code} at {place}, found {problems}"
            );
        }
    }
}
