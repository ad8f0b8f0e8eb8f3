//! The first walk: which secrets a recording has, and where.
//!
//! Owns the meaning of keys, of pairs of a name and a value, and of JSON inside texts. Refuses to change
//! anything.
//!
//! **Invariant:** texts are visited in the order in which [`rewrite`](super::rewrite) visits them, so that the
//! n-th text of one walk is the n-th of the other.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::{Map, Value};

use super::find::{Found, find, flag_takes_secret, parts_of, scheme};
use super::looks::{is_credential, is_placeholder, looks_random};
use super::marker;
use super::rules::{KeyRule, Rules};
use crate::trace::{Event, Trace};

/// Levels of JSON inside texts inside JSON that are read.
const MAX_NESTED: usize = 8;

/// A shorter value that doesn't look random is no secret that could have been overlooked.
const SUSPICIOUS_LENGTH: usize = 8;

/// Fields that name what stands beside them.
const NAMES: [&str; 7] = ["name", "key", "header", "field", "variable", "param", "parameter"];

/// Fields that hold what another one names.
const VALUES: [&str; 9] =
    ["value", "val", "values", "content", "data", "default", "stringValue", "string_value", "secret"];

/// What the first walk found.
#[derive(Default)]
pub(super) struct Scanned {
    /// Each secret once, in the order in which they were found.
    pub(super) secrets: Vec<Known>,
    /// By the number of a text in the walk: what to replace in it.
    pub(super) local: HashMap<usize, Vec<Local>>,
    /// Values that stayed, by key and reason.
    pub(super) kept: Vec<Stayed>,
    /// The number of the first marker: one more than the highest that the recording has.
    pub(super) first_number: usize,
}

pub(super) struct Known {
    pub(super) text: String,
    pub(super) kind: String,
    pub(super) everywhere: bool,
}

pub(super) struct Local {
    pub(super) span: Range<usize>,
    pub(super) secret: usize,
    pub(super) wrap: String,
}

pub(super) struct Stayed {
    pub(super) key: String,
    /// Which text of the walk it is.
    pub(super) text: usize,
    pub(super) count: usize,
    pub(super) reason: &'static str,
}

/// What a value's surroundings say of it.
#[derive(Clone, Copy, Default)]
struct Under<'a> {
    rule: Option<KeyRule<'a>>,
    /// The rule is that of a key further up.
    inherited: bool,
    key: &'a str,
}

struct Scan<'r> {
    rules: &'r Rules,
    found: Scanned,
    by_text: HashMap<String, usize>,
    kept_at: HashMap<(String, &'static str), usize>,
    texts: usize,
    /// Levels of JSON inside texts around what is being read.
    nested: usize,
    /// Secrets of the JSON being read that are looked for nowhere else.
    short: Vec<usize>,
}

pub(super) fn scan(trace: &Trace, rules: &Rules) -> Scanned {
    let mut scan = Scan {
        rules,
        found: Scanned::default(),
        by_text: HashMap::new(),
        kept_at: HashMap::new(),
        texts: 0,
        nested: 0,
        short: Vec::new(),
    };
    for text in trace.run_id.iter().chain(&trace.name) {
        scan.text(text, Under::default());
    }
    scan.object(&trace.inputs, Under::default());
    for event in &trace.events {
        scan.event(event);
    }
    scan.object(&trace.metadata, Under::default());
    scan.found.first_number += 1;
    scan.found
}

impl<'r> Scan<'r> {
    fn event(&mut self, event: &Event) {
        for text in [event.id.as_str(), &event.tool, event.status.as_str()] {
            self.text(text, Under::default());
        }
        self.object(&event.arguments, Under::default());
        self.value(&event.result, Under::default());
        for text in event.dependencies.iter().map(crate::id::NodeId::as_str) {
            self.text(text, Under::default());
        }
        for text in event.reads.iter().chain(&event.writes) {
            self.text(text, Under::default());
        }
        self.object(&event.metadata, Under::default());
        self.object(&event.other, Under::default());
    }

