//! Contracts: what a person agreed that a tool is.
//!
//! Owns the contract, its file and the comparison with what a plugin offers. Refuses to review anything:
//! a candidate stays one until somebody signs it off.
//!
//! **Invariant:** a contract's digest covers everything but the review itself, so a review holds for
//! exactly what was looked at.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::code::Code;
use crate::digest::Digest;
use crate::document::{Fields, Report, as_typed};
use crate::effect::{Effect, Idempotency};
use crate::id::ToolName;
use crate::json::Limits;
use crate::problem::{Problems, item};
use crate::tool::ToolDescriptor;

/// First field of every contracts file.
pub const CONTRACTS_FORMAT: &str = "t2m/contracts@1";

/// One tool, as reviewed or to be reviewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The tool's name.
    pub tool: ToolName,
    /// What it may do outside.
    pub effect: Effect,
    /// Whether it may be repeated.
    pub idempotency: Idempotency,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Digest of the component that handles it.
    pub handler: Digest,
    /// Keys of what it reads.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Keys of what it changes.
    #[serde(default)]
    pub writes: Vec<String>,
    /// Who agreed, if anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
}

/// A person's word on a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Who.
    pub by: String,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Digest of the contract that was looked at.
    pub digest: Digest,
}

impl Contract {
    /// The contract that a plugin's own words describe.
    pub fn candidate(descriptor: &ToolDescriptor, handler: Digest) -> Contract {
        Contract {
            tool: descriptor.name.clone(),
            effect: descriptor.effect,
            idempotency: descriptor.idempotency,
            input_schema: descriptor.input_schema.clone(),
            output_schema: descriptor.output_schema.clone(),
            handler,
            reads: descriptor.reads.clone(),
            writes: descriptor.writes.clone(),
            review: None,
        }
    }

    /// Digest of everything but the review.
    pub fn digest(&self) -> Digest {
        let mut value = json!(self);
        if let Some(map) = value.as_object_mut() {
            map.remove("review");
        }
        Digest::of_json(&value)
    }

    /// Whether a person agreed to exactly this.
    pub fn is_reviewed(&self) -> bool {
        self.review.as_ref().is_some_and(|review| review.digest == self.digest())
    }

    /// Each field in which `other` differs, for people; empty if none does.
    pub fn differences(&self, other: &Contract) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |field: &str, mine: Value, theirs: Value| {
            if mine != theirs {
                let line = format!("{field}: {} became {}", brief(&mine), brief(&theirs));
                found.push(line);
            }
        };
        compare("effect", json!(self.effect), json!(other.effect));
        compare("idempotency", json!(self.idempotency), json!(other.idempotency));
        compare("input_schema", self.input_schema.clone(), other.input_schema.clone());
        compare("output_schema", json!(self.output_schema), json!(other.output_schema));
        compare("handler", json!(self.handler), json!(other.handler));
        compare("reads", json!(self.reads), json!(other.reads));
        compare("writes", json!(self.writes), json!(other.writes));
        found
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 100 { text } else { Digest::of_json(value).to_string() }
}

/// The contracts of one file, by tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contracts {
    by_tool: BTreeMap<ToolName, Contract>,
}

impl Contracts {
    /// Reads a contracts file.
    pub fn parse(bytes: &[u8], limits: Limits) -> Result<Contracts, Problems> {
        let value = crate::json::parse(bytes, limits)?;
        let report = Report::default();
        let read = Contracts::read(&value, &report);
        report.finish(read)
    }

    fn read(value: &Value, report: &Report) -> Option<Contracts> {
        let mut fields = Fields::of(value, "", report)?;
        let format = fields.text("format")?;
        if format != CONTRACTS_FORMAT {
            let message =
                format!("format `{format}` isn't supported; this program reads `{CONTRACTS_FORMAT}`");
            report.add(Code::VersionUnsupported, "/format", message);
            return None;
        }
        let list = fields.list("contracts")?;
        fields.finish();
        let mut by_tool = BTreeMap::new();
        for (index, value) in list.iter().enumerate() {
            let pointer = item("/contracts", index);
            let Some(contract) = as_typed::<Contract>(value, &pointer, report) else {
                continue;
            };
            let tool = contract.tool.clone();
            if by_tool.insert(tool.clone(), contract).is_some() {
                report.add(Code::IdDuplicate, pointer, format!("tool `{tool}` has two contracts"));
            }
        }
        Some(Contracts { by_tool })
    }

    /// The file form.
    pub fn to_json(&self) -> Value {
        json!({"format": CONTRACTS_FORMAT, "contracts": self.by_tool.values().collect::<Vec<_>>()})
    }

    /// The published JSON Schema of the file.
    pub fn json_schema() -> Value {
        let contract = crate::schema::part_of_type::<Contract>();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "t2m-host contracts, version 1",
            "type": "object",
            "required": ["format", "contracts"],
            "additionalProperties": false,
            "properties": {
                "format": {"const": CONTRACTS_FORMAT},
                "contracts": {"type": "array", "items": contract},
            },
        })
    }

    /// Adds or replaces a contract.
    pub fn insert(&mut self, contract: Contract) {
        self.by_tool.insert(contract.tool.clone(), contract);
    }

    /// Forgets the contract of a tool.
    pub fn remove(&mut self, tool: &ToolName) {
        self.by_tool.remove(tool);
    }

    /// The contract of a tool.
    pub fn get(&self, tool: &ToolName) -> Option<&Contract> {
        self.by_tool.get(tool)
    }

    /// Every contract, by tool name.
    pub fn iter(&self) -> impl Iterator<Item = &Contract> {
        self.by_tool.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract() -> Contract {
        Contract {
            tool: ToolName::new("t").unwrap(),
            effect: Effect::Read,
            idempotency: Idempotency::Idempotent,
            input_schema: json!({"type": "object", "properties": {"mode": {"const": ["a", true]}}}),
            output_schema: None,
            handler: Digest::of_bytes(b"wasm"),
            reads: vec![],
            writes: vec![],
            review: None,
        }
    }

    /// T24: a review holds for exactly what was looked at.
    #[test]
    fn a_change_after_review_undoes_the_review() {
        let mut reviewed = contract();
        let digest = reviewed.digest();
        reviewed.review = Some(Review { by: "ann".into(), at: "2026-01-01T00:00:00Z".into(), digest });
        assert!(reviewed.is_reviewed());
        assert_eq!(reviewed.digest(), contract().digest());
        let mut file = Contracts::default();
        file.insert(reviewed.clone());
        let text = serde_json::to_vec(&file.to_json()).unwrap();
        assert_eq!(Contracts::parse(&text, Limits::default()).unwrap(), file);

        reviewed.effect = Effect::Pure;
        assert!(!reviewed.is_reviewed());
        assert_eq!(contract().differences(&reviewed), ["effect: \"read\" became \"pure\""]);
    }
}
