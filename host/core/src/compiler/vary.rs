//! Calls that not all recordings have alike, as suggestions.
//!
//! Owns the question whether the common part can do without them, and what is suggested: an optional call with
//! its arguments and the condition that fits, a repeated call with the list that fits. Refuses to make nodes of
//! them: that a call was made in some runs is no reason to make it in every one.
//!
//! **Invariant:** each call of each recording is a node, or named here or among what is left out; a reference
//! that is suggested resolves, in each recording that has the call, to what was recorded there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::hash::same;
use super::infer::Inferred;
use super::own::sources;
use super::several::{Columns, Other, not_everywhere};
use super::tell::Table;
use super::{Kept, RecordingReport, dedup};
use crate::code::Code;
use crate::effect::Effect;
use crate::id::{NodeId, ToolName};
use crate::problem::{Problem, Problems, item, lookup};
use crate::trace::{Event, Trace};
use crate::workflow::{
    Decision, Dropped, List, OptionalCall, RecordedCall, RecordedRun, Reference, RepeatedCall, Source, Step,
    Verdict,
};

/// Recordings side by side, with what became of the first.
pub(super) struct View<'a> {
    pub(super) first: &'a Trace,
    /// The first recording's inputs, those made of differing literals too.
    pub(super) inputs: &'a Map<String, Value>,
    pub(super) others: &'a [Other],
    pub(super) columns: &'a Columns,
    pub(super) kept: &'a [Kept<'a>],
}

/// What is suggested, and what is left out.
#[derive(Default)]
pub(super) struct Varying {
    pub(super) optional: Vec<OptionalCall>,
    pub(super) repeated: Vec<RepeatedCall>,
    /// Of further recordings.
    pub(super) dropped: Vec<Dropped>,
    pub(super) recordings: Vec<RecordingReport>,
    pub(super) notes: Vec<String>,
}

/// Whether two pointers name one value, or one is inside the other.
fn related(one: &str, two: &str) -> bool {
    let inside = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(one, two) || inside(two, one)
}

