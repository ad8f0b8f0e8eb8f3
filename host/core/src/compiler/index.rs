//! Every value that an argument may come from, found by value.
//!
//! Owns the index over what inputs and results offer: each leaf and container that an argument may have as its value
//! or hold in its text, and the words of longer texts. Refuses to choose: that is `infer`'s, with `score`.
//!
//! **Invariant:** building the index and looking a value up take time linear in the size of what is
//! indexed or looked up, however often a value occurs: a lookup looks at a bounded number of places. Every value
//! that is looked up was asked for before the first result was added.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use super::asked::Asked;
use super::hash::{BuildAsIs, mix, text_hash};
use super::keys::Keyed;
use super::names;
use super::offered::{Counts, KeyPlace, Keys, MIN_WORD, NONE, Offered, Place, Way, holds_json, words_of};
use crate::workflow::{Convert, Reference, Source, Step};

/// Places looked at from the first occurrence on, and as many from the last one back. What a value that
/// occurs more often means can't be told from its value.
const LOOK: usize = 12;

/// Most places that room is made for before they are there.
const MOST_EXPECTED: usize = 1 << 22;

/// The places that hold one value.
#[derive(Clone, Copy)]
struct Bucket {
    first: u32,
    last: u32,
    count: u32,
}

/// Key names as words, each split once.
#[derive(Default)]
pub(super) struct Names<'t> {
    keys: Keys<'t>,
    words: Vec<Vec<String>>,
}

/// Keys that say nothing of what stands under them.
const WRAPPERS: [&str; 9] =
    ["result", "results", "text", "value", "output", "data", "content", "response", "structured"];

impl<'t> Names<'t> {
    pub(super) fn intern(&mut self, text: &'t str) -> u32 {
        let id = self.keys.intern(text);
        if self.words.len() == id as usize {
            self.words.push(if WRAPPERS.contains(&text) { Vec::new() } else { names::words(text) });
        }
        id
    }

    fn text(&self, id: u32) -> Option<&'t str> {
        self.keys.text(id)
    }

    pub(super) fn words(&self, id: u32) -> &[String] {
        self.words.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// What is being added, source by source.
pub(super) struct Adding<'t> {
    offered: Offered<'t>,
    /// The number in the index of each of its names.
    names: Vec<u32>,
    /// What of it was added.
    done: Counts,
    sources: usize,
}

impl<'t> Adding<'t> {
    pub(super) fn into_offered(self) -> Offered<'t> {
        self.offered
    }
}

/// The index.
pub(super) struct Index<'t> {
    /// Only what is asked for has a place, with what leads there.
    asked: &'t Asked,
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

impl<'t> Index<'t> {
    pub(super) fn new(asked: &'t Asked) -> Index<'t> {
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

    /// Takes the names of what is offered, to add it with [`Index::add`].
    pub(super) fn adding(&mut self, offered: Offered<'t>) -> Adding<'t> {
        let names = offered.keys.texts().iter().map(|text| self.names.intern(text)).collect();
        Adding { offered, names, done: Counts::default(), sources: 0 }
    }

    /// Adds what the next source offers.
    pub(super) fn add(&mut self, adding: &mut Adding<'t>) {
        let Adding { offered, names, done, sources } = adding;
        let Some(end) = offered.ends.get(*sources) else { return };
        let start = std::mem::replace(done, *end);
        *sources += 1;
        let base = u32::try_from(self.places.len()).unwrap_or(NONE);
        let name = |local: u32| names.get(local as usize).copied().unwrap_or(NONE);
        let places = offered.places.get(start.places..end.places).unwrap_or_default();
        self.places.extend(places.iter().map(|place| {
            let parent = if place.parent == NONE { NONE } else { base + place.parent };
            Place { parent, name: name(place.name), around: name(place.around), ..*place }
        }));
        for link in offered.links.get(start.links..end.links).unwrap_or_default() {
            self.link(link.hash, base + link.place);
        }
        let keyed = offered.keyed.get(start.keyed..end.keyed).unwrap_or_default();
        self.keyed.extend(keyed.iter().map(|keyed| KeyPlace { place: base + keyed.place, ..*keyed }));
    }

    /// Makes room for as many blocks like what is offered. What follows may be otherwise, so it isn't much.
    pub(super) fn expect(&mut self, offered: &Offered<'t>, blocks: usize) {
        self.places.reserve(offered.places.len().saturating_mul(blocks).min(MOST_EXPECTED));
    }

    fn link(&mut self, hash: u64, id: u32) {
        let Some(place) = self.places.get_mut(id as usize) else {
            return;
        };
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
        let mut here = self.place(id)?;
        let mut path = Vec::with_capacity(here.depth as usize);
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
