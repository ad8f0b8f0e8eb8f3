//! `t2m.toml`: what the operator wants.
//!
//! Owns the file's shape, its defaults and the places of its faults. Refuses silent defaults: an unknown or
//! mistyped key is an error, all of them at once.
//!
//! **Invariant:** the defaults are one embedded file, read by the same code as the operator's own.

mod audit;
mod limits;
pub(crate) mod secrets;
pub(crate) mod verify;

pub(crate) use audit::AuditConfig;
pub(crate) use limits::{LimitsConfig, LimitsPatch};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::id::{PluginId, ToolName};
use t2m_core::policy::Policy;
use t2m_core::problem::{Place, Problem, Problems};

use self::secrets::SecretConfig;
use crate::failure::{InFile, Result};
use crate::out::Out;
use crate::{files, toml_file};

/// The embedded defaults.
pub(crate) const DEFAULTS: &str = include_str!("config/default.toml");

/// The file that is used if none is named.
pub(crate) const USUAL: &str = "t2m.toml";

/// Largest configuration file, in bytes: a megabyte is a thousand plugins.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// How runs go.
    pub(crate) run: RunConfig,
    /// Limits of every plugin that has none of its own.
    pub(crate) limits: LimitsConfig,
    /// Which calls may run.
    #[serde(default)]
    pub(crate) policy: Policy,
    /// Where decisions are recorded.
    pub(crate) audit: AuditConfig,
    /// Plugins to load. Without any, every built-in one is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plugin: Vec<PluginConfig>,
    /// Secrets by name: where each one comes from and which hosts it is for. No value stands here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) secrets: BTreeMap<String, SecretConfig>,
    /// The folder that the file lies in, to which its paths are relative.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// Workflows that `serve` offers as tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workflow: Vec<WorkflowConfig>,
}

/// One workflow to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowConfig {
    /// The workflow file, relative to this file.
    pub(crate) path: PathBuf,
    /// The tool's name; that of the file without its ending by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("pattern" = "^[A-Za-z0-9_.-]{1,128}$"))]
    pub(crate) name: Option<ToolName>,
    /// What a client reads about it; by default which tools it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) description: Option<String>,
}

/// How runs go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    /// Most calls of one run at a time.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) concurrency: u16,
    /// Longest time for a whole run, in milliseconds.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: u64,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginConfig {
    /// Its name; that of a built-in plugin unless `path` is given.
    #[schemars(with = "String", extend("pattern" = "^[A-Za-z0-9_.-]{1,128}$"))]
    pub(crate) name: PluginId,
    /// Its component file, or the folder with its `plugin.toml`; relative to this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// Directories it is granted, relative to this file; `DIR:rw` lets it write there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dirs: Vec<String>,
    /// Hosts it may send HTTP requests to, each as `[METHOD,... ]SCHEME://HOST[:PORT][ private]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// Secrets of `[secrets]` that it may put into its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<String>,
    /// Whether it may keep values between calls, in `.t2m` beside this file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) kv: bool,
    /// Variables of the environment that it may read, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) env: Vec<String>,
    /// Whether it may read the real date. Otherwise the date follows from the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) clock: bool,
    /// Limits of its own, as far as they differ from `[limits]`.
    #[serde(default, skip_serializing_if = "LimitsPatch::is_empty")]
    pub(crate) limits: LimitsPatch,
    /// Calls that one instance may serve after each other, for a plugin that says it is `stateless` and has no
    /// grants. A new instance for each call by default.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) calls_per_instance: u32,
    /// Limits of single tools, as far as they differ from those of the plugin.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, LimitsPatch>")]
    pub(crate) tool_limits: BTreeMap<ToolName, LimitsPatch>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// The named file, or `t2m.toml` of the current folder if there is one.
pub(crate) fn file_in_use(named: Option<&Path>) -> Option<&Path> {
    named.or_else(|| Some(Path::new(USUAL)).filter(|path| path.exists()))
}

