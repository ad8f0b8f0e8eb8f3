//! Expressions: how an argument is made from inputs, earlier results and literal data.
//!
//! Owns the expression type and its resolution. Refuses to evaluate anything: there is no code in a
//! workflow, only paths.
//!
//! **Invariant:** in a file every expression is an object with exactly one tag, and whatever stands under
//! `literal` is data that is never looked into. So data can't imitate a reference.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Number, Value};

use crate::id::NodeId;
use crate::json::kind;
use crate::problem::{child, item};

/// How one value is made.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Data as it stands.
    Literal(Value),
    /// A value from an input or an earlier result.
    Ref(Reference),
    /// An object whose members are expressions.
    Object(BTreeMap<String, Expr>),
    /// A list whose items are expressions.
    List(Vec<Expr>),
    /// A text of which parts come from elsewhere.
    Template(Template),
}

/// A text of which parts come from inputs or earlier results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template(pub Vec<Part>);

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Text as it stands.
    Text(String),
    /// A text from an input or an earlier result. A number has to be converted, so that what a run puts there
    /// is never a matter of how some value is printed.
    Ref(Reference),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The input or node it starts at.
    pub source: Source,
    /// The way down from there.
    pub path: Vec<Step>,
    /// A conversion of the value found.
    pub convert: Option<Convert>,
}

/// What a reference starts at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An input of the workflow.
    Input(String),
    /// The result of a node.
    Node(NodeId),
}

/// One step down a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A member of an object.
    Key(String),
    /// An item of a list, counted from 0.
    Index(usize),
    /// The string here is JSON text; go on inside it.
    ParseJson,
}

/// A conversion between a number and its text. Both directions refuse what would change the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Convert {
    /// The text of a number.
    ToString,
    /// The number that a text spells.
    ToNumber,
}

