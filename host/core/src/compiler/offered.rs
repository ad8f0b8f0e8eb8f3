//! What inputs and results offer to later arguments.
//!
//! Owns the walk through them: each place that may be asked for, also inside text that holds JSON, with what leads
//! there. Refuses to know of other results, so that several threads walk at a time.
//!
//! **Invariant:** places, links and keyed objects of one source stand together, in the order of the sources.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::asked::Asked;
use super::hash::{hashes, list_hash, loose_hash, loose_of, member_hash, mix, object_hash, text_hash};
use super::keys::{self, Kind};

/// The source number of inputs; results have the number of their node.
pub(super) const INPUTS: u32 = u32::MAX;

/// No place, and no name.
pub(super) const NONE: u32 = u32::MAX;

/// Shortest word of a text that may be a source.
pub(super) const MIN_WORD: usize = 4;

/// Bytes of one text whose words are indexed.
const MAX_WORDS_TEXT: usize = 256 << 10;

/// One place where a value stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) source: u32,
    pub(super) value: &'t Value,
    /// The nearest key above it, and the next one above that.
    pub(super) name: u32,
    pub(super) around: u32,
    pub(super) depth: u32,
    /// It is all that the call returned, but for the names it stands under.
    pub(super) alone: bool,
    /// The call was given this value itself, or every leaf of it.
    pub(super) echo: bool,
    pub(super) parent: u32,
    pub(super) step: Way,
    /// Links of the index to the next and the previous place of the same value.
    pub(super) next: u32,
    pub(super) previous: u32,
}

/// The last step to a place. Texts are those of its name, so that a place stays small.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Input,
    Result,
    Key,
    Index(u32),
    Json,
}

impl Place<'_> {
    /// Whether it is the one number that a call returned. Such a call computes: that it returns what it or
    /// another one was given is chance, no echo.
    pub(super) fn is_whole_number(&self) -> bool {
        self.alone && self.source != INPUTS && self.value.is_number()
    }
}

/// A place of an object with a key that is asked for.
#[derive(Clone, Copy)]
pub(super) struct KeyPlace<'t> {
    pub(super) place: u32,
    pub(super) key: &'t str,
    pub(super) kind: Kind,
}

/// Key names, each with a number.
#[derive(Default)]
pub(super) struct Keys<'t> {
    by_text: HashMap<&'t str, u32>,
    texts: Vec<&'t str>,
    /// The name that last had each of these short hashes: results of one tool have the same few names.
    recent: Vec<u32>,
}

/// Slots of [`Keys::recent`], a power of two.
const RECENT: usize = 256;

impl<'t> Keys<'t> {
    pub(super) fn intern(&mut self, text: &'t str) -> u32 {
        let slot = text_hash(text) as usize % RECENT;
        if let Some(id) = self.recent.get(slot).filter(|id| self.text(**id) == Some(text)) {
            return *id;
        }
        let id = match self.by_text.entry(text) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = u32::try_from(self.texts.len()).unwrap_or(NONE);
                self.texts.push(text);
                *entry.insert(id)
            }
        };
        self.recent.resize(RECENT, NONE);
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = id;
        }
        id
    }

    fn clear(&mut self) {
        self.by_text.clear();
        self.texts.clear();
        self.recent.clear();
    }

    pub(super) fn text(&self, id: u32) -> Option<&'t str> {
        self.texts.get(id as usize).copied()
    }

    pub(super) fn texts(&self) -> &[&'t str] {
        &self.texts
    }
}

/// A place that a value leads to.
pub(super) struct Link {
    pub(super) hash: u64,
    pub(super) place: u32,
}

/// How much is offered.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) places: usize,
    pub(super) links: usize,
    pub(super) keyed: usize,
}

/// What a row of sources offers. Numbers of places count from the first one of the same source, and names are those
/// of [`Offered::keys`].
#[derive(Default)]
pub(super) struct Offered<'t> {
    pub(super) keys: Keys<'t>,
    pub(super) places: Vec<Place<'t>>,
    pub(super) links: Vec<Link>,
    pub(super) keyed: Vec<KeyPlace<'t>>,
    /// How much is offered up to the end of each source.
    pub(super) ends: Vec<Counts>,
}

