//! Values that outlive a call, for this plugin in the folder that it works for.
//!
//! Owns values as bytes and as JSON. Refuses to keep anything in memory: what isn't set is gone with the call.
//!
//! INVARIANT: [`update`] changes what it read or nothing, so two calls at once lose nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, host};

/// How often a change is tried again after another call was quicker. 100: more calls at once than a host has slots.
const ATTEMPTS: u32 = 100;

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The key is empty or too long.
    Key,
    /// The value is too long.
    Value,
    /// There is no room.
    Full,
    /// The tool's effect allows no such call.
    #[cfg_attr(not(target_arch = "wasm32"), expect(dead_code, reason = "the double knows no effect"))]
    Permission,
    /// The store can't be used now.
    Unavailable,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let (code, message) = match refused {
            Refused::Key => ("key-invalid", "a key has 1 to 100 bytes"),
            Refused::Value => ("value-too-large", "a value has at most 1 MiB"),
            Refused::Full => ("storage-full", "the store is full: 1,000 keys, 16 MiB"),
            Refused::Permission => ("not-permitted", "the effect of this tool doesn't allow it"),
            Refused::Unavailable => ("store-unavailable", "the store can't be used now"),
        };
        Error::new(code, message).retryable(refused == Refused::Unavailable)
    }
}

/// The value of a key, if it has one.
///
/// # Errors
/// `key-invalid`, `not-permitted` in a pure tool, `store-unavailable`.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(host::kv_get(key)?)
}

/// Gives a key a value.
///
/// # Errors
/// As [`get`], `value-too-large`, `storage-full`, and `not-permitted` in a tool that reads.
pub fn set(key: &str, value: &[u8]) -> Result<(), Error> {
    Ok(host::kv_set(key, value)?)
}

/// Takes a key's value away, and says whether there was one.
///
/// # Errors
/// As [`set`].
pub fn delete(key: &str) -> Result<bool, Error> {
    Ok(host::kv_delete(key)?)
}

/// The keys that begin with a text, in order.
///
/// # Errors
/// As [`get`].
pub fn keys(prefix: &str) -> Result<Vec<String>, Error> {
    Ok(host::kv_keys(prefix)?)
}

/// The value of a key, kept as JSON.
///
/// # Errors
/// As [`get`], and `invalid-data` if it is something else.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    get(key)?.map(|bytes| read(key, &bytes)).transpose()
}

/// Changes a value kept as JSON, which begins as the default. `change` runs again if another call was quicker, and what it
/// fails with changes nothing.
///
/// # Errors
/// As [`set`], what `change` fails with, and `busy` if other calls are always quicker.
pub fn update<T, R>(key: &str, mut change: impl FnMut(&mut T) -> Result<R, Error>) -> Result<R, Error>
where
    T: Serialize + DeserializeOwned + Default,
{
    for _ in 0..ATTEMPTS {
        let old = get(key)?;
        let mut value = old.as_deref().map(|bytes| read(key, bytes)).transpose()?.unwrap_or_default();
        let result = change(&mut value)?;
        let new = serde_json::to_vec(&value)?;
        if old.as_ref() == Some(&new) || host::kv_swap(key, old.as_deref(), Some(&new))? {
            return Ok(result);
        }
    }
    Err(Error::new("busy", format!("other calls keep changing `{key}`")).retryable(true))
}

fn read<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::new("invalid-data", format!("what is kept as `{key}` can't be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{self, Host};

    #[test]
    fn a_change_is_kept_and_a_failed_one_is_not() {
        let mut host = Host::default();
        double::swap(&mut host);
        let push = |number: u32| {
            update("list", |list: &mut Vec<u32>| {
                list.push(number);
                if number > 2 { Err(Error::new("too-large", "")) } else { Ok(list.len()) }
            })
        };
        assert_eq!((push(1).unwrap(), push(2).unwrap()), (1, 2));
        assert_eq!(push(3).unwrap_err().code(), "too-large");
        assert_eq!(get_json::<Vec<u32>>("list").unwrap(), Some(vec![1, 2]));
        set("broken", b"{").unwrap();
        assert_eq!(get_json::<u32>("broken").unwrap_err().code(), "invalid-data");
        assert_eq!(keys("l").unwrap(), ["list"]);
        assert!(delete("list").unwrap() && !delete("list").unwrap());
        assert_eq!(get("").unwrap_err().code(), "key-invalid");
        double::swap(&mut host);
    }
}
