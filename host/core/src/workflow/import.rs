//! Workflows of other programs.
//!
//! Owns the way from Trace2MCP's WorkflowIR "1" to a [`Workflow`]: references become typed, effects stay
//! assumptions, and what has no field here is kept in the workflow's source. Refuses what it can't keep, and
//! what that format writes in one way for two meanings.
//!
//! **Invariant:** every field of the file is in the workflow, in its source, or the file is refused with the
//! place of the field; no node may run earlier than the file lets it.

mod hash;
mod order;
mod read;
mod reference;

use serde::Serialize;
use serde_json::Value;

use super::model::{MAX_NODES, Workflow};
use crate::code::Code;
use crate::document::Report;
use crate::id::ToolName;
use crate::problem::Problems;

/// What a WorkflowIR file was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedWorkflow {
    /// The workflow.
    pub workflow: Workflow,
    /// What a person should know.
    pub report: WorkflowReport,
}

/// What the import of a workflow found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WorkflowReport {
    /// Its nodes.
    pub nodes: usize,
    /// Arguments and parts of them that come from an earlier result.
    pub references: usize,
    /// Its inputs.
    pub inputs: usize,
    /// Waits that the file doesn't have and that keep writes and reads in its order.
    pub order_edges: usize,
    /// Strings in which a path prefix was replaced.
    pub remapped: usize,
    /// Nodes whose tool was renamed.
    pub renamed: usize,
    /// What a person should know; lower case, no final period.
    pub warnings: Vec<String>,
}

/// Whether a JSON document is a WorkflowIR.
pub(crate) fn is_workflow_ir(value: &Value) -> bool {
    value.get("format").is_none()
        && value.get("nodes").is_some_and(Value::is_array)
        && (value.get("workflow_ir_version").is_some() || value.get("workflow_hash").is_some())
}

/// Makes a workflow of a WorkflowIR. `tool` gives the name that a recorded tool has here, or says why it has
/// none.
pub(crate) fn from_workflow_ir(
    value: &Value,
    tool: &dyn Fn(&str) -> Result<ToolName, String>,
) -> Result<ImportedWorkflow, Problems> {
    let report = Report::default();
    let nodes = value.get("nodes").and_then(Value::as_array).map_or(0, Vec::len);
    if nodes > MAX_NODES {
        report.add(Code::TooMany, "/nodes", format!("{nodes} nodes, at most {MAX_NODES}"));
        return report.finish(None);
    }
    let warnings = hash::check(value, &report);
    let read = read::workflow(value, tool, &report);
    let (workflow, mut about) = report.finish(read)?;
    about.warnings.splice(0..0, warnings);
    let mut workflow = workflow;
    let verified = super::verify::verify(workflow.clone(), None).map_err(read::placed)?;
    let unrecorded = read::record(&mut workflow, std::mem::take(&mut about.results))?;
    let edges = order::keep(&mut workflow, verified.dependencies());
    let warnings = about.warnings;
    let unrecorded = (unrecorded > 0).then(|| {
        format!("{unrecorded} nodes have no recorded result or arguments that `replay` could compare with")
    });
    let report = WorkflowReport {
        nodes: workflow.nodes.len(),
        references: workflow.nodes.iter().map(|node| results_in(&node.arguments)).sum(),
        inputs: workflow.inputs.len(),
        order_edges: edges,
        renamed: about.renamed,
        remapped: 0,
        warnings: order::warning(edges).into_iter().chain(unrecorded).chain(warnings).collect(),
    };
    Ok(ImportedWorkflow { workflow, report })
}

fn results_in(expr: &super::expr::Expr) -> usize {
    let is_result =
        |reference: &&super::expr::Reference| matches!(reference.source, super::expr::Source::Node(_));
    expr.references().into_iter().filter(is_result).count()
}

#[cfg(test)]
mod tests;
