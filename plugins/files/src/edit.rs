//! Editing a text file by search and replace.
//!
//! Owns where an edit applies and what its lines are indented by. Refuses files that aren't UTF-8, which
//! writing back would damage.
//!
//! INVARIANT: either every edit of a call applies or the file stays as it was.

use schemars::JsonSchema;
use serde::Deserialize;
use t2m_plugin_sdk::{Error, Reply};

use crate::{Text, diff, read, roots, text, write};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditArgs {
    path: String,
    edits: Vec<Edit>,
    /// Preview changes using git-style diff format
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Edit {
    /// Text to search for - must match exactly
    old_text: String,
    /// Text to replace with
    new_text: String,
}

pub(crate) fn edit_file(args: EditArgs) -> Result<Reply<Text>, Error> {
    let path = roots::resolve(&args.path)?;
    let original = String::from_utf8(read::bytes(&path)?).map_err(|_| {
        Error::new("invalid-data", format!("{path} is not UTF-8 text; an edit would damage it"))
    })?;
    let original = line_feeds(&original);
    let mut edited = original.clone();
    for edit in &args.edits {
        edited =
            apply(&edited, &line_feeds(&edit.old_text), &line_feeds(&edit.new_text)).ok_or_else(|| {
                Error::new("no-match", format!("Could not find exact match for edit:\n{}", edit.old_text))
            })?;
    }
    let report = fenced(&diff::unified(&path, &original, &edited));
    if !args.dry_run {
        write::replace(&path, edited.as_bytes())?;
    }
    Ok(text(report))
}

fn line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Replaces the first place where `old` stands, exactly or else with other whitespace around its lines.
fn apply(content: &str, old: &str, new: &str) -> Option<String> {
    if content.contains(old) {
        return Some(content.replacen(old, new, 1));
    }
    let lines: Vec<&str> = content.split('\n').collect();
    let old_lines: Vec<&str> = old.split('\n').collect();
    let same = |window: &[&str]| window.iter().zip(&old_lines).all(|(a, b)| trim(a) == trim(b));
    let start = lines.windows(old_lines.len()).position(same)?;
    let base = indent(lines.get(start)?);
    let mut result: Vec<String> = lines.iter().take(start).map(|line| (*line).to_owned()).collect();
    result.extend(new.split('\n').enumerate().map(|(index, line)| indented(base, index, line, &old_lines)));
    result.extend(lines.iter().skip(start + old_lines.len()).map(|line| (*line).to_owned()));
    Some(result.join("\n"))
}

/// A new line with the indentation of the place: the first line takes it over, later ones keep how much
/// further in than their old line they were.
fn indented(base: &str, index: usize, line: &str, old_lines: &[&str]) -> String {
    let own = indent(line);
    let rest = line.trim_start_matches(is_space);
    let old = old_lines.get(index).map_or("", |old| indent(old));
    if index == 0 {
        format!("{base}{rest}")
    } else if old.is_empty() || own.is_empty() {
        line.to_owned()
    } else {
        let further = own.chars().count().saturating_sub(old.chars().count());
        format!("{base}{}{rest}", " ".repeat(further))
    }
}

fn indent(line: &str) -> &str {
    let rest = line.trim_start_matches(is_space);
    line.strip_suffix(rest).unwrap_or("")
}

fn trim(line: &str) -> &str {
    line.trim_matches(is_space)
}

/// What ECMAScript counts as whitespace.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// Puts a diff into a fence that is longer than any row of backticks inside.
fn fenced(diff: &str) -> String {
    let mut fence = "```".to_owned();
    while diff.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}diff\n{diff}{fence}\n\n")
}

#[cfg(test)]
mod tests {
    use super::{apply, fenced};

    #[test]
    fn an_exact_match_replaces_the_first_place() {
        assert_eq!(apply("a b a", "a", "$&").as_deref(), Some("$& b a"));
    }

    #[test]
    fn other_indentation_is_kept() {
        let content = "fn x() {\n        if a {\n            b();\n        }\n}";
        let old = "if a {\n  b();\n}";
        let new = "if a {\n    c();\n  d();\n}";
        let edited = "fn x() {\n        if a {\n          c();\n  d();\n}\n}";
        assert_eq!(apply(content, old, new).as_deref(), Some(edited));
    }

    #[test]
    fn what_is_not_there_is_not_replaced() {
        assert_eq!(apply("a\nb", "a\nc", "x"), None);
        assert_eq!(apply("a", "a\nb\nc", "x"), None);
    }

    #[test]
    fn the_fence_is_longer_than_any_inside() {
        assert_eq!(fenced("+````\n"), "`````diff\n+````\n`````\n\n");
    }
}
