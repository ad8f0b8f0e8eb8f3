//! Every value that an argument may come from, found by value.
//!
//! Owns the index over inputs and results: each leaf and container that an argument may have as its value or
//! hold in its text, also inside text that holds JSON, and the words of longer texts. Refuses to choose: that is
//! `infer`'s, with `score`.
//!
//! **Invariant:** building the index and looking a value up take time linear in the size of what is
//! indexed or looked up, however often a value occurs: a lookup looks at a bounded number of places. Every value
//! that is looked up was asked for before the first result was added.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use serde_json::{Map, Number, Value};

use super::asked::Asked;
use super::keys::{self, Keyed, Kind};
use super::names;
use crate::workflow::{Convert, Reference, Source, Step};

/// The source number of inputs; results have the number of their node.
pub(super) const INPUTS: u32 = u32::MAX;

const NONE: u32 = u32::MAX;

/// Places looked at from the first occurrence on, and as many from the last one back. What a value that
/// occurs more often means can't be told from its value.
const LOOK: usize = 12;

/// Shortest word of a text that may be a source.
const MIN_WORD: usize = 4;

/// Bytes of one text whose words are indexed.
const MAX_WORDS_TEXT: usize = 256 << 10;

/// One place where a value stands.
pub(super) struct Place<'t> {
    pub(super) source: u32,
    pub(super) value: &'t Value,
    /// The nearest key above it, and the next one above that.
    pub(super) name: u32,
    pub(super) around: u32,
    pub(super) depth: u32,
    /// It is all that the call returned, but for the names it stands under.
    alone: bool,
    /// The call was given this value itself, or every leaf of it.
    pub(super) echo: bool,
    parent: u32,
    step: Way,
    next: u32,
    previous: u32,
}

/// The last step to a place. Texts are those of its name, so that a place stays small.
#[derive(Clone, Copy)]
enum Way {
    Input,
    Result,
    Key,
    Index(u32),
    Json,
}

/// The places that hold one value.
#[derive(Clone, Copy)]
struct Bucket {
    first: u32,
    last: u32,
    count: u32,
}

impl Place<'_> {
    /// Whether it is the one number that a call returned. Such a call computes: that it returns what it or
    /// another one was given is chance, no echo.
    pub(super) fn is_whole_number(&self) -> bool {
        self.alone && self.source != INPUTS && self.value.is_number()
    }
}

/// Key names as words, each split once.
#[derive(Default)]
pub(super) struct Names<'t> {
    by_text: HashMap<&'t str, u32>,
    texts: Vec<&'t str>,
    words: Vec<Vec<String>>,
    /// The name that last had each of these short hashes: results of one tool have the same few names.
    recent: Vec<u32>,
}

/// Slots of [`Names::recent`], a power of two.
const RECENT: usize = 256;

/// Keys that say nothing of what stands under them.
const WRAPPERS: [&str; 9] =
    ["result", "results", "text", "value", "output", "data", "content", "response", "structured"];

impl<'t> Names<'t> {
    pub(super) fn intern(&mut self, text: &'t str) -> u32 {
        let slot = text_hash(text) as usize % RECENT;
        if let Some(id) = self.recent.get(slot).filter(|id| self.text(**id) == Some(text)) {
            return *id;
        }
        let id = match self.by_text.entry(text) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = u32::try_from(self.words.len()).unwrap_or(NONE);
                let is_wrapper = WRAPPERS.contains(&text);
                self.words.push(if is_wrapper { Vec::new() } else { names::words(text) });
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

    fn text(&self, id: u32) -> Option<&'t str> {
        self.texts.get(id as usize).copied()
    }

    pub(super) fn words(&self, id: u32) -> &[String] {
        self.words.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// The index.
pub(super) struct Index<'t> {
    /// Only what is asked for has a place, with what leads there.
    asked: Asked,
    places: Vec<Place<'t>>,
    by_value: HashMap<u64, Bucket, BuildAsIs>,
    /// The first and last place of a value under one name, once more than [`LOOK`] places hold it.
    by_value_and_name: HashMap<u64, (u32, u32), BuildAsIs>,
    by_word: HashMap<u64, u32, BuildAsIs>,
    keyed: Vec<KeyPlace<'t>>,
    /// How many places have their words in `by_word`. Most traces never ask for one.
    worded: usize,
    pub(super) names: Names<'t>,
}

/// A place of an object with a key that is asked for.
struct KeyPlace<'t> {
    place: u32,
    key: &'t str,
    kind: Kind,
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

impl<'t> Index<'t> {
    pub(super) fn new(asked: Asked) -> Index<'t> {
        Index {
            asked,
            places: Vec::new(),
            by_value: HashMap::default(),
            by_value_and_name: HashMap::default(),
            by_word: HashMap::default(),
            keyed: Vec::new(),
            worded: 0,
            names: Names::default(),
        }
    }

