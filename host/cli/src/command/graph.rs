//! `t2m-host graph`: a workflow as a diagram.
//!
//! Owns the choice of notation. Refuses to draw pixels: Mermaid and Graphviz do.
//!
//! **Invariant:** the text is a complete diagram in its notation.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;
use t2m_core::workflow::graph;

use super::run::read_workflow;
use crate::exit::Exit;
use crate::failure::Result;
use crate::out::Out;

/// Draw a workflow.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host graph workflow.json > workflow.mmd
  t2m-host graph workflow.json --as dot | dot -Tsvg > workflow.svg")]
pub(crate) struct Graph {
    /// The workflow file
    workflow: PathBuf,
    /// The notation
    #[arg(long = "as", value_enum, default_value_t = Notation::Mermaid)]
    notation: Notation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// Mermaid, which Markdown viewers draw
    Mermaid,
    /// Graphviz
    Dot,
}

impl Graph {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let verified = read_workflow(&self.workflow)?;
        let (notation, text) = match self.notation {
            Notation::Mermaid => ("mermaid", graph::mermaid(verified.workflow())),
            Notation::Dot => ("dot", graph::dot(verified.workflow())),
        };
        out.data(|| text.clone(), || json!({"notation": notation, "diagram": text}));
        Ok(Exit::Done)
    }
}
