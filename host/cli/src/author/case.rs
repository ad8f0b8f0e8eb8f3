//! `t2m/plugin-case@1`: one call of a tool, and what it should give.
//!
//! Owns the file's shape and its text. Refuses to run it: [`super::trial`] does.
//!
//! **Invariant:** a case is read whole or every fault of its file is reported, at once.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use t2m_core::code::Code;
use t2m_core::id::ToolName;
use t2m_core::json::{self, Limits};
use t2m_core::problem::{Place, Problem, Problems, child};
use t2m_sandbox::Date;

use crate::config::LimitsPatch;
use crate::out::pretty;

/// Largest case file, in bytes: results are at most 4 MiB by default, and fixtures of more are folders.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// First field of every case file.
const FORMAT: &str = "t2m/plugin-case@1";

/// The order in which fields are written.
const ORDER: [&str; 9] =
    ["format", "tool", "arguments", "date", "files", "limits", "approved", "expect", "files_after"];

/// What a plugin reads where its case gives no date.
const USUAL_DATE: &str = "2025-01-01T00:00:00Z";

/// A test case of a plugin.
///
/// In arguments, expected values and messages `{dir}` stands for the directory that the plugin is granted.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "t2m-host plugin test case, version 1")]
pub(crate) struct Case {
    /// The format's name and version.
    #[schemars(extend("const" = FORMAT))]
    format: String,
    /// The tool to call.
    #[schemars(with = "String", extend("pattern" = "^[A-Za-z0-9_.-]{1,128}$"))]
    pub(crate) tool: ToolName,
    /// Its arguments.
    pub(crate) arguments: Map<String, Value>,
    /// What it should give. Only the fields that are given are compared.
    pub(crate) expect: Expect,
    /// The date that the plugin reads if its manifest asks for the clock, in RFC 3339; 2025-01-01T00:00:00Z if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    date: Option<String>,
    /// What lies in a fresh directory that the plugin is granted, if its manifest asks for directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Files")]
    pub(crate) files: Option<Files>,
    /// Everything that should lie in that directory afterwards: texts by path. A path that ends in `/` and
    /// has `null` is an empty folder; bytes that are no text are given by `{"digest": "sha256:..."}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, Value>", extend("additionalProperties" = {"type": ["string", "null", "object"]}))]
    pub(crate) files_after: Option<Map<String, Value>>,
    /// Limits of the call, as far as they differ from the usual ones.
    #[serde(default, skip_serializing_if = "LimitsPatch::is_empty")]
    pub(crate) limits: LimitsPatch,
    /// `false` calls the tool without an approval and under the default policy, which refuses every effect
    /// but reading.
    #[serde(default = "yes")]
    pub(crate) approved: bool,
    /// The file itself, so that writing it back keeps what isn't changed.
    #[serde(skip)]
    document: Map<String, Value>,
}

fn yes() -> bool {
    true
}

/// What a call should give: a result, or an error alone.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// The structured result.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub(crate) structured: Option<Value>,
    /// All text blocks, joined by line breaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) text: Option<String>,
    /// All blocks. Those of bytes are given as `plugin run` shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>")]
    pub(crate) content: Option<Vec<Value>>,
    /// Why the call should fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExpectedError")]
    pub(crate) error: Option<ExpectedError>,
}

/// `null` is a value that can be expected.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Why a call should fail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedError {
    /// The host's code, such as `tool-failed`.
    #[schemars(with = "String", extend("enum" = Code::ALL))]
    pub(crate) code: Code,
    /// The tool's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) tool_code: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) message: Option<String>,
}

/// What lies in the directory: a map, or a copy of a folder.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Files {
    /// What the plugin may do there.
    #[serde(default)]
    pub(crate) access: FileAccess,
    /// Texts by path; a path that ends in `/` and has `null` is an empty folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, Value>", extend("additionalProperties" = {"type": ["string", "null"]}))]
    pub(crate) content: Option<Map<String, Value>>,
    /// A folder to copy, relative to the plugin's own and inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub(crate) folder: Option<String>,
}

/// What a plugin may do in the directory of its case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileAccess {
    /// Read and list.
    #[default]
    Read,
    /// Also create, change and remove.
    ReadWrite,
}