    /// Adds an input. `texts` are its texts that hold JSON, from [`json_texts`].
    pub(super) fn add_input(&mut self, name: &'t str, value: &'t Value, texts: &'t [Value]) {
        let here = Here { step: Way::Input, key: Some(name), ..Here::top(INPUTS) };
        self.walk(value, here, &mut texts.iter(), &|_| false);
    }

    /// Adds the result of a node, which was given the values `given`.
    pub(super) fn add_result(
        &mut self,
        source: u32,
        value: &'t Value,
        texts: &'t [Value],
        given: &dyn Fn(u64) -> bool,
    ) {
        let here = Here { alone: true, ..Here::top(source) };
        self.walk(value, here, &mut texts.iter(), given);
    }

    /// Adds what is asked for of a value. Returns its hash, and whether all leaves of it are echoes; nothing if
    /// there are none.
    fn walk(
        &mut self,
        value: &'t Value,
        here: Here<'t>,
        texts: &mut std::slice::Iter<'t, Value>,
        given: &dyn Fn(u64) -> bool,
    ) -> (u64, Option<bool>) {
        let (typed, loose, echo, id) = match value {
            Value::Object(_) | Value::Array(_) => {
                let (id, below) = self.push(value, here);
                let (hash, echo) = self.walk_members(value, below, texts, given);
                (hash, hash, echo, id)
            }
            Value::String(text) if holds_json(text) => {
                let (id, below) = self.push(value, here);
                if let Some(inner) = texts.next().filter(|inner| !inner.is_null()) {
                    self.walk(inner, Here { step: Way::Json, ..below }, &mut [].iter(), given);
                }
                let (typed, loose) = hashes(value);
                (typed, loose, Some(given(loose)), id)
            }
            leaf => {
                let (typed, loose) = hashes(leaf);
                let is_asked = self.asked.holds(loose);
                // The words of a text may be asked for instead.
                if !is_asked && !has_words(leaf) {
                    return (typed, Some(false));
                }
                (typed, loose, Some(is_asked && given(loose)), self.push(leaf, here).0)
            }
        };
        if self.asked.holds(loose) {
            self.link(loose, id, echo == Some(true));
        } else if self.places.len() == id as usize + 1
            && !has_words(value)
            && self.keyed.last().is_none_or(|keyed| keyed.place != id)
        {
            self.places.pop();
        }
        (typed, echo)
    }

