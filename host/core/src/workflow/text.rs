//! References as people read and write them: `find.hotels[0].id as string`.
//!
//! Owns the text form in both directions. Refuses to guess: a text that isn't exactly this form is no reference.
//!
//! **Invariant:** two references have the same text only if they are the same, and reading a reference's text
//! gives it back, whatever its names hold.

use std::fmt;
use std::str::FromStr;

use super::expr::{Convert, Reference, Source, Step};
use crate::id::NodeId;

/// A text that is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a reference: `{rest}` can't be read; expected such as `node.key[0]` or `input name`")]
pub struct InvalidReference {
    /// What can't be read.
    pub rest: String,
}

const INPUT: &str = "input";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, name) = match self {
            Source::Input(name) => ("input ", name.as_str()),
            Source::Node(node) => ("", node.as_str()),
        };
        if is_plain(name) && !(prefix.is_empty() && name == INPUT) {
            write!(f, "{prefix}{name}")
        } else {
            write!(f, "{prefix}{}", quoted(name))
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        for step in &self.path {
            match step {
                Step::Key(key) if is_word(key) => write!(f, ".{key}")?,
                Step::Key(key) => write!(f, "[{}]", quoted(key))?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::ParseJson => f.write_str(PARSE)?,
            }
        }
        match self.convert {
            None => Ok(()),
            Some(Convert::ToString) => f.write_str(AS_STRING),
            Some(Convert::ToNumber) => f.write_str(AS_NUMBER),
        }
    }
}

const PARSE: &str = "(json)";
const AS_STRING: &str = " as string";
const AS_NUMBER: &str = " as number";

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Whether an id may stand without quotes: nothing in it can begin a step.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(in_plain)
}

fn in_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '/' | '@' | '#')
}

fn is_word(key: &str) -> bool {
    !key.is_empty() && key.chars().all(in_word)
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Reference, InvalidReference> {
        let invalid = |rest: &str| InvalidReference { rest: rest.to_owned() };
        let (source, mut rest) = match text.strip_prefix(INPUT).and_then(|rest| rest.strip_prefix(' ')) {
            Some(after) => {
                let (name, rest) = name(after, in_plain).ok_or_else(|| invalid(text))?;
                (Source::Input(name), rest)
            }
            None => {
                let (name, rest) = name(text, in_plain).ok_or_else(|| invalid(text))?;
                (Source::Node(NodeId::new(name).map_err(|_| invalid(text))?), rest)
            }
        };
        let mut path = Vec::new();
        let convert = loop {
            match rest {
                "" => break None,
                AS_STRING => break Some(Convert::ToString),
                AS_NUMBER => break Some(Convert::ToNumber),
                _ => {}
            }
            let (step, after) = step(rest).ok_or_else(|| invalid(rest))?;
            path.push(step);
            rest = after;
        };
        Ok(Reference { source, path, convert })
    }
}

/// One step, and what follows it.
fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix(PARSE) {
        return Some((Step::ParseJson, rest));
    }
    if let Some(rest) = text.strip_prefix('.') {
        let (key, rest) = bare(rest, in_word)?;
        return Some((Step::Key(key), rest));
    }
    let rest = text.strip_prefix('[')?;
    let (step, rest) = if rest.starts_with('"') {
        let (key, rest) = quotation(rest)?;
        (Step::Key(key), rest)
    } else {
        let (digits, rest) = bare(rest, |c| c.is_ascii_digit())?;
        (Step::Index(digits.parse().ok()?), rest)
    };
    Some((step, rest.strip_prefix(']')?))
}

fn name(text: &str, allowed: impl Fn(char) -> bool) -> Option<(String, &str)> {
    if text.starts_with('"') { quotation(text) } else { bare(text, allowed) }
}

fn bare(text: &str, allowed: impl Fn(char) -> bool) -> Option<(String, &str)> {
    let end = text.find(|c| !allowed(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then(|| (word.to_owned(), rest))
}

/// A JSON string at the start of a text, and what follows it.
fn quotation(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::workflow::{Expr, Scope};

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[a-z./~\\[\\]\"() 0-9]{0,8}",
            Just(String::new()),
            Just("input".to_owned()),
            Just("input x".to_owned()),
            Just(" as string".to_owned()),
            Just("$ref".to_owned()),
            Just("a.b[0](json) as number".to_owned()),
            Just("\u{0}\u{1b}\u{202e}\u{1f600}".to_owned()),
        ]
    }

    fn any_reference() -> impl Strategy<Value = Reference> {
        let source = prop_oneof![
            any_text().prop_map(Source::Input),
            any_text().prop_filter_map("an id", |text| NodeId::new(text).ok().map(Source::Node)),
        ];
        let step = prop_oneof![
            any_text().prop_map(Step::Key),
            (0usize..200).prop_map(Step::Index),
            Just(Step::ParseJson)
        ];
        let convert = prop_oneof![Just(None), Just(Some(Convert::ToString)), Just(Some(Convert::ToNumber))];
        (source, prop::collection::vec(step, 0..5), convert).prop_map(|(source, path, convert)| Reference {
            source,
            path,
            convert,
        })
    }

    #[test]
    fn texts_are_read_or_refused() {
        for text in
            ["a", "a.b[0].c", "input city", "input x(json)[\"a b\"] as number", "\"input\".x", "\"a.b\"[3]"]
        {
            assert_eq!(text.parse::<Reference>().map(|reference| reference.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "input ",
            "a.",
            "a[",
            "a[x]",
            "a[-1]",
            "a as text",
            "a b",
            "a[\"x]",
            ".a",
            "a[99999999999999999999]",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// T08: the text of a reference reads back, and tells apart what differs.
        #[test]
        fn every_reference_reads_back_from_its_text(one in any_reference(), two in any_reference()) {
            prop_assert_eq!(one.to_string().parse(), Ok(one.clone()));
            prop_assert_eq!(one == two, one.to_string() == two.to_string());
        }

        /// T08: data that looks like a reference stays data through a file, under any key.
        #[test]
        fn data_that_looks_like_a_reference_stays_data(key in any_text(), reference in any_reference()) {
            let expr = |value: &Value| json!({"literal": value});
            let mut inner = serde_json::Map::new();
            inner.insert(key.clone(), expr(&json!({"ref": {"node": "a", "path": []}})));
            inner.insert("text".to_owned(), json!(reference.to_string()));
            let value = json!({"ref": inner, "$ref": reference.to_string(), "literal": {"object": {}}});
            let made = Expr::Object([(key, Expr::Literal(value.clone()))].into());
            let file = crate::workflow::write_expr(&made);
            let nothing = std::collections::BTreeMap::new();
            let inputs = serde_json::Map::new();
            let scope = Scope { inputs: &inputs, results: &nothing };
            let text = file.to_string();
            let read = crate::json::parse(text.as_bytes(), crate::json::Limits::default()).unwrap();
            let back = crate::workflow::parse::read_expr(&read, "", &crate::document::Report::default());
            prop_assert_eq!(back.as_ref(), Some(&made));
            prop_assert_eq!(back.unwrap().resolve(scope).ok().and_then(|made| made.as_object()?.values().next().cloned()), Some(value));
        }
    }
}
