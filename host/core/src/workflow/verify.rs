//! Whether a workflow means something that can run.
//!
//! Owns the digest check, the reference checks and the order of nodes. Refuses to look at tools or
//! contracts: those are bound per call.
//!
//! **Invariant:** [`VerifiedWorkflow`] is made here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use serde_json::Value;

use super::expr::Source;
use super::model::{Node, Workflow};
use super::parse::body;
use crate::code::Code;
use crate::digest::Digest;
use crate::document::Report;
use crate::id::NodeId;
use crate::problem::{Problems, item};

/// The digest of a workflow: SHA-256 over its canonical file form without the top-level digest field.
pub fn digest(workflow: &Workflow) -> Digest {
    Digest::of_json(&body(workflow))
}

/// A workflow that was checked, with the order of its nodes.
#[derive(Debug, Clone)]
pub struct VerifiedWorkflow {
    workflow: Workflow,
    digest: Digest,
    index: BTreeMap<NodeId, usize>,
    dependencies: Vec<Vec<usize>>,
    layers: Vec<Vec<usize>>,
}

/// Checks a workflow. `claimed` is the digest that its file names; a workflow made in this process has none.
pub fn verify(workflow: Workflow, claimed: Option<Digest>) -> Result<VerifiedWorkflow, Problems> {
    let report = Report::default();
    let digest = digest(&workflow);
    if claimed.is_some_and(|claimed| claimed != digest) {
        report.add(Code::DigestMismatch, "/digest", format!("the content has digest {digest}"));
    }
    let mut index = BTreeMap::new();
    for (position, node) in workflow.nodes.iter().enumerate() {
        if index.insert(node.id.clone(), position).is_some() {
            let at = format!("{}/id", item("/nodes", position));
            report.add(Code::IdDuplicate, at, format!("node id `{}` stands twice", node.id));
        }
    }
    for (name, input) in &workflow.inputs {
        check_input(name, &input.schema, input.default.as_ref(), &report);
    }
    let dependencies: Vec<Vec<usize>> = workflow
        .nodes
        .iter()
        .enumerate()
        .map(|(position, node)| node_dependencies(&workflow, &index, position, node, &report))
        .collect();
    check_references(&workflow, &index, "/output", workflow.output.references(), &report);
    let layers = order(&workflow, &dependencies, &report);
    report.finish(Some(VerifiedWorkflow { workflow, digest, index, dependencies, layers }))
}

fn check_input(name: &str, schema: &Value, default: Option<&Value>, report: &Report) {
    let pointer = crate::problem::child("/inputs", name);
    match crate::schema::Schema::compile(schema) {
        Err(message) => report.add(Code::FieldValue, format!("{pointer}/schema"), message),
        Ok(compiled) => {
            for fault in default.iter().flat_map(|value| compiled.faults(value)) {
                let at = format!("{pointer}/default{}", fault.pointer);
                report.add(Code::FieldValue, at, fault.message);
            }
        }
    }
}

fn node_dependencies(
    workflow: &Workflow,
    index: &BTreeMap<NodeId, usize>,
    position: usize,
    node: &Node,
    report: &Report,
) -> Vec<usize> {
    let pointer = item("/nodes", position);
    let mut found = BTreeSet::new();
    for (at, id) in node.after.iter().enumerate() {
        match index.get(id) {
            Some(dependency) => {
                found.insert(*dependency);
            }
            None => {
                let at = item(&format!("{pointer}/after"), at);
                report.add(Code::ReferenceUnknown, at, format!("there is no node `{id}`"));
            }
        }
    }
    let references = node.arguments.references();
    found.extend(check_references(workflow, index, &format!("{pointer}/arguments"), references, report));
    found.into_iter().collect()
}

