//! Why a workflow is what it is.
//!
//! Owns the reasons for each argument, dependency and order edge, as data and as lines of text. Refuses to
//! decide anything: it repeats what the compiler noted and what the effects say.
//!
//! **Invariant:** every reference and every entry of `after` of the workflow stands in the explanation.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::expr::{Expr, Reference, Source};
use super::model::{Decision, Dropped, EffectBasis, Node, Reason, Verdict, Wait, Workflow};
use super::suggested::{OptionalCall, RepeatedCall};
use crate::compiler::same;
use crate::effect::Effect;
use crate::id::NodeId;
use crate::problem::{child, item, lookup};

/// Why a workflow is what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The workflow's name.
    pub name: String,
    /// Each input with its recorded value, if it has one.
    pub inputs: BTreeMap<String, Option<Value>>,
    /// Those of them that nothing refers to: a run ignores their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused_inputs: Vec<String>,
    /// Each node, in recorded order.
    pub nodes: Vec<NodeExplanation>,
    /// How the result is made.
    pub output: Vec<String>,
    /// Where the effects of the nodes came from.
    pub effects: Vec<EffectBasis>,
    /// Events that are no nodes.
    pub dropped: Vec<Dropped>,
    /// Calls that only some recordings have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<OptionalCall>,
    /// Calls that are repeated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedCall>,
}

/// Why one node is what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeExplanation {
    /// The node.
    pub node: String,
    /// The tool it calls.
    pub tool: String,
    /// The effect assumed.
    pub effect: Effect,
    /// Its argument values.
    pub arguments: Vec<ArgumentExplanation>,
    /// What it waits for.
    pub waits_for: Vec<EdgeExplanation>,
}

/// Why one argument value is what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArgumentExplanation {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// What was decided.
    pub verdict: Verdict,
    /// Where the value comes from.
    pub source: Option<String>,
    /// Other places that would have fitted.
    pub candidates: Vec<String>,
    /// The evidence.
    pub reasons: Vec<Reason>,
    /// For each candidate that gives the recorded value the option of `compile` that takes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
}

/// Why one node waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EdgeExplanation {
    /// The node that comes first.
    pub node: String,
    /// Whether a value flows.
    pub data: bool,
    /// Why it waits, if no value flows and the compiler noted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Why; lower case, no final period.
    pub reason: String,
}

/// Explains a workflow.
pub fn explain(workflow: &Workflow) -> Explanation {
    let by_id: BTreeMap<&str, &Node> = workflow.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let start = |source: &Source| match source {
        Source::Input(name) => workflow.inputs.get(name)?.default.as_ref(),
        Source::Node(id) => Some(&by_id.get(id.as_str())?.recorded.as_ref()?.result),
    };
    Explanation {
        name: workflow.name.clone(),
        inputs: workflow.inputs.iter().map(|(name, input)| (name.clone(), input.default.clone())).collect(),
        unused_inputs: workflow.unused_inputs().into_iter().map(str::to_owned).collect(),
        nodes: workflow
            .nodes
            .iter()
            .map(|node| explain_node(node, &by_id, workflow.source.order.get(&node.id), &start))
            .collect(),
        output: workflow.output.references().into_iter().map(ToString::to_string).collect(),
        effects: workflow.source.effects.clone(),
        dropped: workflow.source.dropped.clone(),
        optional: workflow.source.optional.clone(),
        repeated: workflow.source.repeated.clone(),
    }
}

fn explain_node<'w>(
    node: &Node,
    by_id: &BTreeMap<&str, &Node>,
    waits: Option<&BTreeMap<NodeId, Wait>>,
    start: &impl Fn(&Source) -> Option<&'w Value>,
) -> NodeExplanation {
    let mut bound = Vec::new();
    collect(&node.arguments, "", &mut bound);
    let mut arguments: Vec<ArgumentExplanation> =
        node.decisions.iter().map(|decision| explain_argument(node, decision, start)).collect();
    // A reference written by hand carries no decision.
    let decided: BTreeSet<String> = arguments.iter().map(|argument| argument.pointer.clone()).collect();
    for (pointer, reference) in &bound {
        if !decided.contains(pointer) {
            arguments.push(ArgumentExplanation {
                pointer: pointer.clone(),
                verdict: match reference.source {
                    Source::Input(_) => Verdict::Input,
                    Source::Node(_) => Verdict::Reference,
                },
                source: Some(reference.to_string()),
                candidates: Vec::new(),
                reasons: vec!["it stands so in the workflow, without a recorded reason".into()],
                accept: Vec::new(),
            });
        }
    }
    let mut flows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pointer, reference) in &bound {
        if let Source::Node(id) = &reference.source {
            flows.entry(id.as_str()).or_default().push(pointer.clone());
        }
    }
    let data = flows.into_iter().map(|(id, pointers)| EdgeExplanation {
        node: id.to_owned(),
        data: true,
        wait: None,
        reason: format!("its result is used at {}", pointers.join(", ")),
    });
    let order = node.after.iter().map(|id| {
        let wait = waits.and_then(|waits| waits.get(id)).copied();
        let reason = order_reason(node, by_id.get(id.as_str()).copied(), wait);
        EdgeExplanation { node: id.to_string(), data: false, wait, reason }
    });
    NodeExplanation {
        node: node.id.to_string(),
        tool: node.tool.to_string(),
        effect: node.effect,
        arguments,
        waits_for: data.chain(order).collect(),
    }
}

