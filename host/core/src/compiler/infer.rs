//! Where each argument comes from.
//!
//! Owns the decision for every argument value, with its reasons. Refuses to decide what nothing tells
//! apart: then the recorded value stays, and the decision names what was seen.
//!
//! **Invariant:** a value bound here resolves, from the recorded inputs and results, to the recorded value.

pub(super) mod parts;
mod reason;
mod settle;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::asked::Asked;
use super::choice::{self, Pick};
use super::hash::{BuildAsIs, loose_hash, same};
use super::index::Index;
use super::keys::Keyed;
use super::names::{ALIKE, SAME, STRONG};
use super::offered::{INPUTS, Offered, json_texts};
use super::score::{Doubt, Scored, Wanted, Weight, score, text_weight, weight};
use super::several::{Inputs, Other};
use super::{Kept, MANY_EVENTS, Options, join};
use super::{formula, repeat};
use crate::effect::Effect;
use crate::problem::{Problem, Problems, child, item};
use crate::trace::{Event, Trace};
use crate::workflow::{Decision, Expr, Reason, Reference, Source, Verdict};
use rayon::prelude::*;

/// Most candidates that one decision names.
const MAX_NAMED: usize = 4;

/// Candidates whose scores differ by less than this aren't told apart by them.
const CLOSE: f64 = 0.3;

/// A text of this length is the same by identity, not by chance.
const UNLIKELY_TEXT: usize = 6;

/// Why a literal became an input.
pub(super) const DIFFERS: &str = "the recordings differ in it and no result explains it";

/// The reason of what a person decided.
const BY_PERSON: &str = "accepted by a person";

/// How the arguments of one node are made.
pub(super) struct Inferred {
    pub(super) arguments: Expr,
    pub(super) decisions: Vec<Decision>,
    /// How sure each decision is, from 0 to 1.
    pub(super) confidence: Vec<f64>,
    /// Decisions that a person made.
    pub(super) settled: Vec<usize>,
    /// Decisions for values that differ between recordings.
    pub(super) varied: Vec<usize>,
    /// Decisions for which nothing but the value speaks.
    pub(super) unnamed: Vec<usize>,
    /// Nodes that values come from, sorted.
    pub(super) sources: Vec<u32>,
    /// Nodes that may have made a value which an input was taken for.
    pub(super) also_after: Vec<u32>,
}

impl Inferred {
    fn decide(&mut self, decision: Decision, confidence: f64) {
        self.decisions.push(decision);
        self.confidence.push(confidence);
    }

    /// Makes inputs of the literals that differ between recordings.
    pub(super) fn open(&mut self, inputs: &mut Inputs<'_>, recorded: &Map<String, Value>, position: usize) {
        for (pointer, reference) in inputs.open(&mut self.arguments, recorded, position) {
            let mut candidates = Vec::new();
            let mut at = 0;
            self.decisions.retain(|decision| {
                let below = decision.pointer.strip_prefix(&pointer);
                let covered = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                if covered {
                    candidates.extend(decision.chosen.iter().chain(&decision.candidates).cloned());
                }
                at += 1;
                if covered && self.confidence.len() >= at {
                    at -= 1;
                    self.confidence.remove(at);
                }
                !covered
            });
            candidates.truncate(MAX_NAMED);
            let (verdict, chosen) = (Verdict::Input, Some(reference));
            let reasons = vec![DIFFERS.into()];
            self.decide(Decision { pointer, verdict, chosen, template: None, candidates, reasons }, 1.0);
        }
    }

    /// Makes the arguments of the decisions.
    fn finish(&mut self, arguments: &Map<String, Value>, number: impl Fn(&str) -> Option<u32>) {
        let mut bound: BTreeMap<&str, Expr> = BTreeMap::new();
        for decision in &self.decisions {
            let Some(expr) = decision.expr() else { continue };
            for reference in expr.references() {
                if let Source::Node(id) = &reference.source {
                    self.sources.extend(number(id.as_str()));
                }
            }
            bound.insert(&decision.pointer, expr);
        }
        self.arguments = if bound.is_empty() {
            Expr::Literal(Value::Object(arguments.clone()))
        } else {
            choice::members(arguments, "", &mut bound)
        };
        self.sources.sort_unstable();
        self.sources.dedup();
        let sources = &self.sources;
        self.also_after.retain(|node| !sources.contains(node));
    }

