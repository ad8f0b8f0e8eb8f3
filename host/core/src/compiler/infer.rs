//! Where each argument comes from.
//!
//! Owns the decision for every argument value, with its reasons. Refuses to decide what nothing tells
//! apart: then the recorded value stays, and the decision names what was seen.
//!
//! **Invariant:** a value bound here resolves, from the recorded inputs and results, to the recorded value.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::index::{BuildAsIs, INPUTS, Index, json_texts, loose_hash, words_of};
use super::names::STRONG;
use super::score::{Scored, Wanted, Weight, score, weight};
use super::{Accept, Kept, Options};
use crate::code::Code;
use crate::problem::{Place, Problem, Problems, child, item};
use crate::trace::Trace;
use crate::workflow::{Decision, Expr, Reference, Source, Verdict};

/// Most candidates that one decision names.
const MAX_NAMED: usize = 4;

/// Candidates whose scores differ by less than this aren't told apart by them.
const CLOSE: f64 = 0.3;

/// A text of this length is the same by identity, not by chance.
const UNLIKELY_TEXT: usize = 6;

/// Words of one argument that are looked up.
const MAX_WORDS: usize = 32;

/// How the arguments of one node are made.
pub(super) struct Inferred {
    pub(super) arguments: Expr,
    pub(super) decisions: Vec<Decision>,
    /// Nodes that values come from, sorted.
    pub(super) sources: Vec<u32>,
    /// Nodes that may have made a value which an input was taken for.
    pub(super) also_after: Vec<u32>,
}

impl Inferred {
    /// Whether an argument can be another one in a later run.
    pub(super) fn varies(&self, argument: &str) -> bool {
        match &self.arguments {
            Expr::Object(members) => members.get(argument).is_some_and(|expr| !expr.references().is_empty()),
            whole => !whole.references().is_empty(),
        }
    }
}

/// Decides for every kept event. `declared` holds each one's declared dependencies.
pub(super) fn infer(
    trace: &Trace,
    kept: &[Kept<'_>],
    declared: &[Vec<u32>],
    options: &Options,
) -> Result<Vec<Inferred>, Problems> {
    let input_texts: Vec<Vec<Value>> = trace.inputs.values().map(json_texts).collect();
    let result_texts: Vec<Vec<Value>> = kept.iter().map(|kept| json_texts(&kept.event.result)).collect();
    let mut state = State {
        kept,
        options,
        index: Index::default(),
        tools: Vec::with_capacity(kept.len()),
        given: HashMap::default(),
        accept: accepted(&options.accept),
    };
    for ((name, value), texts) in trace.inputs.iter().zip(&input_texts) {
        state.index.add_input(name, value, texts);
    }
    let mut all = Vec::with_capacity(kept.len());
    let mut own: Vec<u64> = Vec::new();
    for (at, ((kept_event, texts), declared)) in kept.iter().zip(&result_texts).zip(declared).enumerate() {
        let node = u32::try_from(at).unwrap_or(INPUTS);
        let tool = state.index.names.intern(&kept_event.event.tool);
        state.tools.push(tool);
        all.push(state.node(kept_event, declared));
        own.clear();
        for value in kept_event.event.arguments.values() {
            leaves(value, &mut |leaf| own.push(loose_hash(leaf)));
        }
        own.sort_unstable();
        state.remember(node, kept_event, all.last());
        let given = |hash| own.binary_search(&hash).is_ok();
        state.index.add_result(node, &kept_event.event.result, texts, &given);
    }
    if let Some((accept, _)) = state.accept.iter().find(|(_, accept)| !accept.used) {
        let message = format!("there is no suggestion for `{}` of event `{}`", accept.1, accept.0);
        return Err(Problem::new(Code::ReferenceUnknown, Place::Whole, message).into());
    }
    Ok(all)
}

struct Accepted {
    reference: Option<String>,
    used: bool,
}

fn accepted(list: &[Accept]) -> BTreeMap<(String, String), Accepted> {
    let entry = |accept: &Accept| {
        let key = (accept.event.clone(), accept.pointer.clone());
        let reference = accept.reference.clone();
        (key, Accepted { reference, used: false })
    };
    list.iter().map(entry).collect()
}

fn leaves<'v>(value: &'v Value, visit: &mut impl FnMut(&'v Value)) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| leaves(item, visit)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, visit)),
        scalar => visit(scalar),
    }
}

struct State<'t, 'k> {
    kept: &'k [Kept<'t>],
    options: &'k Options,
    index: Index<'t>,
    /// The interned tool name of each node.
    tools: Vec<u32>,
    /// By value: the first node that was given it although no source was in sight.
    given: HashMap<u64, u32, BuildAsIs>,
    accept: BTreeMap<(String, String), Accepted>,
}

