//! Compiled components, kept by content.
//!
//! Owns the files of the cache and the crate's only unsafe call. Refuses size, time and names as proof of
//! anything.
//!
//! What protects a cached file is its folder: it must belong to the user of this process and be closed to
//! everybody else, which is checked before each use. The digests inside find a changed, truncated, renamed
//! or foreign file, which is then compiled again; they don't stop somebody who can already write there as
//! the same user.
//!
//! **Invariant:** only bytes are loaded as machine code whose digest stands in a header for exactly this
//! component and these settings of the engine, read from a private folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use t2m_core::code::Code;
use t2m_core::digest::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::SandboxError;
use crate::sandbox::SandboxConfig;

/// First bytes of every file, with the version of this layout.
const MAGIC: &[u8; 12] = b"t2m/cwasm@1\n";

/// Magic, key and digest of what follows.
const HEADER: usize = MAGIC.len() + 32 + 32;

/// Largest compiled component that is read back, in bytes. Ten times the largest plugin's.
const MAX_FILE: u64 = 1 << 30;

/// A private folder of compiled components.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    owner: u32,
}

/// What a compiled component was made from: the component and every setting of the engine.
struct Key {
    wasm: Digest,
    whole: [u8; 32],
}

impl Key {
    fn new(engine: &Engine, wasm: Digest) -> Key {
        let mut hash = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hash);
        hash.0.update(wasm.as_bytes());
        Key { wasm, whole: hash.0.finalize().into() }
    }

    fn file_name(&self) -> String {
        let whole = Digest::of_bytes(&self.whole).hex();
        format!("{}-{}.cwasm", self.wasm.hex(), whole.get(..16).unwrap_or_default())
    }
}

/// Lets a value that can only be hashed be hashed well.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Compiles a component, or takes it from the cache. It blocks; call it on a thread for that.
pub(crate) fn compile(
    engine: &Engine,
    config: &SandboxConfig,
    cache: Option<&Cache>,
    wasm: &[u8],
    digest: Digest,
) -> Result<Component, SandboxError> {
    let invalid = |error: wasmtime::Error| SandboxError::new(Code::PluginInvalid, format!("{error:#}"));
    let compile = || match &config.compiler {
        Some(compiler) => compiler.compile(wasm, config.compile),
        None => engine.precompile_component(wasm).map_err(invalid),
    };
    let Some(cache) = cache else {
        return load(engine, &compile()?).map_err(invalid);
    };
    let key = Key::new(engine, digest);
    let path = cache.dir.join(key.file_name());
    match cache.read(&path, &key) {
        Ok(payload) => match load(engine, &payload) {
            Ok(component) => return Ok(component),
            Err(error) => {
                tracing::debug!(target: "t2m_sandbox", "compiled component not usable: {error:#}");
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(target: "t2m_sandbox", file = %path.display(), "compiled again: {error}");
        }
    }
    let payload = compile()?;
    if let Err(error) = cache.write(&path, &key, &payload) {
        tracing::warn!(target: "t2m_sandbox", file = %path.display(), "not kept: {error}");
    }
    load(engine, &payload).map_err(invalid)
}

/// Loads machine code.
#[expect(
    unsafe_code,
    reason = "the one place where compiled components become code; callers pass only what this program compiled or `Cache::read` returned"
)]
fn load(engine: &Engine, payload: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from `precompile_component`, either just now, in this process or in one of the
    // compiler's whose pipe nobody else has, or through a file whose digest, key and private folder were checked; they are a copy in memory that nobody else can change.
    unsafe { Component::deserialize(engine, payload) }
}