    /// Whether an argument can be another one in a later run.
    pub(super) fn varies(&self, argument: &str) -> bool {
        match &self.arguments {
            Expr::Object(members) => members.get(argument).is_some_and(|expr| !expr.references().is_empty()),
            whole => !whole.references().is_empty(),
        }
    }
}

/// Calls whose results are walked through at a time, while what the ones before offered is decided on.
const BLOCK: usize = 512;

/// Decides for every kept event, and finds the objects of which an argument may be a key. `declared` holds each
/// one's declared dependencies.
pub(super) fn infer(
    trace: &Trace,
    others: &[Other],
    kept: &[Kept<'_>],
    declared: &[Vec<u32>],
    asked: &Asked,
    options: &Options,
) -> Result<(Vec<Inferred>, Vec<Keyed>), Problems> {
    let input_texts: Vec<Vec<Value>> = trace.inputs.values().map(json_texts).collect();
    // Filled one by one: what was just looked at for them is still near when it is walked through.
    let result_texts: Vec<OnceLock<Vec<Value>>> = kept.iter().map(|_| OnceLock::new()).collect();
    let mut state = State {
        kept,
        others,
        index: Index::new(asked),
        tools: Vec::with_capacity(kept.len()),
        given: HashMap::default(),
        bound: HashMap::default(),
        numbers: numbers(kept),
        inputs: &trace.inputs,
        accept: settle::accepted(&options.accept),
        problems: Vec::new(),
        picks: Vec::new(),
    };
    let mut inputs = Offered::default();
    for ((name, value), texts) in trace.inputs.iter().zip(&input_texts) {
        inputs.input(name, value, texts, asked);
    }
    let mut inputs = state.index.adding(inputs);
    trace.inputs.iter().for_each(|_| state.index.add(&mut inputs));
    let mut all: Vec<Inferred> = Vec::with_capacity(kept.len());
    let offer = |from: usize, spare| offer(kept, &result_texts, from, asked, spare);
    let mut next = offer(0, Offered::default());
    let mut spare = Offered::default();
    state.index.expect(&next, kept.len().div_ceil(BLOCK));
    for from in (0..kept.len()).step_by(BLOCK) {
        let mut adding = state.index.adding(next);
        let decide = || {
            for ((node, kept), declared) in (0..).zip(kept).zip(declared).skip(from).take(BLOCK) {
                all.push(state.node(node, kept, declared));
                state.index.add(&mut adding);
            }
        };
        ((), next) = join(kept.len(), decide, || offer(from + BLOCK, spare));
        spare = adding.into_offered();
    }
    let mut problems = std::mem::take(&mut state.problems);
    problems.extend(settle::unused(&state.accept, kept));
    Problems::from_list(problems)?;
    if !options.bind_list_choices {
        choice::settle(&state.picks, &mut all);
        repeat::settle(kept, &mut all);
    }
    let keyed = state.index.keyed(|node| state.source(node));
    formula::give_use(kept, &mut all, |id| state.numbers.get(id).copied());
    formula::doubt_inputs(kept, &mut all);
    let numbers = std::mem::take(&mut state.numbers);
    let finish = |(inferred, kept): (&mut Inferred, &Kept<'_>)| {
        inferred.finish(&kept.event.arguments, |id| numbers.get(id).copied());
    };
    // The first parallel loop starts threads, which a short recording has no use for.
    if kept.len() < MANY_EVENTS {
        all.iter_mut().zip(kept).for_each(finish);
    } else {
        // Taking the index down takes as long as a tenth of the decisions.
        rayon::join(|| all.par_iter_mut().zip(kept).for_each(finish), move || drop(state));
    }
    Ok((all, keyed))
}

/// What the results of a block of calls offer, in what another block no longer needs.
fn offer<'t>(
    kept: &'t [Kept<'_>],
    texts: &'t [OnceLock<Vec<Value>>],
    from: usize,
    asked: &Asked,
    mut offered: Offered<'t>,
) -> Offered<'t> {
    offered.clear();
    for (node, (kept, texts)) in (0..).zip(kept.iter().zip(texts)).skip(from).take(BLOCK) {
        let Event { result, arguments, .. } = kept.event;
        let texts = texts.get_or_init(|| json_texts(result));
        offered.result(node, result, texts, arguments, asked);
    }
    offered
}