impl<'t> Offered<'t> {
    /// Forgets everything and keeps the room that it took.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.places.clear();
        self.links.clear();
        self.keyed.clear();
        self.ends.clear();
    }

    /// Adds an input. `texts` are its texts that hold JSON, from [`json_texts`].
    pub(super) fn input(&mut self, name: &'t str, value: &'t Value, texts: &'t [Value], asked: &Asked) {
        let here = Here { step: Way::Input, key: Some(name), ..Here::top(INPUTS) };
        self.source(value, here, texts, asked, &[]);
    }

    /// Adds the result of a node that was given these arguments. `texts` are its texts that hold JSON.
    pub(super) fn result(
        &mut self,
        node: u32,
        value: &'t Value,
        texts: &'t [Value],
        arguments: &Map<String, Value>,
        asked: &Asked,
    ) {
        let mut given = Vec::new();
        arguments.values().for_each(|value| leaves(value, &mut |leaf| given.push(loose_hash(leaf))));
        given.sort_unstable();
        self.source(value, Here { alone: true, ..Here::top(node) }, texts, asked, &given);
    }

    fn source(&mut self, value: &'t Value, here: Here<'t>, texts: &'t [Value], asked: &Asked, given: &[u64]) {
        let first = self.places.len();
        Walk { offered: self, first, asked, given }.value(value, here, &mut texts.iter());
        let end = Counts { places: self.places.len(), links: self.links.len(), keyed: self.keyed.len() };
        self.ends.push(end);
    }
}

pub(super) fn leaves<'v>(value: &'v Value, visit: &mut impl FnMut(&'v Value)) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| leaves(item, visit)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, visit)),
        scalar => visit(scalar),
    }
}

/// Where a walk stands.
#[derive(Clone, Copy)]
struct Here<'t> {
    source: u32,
    parent: u32,
    step: Way,
    /// The key that leads here, and the nearest name above it.
    key: Option<&'t str>,
    name: u32,
    around: u32,
    depth: u32,
    alone: bool,
}

impl Here<'_> {
    /// The whole of a result.
    fn top(source: u32) -> Self {
        let (step, key) = (Way::Result, None);
        Here { source, parent: NONE, step, key, name: NONE, around: NONE, depth: 0, alone: false }
    }
}

/// A walk through one source.
struct Walk<'w, 't> {
    offered: &'w mut Offered<'t>,
    /// The place from which those of this source are counted.
    first: usize,
    asked: &'w Asked,
    /// The hashes of what the call was given, sorted.
    given: &'w [u64],
}