impl Case {
    /// Reads a case.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Case, Problems> {
        let value = json::parse(bytes, Limits { bytes: MAX_BYTES, ..Limits::default() })?;
        let mut problems = t2m_core::schema::problems(&schema(), &value);
        check_rules(&value, &mut problems);
        Problems::from_list(problems)?;
        let internal = |message: String| Problems::from(Problem::new(Code::Internal, Place::Whole, message));
        let case: Case =
            serde_json::from_value(value.clone()).map_err(|error| internal(error.to_string()))?;
        let Value::Object(document) = value else { return Err(internal("a case is an object".to_owned())) };
        Ok(Case { document, ..case })
    }

    /// The same case with what was got as its expectation.
    pub(crate) fn blessed(&self, expect: Value, files_after: Option<Value>) -> String {
        let mut document = self.document.clone();
        document.insert("expect".into(), expect);
        if let Some(files) = files_after {
            document.insert("files_after".into(), files);
        }
        text_of(&document)
    }

    /// The date that the plugin reads, if it may.
    pub(crate) fn date(&self) -> Date {
        // Reading the case has refused what is no date.
        Date::Fixed(since_1970(self.date.as_deref().unwrap_or(USUAL_DATE)).unwrap_or_default())
    }

    /// The file's text.
    #[cfg(test)]
    pub(crate) fn to_text(&self) -> String {
        text_of(&self.document)
    }

    /// What the case says should come, as it stands in the file.
    pub(crate) fn expected(&self) -> Value {
        self.document.get("expect").cloned().unwrap_or_default()
    }
}

/// A date that a plugin can be given: its clock begins in 1970.
fn since_1970(date: &str) -> Option<Duration> {
    Duration::try_from(date.parse::<Timestamp>().ok()?.as_duration()).ok()
}