fn explain_argument<'w>(
    node: &Node,
    decision: &Decision,
    start: &impl Fn(&Source) -> Option<&'w Value>,
) -> ArgumentExplanation {
    let bound = decision.expr();
    let recorded = node.recorded.as_ref().and_then(|recorded| lookup(&recorded.arguments, &decision.pointer));
    let gives = |candidate: &&Reference| {
        let found = candidate.follow(start(&candidate.source));
        matches!((found, recorded), (Ok(found), Some(recorded)) if same(&found, recorded))
    };
    let offered = decision.template.as_ref().filter(|_| bound.is_none()).map(ToString::to_string);
    let takes = offered.iter().cloned();
    let takes = takes.chain(decision.candidates.iter().filter(gives).map(ToString::to_string));
    let accept =
        takes.map(|candidate| accept_option(node.id.as_str(), &decision.pointer, &candidate)).collect();
    ArgumentExplanation {
        pointer: decision.pointer.clone(),
        verdict: decision.verdict,
        source: match &bound {
            Some(Expr::Template(template)) => Some(template.to_string()),
            _ => decision.chosen.as_ref().map(ToString::to_string),
        },
        candidates: offered.into_iter().chain(decision.candidates.iter().map(ToString::to_string)).collect(),
        reasons: decision.reasons.clone(),
        accept,
    }
}

/// The option of `compile` that takes a candidate, as a shell reads it.
pub fn accept_option(event: &str, pointer: &str, candidate: &str) -> String {
    format!("--accept '{}'", format!("{event}:{pointer}={candidate}").replace('\'', "'\\''"))
}

fn collect<'w>(expr: &'w Expr, pointer: &str, found: &mut Vec<(String, &'w Reference)>) {
    match expr {
        Expr::Literal(_) => {}
        Expr::Ref(reference) => found.push((pointer.to_owned(), reference)),
        Expr::Object(members) => {
            for (key, member) in members {
                collect(member, &child(pointer, key), found);
            }
        }
        Expr::List(items) => {
            for (index, member) in items.iter().enumerate() {
                collect(member, &item(pointer, index), found);
            }
        }
        Expr::Template(template) => {
            found.extend(template.references().map(|reference| (pointer.to_owned(), reference)));
        }
    }
}

fn order_reason(node: &Node, first: Option<&Node>, wait: Option<Wait>) -> String {
    let Some(first) = first else {
        return "the workflow says so, but there is no such node".to_owned();
    };
    let is_seen = |reference: &Reference| matches!(&reference.source, Source::Node(id) if *id == first.id);
    let input_may_be_its = node
        .decisions
        .iter()
        .any(|decision| decision.verdict == Verdict::Input && decision.candidates.iter().any(is_seen));
    let how = match wait {
        Some(Wait::Key) => ": both name it in their keys",
        Some(Wait::Barrier) => ": what one of them touches isn't known, or follows from an input",
        _ => "",
    };
    match (first.effect.is_read_only(), node.effect.is_read_only()) {
        _ if wait == Some(Wait::Declared) => "the recording declares it".to_owned(),
        _ if input_may_be_its => {
            format!(
                "its result has a value that was taken from an input; the recorded order of `{}` is kept",
                first.id
            )
        }
        (true, true) => "the recording declares it, or both sides once had another effect".to_owned(),
        (false, true) => format!("`{}` ({}) may change what this one reads{how}", first.id, first.effect),
        (true, false) => format!("this one ({}) may change what `{}` reads{how}", node.effect, first.id),
        (false, false) => {
            format!(
                "both may change something ({} and {}), so the recorded order is kept{how}",
                first.effect, node.effect
            )
        }
    }
}