/// What is being decided for.
struct Frame<'a> {
    node: &'a Kept<'a>,
    declared: &'a [u32],
    made: Inferred,
}

/// What became of one value.
struct Outcome {
    expr: Option<Expr>,
    /// It is an item of a list other than the first, and was left.
    left_choice: bool,
}

impl Outcome {
    fn literal() -> Outcome {
        Outcome { expr: None, left_choice: false }
    }
}

impl<'t> State<'t, '_> {
    fn node(&mut self, kept: &Kept<'t>, declared: &[u32]) -> Inferred {
        let mut frame = Frame {
            node: kept,
            declared,
            made: Inferred {
                arguments: Expr::Literal(Value::Null),
                decisions: Vec::new(),
                sources: Vec::new(),
                also_after: Vec::new(),
            },
        };
        let mut made = BTreeMap::new();
        for (key, value) in &kept.event.arguments {
            let name = self.index.names.intern(key);
            let before = frame.made.decisions.len();
            let pointer = child("", key);
            if let Some(expr) = self.value(value, &pointer, name, &mut frame).expr {
                made.insert(key.clone(), expr);
            }
            if frame.made.decisions.len() == before {
                frame.made.decisions.push(plain_literal(pointer, value));
            }
        }
        frame.made.arguments = object(&kept.event.arguments, made);
        frame.made.sources.sort_unstable();
        frame.made.sources.dedup();
        let sources = &frame.made.sources;
        frame.made.also_after.retain(|node| !sources.contains(node));
        frame.made
    }

    /// Notes values that came from nowhere: whoever ran the session had them, and a result that holds one
    /// later is not where it comes from.
    fn remember(&mut self, node: u32, kept: &Kept<'t>, made: Option<&Inferred>) {
        let bound: HashSet<&str> = made
            .into_iter()
            .flat_map(|made| &made.decisions)
            .filter(|decision| decision.verdict != Verdict::Literal || !decision.candidates.is_empty())
            .map(|decision| decision.pointer.as_str())
            .collect();
        for (key, value) in &kept.event.arguments {
            self.remember_value(node, value, &child("", key), &bound);
        }
    }

    fn remember_value(&mut self, node: u32, value: &Value, pointer: &str, bound: &HashSet<&str>) {
        if bound.contains(pointer) {
            return;
        }
        match value {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    self.remember_value(node, value, &item(pointer, index), bound);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.remember_value(node, value, &child(pointer, key), bound);
                }
            }
            scalar => {
                self.given.entry(loose_hash(scalar)).or_insert(node);
            }
        }
    }

    fn value(&mut self, value: &'t Value, pointer: &str, name: u32, frame: &mut Frame<'_>) -> Outcome {
        if let Some(outcome) = self.bind(value, pointer, name, frame) {
            return outcome;
        }
        match value {
            Value::Object(map) => {
                let (mut made, mut left_choice) = (BTreeMap::new(), false);
                for (key, member) in map {
                    let name = self.index.names.intern(key);
                    let outcome = self.value(member, &child(pointer, key), name, frame);
                    left_choice |= outcome.left_choice;
                    made.extend(outcome.expr.map(|expr| (key.clone(), expr)));
                }
                let expr = (!made.is_empty()).then(|| object(map, made));
                Outcome { expr, left_choice }
            }
            Value::Array(list) => self.list(list, pointer, name, frame),
            Value::String(text) => {
                self.suggest_text(text, pointer, frame);
                Outcome::literal()
            }
            _ => Outcome::literal(),
        }
    }

    fn list(&mut self, list: &'t [Value], pointer: &str, name: u32, frame: &mut Frame<'_>) -> Outcome {
        let (decisions, sources) = (frame.made.decisions.len(), frame.made.sources.len());
        let outcomes: Vec<Outcome> = list
            .iter()
            .enumerate()
            .map(|(index, value)| self.value(value, &item(pointer, index), name, frame))
            .collect();
        let left_choice = outcomes.iter().any(|outcome| outcome.left_choice);
        if outcomes.iter().all(|outcome| outcome.expr.is_none()) {
            return Outcome { expr: None, left_choice };
        }
        if left_choice {
            // Some items were chosen in the session. To bind the others would mix old values with new ones.
            frame.made.sources.truncate(sources);
            for decision in frame.made.decisions.iter_mut().skip(decisions) {
                decision.verdict = Verdict::Literal;
                if let Some(chosen) = decision.chosen.take() {
                    decision.candidates.insert(0, chosen);
                    decision.reasons.push("other items of this list are choices of the session".to_owned());
                }
            }
            return Outcome { expr: None, left_choice };
        }
        let items = outcomes.into_iter().zip(list);
        let items =
            items.map(|(outcome, value)| outcome.expr.unwrap_or_else(|| Expr::Literal(value.clone())));
        Outcome { expr: Some(Expr::List(items.collect())), left_choice }
    }

    /// Tries to find one source for a whole value. Nothing means: look at its parts.
    fn bind(&mut self, value: &'t Value, pointer: &str, name: u32, frame: &mut Frame<'_>) -> Option<Outcome> {
        let mut ranked = self.rank(value, name, frame);
        let first = ranked.first()?.clone();
        let is_container = matches!(value, Value::Array(_) | Value::Object(_));
        let best = self.accepted(pointer, &ranked, frame);
        let by_person = best.is_some();
        let best = best.unwrap_or(first);
        if !by_person {
            if best.choice && !self.options.bind_list_choices {
                let reason = "the session chose this item of a list; why isn't recorded".to_owned();
                self.leave(pointer, Verdict::Literal, &ranked, reason, frame);
                return Some(Outcome { expr: None, left_choice: true });
            }
            if let Some(reason) = rivals(value, &best, &ranked) {
                if is_container {
                    return None;
                }
                self.leave(pointer, Verdict::Ambiguous, &ranked, reason, frame);
                return Some(Outcome::literal());
            }
        }
        let chosen = self.reference(&best)?;
        let mut reasons = self.reasons(value, &best, &ranked);
        if by_person {
            reasons.push("accepted by a person".to_owned());
        }
        let verdict = match best.source {
            INPUTS => {
                let made_too =
                    ranked.iter().filter(|other| other.source != INPUTS && other.likeness >= STRONG);
                frame.made.also_after.extend(made_too.map(|other| other.source));
                Verdict::Input
            }
            node => {
                frame.made.sources.push(node);
                Verdict::Reference
            }
        };
        ranked.retain(|other| other.place != best.place);
        let candidates = self.references(&ranked);
        frame.made.decisions.push(Decision {
            pointer: pointer.to_owned(),
            verdict,
            chosen: Some(chosen.clone()),
            candidates,
            reasons,
        });
        Some(Outcome { expr: Some(Expr::Ref(chosen)), left_choice: false })
    }

    /// What fits, the best first.
    fn rank(&self, value: &Value, name: u32, frame: &Frame<'_>) -> Vec<Scored> {
        let weight = weight(value);
        if weight == Weight::Never {
            return Vec::new();
        }
        let wanted = Wanted { value, weight, words: self.index.names.words(name) };
        let hash = loose_hash(value);
        let given = self.given.get(&hash).copied().unwrap_or(INPUTS);
        let start = frame.node.event.started_at.as_ref().map(|time| time.unix_ms());
        let mut ranked: Vec<Scored> = self
            .index
            .find(hash, name)
            .into_iter()
            .filter_map(|id| {
                let place = self.index.place(id)?;
                if place.source == INPUTS {
                    return score(&self.index, id, &wanted, &[], false);
                }
                let declared = frame.declared.contains(&place.source);
                let known_before = (place.echo || given <= place.source) && !place.is_whole_number();
                if known_before || (!declared && self.ends_after(place.source, start)) {
                    return None;
                }
                let tool = self.tools.get(place.source as usize).copied().unwrap_or(INPUTS);
                score(&self.index, id, &wanted, self.index.names.words(tool), declared)
            })
            .collect();
        // Inputs count as before the first node.
        let order = |scored: &Scored| (scored.source.wrapping_add(1), scored.depth, scored.place);
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| order(a).cmp(&order(b))));
        ranked
    }

    /// Whether a call was still running when another one began.
    fn ends_after(&self, node: u32, start: Option<f64>) -> bool {
        let end = self.kept.get(node as usize).and_then(|kept| kept.event.ended_at.as_ref());
        matches!((end, start), (Some(end), Some(start)) if end.unix_ms() > start)
    }

    fn accepted(&mut self, pointer: &str, ranked: &[Scored], frame: &Frame<'_>) -> Option<Scored> {
        if self.accept.is_empty() {
            return None;
        }
        let key = (frame.node.event.id.to_string(), pointer.to_owned());
        let wanted = self.accept.get(&key)?.reference.clone();
        let found = ranked.iter().find(|scored| match &wanted {
            None => true,
            Some(text) => self.reference(scored).is_some_and(|reference| reference.to_string() == *text),
        })?;
        if let Some(accepted) = self.accept.get_mut(&key) {
            accepted.used = true;
        }
        Some(found.clone())
    }

    fn leave(
        &self,
        pointer: &str,
        verdict: Verdict,
        ranked: &[Scored],
        reason: String,
        frame: &mut Frame<'_>,
    ) {
        frame.made.decisions.push(Decision {
            pointer: pointer.to_owned(),
            verdict,
            chosen: None,
            candidates: self.references(ranked),
            reasons: vec![reason],
        });
    }

    fn source(&self, node: u32) -> Option<Source> {
        self.kept.get(node as usize).map(|kept| Source::Node(kept.event.id.clone()))
    }

    fn reference(&self, scored: &Scored) -> Option<Reference> {
        self.index.reference(scored.place, scored.convert, |node| self.source(node))
    }

    fn references(&self, ranked: &[Scored]) -> Vec<Reference> {
        ranked.iter().take(MAX_NAMED).filter_map(|scored| self.reference(scored)).collect()
    }

    fn reasons(&self, value: &Value, best: &Scored, ranked: &[Scored]) -> Vec<String> {
        let mut reasons = Vec::new();
        reasons.push(match (best.convert, value) {
            (Some(_), _) => "the same value, converted between number and text".to_owned(),
            (None, Value::Array(_) | Value::Object(_)) => "the same content as a whole".to_owned(),
            (None, _) => "the same value".to_owned(),
        });
        if best.likeness >= STRONG {
            reasons.push("the names agree".to_owned());
        } else if best.likeness >= 0.3 {
            reasons.push("the names are alike".to_owned());
        }
        if best.declared {
            reasons.push("the event declares that it depends on this one".to_owned());
        }
        let others = ranked.iter().filter(|other| other.source != best.source).count();
        if others > 0 {
            reasons.push(format!("{others} later or weaker places hold the value too"));
        }
        reasons
    }

    /// Names a source that holds the text inside a longer one, or that the text holds.
    fn suggest_text(&mut self, text: &str, pointer: &str, frame: &mut Frame<'_>) {
        if crate::redact::holds_marker(text) {
            return;
        }
        let whole = (weight_of_text(text) == Weight::Strong).then(|| self.index.find_word(text)).flatten();
        let inside = whole.and_then(|id| self.index.reference(id, None, |node| self.source(node)));
        if let Some(reference) = inside {
            let reason = format!("it stands inside the text of `{reference}`");
            frame.made.decisions.push(suggestion(pointer, vec![reference], reason));
            return;
        }
        let mut found: Vec<Reference> = Vec::new();
        for word in words_of(text).filter(|word| word.len() < text.len()).take(MAX_WORDS) {
            let word = Value::String(word.to_owned());
            if weight(&word) != Weight::Strong {
                continue;
            }
            let id = self.index.find_rare(loose_hash(&word));
            let source = id.and_then(|id| self.index.place(id).filter(|place| !place.echo).map(|_| id));
            let reference = source.and_then(|id| self.index.reference(id, None, |node| self.source(node)));
            found.extend(reference.filter(|reference| !found.contains(reference)));
            if found.len() == MAX_NAMED {
                break;
            }
        }
        if let Some(first) = found.first() {
            let reason = format!("the text holds the value of `{first}`");
            frame.made.decisions.push(suggestion(pointer, found, reason));
        }
    }
}

