//! Recorded names that become registered ones.
//!
//! Owns the patterns of `--rename`, and the advice for a name that MCP doesn't allow. Refuses everything but
//! names: what a tool is, and where its code is, only the registry says.
//!
//! **Invariant:** the recorded name of a renamed call is kept in its event's metadata.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::is_recordable_tool;
use crate::code::Code;
use crate::id::{ToolName, allowed_tool_name};
use crate::problem::{Place, Problem, Problems};
use crate::trace::model::Trace;

/// Under which key of an event's metadata the recorded name is.
const KEY: &str = "recorded_tool";

/// Most names for which a rename is proposed.
const MAX_ADVICE: usize = 20;

/// A name with at most one `*`.
struct Pattern {
    before: String,
    /// What follows the `*`, if there is one.
    after: Option<String>,
}

impl Pattern {
    fn read(text: &str) -> Option<Pattern> {
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (text, None),
        };
        let is_one = after.as_ref().is_none_or(|after| !after.contains('*'));
        is_one.then(|| Pattern { before: before.to_owned(), after })
    }

    /// What stands for the `*` in a name; nothing if it doesn't fit.
    fn matched<'n>(&self, name: &'n str) -> Option<&'n str> {
        match &self.after {
            Some(after) => name.strip_prefix(self.before.as_str())?.strip_suffix(after.as_str()),
            None => (name == self.before).then_some(""),
        }
    }

    /// As it was given, for people.
    fn text(&self) -> String {
        let after = self.after.as_ref().map(|after| format!("*{after}")).unwrap_or_default();
        format!("{}{after}", self.before).escape_debug().to_string()
    }

    fn filled(&self, part: &str) -> String {
        match &self.after {
            Some(after) => format!("{}{part}{after}", self.before),
            None => self.before.clone(),
        }
    }
}

/// Every rename.
pub(super) struct Renaming(Vec<(Pattern, Pattern)>);

impl Renaming {
    /// Reads the patterns, and lists all that can't be used.
    pub(super) fn new(pairs: &[(String, String)]) -> Result<Renaming, Problems> {
        let (mut list, mut problems) = (Vec::new(), Vec::new());
        for (old, new) in pairs {
            match (Pattern::read(old), Pattern::read(new)) {
                (Some(from), Some(to)) if from.after.is_some() || to.after.is_none() => {
                    if to.after.is_none() && ToolName::new(new.as_str()).is_err() {
                        problems.push(problem(old, new, "the new name breaks MCP's rule for tool names"));
                    }
                    list.push((from, to));
                }
                (Some(_), Some(_)) => {
                    problems.push(problem(old, new, "the new name has a `*` and the old one has none"));
                }
                _ => problems.push(problem(old, new, "a name has more than one `*`")),
            }
        }
        Problems::from_list(problems)?;
        Ok(Renaming(list))
    }

    /// The name that a recorded one has here, if it is another.
    pub(super) fn name(&self, recorded: &str) -> Option<String> {
        self.fitting(recorded)?.1
    }

    /// The first rename that fits, and the other name that it gives, if that can be recorded.
    fn fitting(&self, recorded: &str) -> Option<(usize, Option<String>)> {
        let mut renames = self.0.iter().enumerate();
        let (at, name) =
            renames.find_map(|(at, (from, to))| Some((at, to.filled(from.matched(recorded)?))))?;
        Some((at, (name != recorded && is_recordable_tool(&name)).then_some(name)))
    }

    /// The tool that a recorded name stands for, or how to name one.
    pub(super) fn tool(&self, recorded: &str) -> Result<ToolName, String> {
        let name = self.name(recorded);
        let name = name.as_deref().unwrap_or(recorded);
        ToolName::new(name).map_err(|_| advice_for(name, |_| false))
    }

    /// Renames, and returns how many calls were; warns of renames that fit no call, and of tools that become one.
    pub(super) fn apply(&self, trace: &mut Trace, warnings: &mut Vec<String>) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let mut renamed = 0;
        let mut used = BTreeSet::new();
        let mut recorded_as = BTreeMap::<String, BTreeSet<String>>::new();
        for event in &mut trace.events {
            let fitting = self.fitting(&event.tool);
            let here = fitting.as_ref().and_then(|(_, name)| name.as_ref()).unwrap_or(&event.tool);
            recorded_as.entry(here.clone()).or_default().insert(event.tool.clone());
            let Some((at, name)) = fitting else { continue };
            used.insert(at);
            let Some(name) = name else { continue };
            let recorded = std::mem::replace(&mut event.tool, name);
            event.metadata.entry(KEY).or_insert_with(|| json!(recorded));
            renamed += 1;
        }
        for (_, (from, to)) in self.0.iter().enumerate().filter(|(at, _)| !used.contains(at)) {
            let (from, to) = (from.text(), to.text());
            warnings.push(format!("`--rename '{from}={to}'` fits no call's tool"));
        }
        for (name, recorded) in recorded_as.iter().filter(|(_, recorded)| recorded.len() > 1) {
            let recorded: Vec<&str> = recorded.iter().map(String::as_str).take(MAX_ADVICE).collect();
            warnings.push(format!("`{name}` now stands for several tools: {}", recorded.join(", ")));
        }
        renamed
    }
}

