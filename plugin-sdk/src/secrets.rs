//! Secrets that the operator lends to the plugin.
//!
//! Owns the way to them. Refuses to know a value: the host alone does.
//!
//! INVARIANT: what a plugin gets stands for the value in the headers of its requests, and for nothing anywhere else.

use crate::{Error, host};

/// Returns a text that stands for a secret. Put it into a header of a request to a host that the secret is for, as in
/// `format!("Bearer {token}")`; the host sends the value in its place.
///
/// # Errors
/// `secret-missing` if the operator lent none of this name.
pub fn get(name: &str) -> Result<String, Error> {
    let missing = || {
        let message = format!(
            "no secret `{name}` for this call: add it to `secrets` of the plugin's `[[plugin]]` in t2m.toml; a `pure` tool has none"
        );
        Error::new("secret-missing", message)
    };
    host::secret(name).ok_or_else(missing)
}
