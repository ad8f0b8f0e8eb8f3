//! Where things lie: the workspace, the sources, the target folder.
//!
//! Owns the reading of paths. Refuses to parse manifests beyond the one line that names the package.
//!
//! INVARIANT: nothing here starts a process or writes a file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// One plugin to compile.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) folder: PathBuf,
    pub(crate) is_example: bool,
}

impl Source {
    pub(crate) fn find(root: &Path, source: &str) -> Result<Self, Failure> {
        let (folder, example) = match source.split_once('#') {
            Some((folder, example)) => (root.join(folder), Some(example)),
            None => (root.join(source), None),
        };
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| {
            Failure::new(format!("`{source}` is no crate: {}: {error}", manifest.display()))
        })?;
        let package = package_name(&text)
            .ok_or_else(|| Failure::new(format!("{} names no package", manifest.display())))?
            .to_owned();
        let last = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = example.map(str::to_owned).or(last).unwrap_or_else(|| package.clone());
        Ok(Self { name, package, folder, is_example: example.is_some() })
    }

    /// The file name cargo gives the component.
    pub(crate) fn file(&self) -> PathBuf {
        if self.is_example {
            Path::new("examples").join(format!("{}.wasm", self.name.replace('-', "_")))
        } else {
            PathBuf::from(format!("{}.wasm", self.package.replace('-', "_")))
        }
    }
}

/// The `name` of the `[package]` table, which a manifest has on a line of its own.
fn package_name(manifest: &str) -> Option<&str> {
    let package = manifest.lines().map(str::trim).skip_while(|line| *line != "[package]").skip(1);
    let mut names =
        package.take_while(|line| !line.starts_with('[')).filter_map(|line| line.strip_prefix("name"));
    let value = names.next()?.trim_start().strip_prefix('=')?.trim_start();
    value.strip_prefix('"')?.split_once('"').map(|(name, _)| name)
}

/// The nearest folder above a crate whose manifest is that of a workspace.
pub(crate) fn workspace(crate_folder: &Path) -> Result<PathBuf, Failure> {
    let is_workspace = |folder: &&Path| {
        fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
    };
    let found = crate_folder.ancestors().find(is_workspace);
    found
        .map(Path::to_path_buf)
        .ok_or_else(|| Failure::new(format!("no workspace above {}", crate_folder.display())))
}

/// The folder that all profiles of one build share, from a build script's `OUT_DIR`: the nearest one that
/// cargo tagged, which is also right for builds with `--target`. Cargo tags only what it made itself, so
/// without a tag it is the folder above `<profile>/build/<package>/out`.
pub(crate) fn target_folder(out: &Path) -> Result<PathBuf, Failure> {
    let tagged = out.ancestors().take(8).find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged
        .or_else(|| out.ancestors().nth(4))
        .map(Path::to_path_buf)
        .ok_or_else(|| Failure::new(format!("{} lies in no target folder", out.display())))
}

/// What a component is made from. Only what exists: cargo takes a missing path for a changed one.
pub(crate) fn inputs(root: &Path, sources: &[Source]) -> Vec<PathBuf> {
    let shared =
        ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo", "wit", "plugin-sdk/Cargo.toml"];
    let mut paths: Vec<PathBuf> = shared.iter().map(|path| root.join(path)).collect();
    paths.push(root.join("plugin-sdk/src"));
    for source in sources {
        paths.push(source.folder.join("Cargo.toml"));
        paths.push(source.folder.join("src"));
        paths.push(source.folder.join("wit"));
        if source.is_example {
            paths.push(source.folder.join("examples"));
        }
    }
    paths.sort();
    paths.dedup();
    paths.retain(|path| path.exists());
    paths
}

/// The environment variable that holds a component's path.
pub(crate) fn variable_name(plugin: &str) -> String {
    format!("T2M_PLUGIN_{}", plugin.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Source, inputs, package_name, target_folder, variable_name, workspace};

    fn root() -> std::path::PathBuf {
        workspace(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn sources_are_folders_or_examples() {
        let root = root();
        let math = Source::find(&root, "plugins/math").unwrap();
        assert_eq!((math.name.as_str(), math.package.as_str()), ("math", "t2m-plugin-math"));
        assert_eq!(math.file(), Path::new("t2m_plugin_math.wasm"));
        let hello = Source::find(&root, "plugin-sdk#hello").unwrap();
        assert_eq!((hello.name.as_str(), hello.package.as_str()), ("hello", "t2m-plugin-sdk"));
        assert_eq!(hello.file(), Path::new("examples/hello.wasm"));
        let error = Source::find(&root, "plugins/none").unwrap_err();
        assert!(error.to_string().starts_with("`plugins/none` is no crate"), "{error}");
    }

    #[test]
    fn the_package_is_named_in_its_table() {
        assert_eq!(package_name("[lib]\nname = \"x\"\n[package]\nversion = \"1\"\nname=\"y\"\n"), Some("y"));
        assert_eq!(package_name("[package]\n[lib]\nname = \"x\"\n"), None);
    }

    #[test]
    fn inputs_exist_and_leave_out_documents() {
        let root = root();
        let sources = [Source::find(&root, "plugins/math").unwrap()];
        let inputs = inputs(&root, &sources);
        assert!(inputs.contains(&root.join("wit")) && inputs.contains(&root.join("plugins/math/src")));
        assert!(inputs.iter().all(|path| path.exists() && !path.ends_with("README.md")));
    }

    #[test]
    fn without_a_tag_the_target_folder_is_four_above() {
        let out = Path::new("/nowhere/target/debug/build/t2m-host-0123/out");
        assert_eq!(target_folder(out).unwrap(), Path::new("/nowhere/target"));
    }

    #[test]
    fn variables_are_in_capitals() {
        assert_eq!(variable_name("bad-json"), "T2M_PLUGIN_BAD_JSON");
    }
}
