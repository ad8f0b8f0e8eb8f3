//! Approvals: a person's permission for one effect of one call.
//!
//! Owns the request, the approval, its file and the rule that matches them. Refuses to ask anybody: a gate
//! outside does that, and nothing that a model can call may answer.
//!
//! **Invariant:** an approval names the workflow, node, tool, contract and arguments it is for. A name that
//! happens to equal another name grants nothing, because approvals are matched by digest over all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::code::Code;
use crate::digest::Digest;
use crate::document::{Fields, Report, as_typed};
use crate::id::{NodeId, RunId, ToolName};
use crate::json::Limits;
use crate::problem::{Problems, item};

/// First field of every approvals file.
pub const APPROVALS_FORMAT: &str = "t2m/approvals@1";

/// What a call needs approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// Digest of the workflow, or nothing for a call that belongs to none.
    pub workflow: Option<Digest>,
    /// The node.
    pub node: NodeId,
    /// 0 for a call of the workflow itself, more for one that a running call makes. A nested call never
    /// passes for a node of the workflow, whatever its name.
    pub depth: u32,
    /// The tool.
    pub tool: ToolName,
    /// Digest of the tool's reviewed contract.
    pub contract: Digest,
    /// What is known of the arguments.
    pub arguments: Arguments,
}

/// The arguments that a request is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Exactly these: digest of the value.
    Exact(Digest),
    /// These as far as they are known, and whatever earlier nodes return for the rest: digest of the
    /// expression with inputs filled in.
    Follow(Digest),
}

impl ApprovalRequest {
    /// The id by which the request is approved: the digest over all of its fields.
    pub fn id(&self) -> Digest {
        Digest::of_json(&json!({"approval-request": self}))
    }
}

/// Permission for one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The id of the request, as `run` prints it.
    pub request: Digest,
    /// Who approved it.
    pub approver: String,
    /// When it ends, in milliseconds since 1970; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// How many calls it covers. Retries of one call count once.
    #[serde(default = "one")]
    pub uses: u32,
}

fn one() -> u32 {
    1
}

/// Why a gate said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unapproved {
    /// No approval names this request.
    Missing,
    /// There was one, and its time is over.
    Expired,
    /// There was one, and it covers no further call.
    UsedUp,
}

impl Unapproved {
    /// The code a client sees.
    pub const fn code(self) -> Code {
        match self {
            Unapproved::Missing => Code::ApprovalRequired,
            Unapproved::Expired => Code::ApprovalExpired,
            Unapproved::UsedUp => Code::ApprovalUsedUp,
        }
    }
}

/// Approvals given in advance, with what is left of them.
#[derive(Debug, Clone, Default)]
pub struct ApprovalBook {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    approval: Approval,
    used_by: BTreeSet<(RunId, NodeId, Arguments)>,
}

impl ApprovalBook {
    /// A book of these approvals.
    pub fn new(approvals: impl IntoIterator<Item = Approval>) -> ApprovalBook {
        let entries =
            approvals.into_iter().map(|approval| Entry { approval, used_by: BTreeSet::new() }).collect();
        ApprovalBook { entries }
    }

    /// Holds these approvals from now on. What was used of one that stays, the same in every field, stays used.
    pub fn replace(&mut self, approvals: impl IntoIterator<Item = Approval>) {
        let mut before = std::mem::take(&mut self.entries);
        for approval in approvals {
            let same = before.iter().position(|entry| entry.approval == approval);
            let used_by = same.map(|at| before.swap_remove(at).used_by).unwrap_or_default();
            self.entries.push(Entry { approval, used_by });
        }
    }

    /// Reads an approvals file.
    pub fn parse(bytes: &[u8], limits: Limits) -> Result<Vec<Approval>, Problems> {
        let value = crate::json::parse(bytes, limits)?;
        let report = Report::default();
        let read = read_file(&value, &report);
        report.finish(read)
    }

    /// The file form of approvals.
    pub fn to_json(approvals: &[Approval]) -> Value {
        json!({"format": APPROVALS_FORMAT, "approvals": approvals})
    }

    /// The published JSON Schema of the file.
    pub fn json_schema() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "t2m-host approvals, version 1",
            "type": "object",
            "required": ["format", "approvals"],
            "additionalProperties": false,
            "properties": {
                "format": {"const": APPROVALS_FORMAT},
                "approvals": {"type": "array", "items": crate::schema::part_of_type::<Approval>()},
            },
        })
    }

    /// Uses an approval for one call, or says why there is none. `requests` are the ways in which the call
    /// may have been approved, the exact one first. A retry of the same call with the same arguments uses
    /// nothing further. Gives the id of the request that was approved.
    pub fn take(
        &mut self,
        requests: &[ApprovalRequest],
        run: &RunId,
        now_ms: u64,
    ) -> Result<Digest, Unapproved> {
        let Some(first) = requests.first() else { return Err(Unapproved::Missing) };
        let call = (run.clone(), first.node.clone(), first.arguments);
        let entry = self.find(requests, now_ms, Some(&call))?;
        let entry = self.entries.get_mut(entry).ok_or(Unapproved::Missing)?;
        entry.used_by.insert(call);
        Ok(entry.approval.request)
    }

    /// Whether a call is approved, without using anything.
    pub fn check(&self, requests: &[ApprovalRequest], now_ms: u64) -> Result<(), Unapproved> {
        self.find(requests, now_ms, None).map(|_| ())
    }

    fn find(
        &self,
        requests: &[ApprovalRequest],
        now_ms: u64,
        call: Option<&(RunId, NodeId, Arguments)>,
    ) -> Result<usize, Unapproved> {
        let ids: Vec<Digest> = requests.iter().map(ApprovalRequest::id).collect();
        let mut refusal = Unapproved::Missing;
        for (at, entry) in self.entries.iter().enumerate() {
            if !ids.contains(&entry.approval.request) {
                continue;
            }
            let uses = usize::try_from(entry.approval.uses).unwrap_or(usize::MAX);
            if entry.approval.expires_at_ms.is_some_and(|end| now_ms >= end) {
                refusal = Unapproved::Expired;
            } else if entry.used_by.len() < uses || call.is_some_and(|call| entry.used_by.contains(call)) {
                return Ok(at);
            } else {
                refusal = Unapproved::UsedUp;
            }
        }
        Err(refusal)
    }
}

