//! What a value looks like.
//!
//! Owns the measures that tell a random text from a word. Refuses to know keys.
//!
//! **Invariant:** an empty text, a marker and a reference to a variable are never secrets.

use super::marker;

/// Bits for each character that a random text has at least, and its least length. English text of this
/// length has 3.0 or less with letters alone, and a random text also has digits.
const RANDOM_BITS: f64 = 3.0;
const RANDOM_LENGTH: usize = 16;

/// Whether a text stands for a secret that is somewhere else, or for none.
pub(super) fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    let word = text.to_ascii_lowercase();
    text.is_empty()
        || marker::is_marker(text)
        || matches!(
            word.as_str(),
            "null" | "none" | "nil" | "undefined" | "true" | "false" | "yes" | "no" | "n/a"
        )
        || text.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '-' | '_' | '•' | '…'))
        || (text.starts_with('$') && text.len() > 1 && is_variable(text))
        || (text.starts_with("{{") && text.ends_with("}}"))
        || (text.starts_with('<') && text.ends_with('>'))
        || (text.starts_with('%') && text.ends_with('%') && text.len() > 2)
}

/// `$NAME`, `${NAME}`, `${{ secrets.NAME }}`, `$(command)`
fn is_variable(text: &str) -> bool {
    let rest = text.trim_start_matches('$');
    let closed =
        (rest.starts_with('{') && rest.ends_with('}')) || (rest.starts_with('(') && rest.ends_with(')'));
    let name = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    closed || name
}

/// Whether a text looks like made by a random generator.
pub(super) fn looks_random(text: &str, keep_uuid: bool) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.+/=~:%".contains(c);
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    text.len() >= RANDOM_LENGTH
        && text.chars().all(plain)
        && digits > 0
        && text.bytes().any(|b| b.is_ascii_alphabetic())
        && !text.starts_with(['/', '.', '~'])
        && !text.contains("://")
        && !(keep_uuid && is_uuid(text))
        && !is_placeholder(text)
        && entropy(text) >= RANDOM_BITS
}

/// Whether the word behind `Bearer` or its kin is a credential, and no word of a sentence.
pub(super) fn is_credential(text: &str) -> bool {
    let mixed = text.bytes().any(|b| b.is_ascii_digit() || b == b'=')
        || (text.bytes().any(|b| b.is_ascii_lowercase())
            && text.bytes().skip(1).any(|b| b.is_ascii_uppercase())
            && text.len() >= RANDOM_LENGTH);
    mixed && !is_placeholder(text)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Shannon's entropy, in bits for each byte.
fn entropy(text: &str) -> f64 {
    let mut counts = std::collections::BTreeMap::<u8, u32>::new();
    for byte in text.bytes() {
        *counts.entry(byte).or_default() += 1;
    }
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    counts.values().map(|count| f64::from(*count) / total).map(|share| -share * share.log2()).sum()
}

/// Whether a secret may be part of longer words by chance, so that it counts elsewhere only as a word.
pub(super) fn is_wordlike(secret: &str) -> bool {
    let letters = secret.chars().all(char::is_alphabetic);
    let digits = secret.chars().all(|c| c.is_ascii_digit());
    letters || digits || secret.chars().count() < 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_are_told_from_words_and_names() {
        for random in
            ["dGhpcyBpcyBhIHNlY3JldA1", "9f86d081884c7d659a2feaa0c55ad015", "abc123def456ghi789jkl0"]
        {
            assert!(looks_random(random, true), "{random}");
        }
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        assert!(looks_random(uuid, false) && !looks_random(uuid, true));
        for plain in [
            "48230",
            "a-session-of-mine",
            "/home/ann/x1y2z3w4v5",
            "https://a.b/c1d2e3f4",
            "aaaaaaaaaaaaaaaa1",
            "the quick brown 1",
        ] {
            assert!(!looks_random(plain, false), "{plain}");
        }
    }

    #[test]
    fn references_to_variables_are_no_secrets() {
        for text in [
            "",
            "  ",
            "$TOKEN",
            "${TOKEN}",
            "${{ secrets.TOKEN }}",
            "$(cat f)",
            "{{token}}",
            "<your key>",
            "****",
            "xxxx",
            "%TOKEN%",
            "[REDACTED]",
            "None",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["$1a$b", "hunter2", "x1", "pa$$word"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }
}
