//! Known secrets, wherever a text has them.
//!
//! Owns the forms in which a secret may stand (as it is, escaped in JSON, percent-encoded, in base64) and the
//! search for all of them at once. Refuses to find new ones.
//!
//! **Invariant:** every form of one secret leads to the same marker; only one with quotes or backslashes, inside
//! JSON inside JSON, may get another.

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Match, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::looks::is_wordlike;
use crate::code::Code;
use crate::problem::{Place, Problem, Problems};

/// Finds known secrets.
pub(super) struct Everywhere {
    search: Option<AhoCorasick>,
    forms: Vec<Known>,
}

/// Longest part of a form that is searched for, in bytes; the rest is compared where that is found. The search
/// keeps some hundred bytes for each, and a secret may be a whole file.
const MAX_SEARCHED: usize = 128;

/// What a form stands for.
struct Known {
    secret: usize,
    /// What follows the part that is searched for.
    rest: Vec<u8>,
    /// It counts only as a word of its own.
    as_word: bool,
    /// Characters before and behind it that hold a part of the secret too.
    around: (usize, usize),
}

impl Everywhere {
    /// `secrets` are those to be found, by number.
    pub(super) fn new<'s>(secrets: impl Iterator<Item = (usize, &'s str)>) -> Result<Everywhere, Problems> {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let mut forms = Vec::new();
        let mut known: HashSet<String> = HashSet::new();
        for (number, secret) in secrets {
            let as_word = is_wordlike(secret);
            let plain = forms_of(secret).into_iter().map(|form| (form, as_word, (0, 0)));
            let encoded = base64_of(secret).into_iter().map(|(form, around)| (form, false, around));
            for (form, as_word, around) in plain.chain(encoded) {
                if known.insert(form.clone()) {
                    let mut searched = form.into_bytes();
                    let rest = searched.split_off(searched.len().min(MAX_SEARCHED));
                    texts.push(searched);
                    forms.push(Known { secret: number, rest, as_word, around });
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

    /// Where a text has secrets; spans may overlap, but one inside another is left out.
    pub(super) fn find(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let Some(search) = &self.search else { return Vec::new() };
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
        let mut add = |raw: Range<usize>, known: &Known| {
            if known.as_word && !(begins_here(text, raw.start) && ends_here(text, raw.end)) {
                return;
            }
            let span = widened(text, raw, known.around);
            let holds = |outer: &Range<usize>, inner: &Range<usize>| {
                outer.start <= inner.start && inner.end <= outer.end
            };
            // Secrets that begin with each other are met in the order of their ends.
            while found.last().is_some_and(|(last, _)| holds(&span, last)) {
                found.pop();
            }
            if !found.last().is_some_and(|(last, _)| holds(last, &span)) {
                found.push((span, known.secret));
            }
        };
        for hit in search.find_overlapping_iter(text) {
            if let Some((span, known)) = self.whole(&hit, text.as_bytes()) {
                add(span, known);
            }
        }
        for (decoded, origin) in [percent_decoded(text), unescaped(text)].into_iter().flatten() {
            for hit in search.find_overlapping_iter(&decoded) {
                let Some((span, known)) = self.whole(&hit, &decoded) else { continue };
                if let (Some(start), Some(end)) = (origin.get(span.start), origin.get(span.end)) {
                    add(*start..*end, known);
                }
            }
        }
        found
    }

    /// The whole form that begins with a hit, if the rest of it follows.
    fn whole(&self, hit: &Match, bytes: &[u8]) -> Option<(Range<usize>, &Known)> {
        let known = self.forms.get(hit.pattern().as_usize())?;
        let follows = bytes.get(hit.end()..)?.starts_with(&known.rest);
        follows.then_some((hit.start()..hit.end() + known.rest.len(), known))
    }
}

fn forms_of(secret: &str) -> Vec<String> {
    let escaped = json_escaped(secret);
    let twice = json_escaped(&escaped);
    // Some writers of JSON escape a slash. In a query string a blank may be a plus.
    let slashes = escaped.replace('/', "\\/");
    vec![secret.to_owned(), slashes, escaped, twice, secret.replace(' ', "+")]
}

/// As it stands inside the quotes of a JSON text.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// What of a secret's base64 is the same whatever stands around it: for each of the three ways in which it may
/// lie on groups of three bytes, in both alphabets, with the characters that hold some of its bits as well.
fn base64_of(secret: &str) -> Vec<(String, (usize, usize))> {
    let mut forms = Vec::new();
    for before in 0..3usize {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        // Whole characters before it, and one more that it shares.
        let start = [0, 2, 3].get(before).copied().unwrap_or_default();
        let shared_end = usize::from(bytes.len() % 3 != 0);
        let Some(core) = encoded.get(start..encoded.len() - shared_end) else { continue };
        if core.len() < MIN_BASE64 {
            continue;
        }
        let around = (usize::from(before > 0), shared_end);
        let url = core.replace('+', "-").replace('/', "_");
        forms.extend([(core.to_owned(), around), (url, around)]);
    }
    forms
}

/// Fewer characters of base64 would be met by chance.
const MIN_BASE64: usize = 8;

/// The span with the characters of base64 beside it that hold a part of the secret, and the padding behind.
fn widened(text: &str, span: Range<usize>, (before, after): (usize, usize)) -> Range<usize> {
    let is_base64 =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte));
    let bytes = text.as_bytes();
    let mut wide = span;
    if before > 0 && wide.start.checked_sub(1).is_some_and(|at| is_base64(bytes.get(at))) {
        wide.start -= 1;
    }
    if after > 0 && is_base64(bytes.get(wide.end)) {
        wide.end += 1;
    }
    wide
}

/// The bytes that a text stands for if it has JSON escapes by number, and for each of them, and for the end,
/// where it begins in the text. Nothing if it has none. However many backslashes there are: JSON inside JSON
/// doubles them.
fn unescaped(text: &str) -> Option<(Vec<u8>, Vec<usize>)> {
    if !text.contains("\\u") {
        return None;
    }
    let (mut decoded, mut origin) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    let (mut at, mut any) = (0, false);
    let unit = |at: usize| {
        let rest = text.get(at..)?;
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let hex = rest.get(slashes..)?.strip_prefix('u')?.get(..4)?;
        let is_hex = slashes > 0 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let unit = u16::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
        Some((unit, at + slashes + 5))
    };
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let read = (c == '\\').then(|| unit(at)).flatten().and_then(|(first, end)| {
            let second = unit(end).filter(|_| (0xd800..0xdc00).contains(&first));
            match (char::from_u32(u32::from(first)), second) {
                (Some(c), _) => Some((c, end)),
                (None, Some((second, end))) => {
                    let mut pair = char::decode_utf16([first, second]);
                    Some((pair.next()?.ok()?, end))
                }
                (None, None) => None,
            }
        });
        any |= read.is_some();
        let (c, end) = match read {
            Some(read) => read,
            // All of the backslashes: looking at each of them again would take the square of their number.
            None if c == '\\' => {
                let rest = text.get(at..).unwrap_or_default();
                let slashes = rest.len() - rest.trim_start_matches('\\').len();
                for slash in 0..slashes {
                    origin.push(at + slash);
                    decoded.push(b'\\');
                }
                at += slashes;
                continue;
            }
            None => (c, at + c.len_utf8()),
        };
        let mut buffer = [0; 4];
        for byte in c.encode_utf8(&mut buffer).bytes() {
            origin.push(at);
            decoded.push(byte);
        }
        at = end;
    }
    origin.push(at);
    any.then_some((decoded, origin))
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
            (r#"{"a": "p\"a s\/1\nx9"}"#, vec![0]),
            (r"a \u0073wordfish b", vec![1]),
            (r"a \\u0073\\u0077ordfish b", vec![1]),
            (r"\u00zz swordfish", vec![1]),
            ("cGFzczEyMzR3b3Jk", vec![2]),
            ("data:eHBhc3MxMjM0d29yZHg=", vec![2]),
            ("eHhwYXNzMTIzNHdvcmQ", vec![2]),
            ("id 12345678", vec![]),
            ("id=1234567", vec![3]),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }

    /// T13: of a secret longer than what is searched for at once all is found, and its beginning alone isn't it;
    /// of secrets that begin with each other the longest is.
    #[test]
    fn long_secrets_and_nested_ones_are_found_whole() {
        let long: String = (0..500).map(|number| format!("{number:x}~")).collect();
        let nested = ["Xq7z9Lm2pR", "Xq7z9Lm2pRXq7z9Lm2pR"];
        let secrets = [(0, long.as_str()), (1, nested[0]), (2, nested[1])];
        let everywhere = Everywhere::new(secrets.into_iter()).unwrap();
        let (beginning, _) = long.split_at(200);
        assert_eq!(everywhere.find(&format!("a {beginning} b")), []);
        for (form, expected) in [
            (long.clone(), 0),
            (base64::engine::general_purpose::STANDARD.encode(&long), 0),
            (long.replace('~', "%7E"), 0),
            (nested[0].to_owned(), 1),
            (nested[1].to_owned(), 2),
        ] {
            let found = everywhere.find(&format!("a {form} b"));
            assert_eq!(found.first(), Some(&(2..2 + form.trim_end_matches('=').len(), expected)), "{form}");
            assert_eq!(found.len(), 1, "{form}");
        }
    }

    /// T13: nothing of a secret stays in base64, wherever it lies in what was encoded.
    #[test]
    fn base64_of_a_known_secret_is_found_at_every_offset() {
        use base64::engine::general_purpose::{STANDARD, URL_SAFE};
        let secret = "pa??word>>9~x1";
        let everywhere = Everywhere::new([(0, secret)].into_iter()).unwrap();
        for before in ["", "a", "ab", "user:", "a longer text "] {
            for after in ["", ".", "..", ", and more"] {
                let plain = format!("{before}{secret}{after}");
                for text in [STANDARD.encode(&plain), URL_SAFE.encode(&plain)] {
                    let found = everywhere.find(&format!("x {text} y"));
                    let (span, _) = found.first().unwrap_or_else(|| panic!("{plain} in {text}")).clone();
                    let (start, end) = (before.len() * 8 / 6, (before.len() + secret.len()) * 8);
                    assert_eq!(span, 2 + start..2 + end.div_ceil(6), "{plain}");
                }
            }
        }
    }
}