impl<'t> Walk<'_, 't> {
    /// Adds what is asked for of a value. Returns its hash, and whether all leaves of it are echoes; nothing if
    /// there are none.
    fn value(
        &mut self,
        value: &'t Value,
        here: Here<'t>,
        texts: &mut std::slice::Iter<'t, Value>,
    ) -> (u64, Option<bool>) {
        let (typed, loose, echo, id) = match value {
            Value::Object(_) | Value::Array(_) => {
                let (id, below) = self.push(value, here);
                let (hash, echo) = self.members(value, below, texts);
                (hash, hash, echo, id)
            }
            Value::String(text) if holds_json(text) => {
                let (id, below) = self.push(value, here);
                if let Some(inner) = texts.next().filter(|inner| !inner.is_null()) {
                    self.value(inner, Here { step: Way::Json, ..below }, &mut [].iter());
                }
                let (typed, loose) = hashes(value);
                (typed, loose, Some(self.was_given(loose)), id)
            }
            leaf => {
                let (typed, loose) = hashes(leaf);
                let is_asked = self.asked.holds(loose);
                // The words of a text may be asked for instead.
                if !is_asked && !has_words(leaf) {
                    return (typed, Some(false));
                }
                (typed, loose, Some(is_asked && self.was_given(loose)), self.push(leaf, here).0)
            }
        };
        let at = self.first + id as usize;
        if self.asked.holds(loose) {
            if let Some(place) = self.offered.places.get_mut(at) {
                place.echo = echo == Some(true);
            }
            self.offered.links.push(Link { hash: loose, place: id });
        } else if self.offered.places.len() == at + 1
            && !has_words(value)
            && self.offered.keyed.last().is_none_or(|keyed| keyed.place != id)
        {
            self.offered.places.pop();
        }
        (typed, echo)
    }

    fn members(
        &mut self,
        value: &'t Value,
        below: Here<'t>,
        texts: &mut std::slice::Iter<'t, Value>,
    ) -> (u64, Option<bool>) {
        let (mut sum, mut echo) = (0u64, None);
        let both = |a: Option<bool>, b: Option<bool>| a.zip(b).map(|(a, b)| a && b).or(a).or(b);
        match value {
            Value::Object(map) => {
                let alone = below.alone && map.len() == 1;
                for (key, child) in map {
                    let key_hash = text_hash(key);
                    if below.source != INPUTS
                        && self.asked.holds(loose_of(key, key_hash))
                        && let Some(kind) = keys::kind_of(map, key)
                    {
                        self.offered.keyed.push(KeyPlace { place: below.parent, key, kind });
                    }
                    let below = Here { step: Way::Key, key: Some(key), around: below.name, alone, ..below };
                    let (hash, below) = self.value(child, below, texts);
                    echo = both(echo, below);
                    sum = sum.wrapping_add(member_hash(key_hash, hash));
                }
                (object_hash(sum), echo)
            }
            Value::Array(list) => {
                for (index, child) in list.iter().enumerate() {
                    let step = Way::Index(u32::try_from(index).unwrap_or(NONE));
                    let (hash, below) = self.value(child, Here { step, alone: false, ..below }, texts);
                    echo = both(echo, below);
                    sum = mix(sum, hash);
                }
                (list_hash(sum), echo)
            }
            _ => (0, None),
        }
    }

    /// Makes a place; returns where a walk stands in it.
    fn push(&mut self, value: &'t Value, here: Here<'t>) -> (u32, Here<'t>) {
        let id = u32::try_from(self.offered.places.len() - self.first).unwrap_or(NONE);
        let name = here.key.map_or(here.name, |key| self.offered.keys.intern(key));
        let Here { source, parent, step, around, depth, alone, .. } = here;
        let (echo, next, previous) = (false, NONE, NONE);
        let place = Place { source, value, name, around, depth, alone, echo, parent, step, next, previous };
        self.offered.places.push(place);
        (id, Here { parent: id, depth: depth + 1, key: None, name, ..here })
    }

    fn was_given(&self, hash: u64) -> bool {
        self.given.binary_search(&hash).is_ok()
    }
}

/// The texts of a value that hold JSON, parsed, in the order of a walk; null where it turned out not to.
pub(super) fn json_texts(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    collect_texts(value, &mut found);
    found
}

fn collect_texts(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::String(text) if holds_json(text) => {
            let depth_is_fine = crate::json::parse(text.as_bytes(), crate::json::Limits::default()).is_ok();
            let parsed = if depth_is_fine { serde_json::from_str(text).ok() } else { None };
            found.push(parsed.unwrap_or_default());
        }
        Value::Array(list) => list.iter().for_each(|item| collect_texts(item, found)),
        Value::Object(map) => map.values().for_each(|item| collect_texts(item, found)),
        _ => {}
    }
}

/// Whether a value is a text that may hold words other than itself.
fn has_words(value: &Value) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    matches!(value, Value::String(text) if text.len() > MIN_WORD && !holds_json(text) && !text.bytes().all(is_inner))
}

pub(super) fn holds_json(text: &str) -> bool {
    // Most texts are told apart by their last byte, without looking for blanks.
    if !text.ends_with(['}', ']', ' ', '\n', '\r', '\t']) {
        return false;
    }
    let text = text.trim();
    (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'))
}

/// Words of a text: what stands between blanks and brackets, and the parts of that.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let end = (0..=MAX_WORDS_TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    let text = text.get(..end.unwrap_or_default()).unwrap_or_default();
    let outer = |c: char| c.is_whitespace() || "\"'`,;()[]{}<>|=".contains(c);
    let inner = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'));
    text.split(outer)
        .map(|word| word.trim_matches(['.', ':', '!', '?']))
        .filter(|word| word.len() >= MIN_WORD)
        .flat_map(move |word| {
            let parts =
                word.split(inner).filter(move |part| part.len() >= MIN_WORD && part.len() < word.len());
            std::iter::once(word).chain(parts)
        })
}
