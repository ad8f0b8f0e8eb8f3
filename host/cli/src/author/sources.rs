//! What a plugin is made from, and whether it changed.
//!
//! Owns which files count. Refuses the component, and folders that builds write: a round of `plugin watch`
//! must not start the next one.
//!
//! Files are looked at again and again instead of asking the system for events: the crate that asks on every
//! system has a licence that deny.toml doesn't list, and a look at the hundred files of a plugin takes less
//! than a millisecond.
//!
//! **Invariant:** looking changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::component::Component;

/// Most files that are looked at; a plugin with more keeps something else in its folder.
const MAX_FILES: usize = 20_000;

/// Folders that tools write, wherever they are. One that holds `CACHEDIR.TAG`, as cargo's does, is skipped
/// whatever its name.
const WRITTEN: [&str; 2] = ["node_modules", "__pycache__"];

/// Folders that builds write beside the manifest; deeper, such names are a person's own.
const WRITTEN_ON_TOP: [&str; 4] = ["target", "dist", "build", "venv"];

/// Rounds in a row during which a file has to change before it is taken for the build's own work. 5: a person who saves
/// one file during three builds in a row isn't rare.
const ROUNDS: u32 = 5;

/// The files of a plugin at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Snapshot {
    /// Looks at a plugin's folder.
    pub(crate) fn take(component: &Component) -> Snapshot {
        let mut output = vec![component.wasm.clone()];
        if let Some(build) = component.manifest.as_ref().and_then(|manifest| manifest.build.as_ref()) {
            output.push(component.folder().join(&build.output));
        }
        let mut found = Snapshot::default();
        let mut folders = vec![component.folder().to_owned()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                // A file that is gone by now is none.
                let Ok(about) = entry.metadata() else { continue };
                if name.to_string_lossy().starts_with('.') || output.contains(&path) {
                    continue;
                }
                if about.is_dir() {
                    let on_top = folder == component.folder();
                    let written = WRITTEN.iter().chain(WRITTEN_ON_TOP.iter().filter(|_| on_top));
                    let is_written = written.into_iter().any(|written| *name == **written);
                    if !is_written && !path.join("CACHEDIR.TAG").exists() {
                        folders.push(path);
                    }
                } else if found.0.len() < MAX_FILES {
                    found.0.insert(path, (about.modified().ok(), about.len()));
                }
            }
        }
        found
    }

    /// The files that came, went or changed.
    pub(crate) fn changes(&self, later: &Snapshot) -> BTreeSet<PathBuf> {
        let changed = later.0.iter().filter(|(path, about)| self.0.get(*path) != Some(about));
        let gone = self.0.keys().filter(|path| !later.0.contains_key(*path));
        changed.map(|(path, _)| path).chain(gone).cloned().collect()
    }
}

/// Tells changes that a build makes by itself from those of a person.
#[derive(Debug, Default)]
pub(crate) struct OwnWork {
    /// Rounds in a row during which each file changed.
    rounds: BTreeMap<PathBuf, u32>,
    /// What builds write.
    own: BTreeSet<PathBuf>,
}

impl OwnWork {
    /// Whether what changed during a build calls for another round. What a build writes each time doesn't.
    pub(crate) fn calls_for_round(&mut self, during: BTreeSet<PathBuf>) -> bool {
        self.rounds.retain(|path, _| during.contains(path));
        let mut calls = false;
        for path in during {
            if self.own.contains(&path) {
                continue;
            }
            let rounds = self.rounds.entry(path.clone()).or_default();
            *rounds = rounds.saturating_add(1);
            if *rounds < ROUNDS {
                calls = true;
            } else {
                self.own.insert(path);
            }
        }
        calls
    }

    /// What changes while no build runs is a person's.
    pub(crate) fn changed_alone(&mut self, paths: &BTreeSet<PathBuf>) {
        self.own.retain(|path| !paths.contains(path));
    }
}

/// A path as a person knows it, without the plugin's folder.
pub(crate) fn shown(path: &Path, component: &Component) -> String {
    path.strip_prefix(component.folder()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "plugin.toml",
            "name = \"p\"\nversion = \"0.1.0\"\nwit = \"t2m:plugin@0.1.0\"\n[build]\ncommand = [\"x\"]\noutput = \"out/p.wasm\"\n",
        );
        write("src/lib.rs", "1");
        let component = Component::find(folder.path()).unwrap();
        let before = Snapshot::take(&component);
        for ignored in [
            "p.wasm",
            "out/p.wasm",
            "target/x",
            "cache/CACHEDIR.TAG",
            "cache/x",
            ".git/x",
            "node_modules/x",
            ".x.swp",
        ] {
            write(ignored, "x");
            assert_eq!(before.changes(&Snapshot::take(&component)).len(), 0, "{ignored}");
        }
        write("src/build/mod.rs", "1");
        assert_eq!(before.changes(&Snapshot::take(&component)).len(), 1, "only on top");
        std::fs::remove_dir_all(folder.path().join("src/build")).unwrap();
        write("src/lib.rs", "22");
        write("tests/cases/a.json", "{}");
        std::fs::remove_file(folder.path().join("plugin.toml")).unwrap();
        let changed: Vec<_> =
            before.changes(&Snapshot::take(&component)).iter().map(|path| shown(path, &component)).collect();
        assert_eq!(changed, ["plugin.toml", "src/lib.rs", "tests/cases/a.json"]);
    }

    #[test]
    fn a_build_that_writes_each_time_does_not_go_on_for_ever() {
        let mut own = OwnWork::default();
        let set = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        assert!(!own.calls_for_round(set(&[])));
        for _ in 1..ROUNDS {
            assert!(own.calls_for_round(set(&["made"])));
        }
        assert!(!own.calls_for_round(set(&["made"])));
        assert!(own.calls_for_round(set(&["made", "typed"])), "a person's change still counts");
        assert!(!own.calls_for_round(set(&[])));
        assert!(!own.calls_for_round(set(&["made"])), "it is remembered");
        own.changed_alone(&set(&["made"]));
        assert!(own.calls_for_round(set(&["made"])), "a person changed it while nothing was built");
    }
}