impl Cache {
    /// Opens the folder, which is made if it isn't there.
    pub(crate) fn open(dir: &Path) -> Result<Cache, SandboxError> {
        let fault = |error: io::Error| {
            let message = format!("cache folder `{}` can't be used: {error}", dir.display());
            SandboxError::new(Code::FileUnwritable, message)
        };
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(fault)?;
        }
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fault(error)),
            _ => {}
        }
        let mut cache = Cache { dir: dir.to_owned(), owner: 0 };
        // A file made by this process tells who this process is.
        let probe = cache.temporary();
        let made = create(&probe).and_then(|file| file.metadata());
        let removed = fs::remove_file(&probe);
        cache.owner = made.map_err(fault)?.uid();
        removed.map_err(fault)?;
        cache.check_private().map_err(fault)?;
        Ok(cache)
    }

    fn check_private(&self) -> io::Result<()> {
        let about = fs::symlink_metadata(&self.dir)?;
        if !about.is_dir() || about.uid() != self.owner || about.mode() & 0o077 != 0 {
            let message = "it must be a folder of the user who runs this, with mode 0700";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(())
    }

    fn temporary(&self) -> PathBuf {
        // Process ids repeat, in containers at every start; a left-over file must not be in the way.
        let number = RandomState::new().build_hasher().finish();
        self.dir.join(format!(".new-{number:016x}"))
    }

    /// The compiled component in a file, if the file is what its key says.
    fn read(&self, path: &Path, key: &Key) -> io::Result<Vec<u8>> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        self.check_private()?;
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(bad("not a file"));
        }
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        if about.uid() != self.owner || about.mode() & 0o077 != 0 {
            return Err(bad("not private"));
        }
        if about.len() > MAX_FILE {
            return Err(bad("too large"));
        }
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        // Room for all of it, or every doubling on the way would touch its pages anew.
        let mut payload = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0));
        file.take(MAX_FILE).read_to_end(&mut payload)?;
        let expected = header_of(key, &payload);
        if header != expected {
            return Err(bad("its content isn't what was written"));
        }
        Ok(payload)
    }

    fn write(&self, path: &Path, key: &Key, payload: &[u8]) -> io::Result<()> {
        self.check_private()?;
        let temporary = self.temporary();
        let written = create(&temporary).and_then(|mut file| {
            file.write_all(&header_of(key, payload))?;
            file.write_all(payload)?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn header_of(key: &Key, payload: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let digest = Digest::of_bytes(payload);
    let parts = MAGIC.iter().chain(&key.whole).chain(digest.as_bytes());
    for (to, from) in header.iter_mut().zip(parts) {
        *to = *from;
    }
    header
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const WASM: &str = "(component)";

    struct Case {
        _folder: tempfile::TempDir,
        engine: Engine,
        cache: Cache,
        wasm: Vec<u8>,
    }

    impl Case {
        fn new() -> Case {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::open(&folder.path().join("deep/cache")).unwrap();
            let wasm = wat::parse_str(WASM).unwrap();
            Case { _folder: folder, engine: Engine::default(), cache, wasm }
        }

        fn compile(&self) {
            compile(
                &self.engine,
                &SandboxConfig::default(),
                Some(&self.cache),
                &self.wasm,
                Digest::of_bytes(&self.wasm),
            )
            .unwrap();
        }

        fn file(&self) -> PathBuf {
            let key = Key::new(&self.engine, Digest::of_bytes(&self.wasm));
            self.cache.dir.join(key.file_name())
        }

        fn usable(&self) -> bool {
            let key = Key::new(&self.engine, Digest::of_bytes(&self.wasm));
            self.cache.read(&self.file(), &key).is_ok()
        }
    }

    /// P11: a changed, truncated, foreign or linked file is compiled again and never loaded.
    #[test]
    fn a_file_that_is_not_what_was_written_is_compiled_again() {
        let case = Case::new();
        case.compile();
        assert!(case.usable());
        let good = fs::read(case.file()).unwrap();
        let mut changed = good.clone();
        *changed.last_mut().unwrap() ^= 1;
        let mut foreign = good.clone();
        foreign[MAGIC.len()] ^= 1;
        let mut longer = good.clone();
        longer.push(0);
        let bad = [changed, foreign, longer, good[..good.len() - 1].to_vec(), good[..10].to_vec(), vec![]];
        for (index, bytes) in bad.iter().enumerate() {
            fs::write(case.file(), bytes).unwrap();
            assert!(!case.usable(), "{index}");
            case.compile();
            assert_eq!(fs::read(case.file()).unwrap(), good, "{index}");
        }
        let other = case.cache.dir.join("other");
        fs::rename(case.file(), &other).unwrap();
        std::os::unix::fs::symlink(&other, case.file()).unwrap();
        assert!(!case.usable());
    }

    /// P11: a file for other settings of the engine has another key.
    #[test]
    fn settings_of_the_engine_are_part_of_the_key() {
        let case = Case::new();
        let mut config = wasmtime::Config::new();
        config.consume_fuel(true);
        let other = Engine::new(&config).unwrap();
        let digest = Digest::of_bytes(&case.wasm);
        assert_ne!(Key::new(&case.engine, digest).whole, Key::new(&other, digest).whole);
    }

    /// P11: a folder that others may enter is not used, neither at start nor later.
    #[test]
    fn a_folder_open_to_others_is_refused() {
        let case = Case::new();
        case.compile();
        let open = |mode| fs::set_permissions(&case.cache.dir, fs::Permissions::from_mode(mode)).unwrap();
        open(0o755);
        assert!(!case.usable());
        let error = Cache::open(&case.cache.dir).unwrap_err();
        assert_eq!(error.code(), Code::FileUnwritable);
        open(0o700);
        assert!(case.usable());
        assert_eq!(fs::metadata(case.file()).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(case.file(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!case.usable());
    }
}
