//! Values that a plugin keeps between calls.
//!
//! Owns the files of one store, its limits, and the import `t2m:plugin/kv`. Refuses to know what a value means, and any
//! name of a file that comes from a guest: a key's file is called by the key's bytes in hexadecimal.
//!
//! **Invariant:** a key has its old value or its new one, never a part of it, and two callers never both change a value
//! that they both read: every change happens under one lock, of this process and of all.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use t2m_core::code::Code;
use t2m_core::effect::Effect;

use crate::bindings::kv;
use crate::error::SandboxError;
use crate::state::State;

/// Longest key, in bytes. 100: twice as long in hexadecimal, a name that every file system takes.
const MAX_KEY: usize = 100;

/// Longest value, in bytes. 1 MiB: all of it is handed over at once.
const MAX_VALUE: usize = 1 << 20;

/// Keys of one store. 1,000: each change looks at all of their files.
const MAX_KEYS: usize = 1_000;

/// Bytes of all values of one store. 16 MiB.
const MAX_TOTAL: u64 = 16 << 20;

/// What the file of a key begins with.
const KEY: &str = "k-";

/// What a file that isn't finished begins with.
const HALF: &str = "half-";

/// The file whose lock a change holds.
const LOCK: &str = "lock";

/// One plugin's values in one folder.
pub(crate) struct Store {
    dir: Dir,
    here: Mutex<()>,
    written: AtomicU64,
}

