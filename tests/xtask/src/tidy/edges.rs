//! Which of our crates may depend on which, and which heavy dependencies a crate must never reach.
//!
//! It owns the table that ARCHITECTURE.md explains. It refuses to guess: a crate that isn't in the table is
//! a fault.
//!
//! **Invariant:** a ban holds along every path in Cargo.lock, not only for a crate's own manifest.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::manifest::{Dep, Kind, Manifest};
use super::{Fault, Tree};

const RULE: &str = "edge";
const BAN: &str = "banned";

/// What one crate, or every crate below a folder, may depend on.
struct Row {
    /// The crate's name, or a folder with a final `/`.
    who: &'static str,
    /// Our crates it may use, also in its tests.
    may: &'static [&'static str],
    /// Our crates that its build script may use.
    build: &'static [&'static str],
    /// What it must not reach, directly or through others.
    never: &'static [&'static str],
}

const SDK: &str = "t2m-plugin-sdk";
const BUILD: &str = "t2m-plugin-build";

/// The plan of the crates. A change here needs its own commit, with the reason in ARCHITECTURE.md.
const TABLE: &[Row] = &[
    Row {
        who: "t2m-core",
        may: &[],
        build: &[],
        never: &["tokio", "wasmtime", "wasmtime-wasi", "rmcp", "cap-std"],
    },
    Row { who: "t2m-sandbox", may: &["t2m-core"], build: &[], never: &["rmcp"] },
    Row { who: "t2m-runtime", may: &["t2m-core"], build: &[], never: &["wasmtime", "wasmtime-wasi", "rmcp"] },
    Row { who: "t2m-mcp", may: &["t2m-core"], build: &[], never: &["wasmtime", "wasmtime-wasi"] },
    Row {
        who: "t2m-host",
        may: &["t2m-core", "t2m-sandbox", "t2m-runtime", "t2m-mcp"],
        build: &[BUILD],
        never: &[],
    },
    Row { who: SDK, may: &[], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
    Row { who: BUILD, may: &[], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
    Row { who: "plugins/", may: &[SDK], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
    Row { who: "plugin-sdk/examples/", may: &[SDK], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
    Row { who: "tests/guests/", may: &[SDK], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
    Row {
        who: "t2m-tests",
        may: &["t2m-core", "t2m-sandbox", "t2m-runtime", "t2m-mcp", "t2m-host", SDK, BUILD],
        build: &[BUILD],
        never: &[],
    },
    Row { who: "t2m-bare-server", may: &[], build: &[], never: &["wasmtime"] },
    Row { who: "xtask", may: &[], build: &[], never: &["tokio", "wasmtime", "rmcp"] },
];

/// Compares manifests and lock file with the table.
pub(crate) fn check(tree: &Tree, manifests: &[Manifest]) -> Vec<Fault> {
    let ours: BTreeSet<&str> =
        manifests.iter().map(|manifest| manifest.name.as_str()).filter(|name| !name.is_empty()).collect();
    let lock = tree.get("Cargo.lock").map(Lock::parse).unwrap_or_default();
    let mut faults = Vec::new();
    for manifest in manifests.iter().filter(|manifest| !manifest.name.is_empty()) {
        let Some(row) = row_of(manifest) else {
            let message = format!(
                "crate `{}` is not in the table of edges; add it to tests/xtask/src/tidy/edges.rs and say \
                 in ARCHITECTURE.md what it may depend on",
                manifest.name
            );
            faults.push(Fault::new(&manifest.path, 1, RULE, message));
            continue;
        };
        for dep in manifest.deps.iter().filter(|dep| ours.contains(dep.package.as_str())) {
            faults.extend(check_edge(manifest, row, dep));
        }
        faults.extend(check_bans(manifest, row, &lock));
    }
    faults
}

fn row_of(manifest: &Manifest) -> Option<&'static Row> {
    let by_name = TABLE.iter().find(|row| row.who == manifest.name);
    by_name
        .or_else(|| TABLE.iter().find(|row| row.who.ends_with('/') && manifest.folder.starts_with(row.who)))
}

fn check_edge(manifest: &Manifest, row: &Row, dep: &Dep) -> Option<Fault> {
    let allowed = if dep.kind == Kind::Build { row.build } else { row.may };
    if allowed.contains(&dep.package.as_str()) {
        return None;
    }
    let how = if dep.kind == Kind::Build { "use in its build script" } else { "depend on" };
    let list = if allowed.is_empty() { "none of our crates".to_owned() } else { allowed.join(", ") };
    let message = format!("`{}` must not {how} `{}`; allowed: {list}", manifest.name, dep.package);
    Some(Fault::new(&manifest.path, dep.line, RULE, message))
}

fn check_bans(manifest: &Manifest, row: &Row, lock: &Lock) -> Vec<Fault> {
    let mut faults = Vec::new();
    for banned in row.never {
        if let Some(dep) = manifest.deps.iter().find(|dep| dep.package == *banned) {
            let message = format!("`{}` must not depend on `{banned}`", manifest.name);
            faults.push(Fault::new(&manifest.path, dep.line, BAN, message));
        } else if let Some(chain) = lock.path(&manifest.name, banned) {
            let first = chain.get(1).map(String::as_str).unwrap_or_default();
            let line = manifest.deps.iter().find(|dep| dep.package == first).map_or(1, |dep| dep.line);
            let message = format!("`{}` must not reach `{banned}`: {}", manifest.name, chain.join(" -> "));
            faults.push(Fault::new(&manifest.path, line, BAN, message));
        }
    }
    faults
}

/// Who depends on whom in Cargo.lock. A package is `name version`.
#[derive(Debug, Default)]
struct Lock {
    deps: BTreeMap<String, Vec<String>>,
    by_name: BTreeMap<String, Vec<String>>,
}

impl Lock {
    fn parse(text: &str) -> Self {
        let mut lock = Self::default();
        let Ok(table) = DeTable::parse(text) else {
            return lock;
        };
        let packages = table
            .get_ref()
            .iter()
            .find(|(key, _)| key.get_ref() == "package")
            .map(|(_, value)| value.get_ref());
        for package in packages.and_then(DeValue::as_array).into_iter().flatten() {
            let field = |name: &str| package.get_ref().get(name).map(|value| value.get_ref());
            let text = |name: &str| field(name).and_then(DeValue::as_str);
            let (Some(name), Some(version)) = (text("name"), text("version")) else {
                continue;
            };
            let id = format!("{name} {version}");
            let deps = field("dependencies").and_then(DeValue::as_array).into_iter().flatten();
            let deps = deps.filter_map(|dep| dep.get_ref().as_str()).map(str::to_owned).collect();
            lock.by_name.entry(name.to_owned()).or_default().push(id.clone());
            lock.deps.insert(id, deps);
        }
        lock
    }

    /// A shortest chain of names from one package to another.
    fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut chains: Vec<Vec<String>> = vec![self.ids(from).first().map(|id| vec![id.clone()])?];
        let mut seen = BTreeSet::new();
        while !chains.is_empty() {
            let mut longer = Vec::new();
            for chain in chains {
                let Some(last) = chain.last() else { continue };
                if name_of(last) == to {
                    return Some(chain.iter().map(|id| name_of(id).to_owned()).collect());
                }
                for next in self.deps.get(last).into_iter().flatten().flat_map(|dep| self.ids(dep)) {
                    if seen.insert(next.clone()) {
                        let mut chain = chain.clone();
                        chain.push(next.clone());
                        longer.push(chain);
                    }
                }
            }
            chains = longer;
        }
        None
    }

    /// The packages that an entry such as `name` or `name version` can mean.
    fn ids(&self, entry: &str) -> &[String] {
        let ids = self.by_name.get(name_of(entry)).map(Vec::as_slice).unwrap_or_default();
        match ids.iter().position(|id| id == entry) {
            Some(at) => ids.get(at..=at).unwrap_or_default(),
            None => ids,
        }
    }
}

fn name_of(id: &str) -> &str {
    id.split_once(' ').map_or(id, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::super::manifest::parse_all;
    use super::super::testing::{places, tree};
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<Fault> {
        let tree = tree(files);
        let (manifests, broken) = parse_all(&tree);
        assert!(broken.is_empty(), "{broken:?}");
        check(&tree, &manifests)
    }

    const CORE: (&str, &str) = ("host/core/Cargo.toml", "[package]\nname = \"t2m-core\"\n");

    #[test]
    fn an_edge_that_is_not_in_the_table_is_refused_where_it_stands() {
        let runtime = "[package]\nname = \"t2m-runtime\"\n[dependencies]\nt2m-core.workspace = true\n";
        let ok = [CORE, ("host/runtime/Cargo.toml", runtime)];
        assert_eq!(faults(&ok), []);

        let sandbox = "[package]\nname = \"t2m-sandbox\"\n[dev-dependencies]\nt2m-runtime.workspace = true\n";
        let bad = [CORE, ("host/runtime/Cargo.toml", runtime), ("host/sandbox/Cargo.toml", sandbox)];
        assert_eq!(places(&faults(&bad)), ["host/sandbox/Cargo.toml:4 edge"]);
    }

    #[test]
    fn a_build_dependency_is_another_permission() {
        let build = ("plugin-sdk/build-support/Cargo.toml", "[package]\nname = \"t2m-plugin-build\"\n");
        let cli = |table: &str| {
            format!("[package]\nname = \"t2m-host\"\n[{table}]\nt2m-plugin-build.workspace = true\n")
        };
        assert_eq!(faults(&[build, ("host/cli/Cargo.toml", &cli("build-dependencies"))]), []);
        let bad = faults(&[build, ("host/cli/Cargo.toml", &cli("dependencies"))]);
        assert_eq!(places(&bad), ["host/cli/Cargo.toml:4 edge"]);
    }

    #[test]
    fn plugins_may_use_the_sdk_and_nothing_else_of_ours() {
        let sdk = ("plugin-sdk/Cargo.toml", "[package]\nname = \"t2m-plugin-sdk\"\n");
        let plugin = "[package]\nname = \"p\"\n[dependencies]\nt2m-core.workspace = true\nt2m-plugin-sdk.workspace = true\n";
        let found = faults(&[CORE, sdk, ("plugins/p/Cargo.toml", plugin)]);
        assert_eq!(places(&found), ["plugins/p/Cargo.toml:4 edge"]);
    }

    #[test]
    fn a_crate_outside_the_table_is_refused() {
        let found = faults(&[("host/new/Cargo.toml", "[package]\nname = \"t2m-new\"\n")]);
        assert_eq!(places(&found), ["host/new/Cargo.toml:1 edge"]);
    }

    #[test]
    fn a_heavy_dependency_is_refused_directly_and_through_others() {
        let direct = "[package]\nname = \"t2m-core\"\n[dependencies]\ntokio.workspace = true\n";
        assert_eq!(places(&faults(&[("host/core/Cargo.toml", direct)])), ["host/core/Cargo.toml:4 banned"]);

        let through = "[package]\nname = \"t2m-core\"\n[dependencies]\nhttp.workspace = true\n";
        let lock = "\
[[package]]
name = \"t2m-core\"
version = \"0.1.0\"
dependencies = [\"http 2.0.0\"]
[[package]]
name = \"http\"
version = \"1.0.0\"
dependencies = [\"rmcp\"]
[[package]]
name = \"http\"
version = \"2.0.0\"
dependencies = [\"tokio\"]
[[package]]
name = \"tokio\"
version = \"1.0.0\"
[[package]]
name = \"rmcp\"
version = \"1.0.0\"
";
        let found = faults(&[("host/core/Cargo.toml", through), ("Cargo.lock", lock)]);
        assert_eq!(places(&found), ["host/core/Cargo.toml:4 banned"]);
        assert!(found[0].message.ends_with("t2m-core -> http -> tokio"), "{}", found[0].message);
    }
}