fn read_file(value: &Value, report: &Report) -> Option<Vec<Approval>> {
    let mut fields = Fields::of(value, "", report)?;
    let format = fields.text("format")?;
    if format != APPROVALS_FORMAT {
        let message = format!("format `{format}` isn't supported; this program reads `{APPROVALS_FORMAT}`");
        report.add(Code::VersionUnsupported, "/format", message);
        return None;
    }
    let list = fields.list("approvals")?;
    fields.finish();
    let mut seen = BTreeMap::new();
    let mut read = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let pointer = item("/approvals", index);
        let Some(approval) = as_typed::<Approval>(value, &pointer, report) else {
            continue;
        };
        if let Some(first) = seen.insert(approval.request, index) {
            let message = format!("the request is approved twice; give `uses` in entry {first} instead");
            report.add(Code::IdDuplicate, pointer, message);
        }
        read.push(approval);
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(node: &str, tool: &str, arguments: &str) -> ApprovalRequest {
        ApprovalRequest {
            workflow: Some(Digest::of_bytes(b"w")),
            node: NodeId::new(node).unwrap(),
            depth: 0,
            tool: ToolName::new(tool).unwrap(),
            contract: Digest::of_bytes(b"c"),
            arguments: Arguments::Exact(Digest::of_bytes(arguments.as_bytes())),
        }
    }

    fn approve(request: &ApprovalRequest) -> Approval {
        Approval { request: request.id(), approver: "ann".into(), expires_at_ms: Some(1000), uses: 1 }
    }

    /// T23: bound to arguments, time and count; a node named like a tool gains nothing.
    #[test]
    fn an_approval_covers_exactly_one_call() {
        let run = RunId::new("r").unwrap();
        let pay = request("pay", "payments.pay", "10");
        let mut book = ApprovalBook::new([approve(&pay)]);
        let other = request("pay", "payments.pay", "99");
        assert_eq!(book.take(&[other], &run, 0), Err(Unapproved::Missing));
        let lookalike = request("payments.pay", "email.send", "10");
        assert_eq!(book.take(&[lookalike], &run, 0), Err(Unapproved::Missing));
        let nested = ApprovalRequest { depth: 1, ..pay.clone() };
        assert_eq!(book.take(&[nested], &run, 0), Err(Unapproved::Missing), "a nested call of that name");
        assert_eq!(book.take(std::slice::from_ref(&pay), &run, 1000), Err(Unapproved::Expired));
        assert!(book.take(std::slice::from_ref(&pay), &run, 999).is_ok());
        assert!(book.take(std::slice::from_ref(&pay), &run, 999).is_ok(), "a retry of the same call");
        let second = RunId::new("r2").unwrap();
        assert_eq!(book.take(std::slice::from_ref(&pay), &second, 999), Err(Unapproved::UsedUp));
    }

    /// T23: reading the same approvals again gives no use back, and others come and go.
    #[test]
    fn a_use_stays_used_when_approvals_are_read_again() {
        let run = RunId::new("r").unwrap();
        let (pay, other) = (request("pay", "pay", "10"), request("pay", "pay", "20"));
        let mut book = ApprovalBook::new([approve(&pay)]);
        assert!(book.take(std::slice::from_ref(&pay), &run, 0).is_ok());
        book.replace([approve(&other), approve(&pay)]);
        let second = RunId::new("r2").unwrap();
        assert_eq!(book.take(std::slice::from_ref(&pay), &second, 0), Err(Unapproved::UsedUp));
        assert!(book.take(std::slice::from_ref(&other), &second, 0).is_ok());
        book.replace([]);
        assert_eq!(book.take(&[other], &second, 0), Err(Unapproved::Missing));
    }

    /// T23: an approval of arguments that follow from results is bound to its node and to what is known.
    #[test]
    fn an_approval_of_following_arguments_is_bound_to_what_is_known() {
        let run = RunId::new("r").unwrap();
        let exact = |text: &str| request("write", "write_file", text);
        let follow = |known: &str| ApprovalRequest {
            arguments: Arguments::Follow(Digest::of_bytes(known.as_bytes())),
            ..request("write", "write_file", "")
        };
        let mut book = ApprovalBook::new([approve(&follow("path=a"))]);
        assert_eq!(book.check(&[follow("path=a")], 0), Ok(()));
        assert_eq!(book.check(&[exact("path=b"), follow("path=b")], 0), Err(Unapproved::Missing));
        assert_eq!(book.check(&[exact("path=a"), follow("path=a")], 2000), Err(Unapproved::Expired));
        assert!(book.take(&[exact("a,x"), follow("path=a")], &run, 0).is_ok());
        assert_eq!(book.take(&[exact("a,y"), follow("path=a")], &run, 0), Err(Unapproved::UsedUp));
    }
}