impl Store {
    /// Opens a folder that belongs to nobody else.
    pub(crate) fn open(path: &Path) -> Result<Store, SandboxError> {
        let shown = path.display();
        let refuse =
            |why: String| SandboxError::new(Code::GrantInvalid, format!("the store `{shown}` {why}"));
        let dir = Dir::open_ambient_dir(path, ambient_authority())
            .map_err(|error| refuse(format!("can't be opened: {error}")))?;
        let about = dir.dir_metadata().map_err(|error| refuse(format!("can't be looked at: {error}")))?;
        #[cfg(unix)]
        {
            use cap_std::fs::PermissionsExt;
            if about.permissions().mode() & 0o077 != 0 {
                return Err(refuse(format!("may be read by others; `chmod 700 {shown}`")));
            }
        }
        let _ = about;
        Ok(Store { dir, here: Mutex::default(), written: AtomicU64::new(0) })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, kv::Error> {
        self.read(&file_of(key)?).map_err(unavailable)
    }

    fn read(&self, file: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match self.dir.open(file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MAX_VALUE as u64).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, kv::Error> {
        let mut keys = Vec::new();
        for entry in self.dir.entries().map_err(unavailable)? {
            let name = entry.map_err(unavailable)?.file_name();
            keys.extend(name.to_str().and_then(key_of).filter(|key| key.starts_with(prefix)));
        }
        keys.sort();
        Ok(keys)
    }

    /// Changes a key's value, if it is as expected where something is.
    fn change(
        &self,
        key: &str,
        expected: Option<Option<&[u8]>>,
        value: Option<&[u8]>,
    ) -> Result<bool, kv::Error> {
        let file = file_of(key)?;
        if value.is_some_and(|value| value.len() > MAX_VALUE) {
            return Err(kv::Error::ValueTooLarge);
        }
        let _here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = self.dir.open_with(LOCK, private(OpenOptions::new().create(true)));
        // Held until it is dropped. Whoever else has it is within this function.
        let lock = lock.map_err(unavailable)?.into_std();
        lock.lock().map_err(unavailable)?;
        if let Some(expected) = expected
            && self.read(&file).map_err(unavailable)?.as_deref() != expected
        {
            return Ok(false);
        }
        match value {
            Some(value) => {
                self.make_room(&file, value.len() as u64)?;
                self.write(&file, value).map_err(unavailable)?;
                Ok(true)
            }
            None => match self.dir.remove_file(&file) {
                Ok(()) => Ok(true),
                // What was expected to be absent is absent.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(expected.is_some()),
                Err(error) => Err(unavailable(error)),
            },
        }
    }

    /// Refuses a value for which there is no room, and clears away what a stopped process left.
    fn make_room(&self, file: &str, bytes: u64) -> Result<(), kv::Error> {
        let (mut keys, mut total) = (1, bytes);
        for entry in self.dir.entries().map_err(unavailable)? {
            let entry = entry.map_err(unavailable)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(HALF) {
                self.dir.remove_file(name).map_err(unavailable)?;
            } else if name.starts_with(KEY) && name != file {
                keys += 1;
                total += entry.metadata().map_err(unavailable)?.len();
            }
        }
        if keys > MAX_KEYS || total > MAX_TOTAL { Err(kv::Error::Full) } else { Ok(()) }
    }

    fn write(&self, file: &str, value: &[u8]) -> io::Result<()> {
        let count = self.written.fetch_add(1, Ordering::Relaxed);
        let half = format!("{HALF}{}-{count}", std::process::id());
        let mut new = self.dir.open_with(&half, private(OpenOptions::new().create_new(true)))?;
        new.write_all(value)?;
        new.sync_all()?;
        self.dir.rename(&half, &self.dir, file)
    }
}

fn private(options: &mut OpenOptions) -> &OpenOptions {
    options.write(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

fn unavailable(error: io::Error) -> kv::Error {
    tracing::warn!(target: "t2m_sandbox::kv", "a plugin's store can't be used: {error}");
    kv::Error::Unavailable
}

fn file_of(key: &str) -> Result<String, kv::Error> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(kv::Error::KeyInvalid);
    }
    Ok(key.bytes().fold(KEY.to_owned(), |name, byte| format!("{name}{byte:02x}")))
}

fn key_of(file: &str) -> Option<String> {
    let hex = file.strip_prefix(KEY)?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(hex.chunks(2).map(byte).collect::<Option<_>>()?).ok()
}

/// A plugin's store as one call may use it.
#[derive(Clone)]
pub(crate) struct KvGrant {
    pub(crate) store: Arc<Store>,
    pub(crate) effect: Effect,
}

impl State {
    fn store(&self, to_write: bool) -> Result<&Store, kv::Error> {
        let grant = self.kv().ok_or(kv::Error::NotPermitted)?;
        let may = grant.effect != Effect::Pure && !(to_write && grant.effect.is_read_only());
        if may { Ok(&grant.store) } else { Err(kv::Error::NotPermitted) }
    }
}

impl kv::Host for State {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, kv::Error>> {
        Ok(self.store(false).and_then(|store| store.get(&key)))
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), kv::Error>> {
        Ok(self.store(true).and_then(|store| store.change(&key, None, Some(&value)).map(|_| ())))
    }

    fn delete(&mut self, key: String) -> wasmtime::Result<Result<bool, kv::Error>> {
        Ok(self.store(true).and_then(|store| store.change(&key, None, None)))
    }

    fn swap(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<bool, kv::Error>> {
        let change = |store: &Store| store.change(&key, Some(expected.as_deref()), value.as_deref());
        Ok(self.store(true).and_then(change))
    }

    fn list_keys(&mut self, prefix: String) -> wasmtime::Result<Result<Vec<String>, kv::Error>> {
        Ok(self.store(false).and_then(|store| store.keys(&prefix)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let store = Store::open(folder.path()).unwrap();
        (folder, store)
    }

    /// P03: a key is whatever text, its file is nobody else's, and no key leads out of the folder.
    #[test]
    fn a_key_keeps_its_value_in_a_private_file() {
        let (folder, store) = store();
        for key in ["a", "../../x", "/etc/passwd", "k-61", "ü\0", "lock", &"x".repeat(100)] {
            assert!(store.change(key, None, Some(key.as_bytes())).unwrap());
            assert_eq!(store.get(key).unwrap().as_deref(), Some(key.as_bytes()), "{key}");
        }
        assert_eq!(store.keys("").unwrap().len(), 7);
        assert_eq!(store.keys("../").unwrap(), ["../../x"]);
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o077, 0);
        }
        assert!(store.change("a", None, None).unwrap());
        assert!(!store.change("a", None, None).unwrap());
        assert_eq!(store.get("a").unwrap(), None);
        for bad in ["", &"x".repeat(101)] {
            assert_eq!(store.get(bad), Err(kv::Error::KeyInvalid));
        }
    }

    /// P02: a store has an end, and what a stopped process left behind doesn't count.
    #[test]
    fn a_store_has_limits() {
        let (folder, store) = store();
        let large = vec![0; MAX_VALUE + 1];
        assert_eq!(store.change("a", None, Some(&large)), Err(kv::Error::ValueTooLarge));
        std::fs::write(folder.path().join("half-1-1"), &large).unwrap();
        let value = large.get(..MAX_VALUE).unwrap();
        for at in 0..16 {
            store.change(&format!("{at}"), None, Some(value)).unwrap();
        }
        assert!(!folder.path().join("half-1-1").exists());
        assert_eq!(store.change("more", None, Some(b"x")), Err(kv::Error::Full));
        assert!(store.change("0", None, Some(b"x")).unwrap(), "replacing makes room");
        for at in 0..MAX_KEYS {
            std::fs::write(folder.path().join(format!("k-{at:04x}")), "").unwrap();
        }
        assert_eq!(store.change("more", None, Some(b"x")), Err(kv::Error::Full));
    }

    /// P03: of many that add to one value at once, none is lost.
    #[test]
    fn a_swap_loses_nothing() {
        let (folder, _) = store();
        let stores: Vec<_> = (0..4).map(|_| Arc::new(Store::open(folder.path()).unwrap())).collect();
        std::thread::scope(|scope| {
            for store in &stores {
                scope.spawn(|| {
                    for _ in 0..25 {
                        loop {
                            let old = store.get("n").unwrap();
                            let mut new = old.clone().unwrap_or_default();
                            new.push(1);
                            if store.change("n", Some(old.as_deref()), Some(&new)).unwrap() {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(stores[0].get("n").unwrap().unwrap().len(), 100);
    }

    /// P03: a folder that others may look into is none for a store.
    #[test]
    fn an_open_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(Store::open(folder.path()).err().unwrap().code(), Code::GrantInvalid);
    }
}
