//! `t2m-host graph`: a workflow as a diagram.
//!
//! Owns the choice of notation. Refuses to draw pixels: whoever shows the text does.
//!
//! **Invariant:** the text is a complete diagram in its notation.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;
use t2m_core::code::Code;
use t2m_core::workflow::{graph, svg};

use super::run::read_workflow;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::out::Out;

/// Draw a workflow.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host graph workflow.json > workflow.mmd
  t2m-host graph workflow.json --as svg > workflow.svg
  t2m-host graph workflow.json --as dot | dot -Tpng > workflow.png")]
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
    /// A picture that any browser shows
    Svg,
}

impl Graph {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let verified = read_workflow(&self.workflow)?;
        let (notation, text) = match self.notation {
            Notation::Mermaid => ("mermaid", graph::mermaid(verified.workflow())),
            Notation::Dot => ("dot", graph::dot(verified.workflow())),
            Notation::Svg => {
                let drawn = svg::svg(&verified).ok_or_else(|| {
                    let message =
                        format!("more than {} nodes can't be drawn; use `--as dot`", svg::MAX_DRAWN);
                    Failure::of_file(&self.workflow, Code::TooMany, message)
                })?;
                ("svg", drawn)
            }
        };
        out.data(|| text.clone(), || json!({"notation": notation, "diagram": text}));
        Ok(Exit::Done)
    }
}
