//! Whether a command line only looks.
//!
//! Owns the reading of one plain command and the table of those that only look. Refuses everything it isn't
//! certain of: a pipe, a redirection, a substitution, a variable, a pattern, an unlisted flag.
//!
//! **Invariant:** a line that counts as reading starts one program, whose every flag the table lists.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    command: Vec<Command>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Command {
    words: Vec<String>,
    #[serde(default)]
    letters: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    operands: bool,
    #[serde(rename = "reason")]
    _reason: String,
}

static TABLE: LazyLock<Result<Table, String>> =
    LazyLock::new(|| toml::from_str(include_str!("commands.toml")).map_err(|error| error.to_string()));

/// Whether an argument, a command line or a list of words, is a command that only looks.
pub(super) fn only_looks(argument: &Value) -> bool {
    let words = match argument {
        Value::String(line) => words_of(line),
        Value::Array(list) => {
            let words: Option<Vec<String>> =
                list.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            match words.as_deref() {
                // A shell that is given a line.
                Some([shell, flag, line])
                    if matches!(shell.as_str(), "bash" | "sh" | "zsh" | "/bin/bash" | "/bin/sh")
                        && matches!(flag.as_str(), "-c" | "-lc") =>
                {
                    words_of(line)
                }
                _ => words,
            }
        }
        _ => None,
    };
    let Ok(table) = TABLE.as_ref() else { return false };
    words.is_some_and(|words| table.command.iter().any(|command| command.allows(&words)))
}

impl Command {
    fn allows(&self, words: &[String]) -> bool {
        let Some(rest) = words.get(self.words.len()..) else { return false };
        if !words.starts_with(&self.words) {
            return false;
        }
        let mut only_operands = false;
        rest.iter().all(|word| {
            if only_operands || !word.starts_with('-') || word == "-" {
                return self.operands;
            }
            only_operands = word == "--";
            if word.starts_with("--") {
                let name = word.split('=').next().unwrap_or_default();
                return self.flags.iter().any(|flag| flag == name);
            }
            word.chars().skip(1).all(|letter| self.letters.contains(letter))
        })
    }
}

/// The words of a plain command line; nothing if a shell would do anything else than start that command with
/// exactly these words.
fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let inside: &mut String = word.get_or_insert_with(String::new);
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '$' | '`' | '\\' if c == '"' => return None,
                        // Interactive shells expand it in double quotes.
                        '!' if c == '"' => return None,
                        control if control.is_control() => return None,
                        other => inside.push(other),
                    }
                }
            }
            plain if plain.is_alphanumeric() || "-_./,:@%+=^".contains(plain) => {
                word.get_or_insert_with(String::new).push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    // `A=b command` sets a variable.
    (!words.first()?.contains('=')).then_some(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// T14: a shell's line counts as reading only if nothing in it can do more.
    #[test]
    fn only_plain_commands_with_listed_flags_count_as_reading() {
        assert!(TABLE.as_ref().is_ok_and(|table| !table.command.is_empty()));
        for line in [
            "ls",
            "ls -la src",
            "git status",
            "git status --short",
            "git log --oneline -20",
            "cat 'a file.txt'",
            "pwd",
            "git diff --stat HEAD^",
            "grep -rn \"fn main\" src",
            "head -n 20 a.txt",
            "git branch --show-current",
            "git diff -- src/a.rs",
        ] {
            assert!(only_looks(&json!(line)), "{line}");
        }
        for line in [
            "",
            "git",
            "git push",
            "git status; rm x",
            "git status && rm x",
            "git status & rm x",
            "cat a | sh",
            "cat a > b",
            "cat < a",
            "cat $(rm x)",
            "cat `rm x`",
            "cat \"$(rm x)\"",
            "cat $HOME/x",
            "ls *",
            "ls ~",
            "ls {a,b}",
            "FOO=1 ls",
            "git -c core.pager=x log",
            "git log --output=x",
            "git diff --ext-diff",
            "git branch new",
            "git branch -D x",
            "tail -f x",
            "ls \\\n rm",
            "ls\nrm x",
            "cat 'unclosed",
            "sudo ls",
            "./ls",
            "/tmp2/ls",
            "git remote add x y",
            "find . -delete",
            "ls #x",
            "cat \"a!b\"",
            "git status --no-optional-locks",
            "xargs rm",
            "date -s x",
            "git diff -- --output=x -o y | x",
            "ls -la --hyperlink",
            "grep -f x y",
            "cat \u{1b}x",
        ] {
            assert!(!only_looks(&json!(line)), "{line}");
        }
        assert!(only_looks(&json!(["bash", "-lc", "git status"])));
        assert!(only_looks(&json!(["ls", "-l", "a|b"])), "words of a list are no shell's");
        for list in [
            json!(["bash", "-lc", "git status; rm x"]),
            json!(["rm", "x"]),
            json!(["bash", "x"]),
            json!([1]),
            json!({}),
            json!(null),
        ] {
            assert!(!only_looks(&list), "{list}");
        }
    }
}
