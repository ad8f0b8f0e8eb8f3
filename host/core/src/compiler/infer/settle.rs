//! What a person decided of an argument value.
//!
//! Owns the reading of such decisions and their check against the recording. Refuses what doesn't give the recorded
//! value: a person may settle where a value comes from, not what was called.
//!
//! **Invariant:** every decision is used, or refused with its place.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Frame, State};
use crate::code::Code;
use crate::compiler::hash::same;
use crate::compiler::{Accept, Kept};
use crate::problem::{Place, Problem, item};
use crate::workflow::{Decision, Reference, Source, Template, Verdict};

/// What a person said of one value.
pub(super) struct Accepted {
    /// Where it comes from; the first suggestion if nothing is named, nowhere if the text is empty.
    reference: Option<String>,
    used: bool,
}

/// Decisions by event and pointer.
pub(super) type Settled = BTreeMap<(String, String), Accepted>;

pub(super) fn accepted(list: &[Accept]) -> Settled {
    let entry = |accept: &Accept| {
        let key = (accept.event.clone(), accept.pointer.clone());
        (key, Accepted { reference: accept.reference.clone(), used: false })
    };
    list.iter().map(entry).collect()
}

/// Decisions that nothing came of.
pub(super) fn unused<'s>(settled: &'s Settled, kept: &'s [Kept<'_>]) -> impl Iterator<Item = Problem> + 's {
    settled.iter().filter(|(_, accepted)| !accepted.used).map(|((event, pointer), accepted)| {
        let found = kept.iter().find(|kept| kept.event.id.as_str() == event);
        let message = match (found, &accepted.reference) {
            (None, _) => format!("no node comes from an event `{event}`"),
            (Some(_), None) => format!("there is no suggestion for `{pointer}` of event `{event}`"),
            (Some(_), Some(_)) => format!("event `{event}` has no argument value `{pointer}`"),
        };
        Problem::new(Code::ReferenceUnknown, Place::Whole, message)
    })
}

/// What a text says of where a value comes from.
enum Said {
    Ref(Reference),
    Template(Template),
}

