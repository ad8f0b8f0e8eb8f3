//! Reads the manifests of the workspace, with the line of every dependency.
//!
//! It owns what the other rules may ask about a `Cargo.toml`. It refuses to judge.
//!
//! **Invariant:** only `name = { workspace = true }` counts as taken from the workspace.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, Tree};

/// Manifests that can't refer to this workspace: data that `t2m-host plugin new` writes, and fuzz targets, which need
/// the nightly toolchain and are built by hand.
const APART: [&str; 2] = ["plugin-sdk/template/", "tests/fuzz/"];

/// One `Cargo.toml`.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Its path.
    pub(crate) path: String,
    /// Its folder with a final `/`; empty for the root.
    pub(crate) folder: String,
    /// The package's name; empty for the root.
    pub(crate) name: String,
    /// Dependencies of all kinds and targets.
    pub(crate) deps: Vec<Dep>,
    /// `[workspace.dependencies]`.
    pub(crate) shared: Vec<Dep>,
    /// Whether `[lints] workspace = true` is there.
    pub(crate) lints: bool,
}

/// One dependency line.
#[derive(Debug)]
pub(crate) struct Dep {
    /// The package, which `package = "…"` may name.
    pub(crate) package: String,
    /// The name that code uses.
    pub(crate) key: String,
    /// Where it stands.
    pub(crate) line: usize,
    /// From which table.
    pub(crate) kind: Kind,
    /// Whether version and source come from the workspace.
    pub(crate) inherited: bool,
}

/// The table of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
}

const KINDS: [(&str, Kind); 3] =
    [("dependencies", Kind::Normal), ("dev-dependencies", Kind::Dev), ("build-dependencies", Kind::Build)];

/// Every manifest of the tree, and those that can't be read as faults.
pub(crate) fn parse_all(tree: &Tree) -> (Vec<Manifest>, Vec<Fault>) {
    let (mut manifests, mut faults) = (Vec::new(), Vec::new());
    let is_apart = |path: &str| APART.iter().any(|folder| path.starts_with(folder));
    for (path, text) in tree.ending("Cargo.toml").filter(|(path, _)| !is_apart(path)) {
        match DeTable::parse(text) {
            Ok(table) => manifests.push(parse(path, text, table.get_ref())),
            Err(fault) => {
                let line = fault.span().map_or(1, |span| line_of(text, span.start));
                faults.push(Fault::new(path, line, "manifest", fault.message()));
            }
        }
    }
    (manifests, faults)
}

fn parse(path: &str, text: &str, root: &DeTable<'_>) -> Manifest {
    let mut manifest = Manifest {
        path: path.to_owned(),
        folder: path.trim_end_matches("Cargo.toml").to_owned(),
        ..Manifest::default()
    };
    if let Some(name) = table(root, "package").and_then(|package| get(package, "name")) {
        manifest.name = name.as_str().unwrap_or_default().to_owned();
    }
    if let Some(lints) = table(root, "lints") {
        manifest.lints = get(lints, "workspace").and_then(DeValue::as_bool) == Some(true);
    }
    if let Some(shared) = table(root, "workspace").and_then(|workspace| table(workspace, "dependencies")) {
        manifest.shared = deps(text, shared, Kind::Normal);
    }
    let mut places = vec![root];
    if let Some(targets) = table(root, "target") {
        places.extend(targets.iter().filter_map(|(_, value)| value.get_ref().as_table()));
    }
    for place in places {
        for (name, kind) in KINDS {
            if let Some(found) = table(place, name) {
                manifest.deps.extend(deps(text, found, kind));
            }
        }
    }
    manifest
}

fn deps(text: &str, found: &DeTable<'_>, kind: Kind) -> Vec<Dep> {
    let one = |key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>| {
        let options = value.get_ref().as_table();
        let option = |name: &str| options.and_then(|options| get(options, name));
        let key_text: &str = key.get_ref();
        Dep {
            package: option("package").and_then(DeValue::as_str).unwrap_or(key_text).to_owned(),
            key: key_text.to_owned(),
            line: line_of(text, key.span().start),
            kind,
            inherited: option("workspace").and_then(DeValue::as_bool) == Some(true),
        }
    };
    found.iter().map(|(key, value)| one(key, value)).collect()
}

fn get<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<&'a DeValue<'i>> {
    let (_, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
    Some(value.get_ref())
}

fn table<'a, 'i>(parent: &'a DeTable<'i>, name: &str) -> Option<&'a DeTable<'i>> {
    get(parent, name)?.as_table()
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn dependencies_of_every_table_are_found_with_their_lines() {
        let text = "\
[package]
name = \"a\"
[dependencies]
one.workspace = true
two = { package = \"zwei\", version = \"2\" }
[dev-dependencies]
three = { workspace = true, features = [\"x\"] }
[target.'cfg(unix)'.build-dependencies.four]
workspace = true
[lints]
workspace = true
";
        let (manifests, faults) = parse_all(&tree(&[("x/Cargo.toml", text)]));
        assert!(faults.is_empty());
        let manifest = &manifests[0];
        assert!(manifest.lints);
        assert_eq!((manifest.name.as_str(), manifest.folder.as_str()), ("a", "x/"));
        let mut found: Vec<_> =
            manifest.deps.iter().map(|d| (d.line, d.package.as_str(), d.kind, d.inherited)).collect();
        found.sort_by_key(|dep| dep.0);
        assert_eq!(
            found,
            [
                (4, "one", Kind::Normal, true),
                (5, "zwei", Kind::Normal, false),
                (7, "three", Kind::Dev, true),
                (8, "four", Kind::Build, true),
            ]
        );
    }

    #[test]
    fn a_manifest_that_is_not_toml_is_a_fault_with_its_line() {
        let (manifests, faults) = parse_all(&tree(&[("x/Cargo.toml", "[package]\nname =\n")]));
        assert!(manifests.is_empty());
        assert_eq!(places(&faults), ["x/Cargo.toml:2 manifest"]);
    }

    #[test]
    fn templates_and_fuzz_targets_are_no_members() {
        let apart =
            [("plugin-sdk/template/Cargo.toml", "{{name}}"), ("tests/fuzz/Cargo.toml", "[workspace]")];
        let (manifests, faults) = parse_all(&tree(&apart));
        assert!(manifests.is_empty() && faults.is_empty());
    }
}