    fn walk_members(
        &mut self,
        value: &'t Value,
        below: Here<'t>,
        texts: &mut std::slice::Iter<'t, Value>,
        given: &dyn Fn(u64) -> bool,
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
                        self.keyed.push(KeyPlace { place: below.parent, key, kind });
                    }
                    let below = Here { step: Way::Key, key: Some(key), around: below.name, alone, ..below };
                    let (hash, below) = self.walk(child, below, texts, given);
                    echo = both(echo, below);
                    sum = sum.wrapping_add(member_hash(key_hash, hash));
                }
                (object_hash(sum), echo)
            }
            Value::Array(list) => {
                for (index, child) in list.iter().enumerate() {
                    let step = Way::Index(u32::try_from(index).unwrap_or(NONE));
                    let (hash, below) = self.walk(child, Here { step, alone: false, ..below }, texts, given);
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
        let id = u32::try_from(self.places.len()).unwrap_or(NONE);
        let name = here.key.map_or(here.name, |key| self.names.intern(key));
        let Here { source, parent, step, around, depth, alone, .. } = here;
        let (echo, next, previous) = (false, NONE, NONE);
        let place = Place { source, value, name, around, depth, alone, echo, parent, step, next, previous };
        self.places.push(place);
        (id, Here { parent: id, depth: depth + 1, key: None, name, ..here })
    }

    fn link(&mut self, hash: u64, id: u32, echo: bool) {
        let Some(place) = self.places.get_mut(id as usize) else {
            return;
        };
        place.echo = echo;
        let name = place.name;
        let bucket = match self.by_value.entry(hash) {
            Entry::Vacant(entry) => {
                entry.insert(Bucket { first: id, last: id, count: 1 });
                return;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        place.previous = bucket.last;
        let before = std::mem::replace(&mut bucket.last, id);
        bucket.count = bucket.count.saturating_add(1);
        let Bucket { first, count, .. } = *bucket;
        if let Some(place) = self.places.get_mut(before as usize) {
            place.next = id;
        }
        // Most values stand in few places, all of which a lookup looks at: names tell apart only the others.
        match (count as usize).cmp(&LOOK) {
            Ordering::Less => {}
            Ordering::Equal => {
                let mut earlier = first;
                while let Some(place) = self.places.get(earlier as usize) {
                    let (name, next) = (place.name, place.next);
                    self.link_name(hash, name, earlier);
                    earlier = next;
                }
            }
            Ordering::Greater => self.link_name(hash, name, id),
        }
    }

    fn link_name(&mut self, hash: u64, name: u32, id: u32) {
        self.by_value_and_name
            .entry(mix(hash, u64::from(name)))
            .and_modify(|ends| ends.1 = id)
            .or_insert((id, id));
    }

    /// Indexes the words of every place added since the last time.
    fn add_words(&mut self) {
        let fresh = self.places.get(self.worded..).unwrap_or_default();
        for (id, place) in (self.worded..).zip(fresh) {
            let Value::String(text) = place.value else { continue };
            if text.len() <= MIN_WORD || holds_json(text) {
                continue;
            }
            let id = u32::try_from(id).unwrap_or(NONE);
            let words = words_of(text).filter(|word| word.len() < text.len()).map(text_hash);
            for word in words.filter(|word| self.asked.holds(*word)) {
                self.by_word.entry(word).or_insert(id);
            }
        }
        self.worded = self.places.len();
    }

    /// Places with a value, in order, without repeats: the first and last few, and those under the same key.
    pub(super) fn find(&self, hash: u64, key: u32) -> Vec<u32> {
        debug_assert!(self.asked.holds(hash), "a value is looked up that nobody asked for");
        let Some(bucket) = self.by_value.get(&hash) else {
            return Vec::new();
        };
        let walk = |start: u32, next: fn(&Place<'t>) -> u32| {
            std::iter::successors(Some(start), move |id| {
                let follow = next(self.places.get(*id as usize)?);
                (follow != NONE).then_some(follow)
            })
        };
        let mut found: Vec<u32> = walk(bucket.first, |place| place.next).take(LOOK).collect();
        if found.len() == LOOK {
            found.extend(walk(bucket.last, |place| place.previous).take(LOOK));
            let named = self.by_value_and_name.get(&mix(hash, u64::from(key)));
            found.extend(named.into_iter().flat_map(|(first, last)| [*first, *last]));
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The objects in results with a key that is asked for, in order.
    pub(super) fn keyed(&self, node: impl Fn(u32) -> Option<Source>) -> Vec<Keyed> {
        let keyed = self.keyed.iter().filter_map(|keyed| {
            let object = self.reference(keyed.place, None, &node)?;
            let (node, key) = (self.place(keyed.place)?.source, keyed.key.to_owned());
            Some(Keyed { node, key, kind: keyed.kind, object })
        });
        keyed.collect()
    }

    /// The first text that holds a word.
    pub(super) fn find_word(&mut self, word: &str) -> Option<u32> {
        debug_assert!(self.asked.holds(text_hash(word)), "a word is looked up that nobody asked for");
        self.add_words();
        self.by_word.get(&text_hash(word)).copied()
    }

    pub(super) fn place(&self, id: u32) -> Option<&Place<'t>> {
        self.places.get(id as usize)
    }

    /// Whether a key on the path to a place is its value, as in a map keyed by id.
    pub(super) fn is_named(&self, id: u32) -> bool {
        let Some(place) = self.place(id) else { return false };
        let number;
        let value = match place.value {
            Value::String(text) => text.as_str(),
            Value::Number(found) => {
                number = found.to_string();
                &number
            }
            _ => return false,
        };
        let mut here = Some(place);
        while let Some(place) = here {
            if matches!(place.step, Way::Key) && self.names.text(place.name) == Some(value) {
                return true;
            }
            here = self.place(place.parent);
        }
        false
    }

    /// The lists that a place is in an item of, the outermost last, each with the item's index.
    pub(super) fn items_of(&self, id: u32) -> Vec<(u32, usize)> {
        let mut found = Vec::new();
        let mut here = self.place(id);
        while let Some(place) = here {
            if let Way::Index(index) = place.step {
                found.push((place.parent, index as usize));
            }
            here = self.place(place.parent);
        }
        found
    }

    /// The reference to a place. `node` names a source.
    pub(super) fn reference(
        &self,
        id: u32,
        convert: Option<Convert>,
        node: impl Fn(u32) -> Option<Source>,
    ) -> Option<Reference> {
        let mut path = Vec::new();
        let mut here = self.place(id)?;
        let source = loop {
            match here.step {
                Way::Input => break Source::Input(self.names.text(here.name)?.to_owned()),
                Way::Result => break node(here.source)?,
                Way::Key => path.push(Step::Key(self.names.text(here.name)?.to_owned())),
                Way::Index(index) => path.push(Step::Index(index as usize)),
                Way::Json => path.push(Step::ParseJson),
            }
            here = self.place(here.parent)?;
        };
        path.reverse();
        Some(Reference { source, path, convert })
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

fn holds_json(text: &str) -> bool {
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

/// Mixes one word into a hash; the constant is the golden ratio's fraction, which spreads neighbours apart.
/// Whoever makes values collide on purpose only hides a candidate: every candidate is compared.
fn stir(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

pub(super) fn mix(a: u64, b: u64) -> u64 {
    stir(stir(9, a), b)
}

/// A hash of a member of an object, of those of its key and value. Those of all members are added up.
pub(super) fn member_hash(key: u64, value: u64) -> u64 {
    stir(key, value)
}

pub(super) fn object_hash(members: u64) -> u64 {
    mix(5, members)
}

/// A hash of a list, of those of its items mixed one after the other.
pub(super) fn list_hash(items: u64) -> u64 {
    mix(6, items)
}

fn bytes_hash(tag: u64, bytes: &[u8]) -> u64 {
    let mut hash = stir(tag, bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        hash = stir(hash, chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    let rest = chunks.remainder().iter().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    stir(hash, rest)
}

/// The hasher of maps whose keys are hashes already.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes_hash(self.0, bytes);
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

pub(super) type BuildAsIs = BuildHasherDefault<AsIs>;

pub(super) fn text_hash(text: &str) -> u64 {
    bytes_hash(4, text.as_bytes())
}

/// A number by its value: `1` and `1.0` are the same.
fn number_hash(number: &Number) -> u64 {
    match whole(number) {
        Some(whole) => bytes_hash(2, &whole.to_le_bytes()),
        None => stir(3, number.as_f64().unwrap_or_default().to_bits()),
    }
}

fn whole(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i64() {
        return Some(i128::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Some(i128::from(whole));
    }
    let float = number.as_f64()?;
    // Beyond 2^53 a double stands for many integers.
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i128)
}

/// A hash that only values of equal type and meaning share.
fn typed_hash(value: &Value) -> u64 {
    match value {
        Value::Null => stir(0, 1),
        Value::Bool(flag) => stir(1, u64::from(*flag)),
        Value::Number(number) => number_hash(number),
        Value::String(text) => text_hash(text),
        Value::Array(list) => list_hash(list.iter().fold(0, |sum, item| mix(sum, typed_hash(item)))),
        Value::Object(map) => hash_of(map),
    }
}

/// A hash of an object's content.
pub(super) fn hash_of(map: &Map<String, Value>) -> u64 {
    let sum = map
        .iter()
        .fold(0u64, |sum, (key, value)| sum.wrapping_add(member_hash(text_hash(key), typed_hash(value))));
    object_hash(sum)
}

/// The hash of [`typed_hash`] and that of [`loose_hash`].
pub(super) fn hashes(value: &Value) -> (u64, u64) {
    let typed = typed_hash(value);
    let loose = match value {
        Value::String(text) => loose_of(text, typed),
        _ => typed,
    };
    (typed, loose)
}

/// A hash that a number shares with the text that spells it.
pub(super) fn loose_hash(value: &Value) -> u64 {
    match value {
        Value::String(text) => loose_text(text),
        other => typed_hash(other),
    }
}

/// The same for a text.
pub(super) fn loose_text(text: &str) -> u64 {
    loose_of(text, text_hash(text))
}

/// The same, of a text's own hash.
fn loose_of(text: &str, hash: u64) -> u64 {
    spelled_number(text).map_or(hash, |number| number_hash(&number))
}

/// The number that a whole text spells.
pub(super) fn spelled_number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if text.len() > 32 || !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Whether two values mean the same: numbers by value, everything else exactly.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || matches!((whole(a), whole(b)), (Some(a), Some(b)) if a == b)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
