//! What a person sees while a run goes on.
//!
//! Owns one bar on a terminal. Refuses to draw when standard error isn't one.
//!
//! **Invariant:** drawing never blocks or fails a call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use t2m_core::dispatch::EventSink;
use t2m_core::event::Event;
use t2m_core::id::{NodeId, ToolName};

/// A bar with the calls that run now.
pub(crate) struct Progress {
    bar: ProgressBar,
    running: Mutex<BTreeMap<NodeId, ToolName>>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, running: Mutex::new(BTreeMap::new()) }
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, change: impl FnOnce(&mut BTreeMap<NodeId, ToolName>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        let names: Vec<String> = running.iter().map(|(node, tool)| format!("{node} ({tool})")).collect();
        self.bar.set_message(names.join(", "));
    }
}

impl EventSink for Progress {
    fn emit(&self, event: &Event) {
        match event {
            Event::RunStarted { nodes, .. } => self.bar.set_length(u64::try_from(*nodes).unwrap_or_default()),
            Event::NodeStarted { node, tool, .. } => self.show(|running| {
                running.insert(node.clone(), tool.clone());
            }),
            Event::NodeFinished { node, .. } => {
                self.bar.inc(1);
                self.show(|running| {
                    running.remove(node);
                });
            }
            _ => {}
        }
    }
}
