//! Running one test case.
//!
//! Owns the way from a case to what was got, and the comparison. Refuses to load what the case didn't grant.
//!
//! **Invariant:** the same component and case give the same result: run and node ids are fixed, and so are
//! clocks and randomness, which follow from them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use similar::TextDiff;
use t2m_core::code::{Class, Code};
use t2m_core::dispatch::CallError;
use t2m_core::effect::Effect;
use t2m_core::event::Stage;
use t2m_core::id::{InvalidName, NodeId, RunId};
use t2m_core::policy::{Action, Policy};
use t2m_core::tool::{Content, Reply};
use t2m_sandbox::{Access, DirGrant, Grants, Limits};

use super::bench::{self, Bench, Setup};
use super::case::{self, Case, Expect, FileAccess};
use super::fixture::Fixture;
use crate::component::Component;
use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::manifest::AskedAccess;
use crate::out::pretty;
use crate::workspace;

/// What stands for the granted directory.
const DIR: &str = "{dir}";

/// A case with its name, which is its file's.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) case: Case,
}

/// Where a plugin's cases are.
pub(crate) fn folder_of(component: &Component) -> PathBuf {
    component.folder().join("tests/cases")
}

/// The cases of a plugin whose name contains a text, in the order of their names; or all that is wrong with
/// them. No folder means no cases.
pub(crate) fn cases_of(
    component: &Component,
    filter: Option<&str>,
) -> std::result::Result<Vec<Named>, Vec<Failure>> {
    let folder = folder_of(component);
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(vec![Failure::of_file(&folder, Code::FileUnreadable, files::reason(&error))]);
        }
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let read = files::read(&path, case::MAX_BYTES).and_then(|bytes| Case::parse(&bytes).in_file(&path));
        match read {
            Ok(case) => cases.push(Named { name, path, case }),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(cases) } else { Err(failures) }
}

/// What a case gave.
pub(crate) struct Trial {
    /// The call's outcome, in the form of the case's `expect`.
    pub(crate) got: Value,
    /// What lies in the directory, if the case says what should.
    pub(crate) files_after: Option<Value>,
    /// The difference to what was expected; nothing if there is none.
    pub(crate) diff: Option<String>,
}

/// Runs a case. `project` is the plugin's folder.
pub(crate) async fn run(bench: &Bench, project: &Path, limits: Limits, case: &Case) -> Result<Trial> {
    let unusable = |error: std::io::Error| {
        Failure::new(Code::GrantInvalid, format!("the case's files: {}", files::reason(&error)))
    };
    if case.files.is_some() && bench.asks.dirs == AskedAccess::None {
        let message = "the case has `files`, and the plugin's `plugin.toml` asks for no directory";
        return Err(Failure::new(Code::GrantInvalid, message));
    }
    let fixture = match bench.asks.dirs {
        AskedAccess::None => None,
        _ => Some(Fixture::make(case.files.as_ref(), project).map_err(unusable)?),
    };
    let writable = case.files.as_ref().is_some_and(|files| files.access == FileAccess::ReadWrite);
    let access = if writable { Access::ReadWrite } else { Access::ReadOnly };
    let dirs = fixture.iter().map(|fixture| DirGrant { path: fixture.path().into(), access }).collect();
    // A store of its own, empty each time.
    let store = bench.asks.kv.then(tempfile::tempdir).transpose().map_err(unusable)?;
    let kv = store.as_ref().map(|store| workspace::store(store.path(), &bench.name)).transpose()?;
    let policy = if case.approved { every_effect() } else { Policy::default() };
    let setup = Setup {
        allowed: Grants { dirs, kv, clock: Some(case.date()), ..Grants::default() },
        limits: case.limits.over(limits),
        policy,
        approvals: None,
    };
    let loaded = bench.load(setup).await;
    let internal = |error: InvalidName| Failure::new(Code::Internal, error.to_string());
    let (run, node) = (RunId::new("test").map_err(internal)?, NodeId::new("case").map_err(internal)?);
    let path = fixture.as_ref().map(Fixture::path);
    let arguments = replaced(Value::Object(case.arguments.clone()), DIR, path);
    let outcome = match loaded {
        Ok(loaded) => loaded.call(run, node, &case.tool, arguments).await,
        // The limits of a case may be too low for the plugin to say what it offers; that is an outcome too.
        Err(failure) if failure.problems.code().class() == Class::Limit => {
            Err(CallError::before_run(Stage::Bind, failure.problems.code(), failure.problems.to_string()))
        }
        Err(failure) => return Err(failure),
    };

    let got = hidden(project_outcome(&outcome, &case.expect), path);
    let files_after = match (&fixture, &case.files_after) {
        (Some(fixture), Some(expected)) => Some(hidden(fixture.content(expected).map_err(unusable)?, path)),
        (None, Some(_)) => Some(json!({})),
        _ => None,
    };
    let expected = with_files(&case.expected(), case.files_after.clone().map(Value::Object).as_ref());
    let diff = difference(&expected, &with_files(&got, files_after.as_ref()));
    Ok(Trial { got, files_after, diff })
}

