//! Files that hold no text.
//!
//! Owns the words for what a file's first bytes show, and what to do about it. Refuses to unpack or convert:
//! what is imported is what was recorded.
//!
//! **Invariant:** a text in UTF-8 is never taken for something else.

use crate::code::Code;
use crate::problem::{Place, Problem};

/// How many bytes are looked at.
const HEAD: usize = 4096;

/// How known files begin, what they are, and what to do.
const KINDS: &[(&[u8], &str, &str)] = &[
    (b"\xff\xfe", UTF_16, CONVERT),
    (b"\xfe\xff", UTF_16, CONVERT),
    (b"\x1f\x8b", "packed with gzip", "unpack it first, such as with `gunzip`"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "unpack it first, such as with `unzstd`"),
    (b"PK\x03\x04", "a zip archive", "unpack it and import what is inside"),
    (b"SQLite format 3\0", "an SQLite database", "export its messages as JSON and import those"),
];

const UTF_16: &str = "text in UTF-16";
const CONVERT: &str = "save it as UTF-8, such as with `iconv -f UTF-16 -t UTF-8`";

/// The problem with a file that begins so, if it holds no text.
pub(super) fn problem(first: &[u8]) -> Option<Problem> {
    let (seen, advice) = look(first.get(..HEAD).unwrap_or(first))?;
    let message = format!("the content is {seen}, not JSON in UTF-8; {advice}");
    Some(Problem::new(Code::FormatUnknown, Place::Whole, message))
}

/// The problem with a file of no bytes, or of blanks alone.
pub(super) fn nothing() -> Problem {
    let message = "the content is empty: nothing was recorded, or it was written elsewhere";
    Problem::new(Code::TraceEmpty, Place::Whole, message)
}

fn look(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if let Some((_, seen, advice)) = KINDS.iter().find(|(begin, ..)| head.starts_with(begin)) {
        return Some((seen, advice));
    }
    if !head.contains(&0) {
        return None;
    }
    // Every other byte of ASCII in UTF-16 is a nought, and no other text has any.
    let noughts = |odd: usize| head.iter().skip(odd).step_by(2).all(|byte| *byte == 0);
    if head.len() > 2 && (noughts(0) || noughts(1)) {
        return Some((UTF_16, CONVERT));
    }
    Some(("binary data", "a recording is a text file: look for the log or export of the session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    /// T02: what isn't text is named, and text is never taken for anything else.
    #[test]
    fn files_that_hold_no_text_are_named() {
        let text = "{\"type\": \"session\"}";
        for (bytes, expected) in [
            (b"\x1f\x8b\x08\0\0".to_vec(), Some("gzip")),
            (b"PK\x03\x04...".to_vec(), Some("zip")),
            (b"SQLite format 3\0...".to_vec(), Some("SQLite")),
            (b"\x7fELF\x02\0\0".to_vec(), Some("binary")),
            (utf_16(text, u16::to_le_bytes), Some("UTF-16")),
            (utf_16(text, u16::to_be_bytes), Some("UTF-16")),
            (utf_16(&format!("\u{feff}{text}"), u16::to_le_bytes), Some("UTF-16")),
            (text.as_bytes().to_vec(), None),
            ("\u{feff}ä".as_bytes().to_vec(), None),
            (b"PK".to_vec(), None),
            (b"\xff".to_vec(), None),
        ] {
            let found = problem(&bytes).map(|problem| problem.message);
            assert_eq!(found.is_some(), expected.is_some(), "{bytes:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{bytes:?}");
        }
    }
}
