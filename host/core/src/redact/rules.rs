//! Which keys and shapes make a secret.
//!
//! Owns the embedded table and what a person adds to it. Refuses fragments: a key matches by whole words at
//! its end.
//!
//! **Invariant:** of the entries whose words end a key, the longest decides.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::marker;
use crate::code::Code;
use crate::problem::{Place, Problem, Problems};

const TABLE: &str = include_str!("rules.toml");

/// What a person adds to the embedded rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Keys whose values aren't secrets here.
    pub keep: Vec<String>,
    /// Keys whose values are secrets here.
    pub also_keys: Vec<String>,
    /// Regular expressions of secrets; the group `secret`, if there is one, is the secret.
    pub also_shapes: Vec<String>,
}

/// What a key says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRule<'r> {
    pub(super) kind: &'r str,
    /// Only a value that looks random is a secret.
    pub(super) only_random: bool,
    /// A UUID opens nothing here.
    pub(super) keep_uuid: bool,
}

/// The shape of a secret.
pub(super) struct Shape {
    pub(super) kind: String,
    pub(super) regex: Regex,
    /// The text has to look random as well.
    pub(super) random: bool,
}

pub(super) struct Rules {
    table: &'static Built,
    /// What a person adds.
    also_keys: HashMap<String, OwnedRule>,
    also_shapes: Vec<Shape>,
    /// Keys that a person wants kept, as words.
    keep: HashSet<String>,
    pub(super) min_everywhere: usize,
}

/// The embedded table, ready for use. Compiling its shapes costs more than redacting a small recording.
struct Built {
    /// By words, joined by spaces; nothing for keys that hold no secret.
    keys: HashMap<String, Option<OwnedRule>>,
    /// Words of the longest entry.
    longest: usize,
    shapes: Vec<Shape>,
    common: HashSet<String>,
    descriptive: HashSet<String>,
    min_everywhere: usize,
}

static BUILT: LazyLock<Result<Built, String>> = LazyLock::new(Built::new);

struct OwnedRule {
    kind: String,
    only_random: bool,
    keep_uuid: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    min_everywhere: usize,
    common: Vec<String>,
    descriptive: Vec<String>,
    key: Vec<KeyEntry>,
    other: Vec<OtherEntry>,
    shape: Vec<ShapeEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    kind: String,
    #[serde(default)]
    only_random: bool,
    #[serde(default)]
    keep_uuid: bool,
    words: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherEntry {
    words: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeEntry {
    kind: String,
    regex: String,
    #[serde(default)]
    random: bool,
    #[serde(rename = "reason")]
    _reason: String,
}

impl Built {
    fn new() -> Result<Built, String> {
        let table: Table = toml::from_str(TABLE).map_err(|error| error.message().to_owned())?;
        let mut keys = HashMap::new();
        for entry in table.key {
            for words in entry.words {
                let (kind, only_random, keep_uuid) = (entry.kind.clone(), entry.only_random, entry.keep_uuid);
                keys.insert(words, Some(OwnedRule { kind, only_random, keep_uuid }));
            }
        }
        keys.extend(table.other.into_iter().flat_map(|entry| entry.words).map(|words| (words, None)));
        let mut shapes = Vec::with_capacity(table.shape.len());
        for entry in table.shape {
            let regex = Regex::new(&entry.regex).map_err(|error| error.to_string())?;
            shapes.push(Shape { kind: entry.kind, regex, random: entry.random });
        }
        Ok(Built {
            longest: keys.keys().map(|words| words.split(' ').count()).max().unwrap_or_default(),
            keys,
            shapes,
            common: table.common.into_iter().collect(),
            descriptive: table.descriptive.into_iter().collect(),
            min_everywhere: table.min_everywhere,
        })
    }
}

impl Rules {
    pub(super) fn new(options: &Options) -> Result<Rules, Problems> {
        let table =
            BUILT.as_ref().map_err(|message| Problem::new(Code::Internal, Place::Whole, message.as_str()))?;
        let mut problems = Vec::new();
        let mut also_shapes = Vec::with_capacity(options.also_shapes.len());
        for text in &options.also_shapes {
            match Regex::new(text) {
                Ok(regex) if regex.is_match("") => {
                    let message = format!("`{text}` matches the empty text, so it would redact everything");
                    problems.push(Problem::new(Code::FieldValue, Place::Whole, message));
                }
                Ok(regex) => also_shapes.push(Shape { kind: "named".to_owned(), regex, random: false }),
                Err(error) => {
                    let reason = error.to_string().replace('\n', " ");
                    let message = format!("`{text}` is no regular expression: {reason}");
                    problems.push(Problem::new(Code::FieldValue, Place::Whole, message));
                }
            }
        }
        Problems::from_list(problems)?;
        let named = |key: &String| {
            let rule = OwnedRule { kind: "named".to_owned(), only_random: false, keep_uuid: false };
            (words_of(key), rule)
        };
        Ok(Rules {
            table,
            also_keys: options.also_keys.iter().map(named).collect(),
            also_shapes,
            keep: options.keep.iter().map(|key| words_of(key)).collect(),
            min_everywhere: table.min_everywhere,
        })
    }

    /// Every shape.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.table.shapes.iter().chain(&self.also_shapes)
    }

    /// What a key says of its value; nothing if it says nothing.
    pub(super) fn key(&self, key: &str) -> Option<KeyRule<'_>> {
        let words = words_of(&marker::without(key));
        if self.keep.contains(&words) {
            return None;
        }
        let words: Vec<&str> = words.split(' ').collect();
        let ends = (0..words.len()).filter_map(|from| Some(words.get(from..)?.join(" ")));
        let rule = ends.clone().find_map(|end| self.also_keys.get(&end)).or_else(|| {
            let longest = words.len().saturating_sub(self.table.longest);
            ends.skip(longest).find_map(|end| self.table.keys.get(&end))?.as_ref()
        })?;
        Some(KeyRule { kind: &rule.kind, only_random: rule.only_random, keep_uuid: rule.keep_uuid })
    }

