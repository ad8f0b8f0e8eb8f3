//! Where a plugin's component lies, and the manifest beside it.
//!
//! Owns the way from a path that a person names, a component file or a plugin's folder, to the two files.
//! Refuses to build or load.
//!
//! **Invariant:** contracts are never looked for here: a plugin must not review itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use t2m_core::code::Code;

use crate::failure::{Failure, InFile, Result};
use crate::files;
use crate::manifest::{self, Manifest};

/// Largest component file, in bytes. Python plugins have 18 MiB.
const MAX_BYTES: usize = 64 << 20;

/// A plugin on disk.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    /// The component file. It may not be built yet.
    pub(crate) wasm: PathBuf,
    /// Where its manifest is, if it has one.
    pub(crate) manifest_file: PathBuf,
    /// The manifest, if there is one.
    pub(crate) manifest: Option<Manifest>,
}

impl Component {
    /// Finds what a path means: a folder with a `plugin.toml`, whose component is `NAME.wasm` in it, or a
    /// component file.
    pub(crate) fn find(path: &Path) -> Result<Component> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let is_file = path.extension().is_some_and(|extension| extension == "wasm");
        if !path.exists() && (!is_file || parent.is_some_and(|parent| !parent.is_dir())) {
            let message = "there is no such plugin folder or component file";
            return Err(Failure::of_file(path, Code::FileUnreadable, message));
        }
        if path.is_dir() {
            let manifest_file = path.join(manifest::FILE);
            let manifest = read_manifest(&manifest_file)?;
            let wasm = path.join(format!("{}.wasm", manifest.name));
            return Ok(Component { wasm, manifest_file, manifest: Some(manifest) });
        }
        let manifest_file = path.with_file_name(manifest::FILE);
        let manifest = if manifest_file.exists() { Some(read_manifest(&manifest_file)?) } else { None };
        Ok(Component { wasm: path.to_owned(), manifest_file, manifest })
    }

    /// Reads the component, or says how to make it.
    pub(crate) fn read(&self) -> Result<Arc<[u8]>> {
        if let Some(manifest) = &self.manifest
            && !self.wasm.exists()
        {
            let folder = self.folder().display();
            let message =
                format!("plugin `{}` isn't built; run `t2m-host plugin build {folder}`", manifest.name);
            return Err(Failure::of_file(&self.wasm, Code::FileUnreadable, message));
        }
        Ok(files::read(&self.wasm, MAX_BYTES)?.into())
    }

    /// The folder that both files are in.
    pub(crate) fn folder(&self) -> &Path {
        match self.manifest_file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// The name that the manifest or else the file gives.
    pub(crate) fn name(&self) -> String {
        match &self.manifest {
            Some(manifest) => manifest.name.to_string(),
            None => self.wasm.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

fn read_manifest(path: &Path) -> Result<Manifest> {
    let manifest = Manifest::parse(&files::read(path, manifest::MAX_BYTES)?).in_file(path)?;
    manifest.check_wit().in_file(path)?;
    Ok(manifest)
}