impl View<'_> {
    fn event(&self, recording: usize, call: usize) -> Option<&Event> {
        match recording {
            0 => self.first.events.get(call),
            _ => self.columns.extra.get(&(recording, call)),
        }
    }

    /// The arguments of a column's call.
    fn arguments(&self, recording: usize, column: usize) -> Option<&Map<String, Value>> {
        let calls = &self.columns.list.get(column)?.calls;
        let call = calls.get(recording).copied().flatten()?;
        if recording > 0 && self.columns.is_full(column) {
            let first = calls.first().copied().flatten()?;
            return self.others.get(recording - 1)?.arguments(first);
        }
        self.event(recording, call).map(|event| &event.arguments)
    }

    fn recordings(&self) -> usize {
        self.others.len() + 1
    }

    /// Refuses a workflow of which an argument comes from a call that isn't part of it.
    pub(super) fn refuse(&self, inferred: &[Inferred]) -> Result<(), Problems> {
        let mut problems = Vec::new();
        for (kept, inferred) in self.kept.iter().zip(inferred) {
            let Some(column) = self.columns.column(0, kept.position, kept.position + 1) else { continue };
            for decision in &inferred.decisions {
                let opened = matches!(&decision.chosen, Some(Reference { source: Source::Input(name), .. })
                    if !self.first.inputs.contains_key(name));
                if decision.verdict == Verdict::Reference || (decision.verdict == Verdict::Input && !opened) {
                    continue;
                }
                let found = self.outside(column, decision);
                // What is the same in a recording without that call doesn't come from it.
                if opened || found.iter().all(|(_, needed)| needed.is_some()) {
                    let needed = found
                        .iter()
                        .find_map(|(recording, needed)| self.need(*recording, column, decision, (*needed)?));
                    let at = format!("{}/arguments{}", item("/events", kept.position), decision.pointer);
                    problems.extend(needed.map(|message| Problem::at(Code::TracesDiffer, at, message)));
                }
            }
        }
        Problems::from_list(problems)
    }

    fn need(&self, recording: usize, column: usize, decision: &Decision, needed: usize) -> Option<String> {
        let call = |column: usize| -> Option<(ToolName, NodeId)> {
            let calls = &self.columns.list.get(column)?.calls;
            let event = match (self.columns.is_full(column), calls.get(recording).copied().flatten()?) {
                (false, call) => self.event(recording, call)?,
                (true, _) => self.first.events.get(calls.first().copied().flatten()?)?,
            };
            Some((ToolName::new(event.tool.as_str()).ok()?, event.id.clone()))
        };
        let ((tool, id), (needed_tool, needed_id)) = (call(column)?, call(needed)?);
        Some(format!(
            "`{}` of `{tool}` (`{id}`) is a result of `{needed_tool}` (`{needed_id}`) in recording {}, and {}; \
             compile the recordings that have it apart from the others",
            decision.pointer,
            recording + 1,
            not_everywhere(&self.columns.missing(needed))
        ))
    }

    /// For each recording that has a value: the column of the call that it comes from there, if that call
    /// isn't part of all recordings.
    fn outside(&self, column: usize, decision: &Decision) -> Vec<(usize, Option<usize>)> {
        let calls = self.columns.list.get(column).map(|column| column.calls.as_slice()).unwrap_or_default();
        let mut found = Vec::new();
        for (recording, (call, own)) in calls.iter().zip(&self.columns.own).enumerate() {
            let Some(call) = *call else { continue };
            let entry = own.calls.get(&call).and_then(|entry| match entry.repeats {
                Some(first) => own.calls.get(&first),
                None => Some(entry),
            });
            let decisions = entry.into_iter().flat_map(|entry| &entry.decisions);
            let mut decisions = decisions.filter(|own| related(&own.pointer, &decision.pointer)).peekable();
            if decisions.peek().is_none() {
                continue;
            }
            let needed = decisions.find_map(|decision| {
                let columns: Option<Vec<usize>> = sources(decision)
                    .iter()
                    .map(|reference| self.columns.column(recording, own.source(reference)?, call))
                    .collect();
                let columns =
                    columns.filter(|all| all.iter().all(|column| !self.columns.is_full(*column)))?;
                columns.first().copied()
            });
            found.push((recording, needed));
        }
        found
    }

    /// Everything that is left to say. `dropped` are the first recording's events that are no nodes.
    pub(super) fn suggest(&self, dropped: &[(usize, Dropped)]) -> Varying {
        let mut varying = Varying::default();
        let nodes = self.nodes(dropped);
        let names = self.names(&nodes);
        // A call that was dropped for its repeat has the other's id: the first column is the node's own.
        let by_id = nodes.iter().chain(&names).rev().map(|(column, id)| (id.clone(), *column)).collect();
        let named = Named { view: self, by_id, nodes, names, table: Table::default() };
        let table = named.table();
        let named = Named { table, ..named };
        let runs = named.runs();
        let mut explained: HashSet<usize> = HashSet::new();
        for run in &runs {
            let Some(repeated) = named.repeated(run) else { continue };
            if !repeated.lists.is_empty() {
                explained.extend(run);
            }
            varying.repeated.push(repeated);
        }
        for (column, _) in self.columns.list.iter().enumerate() {
            if named.names.contains_key(&column) && !explained.contains(&column) {
                varying.optional.extend(named.optional(column));
            }
        }
        self.left_out(&named, &mut varying);
        self.count(&named, &explained, &mut varying);
        self.note(&mut varying);
        varying
    }

    /// The node of each column that has one.
    fn nodes(&self, dropped: &[(usize, Dropped)]) -> BTreeMap<usize, NodeId> {
        let kept = self.kept.iter().map(|kept| (kept.position, kept.event.id.clone()));
        let same = dropped.iter().filter_map(|(at, dropped)| Some((*at, dropped.same_as.clone()?)));
        let by_position: HashMap<usize, NodeId> = kept.chain(same).collect();
        let full = self.columns.list.iter().enumerate().filter(|(_, column)| column.is_full());
        full.filter_map(|(at, column)| {
            Some((at, by_position.get(&column.calls.first().copied().flatten()?)?.clone()))
        })
        .collect()
    }

    /// An id for each optional call that is no node's.
    fn names(&self, nodes: &BTreeMap<usize, NodeId>) -> BTreeMap<usize, NodeId> {
        let mut taken: BTreeSet<String> = nodes.values().map(ToString::to_string).collect();
        let mut names = BTreeMap::new();
        for (at, column) in self.columns.list.iter().enumerate().filter(|(_, column)| !column.is_full()) {
            let mut calls =
                column.calls.iter().enumerate().filter_map(|(recording, call)| Some((recording, (*call)?)));
            let is_new = |(recording, call): &(usize, usize)| !self.is_repeat(*recording, *call);
            let Some((recording, call)) = calls.find(is_new) else { continue };
            let Some(event) = self.event(recording, call) else { continue };
            let numbered = (2..).map(|number| format!("{}-{number}", event.id));
            let mut free = std::iter::once(event.id.to_string()).chain(numbered);
            let name = free.find(|name| !taken.contains(name)).unwrap_or_default();
            taken.insert(name.clone());
            names.extend(NodeId::new(name).ok().map(|name| (at, name)));
        }
        names
    }

    fn is_repeat(&self, recording: usize, call: usize) -> bool {
        let own = self.columns.own.get(recording);
        own.and_then(|own| own.calls.get(&call)).is_some_and(|call| call.repeats.is_some())
    }

    /// What of further recordings is no node, each with the reason.
    fn left_out(&self, named: &Named<'_>, varying: &mut Varying) {
        varying.dropped.extend(self.columns.left_out.iter().cloned());
        for (column, entry) in self.columns.list.iter().enumerate().filter(|(_, entry)| !entry.is_full()) {
            for (recording, call) in entry.calls.iter().enumerate().skip(1) {
                let Some(event) = call.and_then(|call| self.event(recording, call)) else { continue };
                let same_as = call
                    .filter(|call| self.is_repeat(recording, *call))
                    .and_then(|call| named.nodes.get(&self.columns.column(recording, call, call)?).cloned());
                let reason = match same_as {
                    Some(_) => dedup::REASON.to_owned(),
                    None => not_everywhere(&self.columns.missing(column)),
                };
                let (event, recording) = (event.id.to_string(), Some(recording + 1));
                varying.dropped.push(Dropped { event, recording, reason, same_as });
            }
        }
    }

    fn count(&self, named: &Named<'_>, explained: &HashSet<usize>, varying: &mut Varying) {
        for recording in 0..self.recordings() {
            let mut report = RecordingReport {
                recording: recording + 1,
                events: self.columns.events.get(recording).copied().unwrap_or_default(),
                ..RecordingReport::default()
            };
            for (column, entry) in self.columns.list.iter().enumerate() {
                let Some(call) = entry.calls.get(recording).copied().flatten() else { continue };
                if entry.is_full() {
                    report.common += 1;
                } else if let Some(event) = self.event(recording, call) {
                    let list = if !named.names.contains_key(&column) || self.is_repeat(recording, call) {
                        &mut report.repeats
                    } else if explained.contains(&column) {
                        &mut report.repeated
                    } else {
                        &mut report.optional
                    };
                    list.push(event.id.to_string());
                }
            }
            let counted =
                report.common + report.repeats.len() + report.repeated.len() + report.optional.len();
            report.left_out = report.events.saturating_sub(counted);
            varying.recordings.push(report);
        }
    }

    /// What further recordings have and the first hasn't.
    fn note(&self, varying: &mut Varying) {
        for (number, other) in (2..).zip(self.others) {
            let inputs: Vec<String> = other
                .inputs
                .keys()
                .filter(|name| !self.inputs.contains_key(*name))
                .map(|name| format!("`{}`", name.escape_debug()))
                .collect();
            if !inputs.is_empty() {
                let list = inputs.join(", ");
                varying.notes.push(format!(
                    "recording {number} has inputs that the first hasn't, which the workflow doesn't take: {list}"
                ));
            }
            for kept in self.kept {
                let own = other.arguments(kept.position).into_iter().flatten().map(|(key, _)| key);
                for key in own.filter(|key| !kept.event.arguments.contains_key(*key)) {
                    varying.notes.push(format!(
                        "recording {number} gives `{}` to `{}`, which the first doesn't, and so the workflow doesn't",
                        key.escape_debug(),
                        kept.event.id
                    ));
                }
            }
        }
    }
}

