//! Texts of which parts are values seen before: paths, links, sentences.
//!
//! Owns the search for such parts and the template made of them. Refuses parts that are short, common or not
//! whole words, and refuses to bind what one recording shows: that a text holds a value may be chance.
//!
//! **Invariant:** a template that is bound makes, in every recording, the recorded text, and each of its
//! references has another value in one of them.

use std::ops::Range;

use serde_json::Value;

use super::{Frame, MAX_NAMED, State};
use crate::compiler::hash::{loose_text, same};
use crate::compiler::offered::{INPUTS, Place};
use crate::compiler::score::{Weight, text_weight};
use crate::compiler::several::Other;
use crate::workflow::{Convert, Decision, Part, Reason, Reference, Source, Template, Verdict};

/// Shortest part, in characters.
const MIN_PART: usize = 4;

/// Words of one text that a part may begin with.
const MAX_WORDS: usize = 64;

/// Most words of one part: a link or an identifier with dashes.
const MAX_RUN: usize = 12;

/// A value that stands in more places than this is no evidence for one of them.
const RARE: usize = 3;

/// What a value may begin with that is no word.
const LEADS: [char; 6] = ['/', '.', '~', '@', '#', '$'];

/// A part of a text and where its value stands, the best first.
struct Hole {
    range: Range<usize>,
    places: Vec<u32>,
}

/// The words of a text.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, c) in text.char_indices() {
        if !(c.is_alphanumeric() || c == '_') {
            continue;
        }
        let end = at + c.len_utf8();
        let count = found.len();
        match found.last_mut().filter(|word| word.end == at) {
            Some(word) => word.end = end,
            None if count == MAX_WORDS => break,
            None => found.push(at..end),
        }
    }
    found
}

/// The last character of what stands before a word, if a value may begin with it.
fn lead_of(text: &str) -> Option<char> {
    text.chars().next_back().filter(|c| LEADS.contains(c))
}

/// Visits the hash of each part of a text that may be looked up.
pub(in crate::compiler) fn each(text: &str, visit: &mut dyn FnMut(u64)) {
    let words = words(text);
    for (at, first) in words.iter().enumerate() {
        let lead = text.get(..first.start).and_then(lead_of).map(|c| first.start - c.len_utf8());
        for last in words.iter().skip(at).take(MAX_RUN) {
            for start in std::iter::once(first.start).chain(lead) {
                let part =
                    text.get(start..last.end).filter(|part| (MIN_PART..text.len()).contains(&part.len()));
                part.into_iter().for_each(|part| visit(loose_text(part)));
            }
        }
    }
}

impl State<'_, '_> {
    /// Decides for a text that holds values seen before. No means: it holds none.
    pub(super) fn template(&mut self, text: &str, pointer: &str, frame: &mut Frame<'_>) -> bool {
        let holes = self.holes(text, frame);
        if holes.is_empty() {
            return false;
        }
        let position = frame.node.position;
        let seen: Vec<(&Other, &str)> = self
            .others
            .iter()
            .filter_map(|other| Some((other, other.argument(position, pointer)?.as_str()?)))
            .collect();
        let varies = seen.iter().any(|(_, other)| *other != text);
        let mut parts = Vec::new();
        let (mut done, mut is_choice) = (0, false);
        for hole in &holes {
            let part = text.get(hole.range.clone()).unwrap_or_default();
            let found = hole.places.iter().find_map(|id| {
                let reference = self.part_reference(*id, part)?;
                (!varies || proves(&reference, part, &seen)).then_some((*id, reference))
            });
            let Some((id, reference)) = found else { continue };
            is_choice |= self.index.items_of(id).iter().any(|(_, index)| *index > 0);
            parts.push(Part::Text(text.get(done..hole.range.start).unwrap_or_default().to_owned()));
            parts.push(Part::Ref(reference));
            done = hole.range.end;
        }
        if parts.is_empty() {
            return false;
        }
        parts.push(Part::Text(text.get(done..).unwrap_or_default().to_owned()));
        let template = Template::of(parts);
        let holds =
            |(other, text): &(&Other, &str)| other.makes_template(&template).is_ok_and(|made| made == **text);
        if !seen.iter().all(holds) {
            return false;
        }
        let names: Vec<String> = template.references().map(|found| format!("`{found}`")).collect();
        let word = if names.len() == 1 { "value" } else { "values" };
        let mut reasons = vec![Reason::from(format!("the text holds the {word} of {}", names.join(", ")))];
        let by_person = self.wants_suggestion(pointer, frame);
        let bound = by_person || (varies && !is_choice);
        if by_person {
            reasons.push(super::BY_PERSON.into());
            frame.made.settled.push(frame.made.decisions.len());
        } else if bound {
            reasons.push("and varies with it in every recording".into());
        }
        let of_node = template.references().any(|found| matches!(found.source, Source::Node(_)));
        let verdict = match (bound, of_node) {
            (false, _) => Verdict::Literal,
            (true, true) => Verdict::Reference,
            (true, false) => Verdict::Input,
        };
        let decision = Decision {
            pointer: pointer.to_owned(),
            verdict,
            chosen: None,
            template: Some(template),
            candidates: Vec::new(),
            reasons,
        };
        frame.made.decide(decision, if bound { 0.9 } else { 0.0 });
        true
    }