    fn value(&mut self, value: &Value, under: Under<'_>) {
        match value {
            Value::String(text) => self.text(text, under),
            Value::Number(number) => self.number(&number.to_string(), under),
            Value::Array(list) => self.list(list, under),
            Value::Object(map) => self.object(map, under),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn object(&mut self, map: &Map<String, Value>, under: Under<'_>) {
        let rules = self.rules;
        let named = NAMES
            .iter()
            .filter_map(|name| map.get(*name).and_then(Value::as_str))
            .find_map(|name| Some((name, rules.key(name)?)));
        let passed_on = under.rule.filter(|rule| !rule.only_random);
        for (key, value) in map {
            self.text(key, Under::default());
            let own = rules.key(key).map(|rule| Under { rule: Some(rule), inherited: false, key });
            let pair = named.filter(|_| VALUES.contains(&key.as_str())).map(|(name, rule)| Under {
                rule: Some(rule),
                inherited: false,
                key: name,
            });
            let above = passed_on
                .filter(|_| !rules.is_descriptive(key) && !rules.is_kept(key))
                .map(|rule| Under { rule: Some(rule), inherited: true, key });
            // What is certain of a key further up counts more than what a key of its own only suggests.
            let near = own.or(pair);
            let certain = near.filter(|under| under.rule.is_some_and(|rule| !rule.only_random));
            self.value(value, certain.or(above).or(near).unwrap_or_default());
        }
    }

    fn list(&mut self, list: &[Value], under: Under<'_>) {
        let rules = self.rules;
        let mut before: Option<&str> = None;
        for value in list {
            let text = value.as_str();
            let flag = before.zip(text).and_then(|(before, text)| {
                let name = before.strip_prefix("--").or_else(|| before.strip_prefix('-'))?;
                let rule = rules.key(name).filter(flag_takes_secret)?;
                let rule = KeyRule { only_random: false, ..rule };
                (!text.starts_with('-')).then_some(Under { rule: Some(rule), inherited: false, key: name })
            });
            let header = before.zip(text).and_then(|(before, text)| {
                let rule = rules.key(before).filter(|rule| !rule.only_random)?;
                let header = matches!(rule.kind, "authorization" | "cookie" | "api-key" | "token");
                let credential = scheme(text) > 0
                    || is_credential(text)
                    || looks_random(text, false)
                    || (rule.kind == "cookie" && text.contains('='));
                (header && credential).then_some(Under { rule: Some(rule), inherited: false, key: before })
            });
            self.value(value, flag.or(header).unwrap_or(under));
            before = text;
        }
    }

    fn number(&mut self, text: &str, under: Under<'_>) {
        let at = self.next();
        let Some(rule) = under.rule.filter(|rule| !rule.only_random && !under.inherited) else { return };
        let secret = self.register(text.to_owned(), rule.kind);
        self.note(at, Local { span: 0..usize::MAX, secret, wrap: String::new() });
    }

    fn text(&mut self, text: &str, under: Under<'_>) {
        let at = self.next();
        let highest = marker::numbers(text).max().unwrap_or_default();
        self.found.first_number = self.found.first_number.max(highest);
        let rules = self.rules;
        let mut found = find(text, rules);
        if let Some(rule) = under.rule
            && !(under.inherited && text.contains("://"))
        {
            let parts = parts_of(text, rule, rules);
            if parts.is_empty() && rule.only_random {
                self.stay(text, under.key, at, &found);
            }
            let plain =
                |span: Range<usize>| Found { span, kind: rule.kind, escaped: false, wrap: String::new() };
            // A text of markers alone is one that was redacted before.
            let rest = parts
                .into_iter()
                .filter(|part| text.get(part.clone()).is_some_and(|part| !is_only_markers(part)));
            found.extend(rest.map(plain));
        }
        let mut seen: HashSet<Range<usize>> = HashSet::new();
        for Found { span, kind, escaped, wrap } in found {
            if !seen.insert(span.clone()) {
                continue;
            }
            let Some(raw) = text.get(span.clone()) else { continue };
            let secret = self.register(canonical(raw, escaped), kind);
            self.note(at, Local { span, secret, wrap });
        }
        self.inside(text, at);
    }

    /// Reads JSON inside a text: the same rules hold there.
    fn inside(&mut self, text: &str, at: usize) {
        if self.nested >= MAX_NESTED || !text.trim_start().starts_with(['{', '[']) {
            return;
        }
        if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) {
            self.nested += 1;
            self.value(&value, Under::default());
            self.nested -= 1;
        }
        if self.nested == 0 {
            for secret in std::mem::take(&mut self.short) {
                self.quoted(text, at, secret);
            }
        }
    }

    /// Notes a secret of JSON inside a text that is too short to be looked for: where it stands in quotes.
    fn quoted(&mut self, text: &str, at: usize, secret: usize) {
        let local = self.found.local.get(&at);
        if local.is_some_and(|local| local.iter().any(|local| local.secret == secret)) {
            return;
        }
        let Some(known) = self.found.secrets.get(secret) else { return };
        let mut quoted = Value::from(known.text.as_str()).to_string();
        let mut found = Vec::new();
        for level in 0..=2usize {
            // `"`, `\"`, `\\\"`: each level doubles what stands before the quote and adds one.
            let quote = 1usize << level;
            found.extend(
                text.match_indices(&quoted).map(|(start, hit)| start + quote..start + hit.len() - quote),
            );
            let again = Value::from(quoted.as_str()).to_string();
            quoted = again.get(1..again.len().saturating_sub(1)).unwrap_or_default().to_owned();
        }
        for span in found {
            self.note(at, Local { span, secret, wrap: String::new() });
        }
    }

    fn next(&mut self) -> usize {
        if self.nested == 0 {
            self.texts += 1;
        }
        self.texts
    }

    fn note(&mut self, at: usize, local: Local) {
        // What stands in JSON inside a text is found again by its own text.
        if self.nested == 0 {
            self.found.local.entry(at).or_default().push(local);
        }
    }

    fn register(&mut self, text: String, kind: &str) -> usize {
        if let Some(known) = self.by_text.get(&text).copied() {
            if self.nested > 0 && self.found.secrets.get(known).is_some_and(|known| !known.everywhere) {
                self.short.push(known);
            }
            return known;
        }
        let number = self.found.secrets.len();
        let long = text.chars().count() >= self.rules.min_everywhere;
        // Cookies hold preferences too: a plain word of one is no reason to erase the word.
        let word = kind == "cookie" && super::looks::is_wordlike(&text);
        let everywhere = long && !word && !self.rules.is_common(&text);
        self.by_text.insert(text.clone(), number);
        self.found.secrets.push(Known { text, kind: kind.to_owned(), everywhere });
        if self.nested > 0 && !everywhere {
            self.short.push(number);
        }
        number
    }

    fn stay(&mut self, text: &str, key: &str, at: usize, found: &[Found<'_>]) {
        if self.nested > 0 || !found.is_empty() || text.len() < SUSPICIOUS_LENGTH || is_placeholder(text) {
            return;
        }
        if marker::holds_marker(text) {
            return;
        }
        let reason = "the key may name a secret, and the value doesn't look like one";
        match self.kept_at.get(&(key.to_owned(), reason)) {
            Some(index) => {
                if let Some(stayed) = self.found.kept.get_mut(*index) {
                    stayed.count += 1;
                }
            }
            None => {
                self.kept_at.insert((key.to_owned(), reason), self.found.kept.len());
                self.found.kept.push(Stayed { key: key.to_owned(), text: at, count: 1, reason });
            }
        }
    }
}

/// The secret itself, without the backslashes of a JSON text around it.
fn canonical(raw: &str, escaped: bool) -> String {
    if !escaped || !raw.contains('\\') {
        return raw.to_owned();
    }
    let mut text = raw.to_owned();
    // Inside JSON inside JSON there are two layers.
    for _ in 0..2 {
        match serde_json::from_str::<String>(&format!("\"{text}\"")) {
            Ok(plain) if plain != text => text = plain,
            _ => break,
        }
    }
    text
}

/// Whether nothing but markers, blanks and punctuation is in a text.
fn is_only_markers(text: &str) -> bool {
    text.contains(marker::START) && !marker::without(text).contains(char::is_alphanumeric)
}
