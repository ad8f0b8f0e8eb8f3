//! How dependencies are declared: one place for versions, one registry, nothing without use.
//!
//! It owns the form of manifests and lock files. It refuses to judge licences; that is deny.toml.
//!
//! **Invariant:** an exception names the folder, the dependency and the reason.

use std::collections::BTreeSet;

use super::manifest::{Kind, Manifest};
use super::words::has_word;
use super::{Fault, Tree};

const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
const NPM: &str = "tests/xtask/npm/package.json";
const NPM_LOCK: &str = "tests/xtask/npm/package-lock.json";

/// Dependencies that no line of code names: folder, dependency, reason.
const UNNAMED: &[(&str, &str, &str)] = &[
    ("plugins/", "schemars", "what `#[derive(JsonSchema)]` writes names it; the SDK re-exports the macro"),
    ("plugins/", "serde", "what `#[derive(Deserialize)]` writes names it; the SDK re-exports the macro"),
];

/// Checks every manifest and lock file.
pub(crate) fn check(tree: &Tree, manifests: &[Manifest]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for manifest in manifests {
        faults.extend(versions(manifest));
        if !manifest.name.is_empty() {
            faults.extend(lints(manifest));
            faults.extend(unused(tree, manifests, manifest));
        }
    }
    faults.extend(unused_shared(manifests));
    faults.extend(lock(tree));
    faults.extend(npm(tree));
    faults
}

fn versions(manifest: &Manifest) -> impl Iterator<Item = Fault> {
    manifest.deps.iter().filter(|dep| !dep.inherited).map(|dep| {
        let message = format!(
            "`{}` must come from [workspace.dependencies] of the root manifest: `{}.workspace = true`",
            dep.package, dep.key
        );
        Fault::new(&manifest.path, dep.line, "version", message)
    })
}

fn lints(manifest: &Manifest) -> Option<Fault> {
    let message =
        "the lints of the workspace are not taken over: `[lints]` with `workspace = true` is missing";
    (!manifest.lints).then(|| Fault::new(&manifest.path, 1, "lints", message))
}

/// Dependencies whose name occurs in no code of the crate.
fn unused(tree: &Tree, manifests: &[Manifest], manifest: &Manifest) -> Vec<Fault> {
    let inner: Vec<&str> = manifests
        .iter()
        .map(|other| other.folder.as_str())
        .filter(|folder| folder.len() > manifest.folder.len() && folder.starts_with(&manifest.folder))
        .collect();
    let files: Vec<(&str, &str)> = tree
        .ending(".rs")
        .filter(|(path, _)| path.starts_with(&manifest.folder))
        .filter(|(path, _)| !inner.iter().any(|folder| path.starts_with(folder)))
        .collect();
    let build_script = format!("{}build.rs", manifest.folder);
    let mut faults = Vec::new();
    for dep in &manifest.deps {
        if UNNAMED.iter().any(|(folder, name, _)| manifest.folder.starts_with(folder) && *name == dep.package)
        {
            continue;
        }
        let ident = dep.key.replace('-', "_");
        let named = files
            .iter()
            .filter(|(path, _)| (*path == build_script) == (dep.kind == Kind::Build))
            .flat_map(|(_, text)| text.lines())
            .any(|line| !line.trim_start().starts_with("//") && has_word(line, &ident));
        if !named {
            let message = format!("no code of `{}` names `{ident}`; remove the dependency", manifest.name);
            faults.push(Fault::new(&manifest.path, dep.line, "unused", message));
        }
    }
    faults
}

/// Entries of `[workspace.dependencies]` that no crate takes.
fn unused_shared(manifests: &[Manifest]) -> Vec<Fault> {
    let taken: BTreeSet<&str> = manifests
        .iter()
        .flat_map(|manifest| &manifest.deps)
        .filter(|dep| dep.inherited)
        .map(|dep| dep.key.as_str())
        .collect();
    let mut faults = Vec::new();
    for manifest in manifests {
        for dep in manifest.shared.iter().filter(|dep| !taken.contains(dep.key.as_str())) {
            let message = format!("no crate uses `{}`; remove the line", dep.key);
            faults.push(Fault::new(&manifest.path, dep.line, "unused", message));
        }
    }
    faults
}

