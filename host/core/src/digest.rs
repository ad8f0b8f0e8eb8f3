//! One canonical form of JSON, and digests over it.
//!
//! Owns canonical JSON (RFC 8785) and the digest type. Refuses signatures, which need keys.
//!
//! **Invariant:** equal digests mean equal values: key order and number spelling don't count, everything
//! else does. One deviation from RFC 8785 keeps this true: integers beyond 2^53 are written in full, where
//! the RFC rounds them to a double and two different numbers would look alike.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
pub struct Digest([u8; 32]);

/// A text that isn't a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected `sha256:` and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    /// Digest of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Digest of a JSON value's canonical form.
    pub fn of_json(value: &Value) -> Digest {
        Digest::of_bytes(&canonical(value))
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 digits without the prefix, for file names.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;
    fn from_str(text: &str) -> Result<Digest, InvalidDigest> {
        let hex = text.strip_prefix("sha256:").ok_or(InvalidDigest)?;
        let digits: Vec<u8> = hex
            .bytes()
            .map(|b| match b {
                b'0'..=b'9' => Some(b - b'0'),
                b'a'..=b'f' => Some(b - b'a' + 10),
                _ => None,
            })
            .collect::<Option<_>>()
            .ok_or(InvalidDigest)?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |acc, d| acc * 16 + d)).collect();
        if digits.len() != 64 {
            return Err(InvalidDigest);
        }
        bytes.try_into().map(Digest).map_err(|_| InvalidDigest)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;
    fn try_from(text: String) -> Result<Digest, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// Makes a digest of bytes that come one part after the other.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Digest of all parts together.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A JSON value whose outer levels are put together from parts, to be digested without copying them.
pub enum Parts<'a> {
    /// A value as it stands.
    Value(&'a Value),
    /// A text.
    Text(&'a str),
    /// A value made for this.
    Made(Value),
    /// An object's content.
    Map(&'a Map<String, Value>),
    /// An object of parts. A later member with the same key takes the earlier one's place.
    Object(Vec<(&'a str, Parts<'a>)>),
    /// A list of parts, made one after the other.
    List(Box<dyn Iterator<Item = Parts<'a>> + 'a>),
}

impl Digest {
    /// Digest of the canonical form of the value that the parts make.
    pub fn of_parts(parts: Parts<'_>) -> Digest {
        let (mut out, mut hasher) = (String::new(), Sha256::new());
        write_parts(parts, &mut out, &mut hasher);
        hasher.update(out.as_bytes());
        Digest(hasher.finalize().into())
    }
}

/// Text that is gathered before it is hashed. A whole trace would stand in memory twice otherwise.
const CHUNK: usize = 64 << 10;

fn write_parts(parts: Parts<'_>, out: &mut String, hasher: &mut Sha256) {
    if out.len() >= CHUNK {
        hasher.update(out.as_bytes());
        out.clear();
    }
    match parts {
        Parts::Value(value) => write_value(value, out),
        Parts::Text(text) => write_string(text, out),
        Parts::Made(value) => write_value(&value, out),
        Parts::Map(map) => write_map(map, out),
        Parts::Object(mut members) => {
            members.reverse();
            sort(&mut members);
            members.dedup_by(|later, earlier| later.0 == earlier.0);
            write_members(members, out, |part, out| write_parts(part, out, hasher));
        }
        Parts::List(list) => {
            out.push('[');
            for (index, part) in list.enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_parts(part, out, hasher);
            }
            out.push(']');
        }
    }
}

/// Sorts members, those with the same key staying as they stand. RFC 8785, 3.2.3: keys are sorted by their UTF-16
/// code units. For ASCII that is the order of bytes.
fn sort<T>(members: &mut [(&str, T)]) {
    if members.iter().all(|(key, _)| key.is_ascii()) {
        members.sort_by(|a, b| a.0.cmp(b.0));
    } else {
        members.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
    }
}

fn write_map(map: &Map<String, Value>, out: &mut String) {
    let members = map.iter().map(|(key, value)| (key.as_str(), value));
    // Most objects need no list to sort: they keep their members in the order of bytes.
    if map.keys().all(|key| key.is_ascii()) && map.keys().is_sorted() {
        write_members(members, out, write_value);
    } else {
        let mut members: Vec<(&str, &Value)> = members.collect();
        sort(&mut members);
        write_members(members, out, write_value);
    }
}

/// Writes members that are sorted.
fn write_members<'k, T>(
    members: impl IntoIterator<Item = (&'k str, T)>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push('{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

/// The canonical bytes of a value.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = String::new();
    write_value(value, &mut out);
    out.into_bytes()
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => write_map(map, out),
    }
}

fn write_number(number: &Number, out: &mut String) {
    if number.is_f64() {
        let mut buffer = ryu_js::Buffer::new();
        // A JSON number is always finite.
        out.push_str(buffer.format(number.as_f64().unwrap_or_default()));
    } else {
        // Writing to a string can't fail.
        let _ = write!(out, "{number}");
    }
}

fn write_string(text: &str, out: &mut String) {
    // RFC 8785, 3.2.2.2 asks for exactly the escapes that serde_json writes.
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::String(text.to_owned()).to_string());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        String::from_utf8(canonical(value)).unwrap()
    }

    #[test]
    fn canonical_form_matches_the_examples_of_rfc_8785() {
        // Section 3.2.2 and 3.2.3.
        let value: Value = serde_json::from_str(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
        )
        .unwrap();
        assert_eq!(
            text(&value),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        let keys =
            json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7});
        let order: Vec<u8> = text(&keys).bytes().filter(u8::is_ascii_digit).collect();
        assert_eq!(String::from_utf8(order).unwrap(), "21467153", "{}", text(&keys));
    }

    #[test]
    fn large_integers_stay_apart() {
        let (a, b) = (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64));
        assert_ne!(Digest::of_json(&a), Digest::of_json(&b));
        assert_eq!(Digest::of_json(&json!(1)), Digest::of_json(&json!(1.0)));
    }

    #[test]
    fn digest_reads_back_and_refuses_lookalikes() {
        let digest = Digest::of_bytes(b"abc");
        assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
        let hex = digest.hex();
        let upper = format!("sha256:{}", hex.to_uppercase());
        for bad in ["", "sha256:", "sha256:00", &hex, &upper, &format!("sha256:{hex}0")] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn digest_does_not_depend_on_key_order(keys in proptest::collection::vec("[a-z\u{e9}\u{1f600}]{1,4}", 1..8)) {
            let forward: String = keys.iter().map(|k| format!("{:?}:1", k)).collect::<Vec<_>>().join(",");
            let backward: String = keys.iter().rev().map(|k| format!("{:?}:1", k)).collect::<Vec<_>>().join(",");
            let read = |text: String| serde_json::from_str::<Value>(&format!("{{{text}}}")).unwrap();
            prop_assert_eq!(Digest::of_json(&read(forward)), Digest::of_json(&read(backward)));
        }
    }
}
