//! Compiles a file of recorded call sequences and checks the order of each workflow against given facts.
//!
//! Owns a second, plain reading of keys: two calls meet if a key of one is the other's or stands above it.
//! Refuses the compiler's own key code, which is what is checked.
//!
//! **Invariant:** no two calls that meet, one of them writing, are left without an order; without facts every
//! pair of neighbours is ordered.
//!
//! `cargo run --release -p t2m-core --example replay_order -- REPLAYS.json [FACTS.json] [--choices] [--edges]`
//!
//! The file is a list of `{id, calls: [{name, arguments, result}]}`; facts are `{tool: {effect, reads, writes}}`.
//! `--edges` prints each workflow's edges as a line of JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write as _;

use serde_json::{Map, Value, json};
use t2m_core::compiler::{Options, ToolFacts, compile};
use t2m_core::effect::{Effect, Idempotency};
use t2m_core::id::{NodeId, ToolName};
use t2m_core::trace::{Event, Trace};
use t2m_core::workflow::{VerifiedWorkflow, verify};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, files): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|text| text.starts_with("--"));
    let read = |path: &String| -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    };
    let replays = read(files.first().ok_or("name a file of replays")?)?;
    let facts = files.get(1).map(read).transpose()?.unwrap_or_else(|| json!({}));
    let options = Options {
        known_tools: known(&facts)?,
        bind_list_choices: flags.iter().any(|flag| flag == "--choices"),
        ..Options::default()
    };
    let mut out = std::io::stdout();
    let (mut workflows, mut nodes, mut pairs, mut unordered, mut free) = (0, 0, 0, 0, 0);
    for task in replays.as_array().into_iter().flatten() {
        let trace = trace_of(task)?;
        if trace.events.is_empty() {
            continue;
        }
        let compiled = compile(trace, &options).map_err(|problems| problems.to_string())?;
        let verified = verify(compiled.workflow, None).map_err(|problems| problems.to_string())?;
        workflows += 1;
        nodes += verified.workflow().nodes.len();
        let reach = reach(&verified);
        let list = &verified.workflow().nodes;
        let touched: Vec<Vec<(String, bool)>> =
            list.iter().map(|node| keys(&options.known_tools, node)).collect();
        for (later, node) in list.iter().enumerate() {
            for (earlier, first) in list.iter().enumerate().take(later) {
                let ordered = reach.get(later).is_some_and(|before| before.contains(&earlier));
                let unknown = |node: &t2m_core::workflow::Node| node.effect == Effect::Unknown;
                let meet = unknown(node) || unknown(first) || meet(touched.get(later), touched.get(earlier));
                pairs += usize::from(meet);
                free += usize::from(!ordered);
                if meet && !ordered {
                    unordered += 1;
                    writeln!(out, "NOT ORDERED {} {} before {}", task["id"], first.id, node.id)?;
                }
            }
        }
        if flags.iter().any(|flag| flag == "--edges") {
            writeln!(out, "{}", edges(task, &verified))?;
        }
    }
    writeln!(
        out,
        "{workflows} workflows, {nodes} nodes: {pairs} pairs meet, {unordered} of them not ordered; {free} pairs are free"
    )?;
    if unordered > 0 { Err("some calls that meet have no order".into()) } else { Ok(()) }
}

fn known(facts: &Value) -> Result<BTreeMap<ToolName, ToolFacts>, Box<dyn Error>> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|key| Some(key.as_str()?.to_owned())).collect()
    };
    let one = |(name, fact): (&String, &Value)| {
        let effect = fact["effect"].as_str().and_then(Effect::parse).ok_or("an effect isn't known")?;
        let facts = ToolFacts {
            effect,
            idempotency: Idempotency::Idempotent,
            reads: texts(&fact["reads"]),
            writes: texts(&fact["writes"]),
        };
        Ok((ToolName::new(name.as_str())?, facts))
    };
    facts.as_object().into_iter().flatten().map(one).collect()
}

fn trace_of(task: &Value) -> Result<Trace, Box<dyn Error>> {
    let calls = task["calls"].as_array().into_iter().flatten();
    let calls = calls.filter(|call| call["error"] != json!(true));
    let event = |(index, call): (usize, &Value)| {
        let name = call["name"].as_str().unwrap_or_default();
        let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
        let mut event = Event::new(NodeId::new(format!("{name}-{index}"))?, name, arguments);
        event.result = call["result"].clone();
        Ok(event)
    };
    let events: Result<Vec<Event>, Box<dyn Error>> = calls.enumerate().map(event).collect();
    Ok(Trace { inputs: Map::new(), events: events?, ..Trace::default() })
}

/// For each node every node that it waits for, directly or not.
fn reach(workflow: &VerifiedWorkflow) -> Vec<BTreeSet<usize>> {
    let mut reach: Vec<BTreeSet<usize>> = Vec::new();
    for before in workflow.dependencies() {
        let mut all: BTreeSet<usize> = before.iter().copied().collect();
        all.extend(before.iter().filter_map(|earlier| reach.get(*earlier)).flatten());
        reach.push(all);
    }
    reach
}

/// What a call touches, with its recorded arguments filled in, and whether it writes there.
fn keys(facts: &BTreeMap<ToolName, ToolFacts>, node: &t2m_core::workflow::Node) -> Vec<(String, bool)> {
    let Some(facts) = facts.get(&node.tool) else { return Vec::new() };
    let fill = |template: &String| {
        let arguments = node.recorded.iter().flat_map(|recorded| &recorded.arguments);
        arguments.fold(template.clone(), |text, (name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.replace(&format!("{{{name}}}"), &value)
        })
    };
    let reads = facts.reads.iter().map(|key| (fill(key), false));
    reads.chain(facts.writes.iter().map(|key| (fill(key), true))).collect()
}

fn meet(a: Option<&Vec<(String, bool)>>, b: Option<&Vec<(String, bool)>>) -> bool {
    let above = |a: &str, b: &str| b == a || b.strip_prefix(a).is_some_and(|rest| rest.starts_with('/'));
    a.into_iter().flatten().any(|(a, a_writes)| {
        b.into_iter().flatten().any(|(b, b_writes)| (*a_writes || *b_writes) && (above(a, b) || above(b, a)))
    })
}

fn edges(task: &Value, workflow: &VerifiedWorkflow) -> Value {
    let nodes: Vec<Value> = workflow
        .workflow()
        .nodes
        .iter()
        .map(|node| {
            let decisions: Vec<Value> = node
                .decisions
                .iter()
                .map(|decision| {
                    json!({"pointer": decision.pointer, "verdict": decision.verdict,
                           "chosen": decision.chosen.as_ref().map(ToString::to_string),
                           "candidates": decision.candidates.iter().map(ToString::to_string).collect::<Vec<_>>(),
                           "reasons": decision.reasons})
                })
                .collect();
            json!({"id": node.id, "tool": node.tool, "after": node.after, "decisions": decisions})
        })
        .collect();
    json!({"task": task["id"], "nodes": nodes})
}
