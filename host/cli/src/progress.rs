//! What a person sees while a run goes on, or a long file is read.
//!
//! Owns one bar on a terminal. Refuses to draw when standard error isn't one.
//!
//! **Invariant:** drawing never blocks or fails a call.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use t2m_core::dispatch::EventSink;
use t2m_core::event::Event;
use t2m_core::id::{NodeId, ToolName};

/// From here on a file takes long enough to read that a person wonders.
const LONG_FILE: u64 = 16 << 20;

/// The reader of a file, with a bar if the file is long.
pub(crate) fn reading(reader: Box<dyn Read>, length: Option<u64>) -> Box<dyn Read> {
    let Some(length) = length.filter(|length| *length >= LONG_FILE) else {
        return reader;
    };
    let bar = ProgressBar::new(length).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {bytes}/{total_bytes} read") {
        bar.set_style(style);
    }
    Box::new(bar.wrap_read(reader))
}

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
