//! Expected results as files beside their input.
//!
//! It owns comparison and rewriting. It refuses to redact: what it is given is what it compares.
//!
//! **Invariant:** a file changes only if `BLESS=1` is set; a missing file is a failure like a different one.

use std::fs;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use crate::{Failure, Outcome, data_dir};

/// Compares `actual` with `case_dir/name`, or writes it there if `BLESS=1` is set.
pub fn check(case_dir: &Path, name: &str, actual: &str) -> Outcome<()> {
    check_file(&case_dir.join(name), actual, blessing())
}

/// Whether expected files are to be rewritten.
pub fn blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// The cases of an area: the folders in `tests/data/<area>`, in the order of their names.
pub fn cases(area: &str) -> Outcome<Vec<PathBuf>> {
    let folder = data_dir(area);
    let entries = fs::read_dir(&folder).map_err(|why| Failure::at(folder.display(), why))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(Failure::new(format!("{}: no cases", folder.display())));
    }
    found.sort();
    Ok(found)
}

fn check_file(path: &Path, actual: &str, bless: bool) -> Outcome<()> {
    let expected = fs::read_to_string(path);
    if expected.as_ref().is_ok_and(|expected| expected == actual) {
        return Ok(());
    }
    if bless {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        return fs::write(path, actual).map_err(|why| Failure::at(path.display(), why));
    }
    let state = match &expected {
        Ok(_) => "differs",
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => "is missing",
        Err(why) => return Err(Failure::at(path.display(), why)),
    };
    let expected = expected.unwrap_or_default();
    let diff = TextDiff::from_lines(expected.as_str(), actual);
    Err(Failure::new(format!(
        "{} {state}\n{}\nif the new result is right: {}",
        path.display(),
        diff.unified_diff().context_radius(3).header("expected", "actual"),
        bless_command()
    )))
}

/// The command that accepts the new result of the running test.
pub(crate) fn bless_command() -> String {
    let thread = std::thread::current();
    let name = std::env::var("NEXTEST_TEST_NAME").ok().or_else(|| thread.name().map(str::to_owned));
    match name.filter(|name| name != "main") {
        Some(name) => format!("BLESS=1 cargo nextest run --workspace -E 'test(={name})'"),
        None => "BLESS=1 cargo nextest run --workspace".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_the_command_that_accepts_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("case/expected.txt");
        let missing = check_file(&path, "one\n", false).unwrap_err().to_string();
        assert!(missing.contains("expected.txt is missing") && missing.contains("+one"), "{missing}");

        check_file(&path, "one\n", true).unwrap();
        check_file(&path, "one\n", false).unwrap();

        let differs = check_file(&path, "two\n", false).unwrap_err().to_string();
        assert!(differs.contains("-one\n+two\n"), "{differs}");
        let command = "BLESS=1 cargo nextest run --workspace -E 'test(=golden::tests::a_difference_is_shown";
        assert!(differs.contains(command), "{differs}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n", "nothing was written");
    }

    #[test]
    fn an_area_without_cases_is_a_failure() {
        assert!(cases("no-such-area").is_err());
    }
}
