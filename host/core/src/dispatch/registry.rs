//! Which tools there are, and whether each may be bound.
//!
//! Owns the table from tool name to backend, with schemas compiled and contracts compared once. Refuses to
//! change after it was built.
//!
//! **Invariant:** a tool name leads to a handler only through this table, never through anything in a
//! trace or workflow.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::ports::ToolBackend;
use crate::code::Code;
use crate::contract::{Contract, Contracts};
use crate::digest::Digest;
use crate::document::Report;
use crate::id::{PluginId, ToolName};
use crate::problem::{Problems, hint};
use crate::schema::Schema;
use crate::tool::ToolDescriptor;

/// Who answers for a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It is part of this program: its own description counts as reviewed, with this very component.
    BuiltIn,
    /// Somebody else's: a person has to review its contracts.
    External,
}

/// The tools of one loaded plugin.
pub struct PluginTools {
    /// The plugin's name.
    pub plugin: PluginId,
    /// Digest of its component.
    pub handler: Digest,
    /// Who answers for it.
    pub trust: Trust,
    /// What it offers.
    pub tools: Vec<ToolDescriptor>,
    /// Tools that can't work with what the plugin was granted, each with what it lacks, for people.
    pub lacking: BTreeMap<ToolName, String>,
    /// What runs it.
    pub backend: Arc<dyn ToolBackend>,
}

/// One tool, ready to be called.
pub struct Registered {
    /// The plugin it belongs to.
    pub plugin: PluginId,
    /// What the plugin says of it.
    pub descriptor: ToolDescriptor,
    /// Digest of its handler.
    pub handler: Digest,
    /// The contract question, answered.
    pub bound: Bound,
    /// What the plugin would have to be granted first, if this tool can't work without.
    pub lacks: Option<String>,
    pub(super) backend: Arc<dyn ToolBackend>,
    pub(super) input: Arc<Schema>,
    pub(super) output: Option<Arc<Schema>>,
}

/// Whether a reviewed contract names exactly what would run.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Yes.
    Reviewed {
        /// The contract.
        contract: Arc<Contract>,
        /// Its digest.
        digest: Digest,
    },
    /// There is no contract.
    Missing,
    /// There is one that nobody reviewed.
    Unreviewed,
    /// There is one for something else.
    Drifted {
        /// Each difference, for people.
        differences: Vec<String>,
    },
}

/// Every tool of this process.
#[derive(Default)]
pub struct Registry {
    tools: BTreeMap<ToolName, Registered>,
}

impl Registry {
    /// Builds the table: compiles every schema and compares every contract, and reports every fault at once.
    /// A contract in `contracts` wins over the description of a built-in plugin.
    pub fn build(
        plugins: impl IntoIterator<Item = PluginTools>,
        contracts: &Contracts,
    ) -> Result<Registry, Problems> {
        let report = Report::default();
        let mut tools = BTreeMap::<ToolName, Registered>::new();
        let mut schemas = Schemas::default();
        for plugin in plugins {
            for descriptor in plugin.tools {
                let name = descriptor.name.clone();
                if let Some(other) = tools.get(&name) {
                    let message =
                        format!("plugins `{}` and `{}` both offer `{name}`", other.plugin, plugin.plugin);
                    report.add(Code::ToolDuplicate, format!("/{name}"), message);
                    continue;
                }
                let input = schemas.compile(&descriptor.input_schema, &name, "input", &report);
                let output = descriptor
                    .output_schema
                    .as_ref()
                    .map(|schema| schemas.compile(schema, &name, "output", &report));
                let (Some(input), Some(output)) = (input, output.map_or(Some(None), |o| o.map(Some))) else {
                    continue;
                };
                let bound = bind(&descriptor, plugin.handler, plugin.trust, contracts.get(&name));
                let lacks = plugin.lacking.get(&name).cloned();
                let registered = Registered {
                    plugin: plugin.plugin.clone(),
                    handler: plugin.handler,
                    bound,
                    lacks,
                    backend: Arc::clone(&plugin.backend),
                    input,
                    output,
                    descriptor,
                };
                tools.insert(name, registered);
            }
        }
        report.finish(Some(Registry { tools }))
    }

    /// A tool by name.
    pub fn get(&self, tool: &ToolName) -> Option<&Registered> {
        self.tools.get(tool)
    }

    /// Every tool, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.tools.values()
    }

    /// Why there is no tool of that name, with the nearest one there is.
    pub fn unknown(&self, tool: &ToolName) -> String {
        let hint = hint(tool.as_str(), self.tools.keys().map(ToolName::as_str));
        format!("no loaded plugin has a tool `{tool}`{hint}")
    }
}

/// Compiled schemas by their text: tools of one plugin often share them, and compiling one takes 100 µs.
#[derive(Default)]
struct Schemas(BTreeMap<String, Arc<Schema>>);

impl Schemas {
    fn compile(
        &mut self,
        schema: &serde_json::Value,
        tool: &ToolName,
        which: &str,
        report: &Report,
    ) -> Option<Arc<Schema>> {
        let text = schema.to_string();
        if let Some(known) = self.0.get(&text) {
            return Some(Arc::clone(known));
        }
        match Schema::compile(schema) {
            Ok(compiled) => Some(Arc::clone(self.0.entry(text).or_insert(Arc::new(compiled)))),
            Err(message) => {
                report.add(Code::PluginInvalid, format!("/{tool}/{which}_schema"), message);
                None
            }
        }
    }
}

fn bind(descriptor: &ToolDescriptor, handler: Digest, trust: Trust, contract: Option<&Contract>) -> Bound {
    let offered = Contract::candidate(descriptor, handler);
    let Some(contract) = contract else {
        return match trust {
            Trust::BuiltIn => Bound::Reviewed { digest: offered.digest(), contract: Arc::new(offered) },
            Trust::External => Bound::Missing,
        };
    };
    let differences = contract.differences(&offered);
    if !differences.is_empty() {
        return Bound::Drifted { differences };
    }
    if !contract.is_reviewed() {
        return Bound::Unreviewed;
    }
    Bound::Reviewed { digest: contract.digest(), contract: Arc::new(contract.clone()) }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}
