//! Catalogues: what tools do that no loaded plugin has.
//!
//! Owns the form of a catalogue, the one that is built in, and what hints of a recording can change. Refuses to
//! believe a recording: it can only make a call look worse. A catalogue informs the order of calls; what may run
//! is decided by contracts.
//!
//! **Invariant:** a call that no catalogue knows is unknown.

mod command;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::compiler::ToolFacts;
use crate::document::Report;
use crate::effect::{Effect, Idempotency};
use crate::problem::{Place, Problem, Problems, item};
use crate::workflow::EffectSource;

/// First field of every catalogue. The number is the major version.
pub const CATALOG_FORMAT: &str = "t2m/catalog@1";

/// What tools do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    source: EffectSource,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    /// `t2m/catalog@1`.
    #[schemars(extend("const" = CATALOG_FORMAT))]
    format: String,
    /// What is known of tools; the first entry that matches a call decides.
    #[serde(default)]
    tool: Vec<Entry>,
}

/// What is known of some tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Names as recorded; `*` stands for any characters.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    names: Vec<String>,
    /// Arguments that a call must have for this entry to be about it.
    #[serde(default)]
    arguments: Vec<String>,
    /// What such a call may do outside.
    effect: Effect,
    /// Whether it may be repeated.
    #[serde(default)]
    idempotency: Idempotency,
    /// Keys of what it reads, such as `file:{path}`; none if that isn't known.
    #[serde(default)]
    reads: Vec<String>,
    /// Keys of what it changes.
    #[serde(default)]
    writes: Vec<String>,
    /// Why, for whoever reads `explain`.
    #[schemars(length(min = 1))]
    reason: String,
    /// What differs for some arguments; the first that matches decides.
    #[serde(default)]
    when: Vec<When>,
}

/// What differs for some arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct When {
    /// The argument that is looked at.
    #[schemars(length(min = 1))]
    argument: String,
    /// The values for which this holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    one_of: Vec<String>,
    /// The kind of command line for which this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CommandKind")]
    command: Option<CommandKind>,
    /// What such a call may do outside.
    effect: Effect,
    /// Whether it may be repeated.
    #[serde(default)]
    idempotency: Idempotency,
    /// Keys of what it reads.
    #[serde(default)]
    reads: Vec<String>,
    /// Keys of what it changes.
    #[serde(default)]
    writes: Vec<String>,
    /// Why.
    #[schemars(length(min = 1))]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum CommandKind {
    /// One plain command that only looks, with flags that the built-in table lists.
    ReadOnly,
}

/// What is known of one call, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) facts: ToolFacts,
    pub(crate) source: EffectSource,
    pub(crate) reason: String,
}

impl Known {
    /// What is known of a call that nothing tells of.
    pub(crate) fn nothing() -> Known {
        Known {
            facts: ToolFacts::default(),
            source: EffectSource::Nothing,
            reason: "no loaded plugin and no catalogue knows it".to_owned(),
        }
    }

    /// Takes a claim into account: it can make the call look worse, never better.
    pub(crate) fn raise(&mut self, effect: Option<Effect>, idempotency: Idempotency, who: &str) {
        if let Some(effect) = effect.filter(|effect| *effect > self.facts.effect) {
            self.facts.effect = effect;
            // What is touched was said of something milder.
            self.facts.reads.clear();
            self.facts.writes.clear();
            self.reason.push_str(&format!("; {who} says `{effect}`"));
        }
        if idempotency == Idempotency::NonIdempotent && self.facts.idempotency != idempotency {
            self.facts.idempotency = idempotency;
            self.reason.push_str(&format!("; {who} says that repeating acts again"));
        }
    }

    /// Takes the annotations into account that a server gave of its own tool.
    pub(crate) fn raise_by_annotations(&mut self, annotations: &Value) {
        let flag = |name: &str| annotations.get(name).and_then(Value::as_bool);
        let effect = match (flag("readOnlyHint"), flag("destructiveHint")) {
            (Some(true), _) => None,
            (_, Some(true)) => Some(Effect::Delete),
            (Some(false), _) => Some(Effect::Write),
            (None, _) => None,
        };
        let again = match flag("idempotentHint") {
            Some(false) => Idempotency::NonIdempotent,
            _ => Idempotency::Unknown,
        };
        self.raise(effect, again, "the recorded server");
    }
}