fn weight_of_text(text: &str) -> Weight {
    weight(&Value::String(text.to_owned()))
}

fn suggestion(pointer: &str, candidates: Vec<Reference>, reason: String) -> Decision {
    Decision {
        pointer: pointer.to_owned(),
        verdict: Verdict::Literal,
        chosen: None,
        candidates,
        reasons: vec![reason],
    }
}

fn plain_literal(pointer: String, value: &Value) -> Decision {
    let reason = match weight(value) {
        Weight::Strong => "no input or earlier result has this value",
        Weight::Weak => "too common a value to tell where it comes from, and no name agrees",
        Weight::Never => "an empty value tells nothing of where it comes from",
    };
    Decision {
        pointer,
        verdict: Verdict::Literal,
        chosen: None,
        candidates: Vec::new(),
        reasons: vec![reason.to_owned()],
    }
}

/// Why the best candidate isn't better than the others, if so.
fn rivals(value: &Value, best: &Scored, ranked: &[Scored]) -> Option<String> {
    if best.has_evidence() {
        return None;
    }
    if matches!(value, Value::String(text) if text.chars().count() >= UNLIKELY_TEXT) {
        return None;
    }
    let close = |other: &&Scored| {
        let deeper = other.source == best.source && other.depth > best.depth;
        other.place != best.place && best.score - other.score < CLOSE && !deeper
    };
    let count = ranked.iter().filter(close).count();
    (count > 0).then(|| format!("{} places hold this value and no name tells them apart", count + 1))
}

/// An object in which some members are expressions; the others are data.
fn object(map: &Map<String, Value>, mut made: BTreeMap<String, Expr>) -> Expr {
    if made.is_empty() {
        return Expr::Literal(Value::Object(map.clone()));
    }
    let members = map.iter().map(|(key, value)| {
        let expr = made.remove(key).unwrap_or_else(|| Expr::Literal(value.clone()));
        (key.clone(), expr)
    });
    Expr::Object(members.collect())
}