fn check_references(
    workflow: &Workflow,
    index: &BTreeMap<NodeId, usize>,
    pointer: &str,
    references: Vec<&super::expr::Reference>,
    report: &Report,
) -> Vec<usize> {
    let mut found = Vec::new();
    for reference in references {
        match &reference.source {
            Source::Input(name) if !workflow.inputs.contains_key(name) => {
                report.add(Code::ReferenceUnknown, pointer, format!("there is no input `{name}`"));
            }
            Source::Input(_) => {}
            Source::Node(id) => match index.get(id) {
                Some(position) => found.push(*position),
                None => report.add(Code::ReferenceUnknown, pointer, format!("there is no node `{id}`")),
            },
        }
    }
    found
}

/// Layers of nodes that may run together, or a report that names each circle node by node.
fn order(workflow: &Workflow, dependencies: &[Vec<usize>], report: &Report) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<(), ()>::with_capacity(dependencies.len(), dependencies.len());
    let nodes: Vec<NodeIndex> = dependencies.iter().map(|_| graph.add_node(())).collect();
    for (to, sources) in dependencies.iter().enumerate() {
        for from in sources {
            if let (Some(from), Some(to)) = (nodes.get(*from), nodes.get(to)) {
                graph.add_edge(*from, *to, ());
            }
        }
    }
    // Components come in reverse topological order. Kosaraju's algorithm doesn't recurse here, so a chain of
    // any length fits the stack.
    let mut depth = vec![0usize; dependencies.len()];
    let mut layers: Vec<Vec<usize>> = Vec::new();
    for component in kosaraju_scc(&graph).into_iter().rev() {
        let members: Vec<usize> = component.iter().map(|node| node.index()).collect();
        let alone = members.first().copied().unwrap_or_default();
        if members.len() > 1 || graph.contains_edge(NodeIndex::new(alone), NodeIndex::new(alone)) {
            report_cycle(workflow, dependencies, &members, report);
            continue;
        }
        let layer = dependencies
            .get(alone)
            .into_iter()
            .flatten()
            .filter_map(|from| depth.get(*from).map(|depth| depth + 1))
            .max()
            .unwrap_or(0);
        if let Some(slot) = depth.get_mut(alone) {
            *slot = layer;
        }
        if layers.len() <= layer {
            layers.resize_with(layer + 1, Vec::new);
        }
        if let Some(slot) = layers.get_mut(layer) {
            slot.push(alone);
        }
    }
    layers.iter_mut().for_each(|layer| layer.sort_unstable());
    layers
}

fn report_cycle(workflow: &Workflow, dependencies: &[Vec<usize>], members: &[usize], report: &Report) {
    let inside: BTreeSet<usize> = members.iter().copied().collect();
    let Some(start) = inside.first().copied() else {
        return;
    };
    // Walk dependencies inside the component until a node comes again; that loop is a circle.
    let mut path = vec![start];
    let mut here = start;
    loop {
        let next = dependencies.get(here).and_then(|list| list.iter().find(|to| inside.contains(to)));
        let Some(next) = next.copied() else { return };
        if let Some(from) = path.iter().position(|seen| *seen == next) {
            path.drain(..from);
            break;
        }
        path.push(next);
        here = next;
    }
    path.reverse();
    let name = |position: usize| workflow.nodes.get(position).map_or("?", |node| node.id.as_str());
    let mut names: Vec<&str> = path.iter().map(|position| name(*position)).collect();
    names.extend(names.first().copied());
    let at = item("/nodes", path.first().copied().unwrap_or_default());
    report.add(Code::DependencyCycle, at, format!("nodes depend on each other: {}", names.join(" -> ")));
}

impl VerifiedWorkflow {
    /// The workflow.
    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// A node by id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.index.get(id).and_then(|position| self.workflow.nodes.get(*position))
    }

    /// The position of a node in [`Workflow::nodes`].
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// For each node the positions of the nodes that must finish before it, sorted.
    pub fn dependencies(&self) -> &[Vec<usize>] {
        &self.dependencies
    }

    /// Positions of nodes by how many steps precede them, for people; the scheduler doesn't wait for layers.
    pub fn layers(&self) -> &[Vec<usize>] {
        &self.layers
    }
}