    /// Whether a person wants the values of a key kept.
    pub(super) fn is_kept(&self, key: &str) -> bool {
        !self.keep.is_empty() && self.keep.contains(&words_of(key))
    }

    /// Whether a key describes a secret that stands beside it.
    pub(super) fn is_descriptive(&self, key: &str) -> bool {
        self.table.descriptive.contains(&words_of(key))
    }

    /// Whether a secret is a word that texts have for other reasons.
    pub(super) fn is_common(&self, secret: &str) -> bool {
        self.table.common.contains(&secret.to_lowercase())
    }
}

/// The words of a key, in lower case, joined by spaces; numbers at its end are left out.
pub(super) fn words_of(key: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    let mut chars = key.chars().peekable();
    let mut in_word = false;
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() && c != '$' {
            in_word = false;
            before = None;
            continue;
        }
        let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
        let hump = before.is_some_and(|before| {
            (before.is_lowercase() && c.is_uppercase())
                || (before.is_uppercase() && c.is_uppercase() && next_is_lower)
        });
        if !in_word || hump {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        in_word = true;
        before = Some(c);
    }
    while words.len() > 1 && words.last().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
        words.pop();
    }
    if let Some(last) = words.last_mut() {
        let cut = last.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if cut > 0 {
            last.truncate(cut);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T13: keys match by whole words at their end, so what only contains one survives.
    #[test]
    fn keys_are_judged_by_their_last_words() {
        let rules = Rules::new(&Options::default()).unwrap();
        let always = |key: &str| rules.key(key).is_some_and(|rule| !rule.only_random);
        for key in [
            "api_key",
            "apiKey",
            "APIKEY",
            "x-api-key",
            "OPENAI_API_KEY",
            "authorization",
            "Authorization",
            "Proxy-Authorization",
            "password",
            "db_password",
            "userPassword",
            "password2",
            "passwd",
            "PGPASSWORD",
            "client_secret",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "access_token",
            "accessToken",
            "refresh_token",
            "GITHUB_TOKEN",
            "cookie",
            "Set-Cookie",
            "cookies",
            "private_key",
            "jwt",
            "credentials",
            "passphrase",
            "user.password",
            "csrfmiddlewaretoken",
        ] {
            assert!(always(key), "{key}");
        }
        for key in [
            "next_page_token",
            "nextPageToken",
            "page_token",
            "max_tokens",
            "maxTokens",
            "token_count",
            "total_tokens",
            "token_type",
            "tokenizer",
            "secretary",
            "cookie_policy",
            "cookiePolicy",
            "public_key",
            "publicKey",
            "cursor",
            "password_policy",
            "password_length",
            "authorization_url",
            "authorizationEndpoint",
            "secrets_manager",
            "api_key_id",
            "passwordRequired",
            "author",
            "authority",
            "primary_key",
            "progressToken",
            "access_tokens_used",
            "keyboard",
            "passenger",
            "compass",
            "continuation_token",
            "idempotency_key",
        ] {
            assert_eq!(rules.key(key), None, "{key}");
        }
        for key in ["token", "session_id", "sessionId", "push_token"] {
            assert!(rules.key(key).is_some_and(|rule| rule.only_random), "{key}");
        }
    }

    #[test]
    fn a_person_can_keep_and_add_keys_and_shapes() {
        let options = Options {
            keep: vec!["api_key".into()],
            also_keys: vec!["internalCode".into()],
            also_shapes: vec!["EMP-[0-9]{6}".into()],
        };
        let rules = Rules::new(&options).unwrap();
        assert_eq!(rules.key("apiKey"), None);
        assert!(rules.key("other_api_key").is_some(), "only the key that was named is kept");
        assert_eq!(rules.key("internal_code").map(|rule| rule.kind), Some("named"));
        for wrong in ["(", "x*"] {
            let options = Options { also_shapes: vec![wrong.into()], ..Options::default() };
            let problems = Rules::new(&options).err().unwrap();
            assert_eq!(problems.code(), Code::FieldValue);
        }
    }
}