impl Catalog {
    /// The one that is built in.
    pub fn built_in() -> Result<Catalog, Problems> {
        let fault = |message: String| Problems::from(Problem::new(Code::Internal, Place::Whole, message));
        let file: File = toml::from_str(include_str!("catalog/builtin.toml"))
            .map_err(|error| fault(error.message().to_owned()))?;
        Catalog::check(file, EffectSource::BuiltInCatalog)
    }

    /// One of somebody's own, of JSON that matches [`Catalog::json_schema`].
    pub fn own(value: Value) -> Result<Catalog, Problems> {
        let file: File = serde_json::from_value(value)
            .map_err(|error| Problem::new(Code::FieldValue, Place::Whole, error.to_string()))?;
        Catalog::check(file, EffectSource::Catalog)
    }

    fn check(file: File, source: EffectSource) -> Result<Catalog, Problems> {
        let report = Report::default();
        if file.format != CATALOG_FORMAT {
            let message =
                format!("format `{}` isn't supported; this program reads `{CATALOG_FORMAT}`", file.format);
            report.add(Code::VersionUnsupported, "/format", message);
        }
        for (index, entry) in file.tool.iter().enumerate() {
            let at = item("/tool", index);
            check_keys(entry.effect, [("reads", &entry.reads), ("writes", &entry.writes)], &at, &report);
            for (index, when) in entry.when.iter().enumerate() {
                let at = item(&format!("{at}/when"), index);
                check_keys(when.effect, [("reads", &when.reads), ("writes", &when.writes)], &at, &report);
                if when.one_of.is_empty() == when.command.is_none() {
                    let message = "say with either `one_of` or `command` when it holds";
                    report.add(Code::FieldValue, at, message);
                }
            }
        }
        report.finish(Some(Catalog { source, entries: file.tool }))
    }

    /// The published JSON Schema of the file, which is TOML.
    pub fn json_schema() -> Value {
        let mut schema = crate::schema::of_type::<File>();
        if let Some(map) = schema.as_object_mut() {
            map.insert("title".to_owned(), json!("t2m-host catalogue of tools, version 1"));
        }
        schema
    }

    /// What it knows of a call.
    pub(crate) fn find(&self, tool: &str, arguments: &Map<String, Value>) -> Option<Known> {
        let entry = self.entries.iter().find(|entry| {
            entry.names.iter().any(|name| matches(name, tool))
                && entry.arguments.iter().all(|name| arguments.contains_key(name))
        })?;
        let when = entry.when.iter().find(|when| when.holds(arguments));
        let (effect, idempotency, reads, writes, reason) = match when {
            Some(when) => (when.effect, when.idempotency, &when.reads, &when.writes, &when.reason),
            None => (entry.effect, entry.idempotency, &entry.reads, &entry.writes, &entry.reason),
        };
        let facts = ToolFacts { effect, idempotency, reads: reads.clone(), writes: writes.clone() };
        Some(Known { facts, source: self.source, reason: reason.clone() })
    }
}

impl When {
    fn holds(&self, arguments: &Map<String, Value>) -> bool {
        let Some(value) = arguments.get(&self.argument) else { return false };
        match self.command {
            Some(CommandKind::ReadOnly) => command::only_looks(value),
            None => value.as_str().is_some_and(|text| self.one_of.iter().any(|wanted| wanted == text)),
        }
    }
}