/// The number of each node.
fn numbers<'t>(kept: &[Kept<'t>]) -> HashMap<&'t str, u32> {
    (0..).zip(kept).map(|(number, kept)| (kept.event.id.as_str(), number)).collect()
}

struct State<'t, 'k> {
    kept: &'k [Kept<'t>],
    others: &'k [Other],
    index: Index<'t>,
    /// The interned tool name of each node.
    tools: Vec<u32>,
    /// By value: the first node that was given it although no source was in sight.
    given: HashMap<u64, u32, BuildAsIs>,
    /// By value: the first place that an argument was bound to.
    bound: HashMap<u64, u32, BuildAsIs>,
    numbers: HashMap<&'t str, u32>,
    inputs: &'t Map<String, Value>,
    accept: settle::Settled,
    problems: Vec<Problem>,
    /// Items of lists that arguments were bound to.
    picks: Vec<Pick>,
}

/// What is being decided for.
struct Frame<'a> {
    number: u32,
    node: &'a Kept<'a>,
    declared: &'a [u32],
    made: Inferred,
}

impl<'t> State<'t, '_> {
    fn node(&mut self, number: u32, kept: &Kept<'t>, declared: &[u32]) -> Inferred {
        let tool = self.index.names.intern(&kept.event.tool);
        self.tools.push(tool);
        let made = Inferred {
            arguments: Expr::Literal(Value::Null),
            decisions: Vec::with_capacity(kept.event.arguments.len()),
            confidence: Vec::with_capacity(kept.event.arguments.len()),
            settled: Vec::new(),
            varied: Vec::new(),
            unnamed: Vec::new(),
            sources: Vec::new(),
            also_after: Vec::new(),
        };
        let mut frame = Frame { number, node: kept, declared, made };
        for (key, value) in &kept.event.arguments {
            let name = self.index.names.intern(key);
            let before = frame.made.decisions.len();
            let pointer = child("", key);
            self.value(value, &pointer, name, None, &mut frame);
            if frame.made.decisions.len() == before {
                let decision = self.plain_literal(pointer, value, &frame);
                frame.made.decide(decision, 1.0);
            }
        }
        self.remember(number, kept, &frame.made);
        frame.made
    }

    /// Notes values that came from nowhere: whoever ran the session had them, and a result that holds one
    /// later is not where it comes from.
    fn remember(&mut self, node: u32, kept: &Kept<'t>, made: &Inferred) {
        let found =
            |decision: &&Decision| decision.verdict != Verdict::Literal || !decision.candidates.is_empty();
        let bound = made.decisions.iter().filter(found);
        let mut bound: Vec<&str> = bound.map(|decision| decision.pointer.as_str()).collect();
        bound.sort_unstable();
        for (key, value) in &kept.event.arguments {
            self.remember_value(node, value, &child("", key), &bound);
        }
    }

    fn remember_value(&mut self, node: u32, value: &Value, pointer: &str, bound: &[&str]) {
        if bound.binary_search(&pointer).is_ok() {
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

    /// Decides for a value, as a whole or part by part. `list` is the length of the pointer to the list of
    /// the argument that it is in.
    fn value(
        &mut self,
        value: &'t Value,
        pointer: &str,
        name: u32,
        list: Option<usize>,
        frame: &mut Frame<'_>,
    ) {
        if self.settle(value, pointer, name, frame) {
            return;
        }
        if !self.is_settled_inside(pointer, frame) && self.bind(value, pointer, name, list, frame) {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, member) in map {
                    let name = self.index.names.intern(key);
                    self.value(member, &child(pointer, key), name, list, frame);
                }
            }
            Value::Array(items) => {
                let list = list.or(Some(pointer.len()));
                for (index, value) in items.iter().enumerate() {
                    self.value(value, &item(pointer, index), name, list, frame);
                }
            }
            Value::String(text) => self.suggest_text(text, pointer, frame),
            _ => {}
        }
    }

    /// Tries to find one source for a whole value. No means: look at its parts.
    fn bind(
        &mut self,
        value: &'t Value,
        pointer: &str,
        name: u32,
        list: Option<usize>,
        frame: &mut Frame<'_>,
    ) -> bool {
        let (mut ranked, varies) = self.agreeing(value, pointer, name, frame);
        let Some(first) = ranked.first().cloned() else { return false };
        let is_container = matches!(value, Value::Array(_) | Value::Object(_));
        let by_person = self.wants_suggestion(pointer, frame);
        let best = if by_person { first } else { self.preferred(value, &ranked).unwrap_or(first) };
        // Also where recordings differ: what a person asks for differs too, and comes back in results.
        if !by_person && best.likeness < ALIKE && is_wording(value) {
            let reason = "words that a person may write too, and no name agrees";
            self.leave(pointer, Verdict::Literal, &ranked, reason.into(), frame);
            return true;
        }
        if !by_person && best.doubt == Some(Doubt::Restated) {
            if is_container {
                return false;
            }
            let reason = "so common a value in what a write returned restates the state";
            self.leave(pointer, Verdict::Literal, &ranked, reason.into(), frame);
            return true;
        }
        // Sources that agree wherever recordings differ are one and the same as far as anybody has seen.
        if !by_person
            && !varies
            && let Some(reason) = rivals(value, &best, &ranked)
        {
            if is_container {
                return false;
            }
            self.leave(pointer, Verdict::Ambiguous, &ranked, reason.into(), frame);
            return true;
        }
        let Some(chosen) = self.reference(&best) else { return false };
        if ranked.len() > 1 && !is_container {
            self.bound.entry(loose_hash(value)).or_insert(best.place);
        }
        let mut reasons = self.reasons(value, &best, &ranked);
        if by_person {
            reasons.push(BY_PERSON.into());
        } else {
            let decision = frame.made.decisions.len();
            let steps = self.index.items_of(best.place);
            let tool = self.tools.get(frame.number as usize).copied().unwrap_or(INPUTS);
            let named = best.doubt == Some(Doubt::Named);
            self.picks.extend(Pick::of(frame.number, decision, pointer, tool, list, steps, named));
        }
        let verdict = match best.source {
            INPUTS => {
                let made_too =
                    ranked.iter().filter(|other| other.source != INPUTS && other.likeness >= STRONG);
                frame.made.also_after.extend(made_too.map(|other| other.source));
                Verdict::Input
            }
            _ => Verdict::Reference,
        };
        let confidence = confidence(&best, &ranked);
        let index = frame.made.decisions.len();
        if by_person {
            frame.made.settled.push(index);
        } else if !best.has_evidence() {
            frame.made.unnamed.push(index);
            frame.made.varied.extend(varies.then_some(index));
        }
        ranked.retain(|other| other.place != best.place);
        let candidates = self.references(&ranked);
        let decision = Decision {
            pointer: pointer.to_owned(),
            verdict,
            chosen: Some(chosen),
            template: None,
            candidates,
            reasons,
        };
        frame.made.decide(decision, confidence);
        true
    }

    /// What fits in every recording, the best first, and whether the recordings differ in the value: what
    /// agrees then is no chance.
    fn agreeing(&self, value: &Value, pointer: &str, name: u32, frame: &Frame<'_>) -> (Vec<Scored>, bool) {
        let position = frame.node.position;
        let differs =
            |other: &Other| other.argument(position, pointer).is_some_and(|found| !same(found, value));
        let varies = self.others.iter().any(differs);
        let mut ranked = self.rank(value, name, frame, varies);
        if !self.others.is_empty() {
            ranked.retain(|scored| {
                let reference = self.reference(scored);
                reference.is_some_and(|found| {
                    self.others.iter().all(|other| other.agrees(&found, position, pointer))
                })
            });
        }
        (ranked, varies)
    }

    /// What fits, the best first.
    fn rank(&self, value: &Value, name: u32, frame: &Frame<'_>, varies: bool) -> Vec<Scored> {
        let weight = if varies { Weight::Strong } else { weight(value) };
        if weight == Weight::Never {
            return Vec::new();
        }
        let wanted = Wanted { value, weight, words: self.index.names.words(name) };
        let hash = loose_hash(value);
        let given = self.given.get(&hash).copied().unwrap_or(INPUTS);
        let start = frame.node.event.started_at.as_ref().map(|time| time.unix_ms());
        let mut echoes: Vec<Scored> = Vec::new();
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
                if !declared && self.ends_after(place.source, start) {
                    return None;
                }
                let tool = self.tools.get(place.source as usize).copied().unwrap_or(INPUTS);
                let mut scored = score(&self.index, id, &wanted, self.index.names.words(tool), declared)?;
                if weight == Weight::Weak
                    && !declared
                    && !place.is_whole_number()
                    && self.writes(place.source)
                {
                    scored.doubt = Some(Doubt::Restated);
                }
                if known_before {
                    let speaks = place.echo
                        && scored.likeness >= SAME
                        && scored.doubt.is_none()
                        && !self.was_given(place.source, value, wanted.words);
                    echoes.extend(speaks.then_some(scored));
                    return None;
                }
                Some(scored)
            })
            .collect();
        // Inputs count as before the first node.
        let order = |scored: &Scored| (scored.source.wrapping_add(1), scored.depth, scored.place);
        let best_first =
            |a: &Scored, b: &Scored| b.score.total_cmp(&a.score).then_with(|| order(a).cmp(&order(b)));
        ranked.sort_by(|a, b| a.doubt.is_some().cmp(&b.doubt.is_some()).then_with(|| best_first(a, b)));
        // An echo under the argument's own name says what the value is, where its source calls it otherwise. A
        // call that was given the value under that very name adds nothing by returning it.
        if ranked.first().is_some_and(|best| best.source != INPUTS && best.likeness < STRONG) {
            echoes.sort_by_key(order);
            ranked.splice(0..0, echoes.into_iter().take(1));
        }
        ranked
    }

    /// A better place than the first one, in the same result and under a name that agrees too: where an earlier
    /// argument has the value from, or else one that is no later item of a list, since another run finds it again
    /// without a choice.
    fn preferred(&self, value: &Value, ranked: &[Scored]) -> Option<Scored> {
        let first = ranked.first().filter(|first| first.source != INPUTS && ranked.len() > 1)?;
        let fits = |scored: &&Scored| {
            scored.source == first.source && scored.doubt.is_none() && scored.likeness >= STRONG
        };
        let is_choice = |place: u32| self.index.items_of(place).iter().any(|(_, index)| *index > 0);
        let known = self.bound.get(&loose_hash(value));
        let again = ranked.iter().filter(fits).find(|scored| Some(&scored.place) == known);
        let plain = || {
            let mut fitting = ranked.iter().filter(fits);
            is_choice(first.place).then(|| fitting.find(|scored| !is_choice(scored.place))).flatten()
        };
        again.or_else(plain).cloned()
    }

    /// Whether a call was given a value under a name of these words.
    fn was_given(&self, node: u32, value: &Value, words: &[String]) -> bool {
        let arguments = self.kept.get(node as usize).map(|kept| &kept.event.arguments);
        arguments
            .into_iter()
            .flatten()
            .any(|(key, given)| same(given, value) && super::names::words(key).as_slice() == words)
    }

    /// Whether a call is known to change something.
    fn writes(&self, node: u32) -> bool {
        let effect = self.kept.get(node as usize).map(|kept| kept.facts.effect);
        effect.is_some_and(|effect| !effect.is_read_only() && effect != Effect::Unknown)
    }

    /// Whether a call was still running when another one began.
    fn ends_after(&self, node: u32, start: Option<f64>) -> bool {
        let end = self.kept.get(node as usize).and_then(|kept| kept.event.ended_at.as_ref());
        matches!((end, start), (Some(end), Some(start)) if end.unix_ms() > start)
    }

    fn leave(
        &self,
        pointer: &str,
        verdict: Verdict,
        ranked: &[Scored],
        reason: Reason,
        frame: &mut Frame<'_>,
    ) {
        let decision = Decision {
            pointer: pointer.to_owned(),
            verdict,
            chosen: None,
            template: None,
            candidates: self.references(ranked),
            reasons: vec![reason],
        };
        frame.made.decide(decision, 0.0);
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

    fn reasons(&self, value: &Value, best: &Scored, ranked: &[Scored]) -> Vec<Reason> {
        // Mostly the value and its name.
        let mut reasons = Vec::with_capacity(2);
        reasons.push(match (best.convert, value) {
            (Some(_), _) => "the same value, converted between number and text".into(),
            (None, Value::Array(_) | Value::Object(_)) => "the same content as a whole".into(),
            (None, _) => "the same value".into(),
        });
        if best.likeness >= STRONG {
            reasons.push("the names agree".into());
        } else if best.likeness >= 0.3 {
            reasons.push("the names are alike".into());
        }
        if best.declared {
            reasons.push("the event declares that it depends on this one".into());
        }
        let others = ranked.iter().filter(|other| other.source != best.source).count();
        if others > 0 {
            reasons.push(format!("{others} later or weaker places hold the value too").into());
        }
        reasons
    }

    /// Names a source that holds the text inside a longer one, or that the text holds.
    fn suggest_text(&mut self, text: &str, pointer: &str, frame: &mut Frame<'_>) {
        if crate::redact::holds_marker(text) {
            return;
        }
        let whole = (text_weight(text) == Weight::Strong).then(|| self.index.find_word(text)).flatten();
        let inside = whole.and_then(|id| self.index.reference(id, None, |node| self.source(node)));
        if let Some(reference) = inside {
            let reason = format!("it stands inside the text of `{reference}`");
            frame.made.decide(suggestion(pointer, vec![reference], reason), 0.0);
            return;
        }
        self.template(text, pointer, frame);
    }
}