/// A view with names for what is no node.
struct Named<'a> {
    view: &'a View<'a>,
    /// By column.
    nodes: BTreeMap<usize, NodeId>,
    names: BTreeMap<usize, NodeId>,
    by_id: HashMap<NodeId, usize>,
    table: Table,
}

impl Named<'_> {
    /// Where a reference starts in one recording.
    fn start(&self, recording: usize, source: &Source) -> Option<&Value> {
        let other = recording.checked_sub(1).and_then(|other| self.view.others.get(other));
        match source {
            Source::Input(name) => other.map_or(self.view.inputs, |other| &other.inputs).get(name),
            Source::Node(id) => {
                if let Some(found) = other.and_then(|other| other.results.get(id)) {
                    return Some(found);
                }
                let column = self.by_id.get(id)?;
                let call = self.view.columns.list.get(*column)?.calls.get(recording).copied().flatten()?;
                self.view.event(recording, call).map(|event| &event.result)
            }
        }
    }

    /// A reference of one recording with the ids of nodes and optional calls.
    fn translate(&self, recording: usize, call: usize, reference: &Reference) -> Option<Reference> {
        let mut reference = reference.clone();
        if let Source::Node(_) = &reference.source {
            let own = self.view.columns.own.get(recording)?;
            let column = self.view.columns.column(recording, own.source(&reference)?, call)?;
            let id = self.nodes.get(&column).or_else(|| self.names.get(&column))?;
            reference.source = Source::Node(id.clone());
        }
        Some(reference)
    }

    fn leads_to(&self, recording: usize, reference: &Reference, wanted: &Value) -> bool {
        let found = reference.follow(self.start(recording, &reference.source));
        found.is_ok_and(|found| same(&found, wanted))
    }

    /// Everything that could tell recordings apart.
    fn table(&self) -> Table {
        let mut table = Table::default();
        let all = |source: &Source| -> Vec<Option<&Value>> {
            (0..self.view.recordings()).map(|recording| self.start(recording, source)).collect()
        };
        if self.names.is_empty() {
            return table;
        }
        for name in self.view.inputs.keys() {
            let source = Source::Input(name.clone());
            table.add(source.clone(), None, &all(&source));
        }
        for (column, id) in &self.nodes {
            let source = Source::Node(id.clone());
            table.add(source.clone(), Some(*column), &all(&source));
        }
        table
    }

    /// The last node before a column.
    fn after(&self, column: usize) -> Option<NodeId> {
        self.nodes.range(..column).next_back().map(|(_, id)| id.clone())
    }

    /// The first recording that has a column's call, with the call.
    fn shown(&self, column: usize) -> Option<(usize, usize)> {
        let calls = &self.view.columns.list.get(column)?.calls;
        calls.iter().enumerate().find_map(|(recording, call)| Some((recording, (*call)?)))
    }

    fn effect(&self, column: usize) -> Option<Effect> {
        let calls = &self.view.columns.list.get(column)?.calls;
        let own = calls.iter().zip(&self.view.columns.own);
        own.filter_map(|(call, own)| Some(own.calls.get(&(*call)?)?.facts.effect)).max()
    }

    fn tool(&self, column: usize) -> Option<ToolName> {
        let (recording, call) = self.shown(column)?;
        let event = if self.view.columns.is_full(column) {
            self.view.first.events.get(call)
        } else {
            self.view.event(recording, call)
        };
        ToolName::new(event?.tool.as_str()).ok()
    }

    fn optional(&self, column: usize) -> Option<OptionalCall> {
        let (first, call) = self.shown(column)?;
        let having = &self.view.columns.list.get(column)?.calls;
        let arguments = self.view.arguments(first, column)?.clone();
        let own = self.view.columns.own.get(first)?.calls.get(&call)?;
        let mut references = BTreeMap::new();
        let whole = Value::Object(arguments.clone());
        let given: Vec<(usize, Value)> = (first + 1..having.len())
            .filter_map(|other| Some((other, Value::Object(self.view.arguments(other, column)?.clone()))))
            .collect();
        for decision in &own.decisions {
            let Some(chosen) = &decision.chosen else { continue };
            let Some(reference) = self.translate(first, call, chosen) else { continue };
            let fits = |(recording, arguments): &(usize, Value)| {
                let wanted = arguments.pointer(&decision.pointer);
                wanted.is_none_or(|wanted| self.leads_to(*recording, &reference, wanted))
            };
            let here = whole.pointer(&decision.pointer);
            if here.is_some_and(|wanted| self.leads_to(first, &reference, wanted)) && given.iter().all(fits) {
                references.insert(decision.pointer.clone(), reference);
            }
        }
        let mut unexplained: Vec<String> = given
            .iter()
            .flat_map(|(_, other)| crate::compare::differences("", &whole, other))
            .map(|difference| difference.pointer)
            .filter(|pointer| !references.keys().any(|bound| related(bound, pointer)))
            .collect();
        unexplained.sort_unstable();
        unexplained.dedup();
        let mut calls = Vec::new();
        for (recording, call) in having.iter().enumerate() {
            let event = call.and_then(|call| self.view.event(recording, call));
            calls.extend(
                event.map(|event| RecordedCall { recording: recording + 1, event: event.id.to_string() }),
            );
        }
        let has: Vec<bool> = having.iter().map(Option::is_some).collect();
        Some(OptionalCall {
            id: self.names.get(&column)?.clone(),
            tool: self.tool(column)?,
            effect: self.effect(column)?,
            after: self.after(column),
            calls,
            missing_in: self.view.columns.missing(column).iter().map(|recording| recording + 1).collect(),
            arguments,
            references,
            unexplained,
            conditions: self.table.tell(column, &has),
        })
    }

    /// Columns one after the other that call one tool with the same arguments' names.
    fn runs(&self) -> Vec<Vec<usize>> {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut last: Option<(ToolName, Effect, Vec<String>)> = None;
        for column in 0..self.view.columns.list.len() {
            let is_one = self.nodes.contains_key(&column) || self.names.contains_key(&column);
            let shape = self.shown(column).filter(|_| is_one).and_then(|(recording, _)| {
                let keys = self.view.arguments(recording, column)?.keys().cloned().collect();
                Some((self.tool(column)?, self.effect(column)?, keys))
            });
            match runs.last_mut().filter(|_| shape.is_some() && shape == last) {
                Some(run) => run.push(column),
                None => runs.push(vec![column]),
            }
            last = shape;
        }
        runs.retain(|run| run.len() > 1);
        runs
    }

    /// A run as a suggestion, if recordings differ in its length or it goes through a list.
    fn repeated(&self, run: &[usize]) -> Option<RepeatedCall> {
        let first = *run.first()?;
        let calls_of = |recording: usize| -> Vec<(usize, usize)> {
            let call = |column: &usize| {
                let calls = &self.view.columns.list.get(*column)?.calls;
                Some((*column, calls.get(recording).copied().flatten()?))
            };
            run.iter().filter_map(call).collect()
        };
        let calls: Vec<Vec<(usize, usize)>> = (0..self.view.recordings()).map(calls_of).collect();
        let counts: BTreeSet<usize> = calls.iter().map(Vec::len).collect();
        let lists = self.lists(&calls);
        if counts.len() < 2 && lists.is_empty() {
            return None;
        }
        let mut shown = Vec::new();
        for (recording, calls) in calls.iter().enumerate() {
            let id = |(column, call): &(usize, usize)| {
                let event = self.view.event(recording, *call).or_else(|| {
                    let first = self.view.columns.list.get(*column)?.calls.first().copied().flatten()?;
                    self.view.others.get(recording.checked_sub(1)?)?.event(first)
                });
                event.map(|event| event.id.to_string())
            };
            shown.push(RecordedRun {
                recording: recording + 1,
                events: calls.iter().filter_map(id).collect(),
            });
        }
        let (recording, _) = self.shown(first)?;
        let nodes: Vec<NodeId> = run.iter().filter_map(|column| self.nodes.get(column).cloned()).collect();
        Some(RepeatedCall {
            tool: self.tool(first)?,
            effect: self.effect(first)?,
            after: self.after(first),
            nodes,
            calls: shown,
            arguments: self.view.arguments(recording, first)?.clone(),
            lists,
        })
    }

    /// The lists that the calls of every recording run through from the first item on.
    fn lists(&self, calls: &[Vec<(usize, usize)>]) -> Vec<List> {
        let Some((recording, longest)) = calls.iter().enumerate().rev().max_by_key(|(_, calls)| calls.len())
        else {
            return Vec::new();
        };
        let Some((_, second)) = longest.get(1) else { return Vec::new() };
        let Some(own) = self.view.columns.own.get(recording).and_then(|own| own.calls.get(second)) else {
            return Vec::new();
        };
        let mut lists: BTreeMap<Reference, List> = BTreeMap::new();
        for decision in &own.decisions {
            for seen in decision.chosen.iter().chain(&decision.candidates) {
                let Some(reference) = self.translate(recording, *second, seen) else { continue };
                let steps = reference.path.iter().enumerate();
                for (at, _) in steps.filter(|(_, step)| **step == Step::Index(1)) {
                    let Some(whole) = self.runs_through(&reference, at, &decision.pointer, calls) else {
                        continue;
                    };
                    let mut list = reference.clone();
                    list.path.truncate(at);
                    list.convert = None;
                    let entry = lists.entry(list.clone());
                    let entry = entry.or_insert_with(|| List { list, whole, arguments: BTreeMap::new() });
                    entry
                        .arguments
                        .entry(decision.pointer.clone())
                        .or_insert_with(|| item_of(&reference, at, 0));
                }
            }
        }
        lists.into_values().collect()
    }

    /// Whether a value of every call is that of the list's next item, in every recording; and then, whether
    /// each recording goes through all of the list.
    fn runs_through(
        &self,
        reference: &Reference,
        at: usize,
        pointer: &str,
        calls: &[Vec<(usize, usize)>],
    ) -> Option<bool> {
        let mut list = reference.clone();
        list.path.truncate(at);
        list.convert = None;
        let mut whole = true;
        for (recording, calls) in calls.iter().enumerate() {
            for (index, (column, _)) in calls.iter().enumerate() {
                let wanted = lookup(self.view.arguments(recording, *column)?, pointer)?;
                if !self.leads_to(recording, &item_of(reference, at, index), wanted) {
                    return None;
                }
            }
            let found = list.follow(self.start(recording, &list.source)).ok();
            let count = found.as_ref().and_then(|found| found.as_array()).map_or(0, Vec::len);
            whole &= count == calls.len();
        }
        Some(whole)
    }
}

/// The same reference with another index.
fn item_of(reference: &Reference, at: usize, index: usize) -> Reference {
    let mut reference = reference.clone();
    if let Some(step) = reference.path.get_mut(at) {
        *step = Step::Index(index);
    }
    reference
}