fn lock(tree: &Tree) -> Vec<Fault> {
    let Some(text) = tree.get(LOCK) else {
        return vec![Fault::new(LOCK, 1, "lock", "the lock file is not committed")];
    };
    let sources = text.lines().enumerate().filter(|(_, line)| line.starts_with("source = "));
    sources
        .filter(|(_, line)| *line != REGISTRY)
        .map(|(at, line)| Fault::new(LOCK, at + 1, "lock", format!("not from crates.io: {line}")))
        .collect()
}

/// Pinned servers are pinned, and the lock records no download address, which differs by machine.
fn npm(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let ranges = ["\"^", "\"~", "\">", "\"*", "\"latest"];
    for (at, line) in tree.get(NPM).unwrap_or_default().lines().enumerate() {
        if ranges.iter().any(|range| line.contains(&format!(": {range}"))) {
            faults.push(Fault::new(NPM, at + 1, "version", "give one exact version"));
        }
    }
    for (at, line) in tree.get(NPM_LOCK).unwrap_or_default().lines().enumerate() {
        if line.trim_start().starts_with("\"resolved\"") {
            let message =
                "records a download address; write the lock with `--omit-lockfile-registry-resolved`";
            faults.push(Fault::new(NPM_LOCK, at + 1, "lock", message));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::manifest::parse_all;
    use super::super::testing::{places, tree};
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut files = files.to_vec();
        if !files.iter().any(|(path, _)| *path == LOCK) {
            files.push((LOCK, ""));
        }
        let tree = tree(&files);
        let (manifests, broken) = parse_all(&tree);
        assert!(broken.is_empty(), "{broken:?}");
        places(&check(&tree, &manifests))
    }

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn a_version_outside_the_workspace_table_is_refused() {
        let text = format!(
            "{LINTS}[package]\nname = \"a\"\n[dependencies]\nlog = \"1\"\nown = {{ path = \"../own\" }}\n"
        );
        let found = faults(&[("a/Cargo.toml", &text), ("a/src/lib.rs", "use log::x; use own::y;")]);
        assert_eq!(found, ["a/Cargo.toml:6 version", "a/Cargo.toml:7 version"]);
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_refused() {
        assert_eq!(faults(&[("a/Cargo.toml", "[package]\nname = \"a\"\n")]), ["a/Cargo.toml:1 lints"]);
    }

    #[test]
    fn a_dependency_that_no_code_names_is_refused() {
        let text = format!(
            "{LINTS}[package]\nname = \"a\"\n[dependencies]\nwit-x.workspace = true\n[build-dependencies]\ncc.workspace = true\n"
        );
        let used = [
            ("a/Cargo.toml", text.as_str()),
            ("a/src/lib.rs", "wit_x::generate!();"),
            ("a/build.rs", "cc::build()"),
        ];
        assert_eq!(faults(&used), Vec::<String>::new());

        let not_here = [
            ("a/Cargo.toml", text.as_str()),
            ("a/src/lib.rs", "// wit_x is great\nuse wit_xylophone; cc::build()"),
            ("a/inner/Cargo.toml", &format!("{LINTS}[package]\nname = \"inner\"\n")),
            ("a/inner/src/lib.rs", "use wit_x::y;"),
        ];
        assert_eq!(faults(&not_here), ["a/Cargo.toml:6 unused", "a/Cargo.toml:8 unused"]);
    }

    #[test]
    fn a_workspace_entry_that_no_crate_takes_is_refused() {
        let root = "[workspace.dependencies]\nlog = \"1\"\nold = \"1\"\n";
        let text = format!("{LINTS}[package]\nname = \"a\"\n[dependencies]\nlog.workspace = true\n");
        let files = [("Cargo.toml", root), ("a/Cargo.toml", &text), ("a/src/lib.rs", "use log::x;")];
        assert_eq!(faults(&files), ["Cargo.toml:3 unused"]);
    }

    #[test]
    fn a_package_from_elsewhere_is_refused() {
        let text = format!("{REGISTRY}\nsource = \"git+https://example.org/x#1\"\n");
        assert_eq!(faults(&[(LOCK, &text)]), ["Cargo.lock:2 lock"]);
        assert_eq!(places(&check(&tree(&[]), &[])), ["Cargo.lock:1 lock"]);
    }

    #[test]
    fn npm_servers_have_one_exact_version_and_no_address() {
        let found = faults(&[
            (NPM, "{\n\"server\": \"^1.2.3\",\n\"other\": \"1.2.3\"}"),
            (NPM_LOCK, "{\n  \"resolved\": \"https://example.org\"}"),
        ]);
        assert_eq!(found, [format!("{NPM}:2 version"), format!("{NPM_LOCK}:2 lock")]);
    }
}