impl Explanation {
    /// As lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("workflow {}: {} nodes", self.name, self.nodes.len())];
        if !self.inputs.is_empty() {
            lines.push(String::new());
        }
        for (name, default) in &self.inputs {
            let unused = if self.unused_inputs.contains(name) { "; nothing uses it" } else { "" };
            lines.push(match default {
                Some(value) => format!("input {name}, recorded as {}{unused}", crate::document::shown(value)),
                None => format!("input {name}, to be given{unused}"),
            });
        }
        for node in &self.nodes {
            lines.push(String::new());
            lines.push(format!("{} calls {} ({})", node.node, node.tool, node.effect));
            for argument in &node.arguments {
                lines.push(format!("  {} {}", argument.pointer, argument_text(argument)));
                lines.extend(argument.accept.iter().map(|accept| format!("    to take that: {accept}")));
            }
            for edge in &node.waits_for {
                let kind = if edge.data { "needs" } else { "waits for" };
                lines.push(format!("  {kind} {}: {}", edge.node, edge.reason));
            }
        }
        if !self.output.is_empty() {
            lines.push(String::new());
            lines.push(format!("output: {}", self.output.join(", ")));
        }
        if !self.effects.is_empty() {
            lines.push(String::new());
            lines.push("effects, as the order of nodes assumes them:".to_owned());
            for basis in &self.effects {
                lines.push(format!("  {} is {}: {}", basis.tool, basis.effect, basis.reason));
            }
        }
        if !self.dropped.is_empty() {
            lines.push(String::new());
            lines.push("left out:".to_owned());
            for dropped in &self.dropped {
                let same = dropped.same_as.as_ref().map(|id| format!(" (see {id})")).unwrap_or_default();
                let of =
                    dropped.recording.map(|number| format!(" of recording {number}")).unwrap_or_default();
                lines.push(format!("  {}{of}: {}{same}", dropped.event, dropped.reason));
            }
        }
        for (title, groups) in [
            (
                "only in some recordings, and no nodes:",
                self.optional.iter().map(OptionalCall::lines).collect::<Vec<_>>(),
            ),
            ("repeated:", self.repeated.iter().map(RepeatedCall::lines).collect()),
        ] {
            if !groups.is_empty() {
                lines.push(String::new());
                lines.push(title.to_owned());
            }
            lines.extend(groups.iter().flatten().map(|line| format!("  {line}")));
        }
        lines.iter().map(|line| line.replace(['\n', '\r'], " ")).collect()
    }
}

fn argument_text(argument: &ArgumentExplanation) -> String {
    let reasons = argument.reasons.join("; ");
    let others = match argument.candidates.as_slice() {
        [] => String::new(),
        candidates => format!(" [also: {}]", candidates.join(", ")),
    };
    match (&argument.source, argument.verdict) {
        (Some(source), _) => format!("<- {source}: {reasons}{others}"),
        (None, Verdict::Ambiguous) => format!("is ambiguous, kept as recorded: {reasons}{others}"),
        (None, Verdict::Choice) => format!("is a choice, kept as recorded: {reasons}{others}"),
        (None, _) => format!("is as recorded: {reasons}{others}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::compiler::{Claims, Options, compile};
    use crate::trace;
    use crate::workflow::{explain, graph};

    fn compiled() -> super::Workflow {
        let trace = trace::from_value(&json!({"inputs": {"city": "Porto"}, "events": [
            {"id": "find", "tool": "find_hotel", "arguments": {"city": "Porto"}, "side_effect": "read",
             "idempotency": "idempotent", "result": {"hotel": {"id": "h-7781"}}},
            {"id": "again", "tool": "find_hotel", "arguments": {"city": "Porto"}, "side_effect": "read",
             "idempotency": "idempotent", "result": {"hotel": {"id": "h-7781"}}},
            {"id": "bad\"<id>", "tool": "book", "arguments": {"hotel_id": "h-7781", "nights": 2},
             "side_effect": "write"},
            {"id": "lost", "tool": "book", "arguments": {}, "status": "failed"},
            {"id": "check", "tool": "list_bookings", "arguments": {}, "side_effect": "read"},
        ]}))
        .unwrap();
        let options = Options { claims: Claims::Believe, ..Options::default() };
        compile(trace, &options).unwrap().workflow
    }

    /// T29
    #[test]
    fn every_edge_and_every_dropped_event_has_a_reason() {
        let explanation = explain(&compiled());
        let text = explanation.lines().join("\n");
        for expected in [
            "find calls find_hotel (read)",
            "/city <- input city: the same value; the names agree",
            "/hotel_id <- find.hotel.id: the same value; the names agree",
            "/nights is as recorded: too common a value",
            "needs find: its result is used at /hotel_id",
            "waits for bad\"<id>: `bad\"<id>` (write) may change what this one reads",
            "again: it repeats an earlier call",
            "(see find)",
            "find_hotel is read: the recording says so",
            "lost: its status is `failed`, not a success",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let json = serde_json::to_value(&explanation).unwrap();
        assert_eq!(json["nodes"][1]["waits_for"][0]["data"], json!(true));
    }

    #[test]
    fn graphs_escape_their_labels_and_show_effects() {
        let workflow = compiled();
        let mermaid = graph::mermaid(&workflow);
        assert!(mermaid.starts_with("flowchart TD\n"), "{mermaid}");
        assert!(mermaid.contains("n1[\"bad&quot;&lt;id&gt;<br/>book · write\"]:::write"), "{mermaid}");
        assert!(mermaid.contains("n0 -->|/hotel_id| n1"), "{mermaid}");
        assert!(mermaid.contains("n1 -.-> n2"), "{mermaid}");
        let dot = graph::dot(&workflow);
        assert!(dot.contains("n1 [label=\"bad\\\"<id>\\nbook · write\""), "{dot}");
        assert!(dot.contains("n0 -> n1 [label=\"/hotel_id\"]"), "{dot}");
        assert!(dot.contains("n1 -> n2 [style=dashed]"), "{dot}");
    }
}
