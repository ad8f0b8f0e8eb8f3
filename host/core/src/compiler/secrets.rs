//! Arguments that stand for redacted secrets.
//!
//! Owns the inputs that take their place. Refuses to guess what an anonymous marker stands for: each gets an
//! input of its own. A marker inside a longer text stays, and dispatch refuses the call.
//!
//! **Invariant:** one secret has one input, which has to be given, and no input has a marker as its default.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::infer::Inferred;
use crate::problem::{child, item};
use crate::redact;
use crate::workflow::{Decision, Expr, Input, Reference, Source, Verdict};

/// The inputs that secrets became.
#[derive(Default)]
pub(super) struct Secrets {
    /// Inputs that have to be given, by name.
    pub(super) inputs: BTreeMap<String, Input>,
    /// What was recorded for those that the recording didn't have as inputs.
    pub(super) recorded: Map<String, Value>,
    by_marker: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    /// Pointer and reference of what was bound in the node at hand.
    bound: Vec<(String, Reference)>,
}

/// Binds every argument value that is a marker.
pub(super) fn bind(given: &Map<String, Value>, inferred: &mut [Inferred]) -> Secrets {
    let mut secrets = Secrets { taken: given.keys().cloned().collect(), ..Secrets::default() };
    for (name, value) in given {
        match value {
            Value::String(text) if redact::is_marker(text) => {
                secrets
                    .inputs
                    .insert(name.clone(), to_be_given(json!({"type": "string", "writeOnly": true})));
                if !redact::is_anonymous(text) {
                    secrets.by_marker.insert(text.clone(), name.clone());
                }
            }
            value if redact::find_marker(value).is_some() => {
                let schema = super::observed::schema_of(value);
                secrets.inputs.insert(name.clone(), to_be_given(schema));
            }
            _ => {}
        }
    }
    for node in inferred {
        if node.arguments.find_in_literals(&redact::find_marker).is_none() {
            continue;
        }
        if let Some(bound) = secrets.expr(&node.arguments, "", "secret") {
            node.arguments = bound;
        }
        for (pointer, reference) in std::mem::take(&mut secrets.bound) {
            node.decisions.retain(|decision| decision.pointer != pointer);
            node.decisions.push(Decision {
                pointer,
                verdict: Verdict::Input,
                chosen: Some(reference),
                template: None,
                candidates: Vec::new(),
                reasons: vec!["a redacted secret, which has to be given".into()],
            });
        }
    }
    secrets
}

fn to_be_given(schema: Value) -> Input {
    Input { schema, default: None }
}

impl Secrets {
    /// The expression with markers bound, or nothing if it has none.
    fn expr(&mut self, expr: &Expr, pointer: &str, name: &str) -> Option<Expr> {
        match expr {
            Expr::Literal(value) => self.value(value, pointer, name),
            Expr::Object(members) => {
                let mut made = BTreeMap::new();
                for (key, member) in members {
                    made.extend(self.expr(member, &child(pointer, key), key).map(|expr| (key.clone(), expr)));
                }
                (!made.is_empty()).then(|| {
                    let kept = members.iter().map(|(key, member)| (key.clone(), member.clone()));
                    Expr::Object(kept.chain(made).collect())
                })
            }
            Expr::List(items) => {
                let at = |index| item(pointer, index);
                let made: Vec<Option<Expr>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, member)| self.expr(member, &at(index), name))
                    .collect();
                made.iter().any(Option::is_some).then(|| {
                    let pairs = made.into_iter().zip(items);
                    Expr::List(pairs.map(|(made, member)| made.unwrap_or_else(|| member.clone())).collect())
                })
            }
            // Where another kind of expression takes a value from is decided by inference.
            _ => None,
        }
    }

    fn value(&mut self, value: &Value, pointer: &str, name: &str) -> Option<Expr> {
        match value {
            Value::String(text) if redact::is_marker(text) => {
                let reference = Reference {
                    source: Source::Input(self.input(text, name)),
                    path: Vec::new(),
                    convert: None,
                };
                self.bound.push((pointer.to_owned(), reference.clone()));
                Some(Expr::Ref(reference))
            }
            Value::Object(map) => {
                let members = map.iter().map(|(key, value)| (key.clone(), Expr::Literal(value.clone())));
                redact::find_marker(value)?;
                self.expr(&Expr::Object(members.collect()), pointer, name)
            }
            Value::Array(list) => {
                redact::find_marker(value)?;
                let items = list.iter().map(|value| Expr::Literal(value.clone()));
                self.expr(&Expr::List(items.collect()), pointer, name)
            }
            _ => None,
        }
    }

    /// The input of a secret; a new one is named after the argument.
    fn input(&mut self, marker: &str, name: &str) -> String {
        if let Some(known) = self.by_marker.get(marker) {
            return known.clone();
        }
        let mut free = name.to_owned();
        let mut count = 1u32;
        while self.taken.contains(&free) {
            count += 1;
            free = format!("{name}_{count}");
        }
        self.taken.insert(free.clone());
        if !redact::is_anonymous(marker) {
            self.by_marker.insert(marker.to_owned(), free.clone());
        }
        self.inputs.insert(free.clone(), to_be_given(json!({"type": "string", "writeOnly": true})));
        self.recorded.insert(free.clone(), json!(marker));
        free
    }
}
