//! Recorded paths under another root.
//!
//! Owns `--map OLD=NEW`. Refuses patterns: only whole path prefixes are replaced.
//!
//! **Invariant:** a string is read once from left to right, so what a replacement wrote is never replaced
//! again, and equal strings stay equal wherever they stand.

use serde_json::Value;

use crate::code::Code;
use crate::problem::{Place, Problem, Problems};
use crate::trace::model::Trace;
use crate::workflow::{Expr, Workflow};

pub(super) struct Mapping(Vec<(String, String)>);

impl Mapping {
    pub(super) fn new(map: &[(String, String)]) -> Result<Mapping, Problems> {
        let mut rules = Vec::with_capacity(map.len());
        let mut problems = Vec::new();
        for (old, new) in map {
            let (from, to) = (trimmed(old), trimmed(new));
            if from.is_empty() {
                let message = format!("`{}` is no path that could be mapped", old.escape_debug());
                problems.push(Problem::new(Code::FieldValue, Place::Whole, message));
            }
            rules.push((from.to_owned(), to.to_owned()));
        }
        Problems::from_list(problems)?;
        // The most specific root wins.
        rules.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        Ok(Mapping(rules))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces in inputs, arguments and results; the number of strings that changed.
    pub(super) fn apply(&self, trace: &mut Trace) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let mut changed = 0;
        trace.inputs.values_mut().for_each(|value| self.value(value, &mut changed));
        for event in &mut trace.events {
            event.arguments.values_mut().for_each(|value| self.value(value, &mut changed));
            self.value(&mut event.result, &mut changed);
        }
        changed
    }

    /// Replaces in the data of a workflow, never in a reference; the number of strings that changed.
    pub(super) fn apply_to_workflow(&self, workflow: &mut Workflow) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let mut changed = 0;
        let defaults = workflow.inputs.values_mut().filter_map(|input| input.default.as_mut());
        defaults.for_each(|value| self.value(value, &mut changed));
        for node in &mut workflow.nodes {
            self.expr(&mut node.arguments, &mut changed);
            if let Some(recorded) = &mut node.recorded {
                recorded.arguments.values_mut().for_each(|value| self.value(value, &mut changed));
                self.value(&mut recorded.result, &mut changed);
            }
        }
        changed
    }

    fn expr(&self, expr: &mut Expr, changed: &mut usize) {
        match expr {
            Expr::Literal(value) => self.value(value, changed),
            // No workflow that is imported has a template.
            Expr::Ref(_) | Expr::Template(_) => {}
            Expr::Object(members) => members.values_mut().for_each(|member| self.expr(member, changed)),
            Expr::List(items) => items.iter_mut().for_each(|item| self.expr(item, changed)),
        }
    }

    fn value(&self, value: &mut Value, changed: &mut usize) {
        match value {
            Value::String(text) => {
                if let Some(new) = self.text(text) {
                    *text = new;
                    *changed += 1;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.value(item, changed)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item, changed)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The replaced text, or nothing if no root stands in it.
    fn text(&self, text: &str) -> Option<String> {
        let mut found: Vec<(usize, &str, &str)> = Vec::new();
        for (old, new) in &self.0 {
            let at = text.match_indices(old.as_str()).map(|(at, _)| at);
            let whole = at.filter(|at| {
                let before = text.get(..*at).unwrap_or_default();
                let after = text.get(at + old.len()..).unwrap_or_default();
                begins_here(before) && ends_here(after)
            });
            found.extend(whole.map(|at| (at, old.as_str(), new.as_str())));
        }
        if found.is_empty() {
            return None;
        }
        // Stable: at one place the most specific root comes first.
        found.sort_by_key(|(at, _, _)| *at);
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        for (at, old, new) in found {
            if at < done {
                continue;
            }
            out.push_str(text.get(done..at)?);
            out.push_str(new);
            done = at + old.len();
        }
        out.push_str(text.get(done..)?);
        Some(out)
    }
}

fn trimmed(path: &str) -> &str {
    let cut = path.trim_end_matches('/');
    if cut.is_empty() { path.get(..1).unwrap_or_default() } else { cut }
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '/' | '\\' | '+' | '@' | '%')
}

/// A URI's authority ends where its path begins: `file:///home` holds the path `/home`.
fn begins_here(before: &str) -> bool {
    before.ends_with("://") || !before.ends_with(is_path_char)
}

fn ends_here(after: &str) -> bool {
    // The full stop of a sentence is no part of the path before it.
    let rest = after.strip_prefix('.').filter(|rest| !rest.starts_with(is_path_char)).unwrap_or(after);
    rest.starts_with(['/', '\\']) || !rest.starts_with(is_path_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_prefixes_are_replaced() {
        let rules = [("/home/user/repo/", "/srv"), ("/home/user", "/u"), ("C:\\code", "/c")];
        let map: Vec<_> = rules.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let mapping = Mapping::new(&map).unwrap();
        for (text, expected) in [
            ("/home/user/repo", "/srv"),
            ("/home/user/repo/a.txt", "/srv/a.txt"),
            ("/home/user/repository/a", "/u/repository/a"),
            ("/home/user2/a", "/home/user2/a"),
            ("/mnt/home/user/a", "/mnt/home/user/a"),
            ("Allowed:\n/home/user/repo\n/home/user", "Allowed:\n/srv\n/u"),
            ("see '/home/user/repo/x', (/home/user).", "see '/srv/x', (/u)."),
            ("open /home/user/repo.", "open /srv."),
            ("/home/user/repo.bak", "/u/repo.bak"),
            ("PATH=/home/user/repo:/home/user/bin", "PATH=/srv:/u/bin"),
            ("file:///home/user/repo/a", "file:///srv/a"),
            ("C:\\code\\a", "/c\\a"),
            ("ä/home/user", "ä/home/user"),
            ("", ""),
        ] {
            let replaced = mapping.text(text).unwrap_or_else(|| text.to_owned());
            assert_eq!(replaced, expected, "{text}");
        }
        assert!(Mapping::new(&[(String::new(), "/x".to_owned())]).is_err());
    }

    #[test]
    fn a_replacement_is_not_replaced_again() {
        let rules = [("/a".to_owned(), "/b".to_owned()), ("/b".to_owned(), "/a".to_owned())];
        let mapping = Mapping::new(&rules).unwrap();
        assert_eq!(mapping.text("/a /b").as_deref(), Some("/b /a"));
    }
}