impl<'t> State<'t, '_> {
    /// Whether a person decided something of a value inside this one.
    pub(super) fn is_settled_inside(&self, pointer: &str, frame: &Frame<'_>) -> bool {
        if self.accept.is_empty() {
            return false;
        }
        let (event, below) = (frame.node.event.id.to_string(), format!("{pointer}/"));
        let mut rest = self.accept.range((event.clone(), below.clone())..);
        rest.next().is_some_and(|((id, at), _)| *id == event && at.starts_with(&below))
    }

    /// Whether a person wants the suggestion that is made for a value, whatever it is.
    pub(super) fn wants_suggestion(&mut self, pointer: &str, frame: &Frame<'_>) -> bool {
        if self.accept.is_empty() {
            return false;
        }
        let key = (frame.node.event.id.to_string(), pointer.to_owned());
        let found = self.accept.get_mut(&key).filter(|accepted| accepted.reference.is_none());
        found.map(|accepted| accepted.used = true).is_some()
    }

    /// Does what a person said of a value. No means: nobody said where it comes from.
    pub(super) fn settle(
        &mut self,
        value: &'t Value,
        pointer: &str,
        name: u32,
        frame: &mut Frame<'_>,
    ) -> bool {
        if self.accept.is_empty() {
            return false;
        }
        let key = (frame.node.event.id.to_string(), pointer.to_owned());
        let Some(accepted) = self.accept.get_mut(&key) else { return false };
        let Some(text) = accepted.reference.clone() else { return false };
        accepted.used = true;
        let (ranked, _) = self.agreeing(value, pointer, name, frame);
        let mut decision = Decision {
            pointer: pointer.to_owned(),
            verdict: Verdict::Literal,
            chosen: None,
            template: None,
            candidates: Vec::new(),
            reasons: vec!["a person keeps it as recorded".into()],
        };
        let said = match text.is_empty() {
            true => Ok(None),
            false => self.check(&text, value, frame.number).map(Some),
        };
        let said = said.and_then(|said| {
            self.holds_elsewhere(said.as_ref(), value, pointer, frame.node.position)?;
            Ok(said)
        });
        match said {
            Ok(Some(said)) => self.apply(said, value, &ranked, &mut decision),
            Ok(None) => {}
            Err((code, message)) => {
                let at = format!("{}/arguments{pointer}", item("/events", frame.node.position));
                self.problems.push(Problem::at(code, at, message));
            }
        }
        let chosen = decision.chosen.clone();
        let others = ranked.iter().filter_map(|scored| self.reference(scored));
        decision
            .candidates
            .extend(others.filter(|other| Some(other) != chosen.as_ref()).take(super::MAX_NAMED));
        frame.made.settled.push(frame.made.decisions.len());
        frame.made.decide(decision, 1.0);
        true
    }

    fn apply(&self, said: Said, value: &Value, ranked: &[super::Scored], decision: &mut Decision) {
        let starts_at_node = |reference: &Reference| matches!(reference.source, Source::Node(_));
        let of_node = match &said {
            Said::Ref(reference) => starts_at_node(reference),
            Said::Template(template) => template.references().any(starts_at_node),
        };
        decision.verdict = if of_node { Verdict::Reference } else { Verdict::Input };
        decision.reasons = match said {
            Said::Ref(reference) => {
                let known = ranked.iter().find(|scored| self.reference(scored).as_ref() == Some(&reference));
                let reasons = known.map(|scored| self.reasons(value, scored, ranked));
                decision.chosen = Some(reference);
                reasons.unwrap_or_else(|| vec!["the same value".into()])
            }
            Said::Template(template) => {
                decision.template = Some(template);
                vec!["its parts make the text".into()]
            }
        };
        decision.reasons.push(super::BY_PERSON.into());
    }

    /// Whether what was said, nothing for the recorded value itself, gives what each further recording has.
    fn holds_elsewhere(
        &self,
        said: Option<&Said>,
        value: &Value,
        pointer: &str,
        position: usize,
    ) -> Result<(), (Code, String)> {
        for (number, other) in (2..).zip(self.others) {
            let Some(wanted) = other.argument(position, pointer) else { continue };
            let holds = match said {
                None => same(value, wanted),
                Some(Said::Ref(reference)) => other.agrees(reference, position, pointer),
                Some(Said::Template(template)) => {
                    other.makes_template(template).is_ok_and(|text| wanted.as_str() == Some(text.as_str()))
                }
            };
            if !holds {
                let message =
                    format!("that gives another value than recording {number} has there; leave it open");
                return Err((Code::ReferenceUnknown, message));
            }
        }
        Ok(())
    }

    /// What a text says, if that gives the recorded value.
    fn check(&self, text: &str, value: &Value, number: u32) -> Result<Said, (Code, String)> {
        let said = match (text.parse::<Reference>(), text.parse::<Template>()) {
            (Ok(reference), _) => Said::Ref(reference),
            (Err(_), Ok(template)) => Said::Template(template),
            (Err(error), Err(_)) => return Err((Code::ReferenceUnknown, error.to_string())),
        };
        let start = |source: &Source| match source {
            Source::Input(name) => self.inputs.get(name),
            Source::Node(id) => {
                let found = self.numbers.get(id.as_str()).filter(|found| **found < number)?;
                self.kept.get(*found as usize).map(|kept| &kept.event.result)
            }
        };
        let references: Vec<&Reference> = match &said {
            Said::Ref(reference) => vec![reference],
            Said::Template(template) => template.references().collect(),
        };
        if let Some(lost) = references.iter().find(|reference| start(&reference.source).is_none()) {
            let message = match &lost.source {
                Source::Input(name) => format!("the recording has no input `{name}`"),
                Source::Node(id) => format!("no node `{id}` comes before this one"),
            };
            return Err((Code::ReferenceUnknown, message));
        }
        let found = match &said {
            Said::Ref(reference) => {
                reference.follow(start(&reference.source)).map(std::borrow::Cow::into_owned)
            }
            Said::Template(template) => template.follow(&start).map(Value::String),
        };
        match found {
            Ok(found) if same(&found, value) => Ok(said),
            // Neither value is shown: it may be a secret.
            Ok(_) => Err((Code::ReferenceUnknown, format!("`{text}` gives another value than was recorded"))),
            Err(missing) => Err((Code::ReferenceUnknown, missing.to_string())),
        }
    }
}
