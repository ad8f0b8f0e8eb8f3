//! The bytes of a line.
//!
//! Owns writing and reading one record with its place in the chain. Refuses to judge a chain: the verifier does.
//!
//! **Invariant:** a line that [`Line::read`] takes holds what was hashed and nothing else: each of its bytes is
//! either under the hash or part of the hash.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::record::Entry;
use crate::digest::Digest;
use crate::json::{Limits, parse};

/// Greatest number of a record: what every reader of JSON keeps exactly, and a million a second would take 285 years
/// to come to.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// Longest line, without its break. A record of the longest names takes 6 KiB.
pub const MAX_LINE_BYTES: usize = 16 << 10;

/// What stands between the hashed bytes and the hash.
const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}";
/// `sha256:` and 64 digits.
const HASH_CHARS: usize = 71;

/// A record's place: what the next one names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// 1 for the first record of the log.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
}

/// One record as it was read. Its members other than these are those of an [`Entry`].
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its place.
    pub link: Link,
    /// The hash of the record before.
    pub prev: Option<Digest>,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// Every member, the place in the chain included.
    pub members: Map<String, Value>,
}

/// Appends the record that follows `last`, line break included, and gives its place.
pub fn encode(last: Option<Link>, at_ms: u64, entry: &Entry, out: &mut String) -> Link {
    let start = out.len();
    let seq = last.map_or(0, |last| last.seq).saturating_add(1);
    // Writing to a string can't fail, and an entry has no value that JSON can't hold.
    let _ = write!(out, "{{\"seq\":{seq},\"at_ms\":{at_ms},\"prev\":");
    let _ = match last {
        Some(last) => write!(out, "\"{}\",", last.hash),
        None => write!(out, "null,"),
    };
    let members = serde_json::to_string(entry).unwrap_or_default();
    out.push_str(members.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default());
    let hash = Digest::of_bytes(out.as_bytes().get(start..).unwrap_or_default());
    let _ = writeln!(out, "{BEFORE_HASH}{hash}{AFTER_HASH}");
    Link { seq, hash }
}

impl Line {
    /// Reads a line without its break, or says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Line, String> {
        if bytes.len() > MAX_LINE_BYTES {
            return Err(format!("longer than {MAX_LINE_BYTES} bytes"));
        }
        let unhashed = BEFORE_HASH.len() + HASH_CHARS + AFTER_HASH.len();
        let (body, end) = bytes
            .len()
            .checked_sub(unhashed)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or("too short for a record")?;
        let hash = Digest::of_bytes(body);
        if end != format!("{BEFORE_HASH}{hash}{AFTER_HASH}").as_bytes() {
            return Err("its hash isn't that of its bytes".to_owned());
        }
        let value = parse(bytes, Limits { bytes: MAX_LINE_BYTES, depth: 8 })
            .map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let Value::Object(members) = value else { return Err("no object".to_owned()) };
        let count = |name: &str| {
            let found = members.get(name).and_then(Value::as_u64);
            found.ok_or_else(|| format!("`{name}` is no whole number"))
        };
        let (seq, at_ms) = (count("seq")?, count("at_ms")?);
        if seq == 0 || seq > MAX_SEQ {
            return Err(format!("`seq` isn't between 1 and {MAX_SEQ}"));
        }
        let prev = match members.get("prev") {
            Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.parse().map_err(|error| format!("`prev` is {error}"))?),
            _ => return Err("`prev` is neither null nor a digest".to_owned()),
        };
        if members.get("record").and_then(Value::as_str).is_none() {
            return Err("`record` is missing".to_owned());
        }
        Ok(Line { link: Link { seq, hash }, prev, at_ms, members })
    }

    /// The kind of record.
    pub fn kind(&self) -> &str {
        self.text("record").unwrap_or_default()
    }

    /// A member that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// What a `log-opened` record says was torn before it.
    pub(super) fn torn(&self) -> Result<Option<super::Torn>, String> {
        let Some(torn) = self.members.get("torn") else { return Ok(None) };
        let bytes = torn.get("bytes").and_then(Value::as_u64);
        let digest = torn.get("digest").and_then(Value::as_str).and_then(|text| text.parse().ok());
        match (bytes, digest) {
            (Some(bytes), Some(digest)) => Ok(Some(super::Torn { bytes, digest })),
            _ => Err("`torn` has no `bytes` and `digest`".to_owned()),
        }
    }
}
