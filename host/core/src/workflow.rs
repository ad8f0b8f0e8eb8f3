//! Workflow v1: what a compiled procedure is, as a value and as a file.
//!
//! Owns the model, the file format, the canonical digest, the checks that make a workflow runnable and the
//! resolution of references. Refuses to decide whether a call may run: that is the dispatch's.
//!
//! **Invariant:** a [`VerifiedWorkflow`] has unique node ids, references that lead to declared inputs or to
//! nodes that come before, and no cycle; only [`verify`] makes one.

mod explain;
mod expr;
pub mod graph;
mod import;
mod inputs;
mod model;
mod parse;
mod schema;
mod suggested;
pub mod svg;
mod template;
mod text;
mod verify;

pub use explain::{
    ArgumentExplanation, EdgeExplanation, Explanation, NodeExplanation, accept_option, explain,
};
pub use expr::{Convert, Expr, Part, PathMissing, Reference, Scope, Source, Step, Template};
pub use import::{ImportedWorkflow, WorkflowReport};
pub(crate) use import::{from_workflow_ir, is_workflow_ir};
pub use inputs::bind_inputs;
pub use model::{
    Decision, Dropped, EffectBasis, EffectSource, ImportedFrom, Input, MAX_NODES, Node, Provenance, Reason,
    Recorded, Verdict, WORKFLOW_FORMAT, Wait, Workflow,
};
pub(crate) use parse::write_expr;
pub use parse::{json_schema, parse, to_json};
pub use schema::{input_schema, output_schema};
pub use suggested::{Condition, List, OptionalCall, RecordedCall, RecordedRun, RepeatedCall, Test};
pub use text::InvalidReference;
pub use verify::{VerifiedWorkflow, digest, verify};

#[cfg(test)]
mod tests;
