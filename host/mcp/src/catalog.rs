//! What a client can list and call at one time.
//!
//! Owns the table from a name to a tool or a workflow, with everything that `tools/list` shows made once.
//! Refuses to change: a reload makes a new one, and calls that run keep theirs.
//!
//! **Invariant:** what is listed can be called, and nothing else can.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;
use t2m_core::code::Code;
use t2m_core::dispatch::{Bound, Dispatcher};
use t2m_core::document::Report;
use t2m_core::id::ToolName;
use t2m_core::problem::{Problems, hint};

use crate::convert;
use crate::workflow::WorkflowRunner;

/// Every tool and workflow, frozen.
pub struct Catalog {
    dispatcher: Arc<Dispatcher>,
    entries: BTreeMap<ToolName, Entry>,
}

struct Entry {
    shown: Tool,
    target: Target,
}

/// Where a call goes.
#[derive(Clone)]
pub(crate) enum Target {
    /// To the dispatcher.
    Tool(ToolName),
    /// To a workflow's runner.
    Workflow(Arc<dyn WorkflowRunner>),
}

impl Catalog {
    /// Every tool that is bound to a reviewed contract, and these workflows; of all of them those in `only`, if it
    /// names any. Two of one name are a fault, and so is a name in `only` that there isn't; all faults are
    /// reported at once.
    pub fn new(
        dispatcher: Arc<Dispatcher>,
        workflows: impl IntoIterator<Item = Arc<dyn WorkflowRunner>>,
        only: &[ToolName],
    ) -> Result<Catalog, Problems> {
        let report = Report::default();
        let mut entries = BTreeMap::new();
        for registered in dispatcher.registry().iter() {
            if let Bound::Reviewed { contract, .. } = &registered.bound {
                let name = &registered.descriptor.name;
                if let Some(shown) = shown(name, convert::tool(registered, contract), &report) {
                    entries.insert(name.clone(), Entry { shown, target: Target::Tool(name.clone()) });
                }
            }
        }
        for workflow in workflows {
            let tool = workflow.tool();
            let name = tool.name.clone();
            if entries.contains_key(&name) {
                let message = format!("`{name}` is the name of a tool or of another workflow already");
                report.add(Code::ToolDuplicate, format!("/{name}"), message);
                continue;
            }
            if let Some(shown) = shown(&name, convert::workflow(tool), &report) {
                entries.insert(name, Entry { shown, target: Target::Workflow(workflow) });
            }
        }
        for name in only.iter().filter(|name| !entries.contains_key(*name)) {
            let hint = hint(name.as_str(), entries.keys().map(ToolName::as_str));
            report.add(
                Code::ToolUnknown,
                format!("/{name}"),
                format!("nothing here is named `{name}`{hint}"),
            );
        }
        if !only.is_empty() {
            entries.retain(|name, _| only.contains(name));
        }
        report.finish(Some(Catalog { dispatcher, entries }))
    }

    /// How many tools and workflows there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to call.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.dispatcher
    }

    /// Everything, by name: the same order for every client.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        self.entries.values().map(|entry| entry.shown.clone()).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Tool> {
        self.entry(name).map(|entry| entry.shown.clone())
    }

    pub(crate) fn target(&self, name: &str) -> Option<Target> {
        self.entry(name).map(|entry| entry.target.clone())
    }

    /// Why nothing of that name can be called, with the nearest name that can.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let known = self.entries.keys().map(ToolName::as_str);
        format!("unknown tool `{name}`{}", hint(name, known))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        ToolName::new(name).ok().and_then(|name| self.entries.get(&name))
    }
}

fn shown(name: &ToolName, value: Value, report: &Report) -> Option<Tool> {
    let tool = serde_json::from_value(value);
    let refused = |error: &serde_json::Error| {
        report.add(Code::PluginInvalid, format!("/{name}"), format!("MCP has no form for it: {error}"));
    };
    tool.inspect_err(refused).ok()
}
