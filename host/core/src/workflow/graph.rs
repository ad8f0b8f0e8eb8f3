//! A workflow as a picture.
//!
//! Owns the Mermaid and Graphviz texts, and the edges that every picture shows. Refuses layout: the program
//! that draws does that, or `svg`.
//!
//! **Invariant:** no name of a workflow can end a label: everything that comes from it is escaped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::expr::{Expr, Source};
use super::model::{Node, Workflow};
use crate::problem::{child, item};

/// An edge and, if values flow, the arguments they flow to.
pub(super) type Edges = BTreeMap<(usize, usize), BTreeSet<String>>;

/// Longest label of an edge; the rest is counted.
const MAX_POINTERS: usize = 3;

/// The workflow as a Mermaid flowchart. Dashed arrows are order without data.
pub fn mermaid(workflow: &Workflow) -> String {
    let mut out = String::from("flowchart TD\n");
    for (index, node) in workflow.nodes.iter().enumerate() {
        let label = [node.id.as_str(), "\n", node.tool.as_str(), " · ", node.effect.as_str()].concat();
        let _ = writeln!(out, "    n{index}[\"{}\"]:::{}", escape_html(&label), class(node));
    }
    for ((from, to), pointers) in edges(workflow) {
        let _ = match label(&pointers) {
            Some(label) => writeln!(out, "    n{from} -->|{}| n{to}", escape_html(&label)),
            None => writeln!(out, "    n{from} -.-> n{to}"),
        };
    }
    for (class, style) in STYLES {
        let _ = writeln!(out, "    classDef {class} fill:{style}");
    }
    out
}

/// The workflow as a Graphviz digraph. Dashed arrows are order without data.
pub fn dot(workflow: &Workflow) -> String {
    let mut out = String::from("digraph workflow {\n    node [shape=box, style=filled];\n");
    for (index, node) in workflow.nodes.iter().enumerate() {
        let label = [node.id.as_str(), "\n", node.tool.as_str(), " · ", node.effect.as_str()].concat();
        let color =
            STYLES.iter().find(|(name, _)| *name == class(node)).map_or("#ffffff", |(_, color)| color);
        let _ = writeln!(out, "    n{index} [label=\"{}\", fillcolor=\"{color}\"];", escape_dot(&label));
    }
    for ((from, to), pointers) in edges(workflow) {
        let _ = match label(&pointers) {
            Some(label) => writeln!(out, "    n{from} -> n{to} [label=\"{}\"];", escape_dot(&label)),
            None => writeln!(out, "    n{from} -> n{to} [style=dashed];"),
        };
    }
    out.push_str("}\n");
    out
}

const STYLES: [(&str, &str); 3] = [("read", "#e6f4ea"), ("write", "#fff4e0"), ("danger", "#fde7e7")];

fn class(node: &Node) -> &'static str {
    use crate::effect::Effect;
    match node.effect {
        Effect::Pure | Effect::Read => "read",
        Effect::Write | Effect::ExternalSideEffect => "write",
        Effect::Delete | Effect::Unknown => "danger",
    }
}

pub(super) fn edges(workflow: &Workflow) -> Edges {
    let index: BTreeMap<&str, usize> =
        workflow.nodes.iter().enumerate().map(|(index, node)| (node.id.as_str(), index)).collect();
    let mut edges = Edges::new();
    for (to, node) in workflow.nodes.iter().enumerate() {
        for id in &node.after {
            if let Some(from) = index.get(id.as_str()) {
                edges.entry((*from, to)).or_default();
            }
        }
        flows(&node.arguments, "", &mut |id, pointer| {
            if let Some(from) = index.get(id) {
                edges.entry((*from, to)).or_default().insert(pointer.to_owned());
            }
        });
    }
    edges
}

fn flows(expr: &Expr, pointer: &str, found: &mut impl FnMut(&str, &str)) {
    match expr {
        Expr::Literal(_) => {}
        Expr::Ref(reference) => {
            if let Source::Node(id) = &reference.source {
                found(id.as_str(), pointer);
            }
        }
        Expr::Object(members) => {
            members.iter().for_each(|(key, member)| flows(member, &child(pointer, key), found));
        }
        Expr::List(items) => {
            items.iter().enumerate().for_each(|(index, member)| flows(member, &item(pointer, index), found));
        }
        Expr::Template(template) => {
            for reference in template.references() {
                if let Source::Node(id) = &reference.source {
                    found(id.as_str(), pointer);
                }
            }
        }
    }
}

pub(super) fn label(pointers: &BTreeSet<String>) -> Option<String> {
    let shown: Vec<&str> = pointers.iter().take(MAX_POINTERS).map(String::as_str).collect();
    match pointers.len() {
        0 => None,
        count if count > shown.len() => Some(format!("{}, {} more", shown.join(", "), count - shown.len())),
        _ => Some(shown.join(", ")),
    }
}

fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '|' => out.push_str("&#124;"),
            '#' => out.push_str("&#35;"),
            '`' => out.push_str("&#96;"),
            '\n' => out.push_str("<br/>"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn escape_dot(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
