//! `cargo xtask tidy`: rules of the repository that no compiler checks.
//!
//! It owns the list of rules and how faults are reported. It refuses to change a file.
//!
//! **Invariant:** a rule is a function from the text of the tree to faults. It reads no file itself, so each
//! one is tested on a few lines of text, and one run reports the faults of all of them.

mod deps;
mod edges;
mod manifest;
mod purity;
mod rust;
mod wit;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::shell::{Repo, program, read, say};

/// The text files of the repository by path, `/` between folders.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads what git tracks, and what it would track if it were added.
    fn read(repo: &Repo) -> Result<Self> {
        let mut git = program("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&repo.root);
        let listing = read(&mut git).context("tidy asks git which files belong to the repository")?;
        let mut files = BTreeMap::new();
        for name in listing.split('\0').filter(|name| !name.is_empty()) {
            let path = repo.root.join(name);
            // A file deleted but not yet committed is still listed.
            if !path.is_file() {
                continue;
            }
            let bytes = fs::read(&path).with_context(|| format!("can't read `{}`", path.display()))?;
            // What isn't UTF-8 is binary data; no rule is about that.
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(name.to_owned(), text);
            }
        }
        Ok(Self { files })
    }

    /// Every file, in the order of their paths.
    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files of one kind.
    fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.ends_with(end))
    }

    fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
}

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

impl Fault {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule)
    }
}

/// Checks the repository and fails if any rule is broken.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let faults = check(&Tree::read(repo)?, &local_folders(repo));
    for fault in &faults {
        say(&fault.to_string());
    }
    match faults.len() {
        0 => Ok(()),
        1 => bail!("1 rule of the repository is broken"),
        number => bail!("rules of the repository are broken in {number} places"),
    }
}

/// Folders of this machine that must not be named in the tree: where the repository is, and the home.
fn local_folders(repo: &Repo) -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let folders = [repo.root.to_string_lossy().into_owned(), home.trim_end_matches('/').to_owned()];
    folders.into_iter().filter(|folder| folder.len() > 1).collect()
}

/// Every fault of the tree, sorted by place.
fn check(tree: &Tree, local: &[String]) -> Vec<Fault> {
    let (manifests, mut faults) = manifest::parse_all(tree);
    faults.extend(edges::check(tree, &manifests));
    faults.extend(deps::check(tree, &manifests));
    faults.extend(purity::check(tree));
    faults.extend(rust::check(tree));
    faults.extend(wit::check(tree));
    faults.extend(words::check(tree, local));
    faults.sort();
    faults.dedup();
    faults
}

#[cfg(test)]
mod testing {
    //! Short ways to write a tree and to name its faults.

    use super::{Fault, Tree};

    /// A tree of the files given.
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// Places and rules, such as `a.rs:3 size`.
    pub(super) fn places(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(|fault| format!("{}:{} {}", fault.path, fault.line, fault.rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::tree;
    use super::*;

    #[test]
    fn faults_of_every_rule_are_reported_at_once_in_order() {
        let tree = tree(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n[dependencies]\nlog = \"1\"\n"),
            ("a/src/lib.rs", "fn f() {}\n"),
            ("wit/a.wit", "interface a {\n}\n"),
        ]);
        let rules: Vec<&str> = check(&tree, &[]).iter().map(|fault| fault.rule).collect();
        for rule in ["edge", "version", "lints", "unused", "lock", "module-doc", "wit-doc"] {
            assert!(rules.contains(&rule), "`{rule}` is missing from {rules:?}");
        }
    }

    #[test]
    fn a_fault_reads_as_a_place_and_a_sentence() {
        let fault = Fault::new("a/b.rs", 7, "size", "too long");
        assert_eq!(fault.to_string(), "a/b.rs:7: too long [size]");
    }

    #[test]
    fn only_files_that_git_knows_or_would_add_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let status = program("git").args(args).current_dir(dir.path()).status().unwrap();
            assert!(status.success());
        };
        git(&["init", "--quiet"]);
        for (name, text) in
            [(".gitignore", "/target\n"), ("new.rs", "//! x"), ("gone.rs", ""), ("target", "fn f() {}")]
        {
            fs::write(dir.path().join(name), text).unwrap();
        }
        fs::write(dir.path().join("picture"), [0xff, 0xfe]).unwrap();
        git(&["add", "gone.rs"]);
        fs::remove_file(dir.path().join("gone.rs")).unwrap();

        let repo = Repo { root: dir.path().to_owned(), target: dir.path().join("target") };
        let names: Vec<String> = Tree::read(&repo).unwrap().files.into_keys().collect();
        assert_eq!(names, [".gitignore", "new.rs"]);
    }
}
