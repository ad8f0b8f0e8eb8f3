//! Known secrets, wherever a text has them.
//!
//! Owns the forms in which a secret may stand (as it is, escaped in JSON, percent-encoded) and the search for
//! all of them at once. Refuses to find new ones.
//!
//! **Invariant:** every form of one secret leads to the same marker; only one with quotes or backslashes, inside
//! JSON inside JSON, may get another.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::looks::is_wordlike;
use crate::code::Code;
use crate::problem::{Place, Problem, Problems};

/// Finds known secrets.
pub(super) struct Everywhere {
    search: Option<AhoCorasick>,
    /// For each form the secret, and whether it counts only as a word of its own.
    forms: Vec<(usize, bool)>,
}

impl Everywhere {
    /// `secrets` are those to be found, by number.
    pub(super) fn new<'s>(secrets: impl Iterator<Item = (usize, &'s str)>) -> Result<Everywhere, Problems> {
        let mut texts: Vec<String> = Vec::new();
        let mut forms = Vec::new();
        let mut known: HashMap<String, ()> = HashMap::new();
        for (number, secret) in secrets {
            for form in forms_of(secret) {
                if known.insert(form.clone(), ()).is_none() {
                    texts.push(form);
                    forms.push((number, is_wordlike(secret)));
                }
            }
        }
        if texts.is_empty() {
            return Ok(Everywhere { search: None, forms });
        }
        let search =
            AhoCorasick::builder().match_kind(MatchKind::Standard).build(&texts).map_err(|error| {
                Problem::new(Code::TooMany, Place::Whole, format!("too many secrets: {error}"))
            })?;
        Ok(Everywhere { search: Some(search), forms })
    }

    /// Where a text has secrets; spans may overlap.
    pub(super) fn find(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let Some(search) = &self.search else { return Vec::new() };
        let mut found = Vec::new();
        let mut add = |raw: Range<usize>, pattern: usize| {
            let Some((number, as_word)) = self.forms.get(pattern) else { return };
            if !as_word || (begins_here(text, raw.start) && ends_here(text, raw.end)) {
                found.push((raw, *number));
            }
        };
        for hit in search.find_overlapping_iter(text) {
            add(hit.range(), hit.pattern().as_usize());
        }
        if let Some((decoded, origin)) = percent_decoded(text) {
            for hit in search.find_overlapping_iter(&decoded) {
                if let (Some(start), Some(end)) = (origin.get(hit.start()), origin.get(hit.end())) {
                    add(*start..*end, hit.pattern().as_usize());
                }
            }
        }
        found
    }
}

fn forms_of(secret: &str) -> Vec<String> {
    let escaped = json_escaped(secret);
    let twice = json_escaped(&escaped);
    // In a query string a blank may be a plus.
    vec![secret.to_owned(), escaped, twice, secret.replace(' ', "+")]
}

/// As it stands inside the quotes of a JSON text.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// The bytes that a text stands for if it is percent-encoded, and for each of them, and for the end, where
/// it begins in the text. Nothing if nothing is encoded.
fn percent_decoded(text: &str) -> Option<(Vec<u8>, Vec<usize>)> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') {
        return None;
    }
    let (mut decoded, mut origin) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len() + 1));
    let (mut at, mut any) = (0, false);
    while let Some(byte) = bytes.get(at) {
        origin.push(at);
        let hex = text
            .get(at + 1..at + 3)
            .filter(|hex| *byte == b'%' && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
                any = true;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    origin.push(at);
    any.then_some((decoded, origin))
}

fn begins_here(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    if !before.ends_with(char::is_alphanumeric) {
        return true;
    }
    // What looks like a letter may be the end of an escape: `\n`, `%20`, `\u0020`.
    let tail: Vec<char> = before.chars().rev().take(6).collect();
    match tail.as_slice() {
        ['n' | 'r' | 't' | 'b' | 'f', '\\', ..] | [_, _, '%', ..] => true,
        [a, b, c, d, 'u', '\\'] => [a, b, c, d].iter().all(|c| c.is_ascii_hexdigit()),
        _ => false,
    }
}

fn ends_here(text: &str, at: usize) -> bool {
    !text.get(at..).unwrap_or_default().starts_with(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_secret_is_found_and_words_only_as_words() {
        let secrets = ["p\"a s/1\nx9", "swordfish", "pass1234word", "1234567"];
        let everywhere = Everywhere::new(secrets.into_iter().enumerate()).unwrap();
        let numbers = |text: &str| {
            let mut found: Vec<usize> = everywhere.find(text).into_iter().map(|(_, number)| number).collect();
            found.dedup();
            found
        };
        for (text, expected) in [
            ("x p\"a s/1\nx9 y", vec![0]),
            (r#"{"a": "p\"a s/1\nx9"}"#, vec![0]),
            (r#"{\"a\": \"p\\\"a s/1\\nx9\"}"#, vec![0]),
            ("?q=p%22a%20s%2F1%0Ax9&b", vec![0]),
            ("?q=p%22a%20s%2f1%0ax9&b", vec![0]),
            ("?q=%70%22a%20s%2f1%0ax9&b", vec![0]),
            ("?q=p%22a+s%2F1%0Ax9&b", vec![0]),
            ("a swordfish, or swordfishes", vec![1]),
            ("swordfishes", vec![]),
            (r"first line\nswordfish", vec![1]),
            ("a%20swordfish%20b", vec![1]),
            (r"a\u0020swordfish", vec![1]),
            ("xpass1234wordx", vec![2]),
            ("id 12345678", vec![]),
            ("id=1234567", vec![3]),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }
}
