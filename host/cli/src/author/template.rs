//! The project that `plugin new` writes.
//!
//! Owns the embedded files and the rule for names. Refuses to write: [`project`] gives texts by path.
//!
//! **Invariant:** every file of the SDK and of its WIT package is in a project, as the repository has it.

use t2m_core::code::Code;

use crate::failure::{Failure, Result};

/// A file of the repository, by its path in a project.
macro_rules! files {
    ($($path:literal = $source:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../", $source))),)+]
    };
}

/// Files in which `{{name}}`, `{{sdk}}` and `{{wit}}` are filled in.
const PROJECT: &[(&str, &str)] = files![
    "Cargo.toml" = "plugin-sdk/template/Cargo.toml",
    "Cargo.lock" = "plugin-sdk/template/Cargo.lock",
    "plugin.toml" = "plugin-sdk/template/plugin.toml",
    "README.md" = "plugin-sdk/template/README.md",
    ".gitignore" = "plugin-sdk/template/gitignore",
    "src/lib.rs" = "plugin-sdk/template/src/lib.rs",
    "tests/cases/greets.json" = "plugin-sdk/template/tests/cases/greets.json",
    "tests/cases/refuses-nobody.json" = "plugin-sdk/template/tests/cases/refuses-nobody.json",
    "sdk/rust/Cargo.toml" = "plugin-sdk/template/sdk/Cargo.toml",
];

/// Files that are copied as they are. The folders lie to each other as in the repository, because the
/// bindings name the WIT package by a relative path.
const SDK: &[(&str, &str)] = files![
    "sdk/rust/src/bindings.rs" = "plugin-sdk/src/bindings.rs",
    "sdk/rust/src/context.rs" = "plugin-sdk/src/context.rs",
    "sdk/rust/src/double.rs" = "plugin-sdk/src/double.rs",
    "sdk/rust/src/error.rs" = "plugin-sdk/src/error.rs",
    "sdk/rust/src/http.rs" = "plugin-sdk/src/http.rs",
    "sdk/rust/src/kv.rs" = "plugin-sdk/src/kv.rs",
    "sdk/rust/src/lib.rs" = "plugin-sdk/src/lib.rs",
    "sdk/rust/src/log.rs" = "plugin-sdk/src/log.rs",
    "sdk/rust/src/reply.rs" = "plugin-sdk/src/reply.rs",
    "sdk/rust/src/schema.rs" = "plugin-sdk/src/schema.rs",
    "sdk/rust/src/secrets.rs" = "plugin-sdk/src/secrets.rs",
    "sdk/rust/src/testing.rs" = "plugin-sdk/src/testing.rs",
    "sdk/rust/src/tool.rs" = "plugin-sdk/src/tool.rs",
    "sdk/rust/src/tools.rs" = "plugin-sdk/src/tools.rs",
    "sdk/rust/src/url.rs" = "plugin-sdk/src/url.rs",
    "sdk/rust/src/wasi_http.rs" = "plugin-sdk/src/wasi_http.rs",
    "sdk/wit/context.wit" = "wit/context.wit",
    "sdk/wit/handler.wit" = "wit/handler.wit",
    "sdk/wit/kv.wit" = "wit/kv.wit",
    "sdk/wit/log.wit" = "wit/log.wit",
    "sdk/wit/secrets.wit" = "wit/secrets.wit",
    "sdk/wit/tools.wit" = "wit/tools.wit",
    "sdk/wit/types.wit" = "wit/types.wit",
    "sdk/wit/world.wit" = "wit/world.wit",
];

/// Longest name, in characters: crates.io's limit.
const MAX_NAME: usize = 64;

/// Names that a crate can't have: Rust's keywords, and crates that come with the compiler.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Checks that a name can be a plugin's and a crate's.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let words = name.split(['-', '_']);
    let spelled = name.starts_with(|c: char| c.is_ascii_lowercase())
        && words.clone().all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        });
    let reason = if !spelled || name.len() > MAX_NAME {
        format!("write 1 to {MAX_NAME} of `a-z 0-9`, a letter first, with single `-` or `_` between words")
    } else if RESERVED.contains(&name) {
        "the name is reserved in Rust".to_owned()
    } else if crate::plugins::is_built_in(name) {
        "a built-in plugin has this name".to_owned()
    } else if dependencies().any(|dependency| dependency == name) {
        "a crate that plugins are built from has this name".to_owned()
    } else {
        return Ok(());
    };
    let shown = name.chars().take(MAX_NAME).collect::<String>();
    Err(Failure::new(Code::FieldValue, format!("`{shown}` can't be a plugin's name: {reason}")))
}

/// The crates of the lock file.
fn dependencies() -> impl Iterator<Item = &'static str> {
    let lock = PROJECT.iter().filter(|(path, _)| *path == "Cargo.lock").flat_map(|(_, text)| text.lines());
    lock.filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// A new project: each file's text by its path in the project.
