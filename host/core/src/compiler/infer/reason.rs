//! Why a value stays what it was.
//!
//! Owns the reasons of values for which nothing is suggested. Refuses to say that a value stands nowhere where
//! it does, only not as a source.
//!
//! **Invariant:** each reason is true of the recording.

use serde_json::Value;

use super::{Frame, State};
use crate::compiler::hash::loose_hash;
use crate::compiler::offered::leaves;
use crate::compiler::score::{Weight, weight};
use crate::redact;
use crate::workflow::{Decision, Reason, Verdict};

const NOWHERE: &str = "no input or earlier result has this value";

const MARKED: &str = "a redacted secret stands inside the text, and a run refuses it";

impl State<'_, '_> {
    /// A literal for which nothing is suggested.
    pub(super) fn plain_literal(&self, pointer: String, value: &Value, frame: &Frame<'_>) -> Decision {
        let reason = match weight(value) {
            Weight::Strong => self.why_no_source(value, frame),
            Weight::Weak => "too common a value to tell where it comes from, and no name agrees".into(),
            Weight::Never if redact::find_marker(value).is_some() => MARKED.into(),
            Weight::Never => "an empty value tells nothing of where it comes from".into(),
        };
        Decision {
            pointer,
            verdict: Verdict::Literal,
            chosen: None,
            template: None,
            candidates: Vec::new(),
            reasons: vec![reason],
        }
    }

    fn why_no_source(&self, value: &Value, frame: &Frame<'_>) -> Reason {
        let mut found = None;
        leaves(value, &mut |leaf| {
            if found.is_none() && weight(leaf) == Weight::Strong {
                found = self.why_no_leaf(leaf, frame);
            }
        });
        found.map_or(NOWHERE.into(), Reason::from)
    }

    /// Why a leaf that stands somewhere is no source; nothing if it stands nowhere.
    fn why_no_leaf(&self, leaf: &Value, frame: &Frame<'_>) -> Option<String> {
        let hash = loose_hash(leaf);
        let start = frame.node.event.started_at.as_ref().map(|time| time.unix_ms());
        let places: Vec<_> =
            self.index.find(hash, u32::MAX).into_iter().filter_map(|id| self.index.place(id)).collect();
        let place = places.first()?;
        let id = |node: u32| self.kept.get(node as usize).map(|kept| kept.event.id.as_str()).unwrap_or("?");
        let source = id(place.source);
        Some(match self.given.get(&hash) {
            Some(first) if *first <= place.source => {
                format!(
                    "`{}` was given it before any result had it, so `{source}` only repeats it",
                    id(*first)
                )
            }
            _ if places.iter().all(|place| self.ends_after(place.source, start)) => {
                format!("`{source}` returned it, but was still running when this call began")
            }
            _ if places.iter().all(|place| place.echo) => {
                format!("`{source}` returned it, but was given it itself")
            }
            _ if !self.others.is_empty() => {
                format!("`{source}` returned it, but what it returned differs in another recording")
            }
            _ => format!("`{source}` has it, but what has it isn't a whole value that fits here"),
        })
    }
}
