//! Reads the command line of `cargo xtask`.
//!
//! It owns the spelling of commands and options. It refuses to run anything.
//!
//! **Invariant:** a word that isn't understood is an error, never ignored.

use std::path::PathBuf;

use crate::suite::Step;

/// What `cargo xtask help` prints.
pub(crate) const USAGE: &str = "\
usage: cargo xtask <command>

  test [--only STEP]... [-- NEXTEST_ARGS]
      install what the tests need (into target/), then run every check in order.
      STEP is one of install, fmt, tidy, codegen, clippy, nextest, doc.
      What follows -- goes to `cargo nextest run`, such as a filter.
  tidy
      check the rules of the repository that no compiler checks.
  codegen [--check] [--binary PATH]
      write the generated parts of README.md and schemas/; with --check fail if they differ.
      PATH is a built t2m-host; without it the workspace is built first.
  compare [--format human|json] [--binary PATH]
      measure `t2m-host serve` beside a bare rmcp server and wassette; takes minutes on a quiet machine.
      PATH is a release build of t2m-host; without it the one in target/release is taken.
  help";

/// One parsed command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Show the usage.
    Help,
    /// Run the checks.
    Test { only: Vec<Step>, nextest: Vec<String> },
    /// Check the repository's own rules.
    Tidy,
    /// Write or compare generated files.
    Codegen { check: bool, binary: Option<PathBuf> },
    /// Measure servers side by side.
    Compare { json: bool, binary: Option<PathBuf> },
}

/// Parses the words after `cargo xtask`.
pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    let Some((command, rest)) = words.split_first() else {
        return Err("no command given".to_owned());
    };
    match command.as_str() {
        "help" | "--help" | "-h" => Ok(Command::Help),
        "test" => parse_test(rest),
        "tidy" => match rest.first() {
            None => Ok(Command::Tidy),
            Some(word) => Err(format!("`tidy` takes no `{word}`")),
        },
        "codegen" => parse_codegen(rest),
        "compare" => parse_compare(rest),
        other => Err(format!("unknown command `{other}`")),
    }
}

fn parse_test(words: &[String]) -> Result<Command, String> {
    let mut only = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                let nextest: Vec<String> = words.cloned().collect();
                return Ok(Command::Test { only, nextest });
            }
            "--only" => {
                let name = words.next().ok_or("`--only` needs the name of a step")?;
                only.push(Step::parse(name).ok_or_else(|| format!("unknown step `{name}`"))?);
            }
            other => {
                return Err(format!("unknown option `{other}`; arguments for nextest go after `--`"));
            }
        }
    }
    Ok(Command::Test { only, nextest: Vec::new() })
}

fn parse_codegen(words: &[String]) -> Result<Command, String> {
    let (mut check, mut binary) = (false, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => check = true,
            "--binary" => binary = Some(PathBuf::from(words.next().ok_or("`--binary` needs a path")?)),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    Ok(Command::Codegen { check, binary })
}

fn parse_compare(words: &[String]) -> Result<Command, String> {
    let (mut json, mut binary) = (false, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--format" => match words.next().map(String::as_str) {
                Some("json") => json = true,
                Some("human") => json = false,
                _ => return Err("`--format` is `human` or `json`".to_owned()),
            },
            "--binary" => binary = Some(PathBuf::from(words.next().ok_or("`--binary` needs a path")?)),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    Ok(Command::Compare { json, binary })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn everything_after_two_dashes_goes_to_nextest() {
        let expected = Command::Test {
            only: vec![Step::Nextest],
            nextest: vec!["-E".to_owned(), "package(t2m-core)".to_owned()],
        };
        assert_eq!(parse_line("test --only nextest -- -E package(t2m-core)"), Ok(expected));
    }

    #[test]
    fn words_that_mean_nothing_are_errors() {
        for line in [
            "",
            "tset",
            "test --only lunch",
            "test --only",
            "test mcp",
            "tidy now",
            "codegen --chek",
            "compare --format xml",
        ] {
            assert!(parse_line(line).is_err(), "`{line}` was accepted");
        }
    }

    #[test]
    fn codegen_takes_a_built_binary() {
        let expected = Command::Codegen { check: true, binary: Some(PathBuf::from("bin/t2m-host")) };
        assert_eq!(parse_line("codegen --check --binary bin/t2m-host"), Ok(expected));
    }
}