pub(crate) fn project(name: &str) -> impl Iterator<Item = (&'static str, String)> {
    let filled = PROJECT.iter().map(move |(path, text)| {
        let text = text.replace("{{name}}", name).replace("{{sdk}}", env!("CARGO_PKG_VERSION"));
        (*path, text.replace("{{wit}}", t2m_sandbox::WIT_VERSION))
    });
    filled.chain(SDK.iter().map(|(path, text)| (*path, (*text).to_owned())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    fn names_in(folder: &str, ending: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(ending)).collect()
    }

    fn embedded(prefix: &str) -> BTreeSet<String> {
        SDK.iter().filter_map(|(path, _)| path.strip_prefix(prefix)).map(str::to_owned).collect()
    }

    /// P09: a project has the whole SDK; a file that is added to it can't be forgotten here.
    #[test]
    fn every_file_of_the_sdk_is_embedded() {
        assert_eq!(embedded("sdk/rust/src/"), names_in("plugin-sdk/src", ".rs"));
        assert_eq!(embedded("sdk/wit/"), names_in("wit", ".wit"));
    }

    /// P09: the SDK is built in a project from the very crates that it is built from here.
    #[test]
    fn the_embedded_manifest_and_lock_file_follow_the_workspace() {
        let read = |path: &str| -> toml::Table {
            std::fs::read_to_string(root().join(path)).unwrap().parse().unwrap()
        };
        let workspace = read("Cargo.toml");
        let ours = read("plugin-sdk/Cargo.toml");
        let embedded: Vec<_> = project("x").collect();
        let text = |wanted: &str| embedded.iter().find(|(path, _)| *path == wanted).unwrap().1.clone();
        let theirs: toml::Table = text("sdk/rust/Cargo.toml").parse().unwrap();
        let known = workspace["workspace"]["dependencies"].as_table().unwrap();
        let resolve = |table: &toml::Value| -> toml::Table {
            table.as_table().unwrap().keys().map(|name| (name.clone(), known[name].clone())).collect()
        };
        let wasm = |manifest: &toml::Table| {
            manifest["target"]["cfg(target_arch = \"wasm32\")"]["dependencies"].clone()
        };
        assert_eq!(theirs["dependencies"].as_table().unwrap(), &resolve(&ours["dependencies"]));
        assert_eq!(wasm(&theirs).as_table().unwrap(), &resolve(&wasm(&ours)));
        assert_eq!(theirs["package"]["version"], workspace["workspace"]["package"]["version"]);
        let project: toml::Table = text("Cargo.toml").parse().unwrap();
        assert_eq!(project["profile"]["guest"], workspace["profile"]["guest"]);

        let locked = |table: &toml::Table| -> BTreeSet<(String, String)> {
            let packages = table["package"].as_array().unwrap().iter();
            let field = |package: &toml::Value, name: &str| package[name].as_str().unwrap().to_owned();
            packages.map(|package| (field(package, "name"), field(package, "version"))).collect()
        };
        let lock: toml::Table = text("Cargo.lock").parse().unwrap();
        let mut differing: Vec<_> = locked(&lock).difference(&locked(&read("Cargo.lock"))).cloned().collect();
        differing.retain(|(name, _)| name != "x");
        assert!(
            differing.is_empty(),
            "copy these from Cargo.lock to plugin-sdk/template/Cargo.lock: {differing:?}"
        );
    }

    /// P09: the first plugin is short, and its manifest and cases are valid.
    #[test]
    fn the_first_plugin_takes_at_most_20_lines_and_its_files_are_valid() {
        let files: Vec<_> = project("my-plugin").collect();
        let source = &files.iter().find(|(path, _)| *path == "src/lib.rs").unwrap().1;
        let lines = source.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
        assert!(lines.count() <= 20);
        for (path, text) in &files {
            if *path == "plugin.toml" {
                let manifest = crate::manifest::Manifest::parse(text.as_bytes()).unwrap();
                assert!(manifest.check_wit().is_ok() && manifest.name.as_str() == "my-plugin");
            }
            if path.ends_with(".json") {
                let case = crate::author::case::Case::parse(text.as_bytes()).unwrap();
                assert_eq!(&case.to_text(), text, "`--bless` leaves a passing case as it is");
            }
        }
    }

    /// P09: a name is a crate's and a plugin's, or it is refused with the reason.
    #[test]
    fn names_that_can_not_be_used_are_refused() {
        for good in ["a", "hello", "my-plugin", "word_count2", &"a".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let table = [
            ("", "letter first"),
            ("Hello", "letter first"),
            ("2fast", "letter first"),
            ("a b", "letter first"),
            ("a--b", "letter first"),
            ("a-", "letter first"),
            ("../a", "letter first"),
            ("a.b", "letter first"),
            ("größe", "letter first"),
            ("a\n", "letter first"),
            (&"a".repeat(65), "letter first"),
            ("match", "reserved"),
            ("std", "reserved"),
            ("math", "built-in"),
            ("serde", "built from"),
            ("t2m-plugin-sdk", "built from"),
        ];
        for (bad, reason) in table {
            let failure = check_name(bad).unwrap_err();
            let message = failure.problems.to_string();
            assert!(
                failure.problems.code() == Code::FieldValue && message.contains(reason),
                "{bad}: {message}"
            );
        }
    }
}