/// Reads the file in use over the defaults.
pub(crate) fn load(named: Option<&Path>, out: &mut Out) -> Result<Config> {
    let Some(path) = file_in_use(named) else {
        return Ok(over_defaults(json!({})).map_err(Problems::from)?);
    };
    if named.is_none() {
        // It decides what may run, so nobody should use one without knowing.
        out.note("using t2m.toml of the current folder");
    }
    let bytes = files::read(path, MAX_BYTES)?;
    let mut config = parse(&bytes).in_file(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    config.folder = folder.to_owned();
    for plugin in &mut config.plugin {
        plugin.path = plugin.path.take().map(|path| folder.join(path));
        for dir in &mut plugin.dirs {
            *dir = folder.join(&*dir).to_string_lossy().into_owned();
        }
    }
    for secret in config.secrets.values_mut() {
        secret.file = secret.file.take().map(|path| folder.join(path));
    }
    config.audit.dir = config.audit.dir.take().map(|dir| folder.join(dir));
    for workflow in &mut config.workflow {
        workflow.path = folder.join(&workflow.path);
    }
    Ok(config)
}

/// Reads a configuration's text over the defaults.
fn parse(bytes: &[u8]) -> std::result::Result<Config, Problems> {
    Ok(over_defaults(toml_file::read(bytes, &schema())?)?)
}

/// Lays a configuration over the defaults. Both match the schema, so a failure here is ours.
fn over_defaults(own: Value) -> std::result::Result<Config, Problem> {
    let internal = |message: String| Problem::new(Code::Internal, Place::Whole, message);
    // The embedded file matches the schema, which a test shows; compiling that takes longer than all the rest.
    let mut value = toml::from_str(DEFAULTS).map_err(|error| internal(error.to_string()))?;
    merge(&mut value, own);
    // What the schema can't say, such as the largest number of a type.
    serde_json::from_value(value)
        .map_err(|error| Problem::new(Code::FieldValue, Place::Whole, error.to_string()))
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// The published JSON Schema of the file. An operator's file may leave out what has a default.
pub(crate) fn schema() -> Value {
    let mut schema = t2m_core::schema::of_type::<Config>();
    for pointer in ["", "/properties/run", "/properties/limits", "/properties/audit"] {
        if let Some(map) = schema.pointer_mut(pointer).and_then(Value::as_object_mut) {
            map.remove("required");
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn problems(text: &str) -> Vec<(Code, String, String)> {
        match parse(text.as_bytes()) {
            Ok(_) => vec![],
            Err(problems) => {
                problems.iter().map(|p| (p.code, p.place.to_string(), p.message.clone())).collect()
            }
        }
    }

    #[test]
    fn the_defaults_are_complete_and_match_their_own_schema() {
        toml_file::read(DEFAULTS.as_bytes(), &schema()).unwrap();
        let config = parse(DEFAULTS.as_bytes()).unwrap();
        assert_eq!(config, over_defaults(json!({})).unwrap());
        assert_eq!(
            config.limits.to_limits(),
            t2m_sandbox::Limits::default(),
            "default.toml says what the sandbox does"
        );
    }

    #[test]
    fn limits_of_a_plugin_name_only_what_differs() {
        let text = b"[limits]\nfuel = 7\n[[plugin]]\nname = \"math\"\nlimits = {wall_ms = 5}\n";
        let config = parse(text).unwrap();
        let limits = config.plugin[0].limits.over(config.limits.to_limits());
        assert_eq!((limits.fuel, limits.wall), (7, Duration::from_millis(5)));
        assert_eq!(limits.memory_bytes, t2m_sandbox::Limits::default().memory_bytes);
    }

    #[test]
    fn an_own_file_changes_only_what_it_names() {
        let config = parse(b"[run]\nconcurrency = 2\n[policy.tools]\nwrite_file = \"allow\"\n").unwrap();
        assert_eq!((config.run.concurrency, config.run.timeout_ms), (2, 3_600_000));
        assert_eq!(config.policy.tools.len(), 1);
    }

    /// Every malformed configuration: a code, the line, and a hint where a name is nearly right.
    #[test]
    fn malformed_files_are_refused_with_their_places() {
        let table: &[(&str, Code, &str)] = &[
            ("[run\n", Code::TomlSyntax, "line 1"),
            ("a = 1\na = 2\n", Code::TomlSyntax, "line 2"),
            ("[run]\nconcurency = 2\n", Code::FieldUnknown, "line 2, column 1"),
            ("[runs]\n", Code::FieldUnknown, "line 1"),
            ("[run]\nconcurrency = 0\n", Code::FieldValue, "line 2"),
            ("[run]\nconcurrency = \"many\"\n", Code::FieldType, "line 2"),
            ("[run]\ntimeout_ms = -1\n", Code::FieldValue, "line 2"),
            ("run = 1\n", Code::FieldType, "line 1"),
            ("[limits]\n\nfuel = 1.5\n", Code::FieldType, "line 3"),
            ("[limits]\nmemory_bytes = 1\n", Code::FieldValue, "line 2"),
            ("[limits]\nmemory_bytes = 1073741825\n", Code::FieldValue, "line 2"),
            ("[audit]\nsync = \"always\"\n", Code::FieldValue, "line 2"),
            ("[audit]\nmax_file_bytes = 1\n", Code::FieldValue, "line 2"),
            ("[audit]\nfolder = \"log\"\n", Code::FieldUnknown, "line 2"),
            ("[policy.effects]\nwrit = \"allow\"\n", Code::FieldValue, "line "),
            ("[policy.effects]\nwrite = \"maybe\"\n", Code::FieldValue, "line 2"),
            ("[policy.tools]\nwrite_file = true\n", Code::FieldValue, "line 2"),
            ("[[plugin]]\npath = \"x.wasm\"\n", Code::FieldMissing, "line 1"),
            ("[[plugin]]\nname = \"a b\"\n", Code::FieldValue, "line 2"),
            ("[[plugin]]\nname = \"a\"\ndirs = \"/x\"\n", Code::FieldType, "line 3"),
            ("[[plugin]]\nname = \"a\"\nlimits = {fuel = 0}\n", Code::FieldValue, "line 3"),
            ("[[plugin]]\nname = \"a\"\nlimits = {fule = 1}\n", Code::FieldUnknown, "line 3"),
        ];
        for (text, code, place) in table {
            let found = problems(text);
            assert!(
                found.iter().any(|(c, p, _)| c == code && p.starts_with(place)),
                "{text:?}: expected {code} at {place}, found {found:?}"
            );
        }
        let two = problems("[run]\nconcurency = 2\n[limits]\nfule = 2\n");
        assert_eq!(two.len(), 2, "all problems at once: {two:?}");
        assert!(two[0].2.contains("did you mean"), "{two:?}");
    }
}
