//! Reading JSON without surprises.
//!
//! Owns the strict reader that every file goes through: duplicate keys, depth and size are checked while
//! reading, not after. Refuses to guess: a text that isn't JSON is never repaired.
//!
//! **Invariant:** a value this module returns has unique keys at every level and at most
//! [`Limits::depth`] levels.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::code::Code;
use crate::problem::{Place, Problem, Problems, child, item};

/// How large an input may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole text. 64 MiB: real sessions of 27 MB exist, larger ones are exceptions.
    pub bytes: usize,
    /// Levels of nesting. 128 is Trace v1's limit and keeps recursion far from the stack's end.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 64 << 20, depth: 128 }
    }
}

/// Reads one JSON text and reports every duplicate key and every lossy number in it.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Value, Problems> {
    parse_without(bytes, limits, &[])
}

/// Reads one JSON text without the members at these paths of keys, which go through lists. What isn't taken
/// is only checked to be JSON.
pub(crate) fn parse_without(bytes: &[u8], limits: Limits, without: &[&[&str]]) -> Result<Value, Problems> {
    if bytes.len() > limits.bytes {
        let message = format!("{} bytes, at most {} are read", bytes.len(), limits.bytes);
        return Err(Problem::new(Code::FileTooLarge, Place::Whole, message).into());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Err(place) = check_depth(bytes, limits.depth) {
        let message = format!("nested deeper than {} levels", limits.depth);
        return Err(Problem::new(Code::JsonTooDeep, place, message).into());
    }
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // check_depth has counted, and its limit is what the caller asked for.
    reader.disable_recursion_limit();
    let value = Node { path: &Path::Root, found: &found, without }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| syntax_problem(&error))?;
    Problems::from_list(found.into_inner())?;
    Ok(value)
}

/// What serde_json found, in our words.
pub(crate) fn syntax_problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    // serde_json appends its own place, which we carry apart.
    let message = text.split(" at line ").next().unwrap_or(&text);
    let code = if message.contains("number out of range") { Code::JsonNumber } else { Code::JsonSyntax };
    Problem::new(code, Place::LineColumn(error.line(), error.column()), message)
}

/// Counts brackets outside strings, so that a deep text is refused before anything recurses into it.
fn check_depth(bytes: &[u8], limit: usize) -> Result<(), Place> {
    let (mut depth, mut rest) = (0usize, bytes);
    while let Some((byte, tail)) = rest.split_first() {
        rest = match byte {
            b'"' => after_string(tail),
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return Err(place_of(bytes, bytes.len() - rest.len()));
                }
                tail
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                tail
            }
            _ => tail,
        };
    }
    Ok(())
}

/// What follows a string whose opening quote was read. Most bytes of a recording stand in strings, so these
/// are searched, not stepped through.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let escape = rest.get(at) == Some(&b'\\');
        rest = rest.get(at + 1 + usize::from(escape)..).unwrap_or_default();
        if !escape {
            return rest;
        }
    }
    &[]
}

/// Line and column of an offset.
fn place_of(bytes: &[u8], offset: usize) -> Place {
    let before = bytes.get(..offset).unwrap_or_default();
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    Place::LineColumn(memchr::memchr_iter(b'\n', before).count() + 1, offset - line_start + 1)
}

/// The way to a value, which becomes a text only where there is something to report.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Key(parent, key) => child(&parent.pointer(), key),
            Path::Item(parent, index) => item(&parent.pointer(), *index),
        }
    }

    /// Whether these are its keys.
    fn is(&self, keys: &[&str]) -> bool {
        match self {
            Path::Root => keys.is_empty(),
            Path::Item(parent, _) => parent.is(keys),
            Path::Key(parent, key) => {
                keys.split_last().is_some_and(|(last, before)| last == key && parent.is(before))
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Node<'f> {
    path: &'f Path<'f>,
    found: &'f RefCell<Vec<Problem>>,
    without: &'f [&'f [&'f str]],
}

impl Node<'_> {
    fn report(&self, code: Code, path: &Path<'_>, message: String) {
        self.found.borrow_mut().push(Problem::at(code, path.pointer(), message));
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // An integer that doesn't fit 64 bits arrives here rounded; so does a fraction of such a size,
        // which no tool means exactly.
        if value.fract() == 0.0 && value.abs() >= 18_446_744_073_709_551_616.0 && value.abs() < 1e30 {
            let message = "a number of this size can't be held without loss".to_owned();
            self.report(Code::JsonNumber, self.path, message);
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) =
            access.next_element_seed(Node { path: &Path::Item(self.path, list.len()), ..self })?
        {
            list.push(value);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = Path::Key(self.path, &key);
            if self.without.iter().any(|keys| path.is(keys)) {
                access.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = access.next_value_seed(Node { path: &path, ..self })?;
            match map.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => {
                    let key = taken.key();
                    let message = format!("key `{key}` stands twice");
                    self.report(Code::JsonDuplicateKey, &Path::Key(self.path, key), message);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// What kind of value this is, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<(Code, String)> {
        match parse(text.as_bytes(), Limits::default()) {
            Ok(_) => vec![],
            Err(problems) => problems.iter().map(|p| (p.code, p.place.to_string())).collect(),
        }
    }

    #[test]
    fn every_duplicate_key_is_reported_with_its_place() {
        assert_eq!(
            codes(r#"{"a":1,"a":2,"b":[{"x":1,"x":1}]}"#),
            vec![(Code::JsonDuplicateKey, "/a".to_owned()), (Code::JsonDuplicateKey, "/b/0/x".to_owned())]
        );
    }

    #[test]
    fn members_can_be_left_unread_wherever_lists_are() {
        let text = br#"{"m":{"x":{"x":1,"x":2},"c":[{"x":[1],"y":{"x":3}}]},"x":4}"#;
        let value = parse_without(text, Limits::default(), &[&["m", "x"], &["m", "c", "x"]]).unwrap();
        assert_eq!(value, serde_json::json!({"m": {"c": [{"y": {"x": 3}}]}, "x": 4}));
        assert!(parse_without(br#"{"x":{"#, Limits::default(), &[&["x"]]).is_err());
    }

    #[test]
    fn what_json_has_not_is_refused() {
        for text in ["NaN", "[Infinity]", "{", "1 2", "\"\\ud800\"", "[1,]", ""] {
            assert_eq!(codes(text).first().map(|c| c.0), Some(Code::JsonSyntax), "{text}");
        }
        for text in ["1e999", "[123456789012345678901234567890]"] {
            assert_eq!(codes(text).first().map(|c| c.0), Some(Code::JsonNumber), "{text}");
        }
        assert!(codes("\u{feff}{\"a\": 1e300}").is_empty());
    }

    #[test]
    fn depth_is_checked_before_recursion() {
        let deep = "[".repeat(100_000);
        assert_eq!(codes(&deep), vec![(Code::JsonTooDeep, "line 1, column 129".to_owned())]);
        let fine = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(codes(&fine).is_empty());
        assert!(codes("\"[[[\\\"[[\"").is_empty());
        let second_line = format!("{{\"a\\\\\":\n{deep}");
        assert_eq!(codes(&second_line), vec![(Code::JsonTooDeep, "line 2, column 128".to_owned())]);
    }
}
