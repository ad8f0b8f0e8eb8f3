//! Calls that not all recordings of one task have alike, as suggestions for people and later compilers.
//!
//! Owns plain data: which recordings have such calls, where they stand, how their arguments are made, and which
//! condition or list would explain them. Refuses to be run: nothing here is a node.
//!
//! **Invariant:** a reference here leads to an input, to a node, or to another optional call by its id.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::expr::{Expr, Reference};
use super::parse::{read_reference, write_reference};
use crate::document::Report;
use crate::effect::Effect;
use crate::id::{NodeId, ToolName};

/// A call that some recordings have and others don't.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionalCall {
    /// An id that no node and no other optional call has: the event's in the first recording that has it.
    pub id: NodeId,
    /// The tool it calls.
    pub tool: ToolName,
    /// What it may do outside.
    pub effect: Effect,
    /// The last node before it; it comes before every node if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<NodeId>,
    /// The recordings that have it, each with its event.
    pub calls: Vec<RecordedCall>,
    /// The recordings that don't, counted from 1.
    pub missing_in: Vec<usize>,
    /// Its arguments in the first recording that has it.
    pub arguments: Map<String, Value>,
    /// By JSON Pointer into the arguments: where a value comes from, in every recording that has the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, Reference>,
    /// JSON Pointers of arguments that differ between the recordings that have it, and that nothing explains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<String>,
    /// What tells the recordings that have it from the others, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An event of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The recording, counted from 1.
    pub recording: usize,
    /// The event's id in it.
    pub event: String,
}

/// Something that holds in every recording that has a call, and in no other one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What is looked at.
    pub value: Reference,
    /// What holds of it.
    pub test: Test,
}

/// What may hold of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// It is there and equals this.
    Equals(Value),
    /// It is not there, or isn't this.
    Differs(Value),
    /// It is there.
    Present,
    /// It is not there.
    Missing,
    /// It is a list with items.
    Filled,
    /// It is a list without items.
    Empty,
    /// It is a number, this or a larger one.
    AtLeast(Value),
    /// It is a number, this or a smaller one.
    AtMost(Value),
}

/// Calls of one tool, one after the other, which recordings make a different number of times or which run
/// through a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatedCall {
    /// The tool.
    pub tool: ToolName,
    /// What a call may do outside.
    pub effect: Effect,
    /// The last node before the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<NodeId>,
    /// The calls that every recording has, which are nodes.
    pub nodes: Vec<NodeId>,
    /// For each recording its calls, in order.
    pub calls: Vec<RecordedRun>,
    /// The arguments of the first call.
    pub arguments: Map<String, Value>,
    /// The lists that the arguments run through in every recording, from the first item on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<List>,
}

/// The calls of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedRun {
    /// The recording, counted from 1.
    pub recording: usize,
    /// Ids of its events.
    pub events: Vec<String>,
}

/// A list that arguments run through: the first call has the first item, and so on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The list.
    pub list: Reference,
    /// In every recording there are as many calls as items.
    pub whole: bool,
    /// By JSON Pointer into the arguments: the first item's value, from which the others' follow.
    pub arguments: BTreeMap<String, Reference>,
}

impl OptionalCall {
    /// How its arguments are made: data where nothing explains them.
    pub fn expr(&self) -> Expr {
        crate::compiler::bind(&self.arguments, &self.references)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_reference(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reference, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let report = Report::default();
        let read = read_reference(&value, "", &report);
        report.finish(read).map_err(|problems| {
            let first = problems.iter().next().map(|problem| problem.message.clone());
            serde::de::Error::custom(first.unwrap_or_default())
        })
    }
}

/// The workflow file's schema defines it once.
impl schemars::JsonSchema for Reference {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Reference".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"$ref": "#/$defs/reference"})
    }
}

/// As people read it: `find.hotels[0].open equals true`.
impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = crate::document::shown;
        write!(f, "{} ", self.value)?;
        match &self.test {
            Test::Equals(value) => write!(f, "equals {}", shown(value)),
            Test::Differs(value) => write!(f, "isn't {}", shown(value)),
            Test::Present => f.write_str("is there"),
            Test::Missing => f.write_str("isn't there"),
            Test::Filled => f.write_str("has items"),
            Test::Empty => f.write_str("is empty"),
            Test::AtLeast(value) => write!(f, "is at least {}", shown(value)),
            Test::AtMost(value) => write!(f, "is at most {}", shown(value)),
        }
    }
}

/// `recordings 1, 2 and 4`.
fn recordings(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("recordings {} and {last}", rest.join(", ")),
        _ => format!("recording {}", texts.concat()),
    }
}

fn place(after: Option<&NodeId>) -> String {
    after.map_or_else(|| "before every node".to_owned(), |node| format!("after {node}"))
}

impl OptionalCall {
    /// What it is, where it stands and what would explain it, as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let having: Vec<usize> = self.calls.iter().map(|call| call.recording).collect();
        let mut lines = vec![format!(
            "{} calls {} ({}) {}: in {}, not in {}",
            self.id,
            self.tool,
            self.effect,
            place(self.after.as_ref()),
            recordings(&having),
            recordings(&self.missing_in)
        )];
        lines.push(format!("  arguments: {}", self.expr().sketch()));
        if !self.unexplained.is_empty() {
            lines.push(format!("  differs between recordings, unexplained: {}", self.unexplained.join(", ")));
        }
        lines.push(match self.conditions.as_slice() {
            [] => "  no input and no earlier result tells these recordings apart".to_owned(),
            [first, rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
                let also =
                    if rest.is_empty() { String::new() } else { format!(" [also: {}]", rest.join("; ")) };
                format!("  a condition that fits: {first}{also}")
            }
        });
        lines
    }
}

impl RepeatedCall {
    /// What it is, where it stands and what would explain it, as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let counts: Vec<String> = self
            .calls
            .iter()
            .map(|run| format!("{} in recording {}", run.events.len(), run.recording))
            .collect();
        let nodes = match self.nodes.as_slice() {
            [] => "none is a node".to_owned(),
            nodes => {
                let ids: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
                format!("nodes: {}", ids.join(", "))
            }
        };
        let place = place(self.after.as_ref());
        let mut lines =
            vec![format!("{} ({}) {place}: {}; {nodes}", self.tool, self.effect, counts.join(", "))];
        for list in &self.lists {
            let arguments: Vec<String> =
                list.arguments.iter().map(|(pointer, first)| format!("{pointer} <- {first}")).collect();
            let extent = if list.whole { "every item" } else { "the first items" };
            lines.push(format!("  a list that fits: {extent} of {} ({})", list.list, arguments.join(", ")));
        }
        if self.lists.is_empty() {
            lines.push("  no list explains how often".to_owned());
        }
        lines
    }
}