fn check_keys(effect: Effect, lists: [(&str, &Vec<String>); 2], at: &str, report: &Report) {
    for (field, keys) in lists {
        for (index, key) in keys.iter().enumerate() {
            let mut rest = key.as_str();
            let mut good = true;
            while let Some((before, tail)) = rest.split_once('{') {
                good &= !before.contains('}');
                match tail.split_once('}') {
                    Some((name, tail)) if !name.is_empty() && !name.contains('{') => rest = tail,
                    _ => {
                        good = false;
                        break;
                    }
                }
            }
            if !good || rest.contains('}') {
                let message =
                    format!("`{key}` is no key: an argument stands in braces, such as `file:{{path}}`");
                report.add(Code::FieldValue, item(&format!("{at}/{field}"), index), message);
            }
        }
        if field == "writes" && effect.is_read_only() && !keys.is_empty() {
            let message = format!("a call with the effect `{effect}` writes nothing");
            report.add(Code::FieldValue, format!("{at}/{field}"), message);
        }
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(tool: &str, arguments: Value) -> Option<Known> {
        Catalog::built_in().unwrap().find(tool, arguments.as_object().unwrap())
    }

    /// T14: well-known tools have their effect, shells none, and what nobody listed is not known.
    #[test]
    fn the_built_in_catalogue_knows_servers_and_agents() {
        use Effect::{Delete, Read, Unknown, Write};
        for (tool, arguments, effect, key) in [
            ("read_file", json!({"path": "/a"}), Read, "file:{path}"),
            ("read_file", json!({"absolute_path": "/a"}), Read, "file:{absolute_path}"),
            ("mcp__filesystem__write_file", json!({"path": "/a", "content": ""}), Write, "file:{path}"),
            ("git_status", json!({"repo_path": "/r"}), Read, "file:{repo_path}"),
            ("delete_entities", json!({}), Delete, "memory:/graph"),
            ("Read", json!({"file_path": "/a"}), Read, "file:{file_path}"),
            ("Edit", json!({"file_path": "/a"}), Write, "file:{file_path}"),
            ("Bash", json!({"command": "git status"}), Read, ""),
            ("Bash", json!({"command": "git status | tee x"}), Unknown, ""),
            ("exec_command", json!({"cmd": "ls -l"}), Read, ""),
            ("shell", json!({"command": ["bash", "-lc", "ls > x"]}), Unknown, ""),
            ("apply_patch", json!({"input": ""}), Delete, ""),
            ("run_shell_command", json!({"command": "make"}), Unknown, ""),
        ] {
            let known = known(tool, arguments.clone()).unwrap();
            assert_eq!(known.facts.effect, effect, "{tool} {arguments}");
            let first = known.facts.reads.iter().chain(&known.facts.writes).next();
            assert_eq!(first.map_or("", String::as_str), key, "{tool} {arguments}");
        }
        for tool in ["read_file", "Task", "deploy", "mcp__other__read_file", "add"] {
            assert_eq!(known(tool, json!({})), None, "{tool}");
        }
    }

    #[test]
    fn patterns_stand_for_any_characters() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("ab*ba", "aba", false),
            ("*", "x", true),
            ("mcp__*__read_*", "mcp__x__read_y", true),
            ("mcp__*__read_*", "mcp__x__write_y", false),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxa", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// T14: hints make a call look worse, never better.
    #[test]
    fn claims_only_raise() {
        let mut read = known("Read", json!({"file_path": "/a"})).unwrap();
        read.raise_by_annotations(&json!({"readOnlyHint": true, "destructiveHint": false}));
        read.raise(Some(Effect::Pure), Idempotency::Idempotent, "x");
        assert_eq!((read.facts.effect, read.facts.reads.len()), (Effect::Read, 1));
        read.raise_by_annotations(&json!({"readOnlyHint": false, "idempotentHint": false}));
        assert_eq!(read.facts.effect, Effect::Write);
        assert_eq!(read.facts.idempotency, Idempotency::NonIdempotent);
        assert!(read.facts.reads.is_empty() && read.reason.contains("the recorded server says `write`"));
        read.raise_by_annotations(&json!({"destructiveHint": true}));
        assert_eq!(read.facts.effect, Effect::Delete);
        let mut nothing = Known::nothing();
        nothing.raise_by_annotations(&json!({"readOnlyHint": true}));
        nothing.raise(Some(Effect::Read), Idempotency::Idempotent, "x");
        assert_eq!(nothing, Known::nothing());
    }

    #[test]
    fn every_fault_of_a_catalogue_is_reported_at_its_place() {
        let entry = |more: Value| {
            let mut entry = json!({"names": ["t"], "effect": "read", "reason": "r"});
            entry.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            entry
        };
        let when = json!({"argument": "a", "effect": "read", "reason": "r"});
        let file = json!({"format": CATALOG_FORMAT, "tool": [
            entry(json!({"reads": ["file:{path", "ok:{a}/{b}", "x}"]})),
            entry(json!({"writes": ["file:{path}"]})),
            entry(json!({"when": [when]})),
        ]});
        let problems = Catalog::own(file).unwrap_err();
        let places: Vec<String> = problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["/tool/0/reads/0", "/tool/0/reads/2", "/tool/1/writes", "/tool/2/when/0"]);
        assert_eq!(
            Catalog::own(json!({"format": "t2m/catalog@2"})).unwrap_err().code(),
            Code::VersionUnsupported
        );
    }
}
