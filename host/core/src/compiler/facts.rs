//! What is known of one call: its effect, and the keys of what it touches.
//!
//! Owns the filling of key templates and the question whether two keys can meet. Refuses guesses: a key
//! that can't be filled makes the call one that may touch anything.
//!
//! **Invariant:** a call whose effect is unknown never has keys.

use serde_json::{Map, Value};

use super::ToolFacts;
use crate::effect::{Effect, Idempotency};
use crate::trace::Event;

/// A key, split for comparison.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The scheme.
    pub(super) scheme: String,
    /// Whether the path starts at a root.
    pub(super) absolute: bool,
    /// Segments, each with a `/` behind it, so that an ancestor is a prefix.
    pub(super) path: String,
}

/// What is known of one call.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) effect: Effect,
    pub(super) idempotency: Idempotency,
    /// What it reads, or nothing if that isn't known.
    pub(super) reads: Option<Vec<Key>>,
    /// What it changes, or nothing if that isn't known.
    pub(super) writes: Option<Vec<Key>>,
    /// The arguments that its keys were filled from.
    filled_from: Vec<String>,
}

impl Facts {
    /// Forgets the keys if an argument that they were filled from can be another one in a later run: then
    /// the recorded keys don't say what that run touches.
    pub(super) fn forget_varying_keys(&mut self, varies: impl Fn(&str) -> bool) -> bool {
        if self.effect == Effect::Pure || !self.filled_from.iter().any(|argument| varies(argument)) {
            return false;
        }
        self.reads = None;
        if !self.effect.is_read_only() {
            self.writes = None;
        }
        true
    }

    pub(super) fn of(event: &Event, known: Option<&ToolFacts>) -> Facts {
        let (effect, idempotency, reads, writes) = match known {
            Some(known) => (known.effect, known.idempotency, &known.reads, &known.writes),
            None => (event.effect, event.idempotency, &event.reads, &event.writes),
        };
        let keys = |templates: &[String]| {
            if effect == Effect::Unknown || templates.is_empty() {
                return None;
            }
            fill_all(templates, &event.arguments)
        };
        let filled_from = match known {
            _ if reads.is_empty() && writes.is_empty() => Vec::new(),
            Some(_) => reads.iter().chain(writes).flat_map(|key| placeholders(key)).collect(),
            // A recorder writes down whole keys; which arguments they follow from isn't known.
            None => event.arguments.keys().cloned().collect(),
        };
        let (mut reads, mut writes) = (keys(reads), keys(writes));
        if effect.is_read_only() {
            writes = Some(Vec::new());
        } else if writes.is_some() && reads.is_none() && event_declares_no_reads(event, known) {
            // It says what it changes and names nothing that it reads.
            reads = Some(Vec::new());
        }
        Facts { effect, idempotency, reads, writes, filled_from }
    }

    /// Whether its keys say that it changes what another call reads. Unknown keys say nothing.
    pub(super) fn writes_what_is_read_by(&self, reader: &Facts) -> bool {
        let (Some(written), Some(read)) = (&self.writes, &reader.reads) else { return false };
        written.iter().any(|written| read.iter().any(|read| written.meets(read)))
    }

    /// Whether it must keep its place against everything that isn't pure.
    pub(super) fn is_barrier(&self) -> bool {
        !self.effect.is_read_only() && (self.writes.is_none() || self.reads.is_none())
    }
}

/// The arguments that a key template names.
fn placeholders(template: &str) -> impl Iterator<Item = String> + '_ {
    template.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name.to_owned()))
}

fn event_declares_no_reads(event: &Event, known: Option<&ToolFacts>) -> bool {
    known.map_or(event.reads.is_empty(), |known| known.reads.is_empty())
}

fn fill_all(templates: &[String], arguments: &Map<String, Value>) -> Option<Vec<Key>> {
    let mut keys = Vec::with_capacity(templates.len());
    for template in templates {
        for text in fill(template, arguments)? {
            keys.push(Key::parse(&text)?);
        }
    }
    Some(keys)
}

/// The template with arguments filled in; a list of texts gives one key for each.
fn fill(template: &str, arguments: &Map<String, Value>) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        let (name, tail) = tail.split_once('}')?;
        let values: Vec<String> = match arguments.get(name)? {
            Value::Array(list) => list.iter().map(scalar).collect::<Option<_>>()?,
            value => vec![scalar(value)?],
        };
        texts = texts
            .iter()
            .flat_map(|text| values.iter().map(move |value| format!("{text}{before}{value}")))
            .collect();
        rest = tail;
    }
    texts.iter_mut().for_each(|text| text.push_str(rest));
    Some(texts)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl Key {
    /// Splits a key. Nothing if it climbs with `..`: where that leads depends on links.
    pub(super) fn parse(text: &str) -> Option<Key> {
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let mut path = String::with_capacity(rest.len() + 1);
        for segment in rest.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
            if segment == ".." {
                return None;
            }
            path.push_str(segment);
            path.push('/');
        }
        Some(Key { scheme, absolute: rest.starts_with('/'), path })
    }

    /// Whether both are known to name one thing, or one names what stands above the other.
    fn meets(&self, other: &Key) -> bool {
        let above = |one: &Key, two: &Key| two.path.starts_with(&one.path);
        self.scheme == other.scheme
            && self.absolute == other.absolute
            && (above(self, other) || above(other, self))
    }

    /// Every prefix of the path that ends a segment, from the root to the path itself.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &str> {
        let ends = self.path.match_indices('/').map(|(at, _)| at + 1);
        std::iter::once(0).chain(ends).filter_map(|end| self.path.get(..end))
    }
}

fn is_scheme(text: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_filled_or_the_key_is_unknown() {
        let arguments = json!({"path": "/a//b/./c/", "n": 3, "list": ["x", "y"], "o": {}});
        let arguments = arguments.as_object().unwrap();
        let filled = |template: &str| {
            let keys = fill_all(&[template.to_owned()], arguments)?;
            Some(keys.iter().map(|k| format!("{}|{}|{}", k.scheme, k.absolute, k.path)).collect::<Vec<_>>())
        };
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(filled("file:{path}"), one("file|true|a/b/c/"));
        assert_eq!(filled("row:{n}"), one("row|false|3/"));
        assert_eq!(filled("k/{list}"), Some(vec!["|false|k/x/".to_owned(), "|false|k/y/".to_owned()]));
        for bad in ["file:{missing}", "file:{o}", "file:{path", "file:/a/../b"] {
            assert_eq!(filled(bad), None, "{bad}");
        }
    }
}