fn text_of(document: &Map<String, Value>) -> String {
    let fields = ORDER.iter().filter_map(|key| document.get(*key).map(|value| (key, value)));
    let lines: Vec<String> =
        fields.map(|(key, value)| format!("  \"{key}\": {}", pretty(value).replace('\n', "\n  "))).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// What a schema has no simple words for.
fn check_rules(value: &Value, problems: &mut Vec<Problem>) {
    let mut add = |pointer: &str, message: &str| {
        problems.push(Problem::at(Code::FieldValue, pointer, message));
    };
    if let Some(expect) = value.get("expect").and_then(Value::as_object) {
        match (expect.contains_key("error"), expect.len()) {
            (false, 0) => add("/expect", "expects nothing; give `structured`, `text`, `content` or `error`"),
            (true, 2..) => add("/expect", "a call that fails has no result; give `error` alone"),
            _ => {}
        }
    }
    if let Some(date) = value.get("date").and_then(Value::as_str)
        && since_1970(date).is_none()
    {
        add("/date", "expected a date from 1970 on, such as `2026-03-29T01:30:00Z`");
    }
    if let Some(files) = value.get("files").and_then(Value::as_object)
        && files.contains_key("content") == files.contains_key("folder")
    {
        add("/files", "give either `content` or `folder`");
    }
    if let Some(folder) = value.pointer("/files/folder").and_then(Value::as_str)
        && !stays_inside(folder)
    {
        add("/files/folder", "the path must be relative and stay inside the plugin's folder");
    }
    for pointer in ["/files/content", "/files_after"] {
        for (path, entry) in value.pointer(pointer).and_then(Value::as_object).into_iter().flatten() {
            let here = child(pointer, path);
            if !stays_inside(path) {
                add(&here, "the path must be relative and stay inside the directory");
            } else if path.ends_with('/') != entry.is_null() {
                add(&here, "a folder ends in `/` and has `null`; a file has its text");
            }
        }
    }
}

fn stays_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// The published JSON Schema of the file.
pub(crate) fn schema() -> Value {
    t2m_core::schema::of_type::<Case>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P09: every malformed case: a code and a place, all of them at once.
    #[test]
    fn malformed_cases_are_refused_with_their_places() {
        let good = r#""format": "t2m/plugin-case@1", "tool": "t", "arguments": {}, "expect": {"text": "x"}"#;
        assert!(Case::parse(format!("{{{good}}}").as_bytes()).is_ok());
        let base = r#""format": "t2m/plugin-case@1", "tool": "t", "arguments": {}"#;
        let table: &[(&str, Code, &str)] = &[
            ("{", Code::JsonSyntax, "line 1"),
            ("[]", Code::FieldType, "the top level"),
            ("{}", Code::FieldMissing, "the top level"),
            (&format!("{{{good}, \"tool\": \"u\"}}"), Code::JsonDuplicateKey, "/tool"),
            (&format!("{{{good}, \"fils\": {{}}}}"), Code::FieldUnknown, "/fils"),
            (&good.replace("case@1", "case@2"), Code::FieldValue, "/format"),
            (&good.replace("\"t\"", "\"a b\""), Code::FieldValue, "/tool"),
            (&good.replace("\"arguments\": {}", "\"arguments\": []"), Code::FieldType, "/arguments"),
            (&good.replace("\"x\"", "1"), Code::FieldType, "/expect/text"),
            (&format!("{base}, \"expect\": {{}}"), Code::FieldValue, "/expect"),
            (&format!("{base}, \"expect\": {{\"txt\": 1}}"), Code::FieldUnknown, "/expect/txt"),
            (&format!("{base}, \"expect\": {{\"error\": {{}}}}"), Code::FieldMissing, "/expect/error"),
            (
                &format!("{base}, \"expect\": {{\"error\": {{\"code\": \"no\"}}}}"),
                Code::FieldValue,
                "/expect/error/code",
            ),
            (
                &format!("{base}, \"expect\": {{\"text\": \"\", \"error\": {{\"code\": \"internal\"}}}}"),
                Code::FieldValue,
                "/expect",
            ),
            (&format!("{good}, \"files\": {{}}"), Code::FieldValue, "/files"),
            (
                &format!("{good}, \"files\": {{\"content\": {{}}, \"access\": \"all\"}}"),
                Code::FieldValue,
                "/files/access",
            ),
            (&format!("{good}, \"files\": {{\"folder\": \"../x\"}}"), Code::FieldValue, "/files/folder"),
            (
                &format!("{good}, \"files\": {{\"content\": {{\"/etc/x\": \"\"}}}}"),
                Code::FieldValue,
                "/files/content/~1etc~1x",
            ),
            (
                &format!("{good}, \"files\": {{\"content\": {{\"a\": 1}}}}"),
                Code::FieldType,
                "/files/content/a",
            ),
            (
                &format!("{good}, \"files\": {{\"content\": {{\"a\": null}}}}"),
                Code::FieldValue,
                "/files/content/a",
            ),
            (&format!("{good}, \"files_after\": {{\"a/\": \"x\"}}"), Code::FieldValue, "/files_after/a~1"),
            (&format!("{good}, \"limits\": {{\"fuel\": 0}}"), Code::FieldValue, "/limits/fuel"),
            (&format!("{good}, \"date\": \"2026-02-30T00:00:00Z\""), Code::FieldValue, "/date"),
            (&format!("{good}, \"date\": \"1969-12-31T23:59:59Z\""), Code::FieldValue, "/date"),
            (&format!("{good}, \"approved\": \"no\""), Code::FieldType, "/approved"),
        ];
        for (text, code, place) in table {
            let text = if text.starts_with(['{', '[']) { (*text).to_owned() } else { format!("{{{text}}}") };
            let problems = Case::parse(text.as_bytes()).unwrap_err();
            assert!(
                problems.iter().any(|p| p.code == *code && p.place.to_string().starts_with(place)),
                "{text}: expected {code} at {place}, found {problems}"
            );
        }
        let two =
            Case::parse(br#"{"format": "t2m/plugin-case@1", "tool": "a b", "arguments": 1, "expect": {}}"#);
        assert_eq!(two.unwrap_err().iter().count(), 3, "all problems at once");
    }

    #[test]
    fn blessing_changes_only_what_was_got() {
        let text = r#"{"expect": {"structured": null}, "tool": "t", "format": "t2m/plugin-case@1", "arguments": {"b": 1, "a": 2}}"#;
        let case = Case::parse(text.as_bytes()).unwrap();
        assert_eq!(case.expect.structured, Some(Value::Null));
        let blessed = case.blessed(serde_json::json!({"structured": 5}), None);
        assert!(
            blessed.starts_with("{\n  \"format\": \"t2m/plugin-case@1\",\n  \"tool\": \"t\",\n"),
            "{blessed}"
        );
        let again = Case::parse(blessed.as_bytes()).unwrap();
        assert_eq!((again.expect.structured.clone(), &again.arguments), (Some(5.into()), &case.arguments));
        assert_eq!(again.to_text(), blessed);
    }
}