fn problem(old: &str, new: &str, reason: &str) -> Problem {
    let (old, new) = (old.escape_debug(), new.escape_debug());
    Problem::new(Code::FieldValue, Place::Whole, format!("the rename `{old}={new}`: {reason}"))
}

/// The renames without which calls can't be compiled.
pub(super) fn advice(trace: &Trace) -> Vec<String> {
    let names: BTreeSet<&str> = trace.events.iter().map(|event| event.tool.as_str()).collect();
    let wrong = names.iter().filter(|name| ToolName::new(**name).is_err()).take(MAX_ADVICE);
    wrong.map(|name| advice_for(name, |other| names.contains(other))).collect()
}

fn advice_for(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let (shown, allowed) = (name.escape_debug(), allowed_tool_name(name, is_taken));
    format!("the tool name `{shown}` breaks MCP's rule; `--rename '{shown}={allowed}'` would fix it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(name: &str, pairs: &[(&str, &str)]) -> Option<String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        let renaming = Renaming::new(&pairs).ok()?;
        renaming.0.iter().find_map(|(from, to)| Some(to.filled(from.matched(name)?)))
    }

    /// T16: a rename makes a name of a name; nothing else of a recording can say which tool is meant.
    #[test]
    fn the_first_pattern_that_fits_renames() {
        let pairs =
            [("mcp__github__*", "github.*"), ("get_*_v2", "get.*"), ("Read", "fs.read"), ("*", "x-*")];
        for (name, expected) in [
            ("mcp__github__list_issues", "github.list_issues"),
            ("get_user_v2", "get.user"),
            ("Read", "fs.read"),
            ("Reader", "x-Reader"),
        ] {
            assert_eq!(renamed(name, &pairs).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(renamed("aa", &[("aba*aba", "x")]), None);
    }

    #[test]
    fn a_rename_that_fits_no_call_is_said() {
        let pairs = [("Read", "fs.read"), ("Raed", "fs.read"), ("mcp__*", "*")];
        let pairs = pairs.map(|(old, new)| (old.to_owned(), new.to_owned()));
        let id = crate::id::NodeId::new("a").unwrap();
        let event = crate::trace::Event::new(id, "Read", serde_json::Map::new());
        let mut trace = Trace { events: vec![event], ..Trace::default() };
        let mut warnings = Vec::new();
        assert_eq!(Renaming::new(&pairs).unwrap().apply(&mut trace, &mut warnings), 1);
        assert_eq!(
            warnings,
            ["`--rename 'Raed=fs.read'` fits no call's tool", "`--rename 'mcp__*=*'` fits no call's tool"]
        );
    }

    /// T16: calls of two tools that become one are still told apart by their metadata, and it is said.
    #[test]
    fn tools_that_become_one_are_said() {
        let event = |tool: &str| {
            let id = crate::id::NodeId::new(format!("{tool}-1")).unwrap();
            crate::trace::Event::new(id, tool, serde_json::Map::new())
        };
        let mut trace = Trace { events: ["read", "list", "stat"].map(event).into(), ..Trace::default() };
        let mut warnings = Vec::new();
        let pairs = [("list".to_owned(), "read".to_owned())];
        assert_eq!(Renaming::new(&pairs).unwrap().apply(&mut trace, &mut warnings), 1);
        assert_eq!(warnings, ["`read` now stands for several tools: list, read"]);
    }

    #[test]
    fn patterns_that_can_not_be_used_are_all_listed() {
        let pairs = [("a*b*", "c"), ("a", "b*"), ("a", "b c"), ("a", "b")];
        let pairs = pairs.map(|(old, new)| (old.to_owned(), new.to_owned()));
        let problems = Renaming::new(&pairs).err().map(|problems| problems.iter().count());
        assert_eq!(problems, Some(3));
    }
}