fn suggestion(pointer: &str, candidates: Vec<Reference>, reason: String) -> Decision {
    Decision {
        pointer: pointer.to_owned(),
        verdict: Verdict::Literal,
        chosen: None,
        template: None,
        candidates,
        reasons: vec![reason.into()],
    }
}

/// Whether a text is plain words, as a person writes the name of a town: places that know it are many, and
/// none of them need be where it came from.
fn is_wording(value: &Value) -> bool {
    let Value::String(text) = value else { return false };
    let is_plain = |c: char| c.is_alphabetic() || " ,.'-&()".contains(c);
    text.starts_with(char::is_uppercase) && text.chars().all(is_plain) && text.chars().any(char::is_lowercase)
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
        let named = other.doubt == Some(Doubt::Named);
        other.place != best.place && best.score - other.score < CLOSE && !deeper && !named
    };
    let count = ranked.iter().filter(close).count();
    (count > 0).then(|| format!("{} places hold this value and no name tells them apart", count + 1))
}

/// How sure a binding is: evidence and being the only source halve the doubt each.
fn confidence(best: &Scored, ranked: &[Scored]) -> f64 {
    let alone = ranked.iter().all(|other| other.source == best.source);
    let next = ranked.iter().filter(|other| other.place != best.place).map(|other| other.score);
    let lead = next.fold(None, |most: Option<f64>, score| Some(most.map_or(score, |most| most.max(score))));
    let lead = lead.map_or(2.0, |next| (best.score - next).clamp(0.0, 2.0));
    1.0 - 0.5f64.powf(1.0 + best.likeness * 2.0 + f64::from(u8::from(alone)) + lead)
}