    /// Parts that don't overlap, the longest first from each word on.
    fn holes(&self, text: &str, frame: &Frame<'_>) -> Vec<Hole> {
        let words = words(text);
        let mut found: Vec<Hole> = Vec::new();
        let mut at = 0;
        while let Some(first) = words.get(at) {
            let free = found.last().map_or(0, |hole| hole.range.end);
            let run = words.get(at..).unwrap_or_default().iter().take(MAX_RUN).enumerate().rev();
            let hole = run.clone().find_map(|(more, last)| {
                let lead = text.get(free..first.start).and_then(lead_of);
                let with_lead =
                    lead.and_then(|c| self.hole(text, first.start - c.len_utf8()..last.end, frame));
                Some((with_lead.or_else(|| self.hole(text, first.start..last.end, frame))?, more))
            });
            at += 1 + hole.as_ref().map_or(0, |(_, more)| *more);
            found.extend(hole.map(|(hole, _)| hole));
            if found.len() == MAX_NAMED {
                break;
            }
        }
        found
    }

    fn hole(&self, text: &str, range: Range<usize>, frame: &Frame<'_>) -> Option<Hole> {
        let part = text.get(range.clone()).filter(|part| part.len() < text.len())?;
        if part.chars().count() < MIN_PART || text_weight(part) != Weight::Strong {
            return None;
        }
        let hash = loose_text(part);
        let given = self.given.get(&hash).copied().unwrap_or(INPUTS);
        let start = frame.node.event.started_at.as_ref().map(|time| time.unix_ms());
        let mut places = self.index.find(hash, u32::MAX);
        places.retain(|id| {
            self.index.place(*id).is_some_and(|place| {
                place.source == INPUTS
                    || (!place.echo && given > place.source && !self.ends_after(place.source, start))
            })
        });
        // Inputs count as before the first node.
        let order = |place: &Place<'_>| (place.source.wrapping_add(1), place.depth);
        places.sort_by_key(|id| self.index.place(*id).map(order));
        let rare = places.len() <= RARE || self.others.len() > 1;
        (rare && !places.is_empty()).then_some(Hole { range, places })
    }

    /// The reference that gives a part of a text.
    fn part_reference(&self, id: u32, part: &str) -> Option<Reference> {
        let convert = match &self.index.place(id)?.value {
            Value::String(text) => (text == part).then_some(None)?,
            Value::Number(number) => {
                let made = Convert::ToString.apply(Value::Number(number.clone()))?;
                same(&made, &Value::String(part.to_owned())).then_some(Some(Convert::ToString))?
            }
            _ => return None,
        };
        self.index.reference(id, convert, |node| self.source(node))
    }
}

/// Whether a part has its value in other recordings too, and another one in some of them.
fn proves(reference: &Reference, part: &str, seen: &[(&Other, &str)]) -> bool {
    let mut differs = false;
    let holds = seen.iter().all(|(other, text)| {
        let one = Template(vec![Part::Ref(reference.clone())]);
        other.makes_template(&one).is_ok_and(|made| {
            differs |= made != part;
            text.contains(&made)
        })
    });
    holds && differs
}
