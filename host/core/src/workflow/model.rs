//! The parts of a workflow.
//!
//! Owns plain data. Refuses checks: `parse` finds faults of form, `verify` faults of meaning.
//!
//! **Invariant:** nothing here names code, a path of this machine or a plugin; a tool is only a name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::expr::{Expr, Reference, Source, Template};
use super::suggested::{OptionalCall, RepeatedCall};
use crate::digest::Digest;
use crate::effect::{Effect, Idempotency};
use crate::id::{NodeId, ToolName};

/// First field of every workflow file. The number is the major version.
pub const WORKFLOW_FORMAT: &str = "t2m/workflow@1";

/// Most nodes of one workflow: one for each event that a trace may hold.
pub const MAX_NODES: usize = 100_000;

/// A compiled procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// A name for people.
    pub name: String,
    /// What has to be given, by name.
    pub inputs: BTreeMap<String, Input>,
    /// The calls, in recorded order.
    pub nodes: Vec<Node>,
    /// How the workflow's result is made.
    pub output: Expr,
    /// Where it came from.
    pub source: Provenance,
}

impl Workflow {
    /// Inputs that neither an argument nor the output refers to: a run takes their values and ignores them.
    pub fn unused_inputs(&self) -> BTreeSet<&str> {
        let arguments = self.nodes.iter().map(|node| &node.arguments);
        let mut unused: BTreeSet<&str> = self.inputs.keys().map(String::as_str).collect();
        for reference in arguments.chain([&self.output]).flat_map(Expr::references) {
            if let Source::Input(name) = &reference.source {
                unused.remove(name.as_str());
            }
        }
        unused
    }
}

/// One input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// JSON Schema of the value.
    pub schema: Value,
    /// The recorded value, used if none is given. A recorded null is a value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

impl Input {
    /// Whether its value is to be shown nowhere: JSON Schema's word for a secret.
    pub fn is_secret(&self) -> bool {
        self.schema.get("writeOnly") == Some(&Value::Bool(true))
    }
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its id: that of the recorded event.
    pub id: NodeId,
    /// The tool it calls.
    pub tool: ToolName,
    /// How its arguments are made.
    pub arguments: Expr,
    /// Nodes that have to finish first although no value comes from them.
    pub after: Vec<NodeId>,
    /// The effect that the order of nodes assumes. A contract that says worse refuses to run.
    pub effect: Effect,
    /// Whether the call may be repeated, as assumed when reads were deduplicated.
    pub idempotency: Idempotency,
    /// Longest time for one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// What was recorded, for replay.
    pub recorded: Option<Recorded>,
    /// Why the arguments are made as they are.
    pub decisions: Vec<Decision>,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Arguments as recorded.
    pub arguments: Map<String, Value>,
    /// Result as recorded.
    pub result: Value,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
}

/// A piece of evidence, for people. Most are the same few texts, which a long recording would copy a thousand times.
pub type Reason = Cow<'static, str>;

/// Why one argument value is what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// What was decided.
    pub verdict: Verdict,
    /// The reference taken, if one was.
    pub chosen: Option<Reference>,
    /// The text with references in it that was taken, or that would fit where the verdict is literal.
    pub template: Option<Template>,
    /// Other references that would have fitted.
    pub candidates: Vec<Reference>,
    /// The evidence, for people; lower case, no final period.
    pub reasons: Vec<Reason>,
}

impl Decision {
    /// What was bound, if anything was.
    pub(crate) fn expr(&self) -> Option<Expr> {
        let is_bound = matches!(self.verdict, Verdict::Reference | Verdict::Input);
        let template = self.template.as_ref().filter(|_| is_bound);
        self.chosen.clone().map(Expr::Ref).or_else(|| template.cloned().map(Expr::Template))
    }
}

/// What was decided for an argument value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It comes from an earlier result, or a part of its text does.
    Reference,
    /// It comes from an input, or parts of its text do.
    Input,
    /// It is the same in every run.
    Literal,
    /// Several sources fit and nothing tells them apart; the recorded value stays as a literal.
    Ambiguous,
    /// The session chose this item of a list for a reason that isn't recorded; the recorded value stays as
    /// a literal, and the item is the first candidate. Or it chose a key of an object: then the object is.
    Choice,
}

/// Where a workflow came from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Program and version that compiled it.
    pub compiler: String,
    /// Digests of the traces it was compiled from.
    #[serde(default)]
    pub traces: Vec<Digest>,
    /// Recorded events that are not nodes, each with the reason.
    #[serde(default)]
    pub dropped: Vec<Dropped>,
    /// For each node why it waits for each node of [`Node::after`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub order: BTreeMap<NodeId, BTreeMap<NodeId, Wait>>,
    /// Where the effects of nodes came from, by tool and effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectBasis>,
    /// Calls that only some recordings have, in the order of nodes. None of them is a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<OptionalCall>,
    /// Calls that are repeated, in the order of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedCall>,
    /// What the file of another program said beyond this, if the workflow was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedFrom>,
}

/// What a file that a workflow was imported from says and no field here holds. Nothing acts on it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportedFrom {
    /// The file's format.
    pub format: String,
    /// Its own fields, as they stood there.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// Those of each node.
    #[serde(default)]
    pub nodes: BTreeMap<NodeId, Map<String, Value>>,
}

/// Why a node waits for another one although no value comes from it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The recording declares it.
    Declared,
    /// It may have made a value that was taken from an input.
    Value,
    /// Both touch what one key names, and one of them writes there.
    Key,
    /// One of them may change anything, so the recorded order is kept.
    Barrier,
}

/// Where an effect that the order of nodes assumes came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectBasis {
    /// The tool.
    pub tool: ToolName,
    /// The effect.
    pub effect: Effect,
    /// Who says so.
    pub source: EffectSource,
    /// Why, for people.
    pub reason: String,
}

/// Who says what a call may do, the most trusted first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EffectSource {
    /// A loaded plugin.
    Plugin,
    /// A catalogue of the user's own.
    Catalog,
    /// The built-in catalogue.
    BuiltInCatalog,
    /// The recording itself, which a person decided to believe.
    Recording,
    /// Nobody: it is unknown.
    Nothing,
}

/// A recorded event that became no node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// The event's id.
    pub event: String,
    /// The recording it is from, counted from 1, if that isn't the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<usize>,
    /// Why, for people.
    pub reason: String,
    /// The node whose result stands for it, if it was a repeated read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<NodeId>,
}