/// Inside its own directory a plugin under test may do everything.
fn every_effect() -> Policy {
    let effects = Effect::ALL.iter().map(|effect| (*effect, Action::Allow)).collect();
    Policy { effects, ..Policy::default() }
}

/// What came of a call, with the fields that are expected; all that say something if another kind of
/// outcome was expected.
fn project_outcome(outcome: &std::result::Result<Reply, CallError>, expect: &Expect) -> Value {
    let mut got = Map::new();
    match outcome {
        Err(error) => {
            let wanted = expect.error.as_ref();
            let mut shown = Map::from_iter([("code".to_owned(), json!(error.code))]);
            if wanted.is_none_or(|wanted| wanted.tool_code.is_some() || wanted.code != error.code)
                && let Some(code) = &error.tool_code
            {
                shown.insert("tool_code".into(), json!(code));
            }
            if wanted.is_none_or(|wanted| wanted.message.is_some() || wanted.code != error.code) {
                shown.insert("message".into(), json!(error.message));
            }
            got.insert("error".into(), Value::Object(shown));
        }
        Ok(reply) => {
            let unexpected = expect.error.is_some();
            if let Some(value) = &reply.structured
                && (expect.structured.is_some() || unexpected)
            {
                got.insert("structured".into(), value.clone());
            }
            let nothing_else = unexpected && reply.structured.is_none();
            let only_text = reply.content.iter().all(|block| matches!(block, Content::Text { .. }));
            if expect.text.is_some() || (nothing_else && only_text) {
                got.insert("text".into(), json!(text(reply)));
            }
            if expect.content.is_some() || (nothing_else && !only_text) {
                got.insert("content".into(), json!(bench::content(reply)));
            }
        }
    }
    Value::Object(got)
}

fn text(reply: &Reply) -> String {
    let texts: Vec<&str> = reply
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// A value with the directory's path replaced by what stands for it.
fn hidden(value: Value, path: Option<&str>) -> Value {
    match path {
        Some(path) => replaced(value, path, Some(DIR)),
        None => value,
    }
}

fn replaced(value: Value, from: &str, to: Option<&str>) -> Value {
    let Some(to) = to else { return value };
    match value {
        Value::String(text) => Value::String(text.replace(from, to)),
        Value::Array(list) => list.into_iter().map(|item| replaced(item, from, Some(to))).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, item)| (key.replace(from, to), replaced(item, from, Some(to))))
            .collect(),
        other => other,
    }
}

fn with_files(expect: &Value, files: Option<&Value>) -> Value {
    match files {
        Some(files) => json!({"expect": expect, "files_after": files}),
        None => json!({"expect": expect}),
    }
}

/// The lines in which two values differ: `-` is expected, `+` was got.
fn difference(expected: &Value, got: &Value) -> Option<String> {
    if expected == got {
        return None;
    }
    let (expected, got) = (pretty(expected), pretty(got));
    let diff = TextDiff::from_lines(&expected, &got);
    let mut text = diff.unified_diff().missing_newline_hint(false).header("expected", "got").to_string();
    text.truncate(text.trim_end().len());
    Some(text)
}

#[cfg(test)]
mod tests {
    use t2m_core::tool::Usage;

    use super::*;

    fn expect(value: Value) -> Expect {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_got_has_the_fields_that_were_expected() {
        let content = vec![Content::Text { text: "a".into() }, Content::Text { text: "b".into() }];
        let reply = |structured| Ok(Reply { content: content.clone(), structured, usage: Usage::default() });
        let table = [
            (json!({"structured": 1}), Some(json!(2)), json!({"structured": 2})),
            (json!({"structured": 1}), None, json!({})),
            (json!({"text": "a"}), Some(json!(2)), json!({"text": "a\nb"})),
            (json!({"error": {"code": "tool-failed"}}), Some(json!(2)), json!({"structured": 2})),
            (json!({"error": {"code": "tool-failed"}}), None, json!({"text": "a\nb"})),
        ];
        for (expected, structured, got) in table {
            assert_eq!(project_outcome(&reply(structured), &expect(expected.clone())), got, "{expected}");
        }
    }

    #[test]
    fn a_directory_is_hidden_wherever_it_stands() {
        let value = json!({"/d/t1/a": ["/d/t1", {"x": "in /d/t1/b"}], "n": 1});
        let hidden = hidden(value.clone(), Some("/d/t1"));
        assert_eq!(hidden, json!({"{dir}/a": ["{dir}", {"x": "in {dir}/b"}], "n": 1}));
        assert_eq!(replaced(hidden, DIR, Some("/d/t1")), value);
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let diff = difference(&json!({"a": 1, "b": 2}), &json!({"a": 1, "b": 3})).unwrap();
        assert!(diff.contains("-  \"b\": 2") && diff.contains("+  \"b\": 3"), "{diff}");
        assert_eq!(difference(&json!(1), &json!(1)), None);
    }
}