/// The values that references can lead to.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Inputs by name.
    pub inputs: &'a Map<String, Value>,
    /// Results by node.
    pub results: &'a BTreeMap<NodeId, Value>,
}

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{reference}` leads nowhere: {found}")]
pub struct PathMissing {
    /// The reference.
    pub reference: Reference,
    /// What was found where the way ended.
    pub found: String,
}

impl Expr {
    /// Makes the value.
    pub fn resolve(&self, scope: Scope<'_>) -> Result<Value, PathMissing> {
        match self {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Ref(reference) => reference.resolve(scope),
            Expr::Object(members) => members
                .iter()
                .map(|(key, member)| Ok((key.clone(), member.resolve(scope)?)))
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
            Expr::List(items) => {
                items.iter().map(|item| item.resolve(scope)).collect::<Result<_, _>>().map(Value::Array)
            }
            Expr::Template(template) => template.resolve(scope).map(Value::String),
        }
    }

    /// The same with inputs filled in, so that only results are left open.
    pub fn fill_inputs(&self, inputs: &Map<String, Value>) -> Result<Expr, PathMissing> {
        let nothing = BTreeMap::new();
        match self {
            Expr::Literal(_) => Ok(self.clone()),
            Expr::Ref(reference) if matches!(reference.source, Source::Node(_)) => Ok(self.clone()),
            Expr::Ref(reference) => reference.resolve(Scope { inputs, results: &nothing }).map(Expr::Literal),
            Expr::Object(members) => members
                .iter()
                .map(|(key, member)| Ok((key.clone(), member.fill_inputs(inputs)?)))
                .collect::<Result<_, _>>()
                .map(Expr::Object),
            Expr::List(items) => {
                items.iter().map(|item| item.fill_inputs(inputs)).collect::<Result<_, _>>().map(Expr::List)
            }
            Expr::Template(template) => template.fill_inputs(inputs),
        }
    }

    /// As a value for people, with `<reference>` where a value isn't known yet.
    pub fn sketch(&self) -> Value {
        match self {
            Expr::Literal(value) => value.clone(),
            Expr::Ref(reference) => Value::String(format!("<{reference}>")),
            Expr::Object(members) => {
                Value::Object(members.iter().map(|(key, member)| (key.clone(), member.sketch())).collect())
            }
            Expr::List(items) => Value::Array(items.iter().map(Expr::sketch).collect()),
            Expr::Template(template) => Value::String(template.sketch()),
        }
    }

    /// Looks through the literal data in it; gives the JSON Pointer, in the value that it makes, of what
    /// `find` found first.
    pub fn find_in_literals(&self, find: &dyn Fn(&Value) -> Option<String>) -> Option<String> {
        match self {
            Expr::Literal(value) => find(value),
            Expr::Ref(_) => None,
            Expr::Object(members) => members.iter().find_map(|(key, member)| {
                member.find_in_literals(find).map(|inside| child("", key) + &inside)
            }),
            Expr::List(items) => items.iter().enumerate().find_map(|(index, member)| {
                member.find_in_literals(find).map(|inside| item("", index) + &inside)
            }),
            Expr::Template(template) => template.find_in_texts(find),
        }
    }

    /// Every reference in it.
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Reference>) {
        match self {
            Expr::Literal(_) => {}
            Expr::Ref(reference) => found.push(reference),
            Expr::Object(members) => members.values().for_each(|member| member.collect(found)),
            Expr::List(items) => items.iter().for_each(|item| item.collect(found)),
            Expr::Template(template) => found.extend(template.references()),
        }
    }

    /// Whether its value depends on the result of a node.
    pub fn depends_on_results(&self) -> bool {
        self.references().iter().any(|reference| matches!(reference.source, Source::Node(_)))
    }
}

impl Scope<'_> {
    /// The value that a reference starts at.
    pub(crate) fn start(&self, source: &Source) -> Option<&Value> {
        match source {
            Source::Input(name) => self.inputs.get(name),
            Source::Node(node) => self.results.get(node),
        }
    }
}

impl Reference {
    /// Finds the value.
    pub fn resolve(&self, scope: Scope<'_>) -> Result<Value, PathMissing> {
        self.follow(scope.start(&self.source)).map(Cow::into_owned)
    }

    /// Finds the value from that of its source, without a copy where the way allows it.
    pub(crate) fn follow<'v>(&self, start: Option<&'v Value>) -> Result<Cow<'v, Value>, PathMissing> {
        let missing = |found: &str| PathMissing { reference: self.clone(), found: found.to_owned() };
        let start = start.ok_or_else(|| {
            missing(match self.source {
                Source::Input(_) => "no such input",
                Source::Node(_) => "the node has no result",
            })
        })?;
        let found = walk(start, &self.path).map_err(|found| missing(&found))?;
        match self.convert {
            None => Ok(found),
            Some(convert) => {
                let from = kind(&found);
                let made = convert.apply(found.into_owned());
                made.map(Cow::Owned).ok_or_else(|| missing(&format!("{from} that can't be converted")))
            }
        }
    }
}

fn walk<'v>(start: &'v Value, path: &[Step]) -> Result<Cow<'v, Value>, String> {
    let mut here = start;
    for (index, step) in path.iter().enumerate() {
        let next = match step {
            Step::Key(key) => here.as_object().and_then(|map| map.get(key)),
            Step::Index(position) => here.as_array().and_then(|list| list.get(*position)),
            Step::ParseJson => {
                let parsed = here.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
                let rest = path.get(index + 1..).unwrap_or_default();
                return match parsed {
                    Some(value) => Ok(Cow::Owned(walk(&value, rest)?.into_owned())),
                    None => Err(format!("{} that isn't JSON text", kind(here))),
                };
            }
        };
        here = next.ok_or_else(|| format!("{} without {step}", kind(here)))?;
    }
    Ok(Cow::Borrowed(here))
}

impl Convert {
    /// The converted value, or nothing if the conversion would not be exact.
    pub fn apply(self, value: Value) -> Option<Value> {
        match (self, value) {
            (Convert::ToString, Value::Number(number)) => Some(Value::String(number.to_string())),
            (Convert::ToString, Value::String(text)) => Some(Value::String(text)),
            (Convert::ToNumber, Value::Number(number)) => Some(Value::Number(number)),
            (Convert::ToNumber, Value::String(text)) => {
                let number: Number = serde_json::from_str(text.trim()).ok()?;
                Some(Value::Number(number))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(key) => write!(f, "{key:?}"),
            Step::Index(index) => write!(f, "{index}"),
            Step::ParseJson => f.write_str("(json)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_walk_objects_lists_and_json_in_text() {
        let inputs = json!({"n": "12.5"}).as_object().unwrap().clone();
        let node = NodeId::new("a").unwrap();
        let results = BTreeMap::from([(node.clone(), json!({"text": "{\"items\":[{\"id\":7}]}"}))]);
        let scope = Scope { inputs: &inputs, results: &results };
        let id = Reference {
            source: Source::Node(node),
            path: vec![
                Step::Key("text".into()),
                Step::ParseJson,
                Step::Key("items".into()),
                Step::Index(0),
                Step::Key("id".into()),
            ],
            convert: Some(Convert::ToString),
        };
        assert_eq!(id.to_string(), "a.text(json).items[0].id as string");
        let number =
            Reference { source: Source::Input("n".into()), path: vec![], convert: Some(Convert::ToNumber) };
        let expr = Expr::Object(BTreeMap::from([
            ("id".to_owned(), Expr::Ref(id.clone())),
            ("list".to_owned(), Expr::List(vec![Expr::Ref(number), Expr::Literal(json!({"ref": 1}))])),
        ]));
        assert_eq!(expr.resolve(scope), Ok(json!({"id": "7", "list": [12.5, {"ref": 1}]})));
        let mut lost = id;
        lost.path.truncate(3);
        lost.path.push(Step::Index(4));
        let error = Expr::Ref(lost).resolve(scope).unwrap_err();
        assert_eq!(error.to_string(), "`a.text(json).items[4] as string` leads nowhere: a list without 4");
    }
}
