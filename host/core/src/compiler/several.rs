//! What further recordings of one task say.
//!
//! Owns the comparison of a recording with others whose calls belong to its own. Refuses recordings without a
//! call in common, and those of which the common part can't stand alone: a call in it reads what another call
//! wrote, or needs a call, that isn't part of it.
//!
//! **Invariant:** a reference that is kept resolves in every recording to what was recorded there; a literal
//! that is kept is the same in every recording that has it. A call that not every recording has is never a node.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::align::{self, Column, MAX_CELLS};
use super::facts::Facts;
use super::hash::same;
use super::own::Own;
use super::{Options, raise};
use crate::catalog::Known;
use crate::code::Code;
use crate::id::NodeId;
use crate::problem::{Problem, Problems, child, item};
use crate::trace::{Event, Trace};
use crate::workflow::{Dropped, Expr, PathMissing, Reference, Scope, Source, Template};

/// Recordings of one task, side by side.
pub(super) struct Aligned {
    pub(super) first: Trace,
    pub(super) others: Vec<Other>,
    /// Nothing for a single recording.
    pub(super) columns: Option<Columns>,
}

/// Which calls belong together. Recordings are counted from 0 here, and in all texts from 1.
pub(super) struct Columns {
    pub(super) own: Vec<Own>,
    /// Calls are positions.
    pub(super) list: Vec<Column>,
    /// For each recording the column of each call.
    by_call: Vec<HashMap<usize, usize>>,
    /// For each recording the calls that are one and the same, by the first of them.
    repeats: Vec<HashMap<usize, Vec<usize>>>,
    /// What no node stands for, of further recordings.
    pub(super) extra: BTreeMap<(usize, usize), Event>,
    /// Events of further recordings that can't be nodes.
    pub(super) left_out: Vec<Dropped>,
    /// Events of each recording.
    pub(super) events: Vec<usize>,
}

/// A further recording, with the ids of the first.
pub(super) struct Other {
    pub(super) inputs: Map<String, Value>,
    pub(super) results: BTreeMap<NodeId, Value>,
    /// By position in the first recording: the arguments, as objects, and the event without them.
    calls: Vec<Option<(Value, Event)>>,
    /// What else the recorder noted.
    notes: Map<String, Value>,
    /// Counted from 1.
    number: usize,
}

/// Lays further recordings beside the first.
pub(super) fn align(mut traces: Vec<Trace>, options: &Options) -> Result<Aligned, Problems> {
    if traces.len() < 2 {
        let first = traces.pop().unwrap_or_default();
        return Ok(Aligned { first, others: Vec::new(), columns: None });
    }
    // What a person accepted is of the first recording, and decided when all are looked at.
    let alone = Options { accept: Vec::new(), ..options.clone() };
    let mut kinds = BTreeMap::new();
    let (mut own, mut compared, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (number, trace) in (1..).zip(&traces) {
        match Own::of(trace, number, &alone) {
            Ok(found) => {
                compared.push(found.compared(trace, options, &mut kinds));
                own.push(found);
            }
            Err(found) => problems.extend(found.into_list()),
        }
    }
    Problems::from_list(problems)?;
    let list = align::align(&compared).map_err(|(number, cells)| {
        let message = format!(
            "aligning recording {} takes {cells} comparisons, at most {MAX_CELLS}; compile shorter recordings, or \
             those with the same calls together",
            number + 1
        );
        Problem::at(Code::TooMany, "/events", message)
    })?;
    let mut columns = Columns::of(own, list, &traces);
    Problems::from_list(columns.faults(&traces))?;
    let mut rest = traces.into_iter();
    let first = rest.next().unwrap_or_default();
    let others = (1..).zip(rest).map(|(number, trace)| columns.other(&first, trace, number)).collect();
    Ok(Aligned { first, others, columns: Some(columns) })
}

/// `recording 2` or `recordings 2 and 4`, of numbers that are counted from 0.
fn named(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| (number + 1).to_string()).collect();
    match texts.as_slice() {
        [one] => format!("recording {one}"),
        [rest @ .., last] => format!("recordings {} and {last}", rest.join(", ")),
        [] => "no recording".to_owned(),
    }
}

/// Why a call isn't part of what is common: the recordings, counted from 0, don't have it.
pub(super) fn not_everywhere(missing: &[usize]) -> String {
    let verb = if missing.len() == 1 { "doesn't" } else { "don't" };
    format!("{} {verb} have this call", named(missing))
}

impl Columns {
    fn of(own: Vec<Own>, list: Vec<Column>, traces: &[Trace]) -> Columns {
        let positions: Vec<Vec<usize>> = own.iter().map(|own| own.calls.keys().copied().collect()).collect();
        let list: Vec<Column> = list
            .into_iter()
            .map(|column| {
                let calls = column.calls.iter().zip(&positions);
                Column { calls: calls.map(|(call, at)| at.get((*call)?).copied()).collect() }
            })
            .collect();
        let mut by_call = vec![HashMap::new(); own.len()];
        for (at, column) in list.iter().enumerate() {
            for (call, by_call) in column.calls.iter().zip(&mut by_call) {
                by_call.extend(call.map(|call| (call, at)));
            }
        }
        let mut repeats: Vec<HashMap<usize, Vec<usize>>> = vec![HashMap::new(); own.len()];
        for (own, repeats) in own.iter().zip(&mut repeats) {
            for (at, call) in &own.calls {
                repeats.entry(call.repeats.unwrap_or(*at)).or_default().push(*at);
            }
        }
        let events = traces.iter().map(|trace| trace.events.len()).collect();
        Columns { own, list, by_call, repeats, extra: BTreeMap::new(), left_out: Vec::new(), events }
    }

    /// The column of a call, or that of one which was the same and came before `end` too, if every recording
    /// has that one.
    pub(super) fn column(&self, recording: usize, call: usize, end: usize) -> Option<usize> {
        let own = self.own.get(recording)?.calls.get(&call)?;
        let by_call = self.by_call.get(recording)?;
        let same = self.repeats.get(recording)?.get(&own.repeats.unwrap_or(call));
        let mut same = same.into_iter().flatten().filter(|at| **at < end).filter_map(|at| by_call.get(at));
        same.find(|at| self.is_full(**at)).or_else(|| by_call.get(&call)).copied()
    }

    pub(super) fn is_full(&self, column: usize) -> bool {
        self.list.get(column).is_some_and(Column::is_full)
    }

    /// The recordings that don't have a column's call, counted from 0.
    pub(super) fn missing(&self, column: usize) -> Vec<usize> {
        let calls = self.list.get(column).into_iter().flat_map(|column| column.calls.iter().enumerate());
        calls.filter(|(_, call)| call.is_none()).map(|(recording, _)| recording).collect()
    }

    /// Why the common part would be wrong, if so.
    fn faults(&self, traces: &[Trace]) -> Vec<Problem> {
        if self.own.first().is_none_or(|own| own.calls.is_empty()) {
            // There is nothing to compile, which is said elsewhere.
            return Vec::new();
        }
        let nothing = |recording: usize| {
            let common =
                self.list.iter().any(|column| column.calls.iter().take(recording + 1).all(Option::is_some));
            (!common).then_some(recording)
        };
        if let Some(recording) = (1..self.own.len()).find_map(nothing) {
            let with = named(&(0..recording).collect::<Vec<_>>());
            let message = format!(
                "recording {} has no call in common with {with}; compile recordings of one task together",
                recording + 1
            );
            return vec![Problem::at(Code::TracesDiffer, "/events", message)];
        }
        let mut problems = Vec::new();
        for (recording, (own, trace)) in self.own.iter().zip(traces).enumerate() {
            // Apart, so that recordings of the same calls have nothing to look through.
            let mut outside: Vec<(usize, &Facts)> = Vec::new();
            let mut inside: Vec<(usize, &Facts)> = Vec::new();
            for (at, call) in &own.calls {
                let common = self.column(recording, *at, at + 1).filter(|column| self.is_full(*column));
                let place = common.and_then(|column| self.list.get(column)?.calls.first().copied().flatten());
                if let Some(place) = place {
                    let wrote = |(_, writer): &&(usize, &Facts)| writer.writes_what_is_read_by(&call.facts);
                    let last = outside.iter().rev().find(wrote).map(|(writer, _)| *writer);
                    let last = last.filter(|last| {
                        let later = inside.iter().rev().take_while(|(writer, _)| writer > last);
                        !later.into_iter().any(|writer| wrote(&writer))
                    });
                    let read = last.map(|writer| ("reads what was written by", writer));
                    let needed = call.declared.iter().map(|needed| ("declares that it needs", *needed));
                    for (how, needed) in needed.chain(read) {
                        let problem = self.needs(recording, (*at, needed), how, trace);
                        problems.extend(
                            problem.map(|message| {
                                Problem::at(Code::TracesDiffer, item("/events", place), message)
                            }),
                        );
                    }
                }
                if !call.facts.effect.is_read_only() {
                    if common.is_some() { &mut inside } else { &mut outside }.push((*at, &call.facts));
                }
            }
        }
        problems
    }

    /// What is wrong with a call that needs another one, unless every recording has that one.
    fn needs(
        &self,
        recording: usize,
        (call, needed): (usize, usize),
        how: &str,
        trace: &Trace,
    ) -> Option<String> {
        let column = self.column(recording, needed, call)?;
        if self.is_full(column) {
            return None;
        }
        let (call, needed) = (trace.events.get(call)?, trace.events.get(needed)?);
        Some(format!(
            "`{}` (`{}` in recording {}) {how} `{}` (`{}`), and {}; compile the recordings that have it apart from \
             the others",
            call.tool,
            call.id,
            recording + 1,
            needed.tool,
            needed.id,
            not_everywhere(&self.missing(column))
        ))
    }

    /// Takes a further recording apart.
    fn other(&mut self, first: &Trace, trace: Trace, number: usize) -> Other {
        let mut calls: Vec<Option<(Value, Event)>> = first.events.iter().map(|_| None).collect();
        let mut results = BTreeMap::new();
        let left_out = self.own.get_mut(number).map(|own| std::mem::take(&mut own.left_out));
        self.left_out.extend(
            left_out
                .into_iter()
                .flatten()
                .map(|(_, dropped)| Dropped { recording: Some(number + 1), ..dropped }),
        );
        for (at, mut event) in trace.events.into_iter().enumerate() {
            let Some(column) = self.by_call.get(number).and_then(|by_call| by_call.get(&at)) else {
                continue;
            };
            let here = self.list.get(*column).filter(|column| column.is_full());
            let here = here.and_then(|column| column.calls.first().copied().flatten());
            match here.and_then(|at| Some((calls.get_mut(at)?, first.events.get(at)?))) {
                Some((slot, same)) => {
                    results.insert(same.id.clone(), std::mem::take(&mut event.result));
                    let arguments = std::mem::take(&mut event.arguments);
                    *slot = Some((Value::Object(arguments), event));
                }
                None => drop(self.extra.insert((number, at), event)),
            }
        }
        Other { inputs: trace.inputs, results, calls, notes: trace.metadata, number: number + 1 }
    }
}

impl Other {
    /// The recorded value of an argument; nothing if this recording has none.
    pub(super) fn argument(&self, position: usize, pointer: &str) -> Option<&Value> {
        self.calls.get(position)?.as_ref()?.0.pointer(pointer)
    }

    /// Whether this recording has the call too.
    pub(super) fn has(&self, position: usize) -> bool {
        self.calls.get(position).is_some_and(Option::is_some)
    }

    /// A call, without what the first recording's place of it holds.
    pub(super) fn event(&self, position: usize) -> Option<&Event> {
        self.calls.get(position)?.as_ref().map(|(_, event)| event)
    }

    /// The arguments of a call.
    pub(super) fn arguments(&self, position: usize) -> Option<&Map<String, Value>> {
        self.calls.get(position)?.as_ref()?.0.as_object()
    }

    /// Takes into account what this recording claims of a call.
    pub(super) fn raise(&self, position: usize, known: &mut Known) {
        if let Some((_, event)) = self.calls.get(position).and_then(Option::as_ref) {
            raise(known, &self.notes, event, &format!("recording {}", self.number));
        }
    }

    /// Whether a reference leads to what was recorded here too.
    pub(super) fn agrees(&self, reference: &Reference, position: usize, pointer: &str) -> bool {
        let scope = Scope { inputs: &self.inputs, results: &self.results };
        let Some(wanted) = self.argument(position, pointer) else { return true };
        reference.resolve(scope).is_ok_and(|found| same(&found, wanted))
    }

    /// The text that a template makes here.
    pub(super) fn makes_template(&self, template: &Template) -> Result<String, PathMissing> {
        template.resolve(Scope { inputs: &self.inputs, results: &self.results })
    }

    /// Whether two events are the same call with the same result here too.
    pub(super) fn repeats(&self, first: (usize, &NodeId), again: (usize, &NodeId)) -> bool {
        let arguments =
            |at: usize| self.calls.get(at).and_then(Option::as_ref).map(|(arguments, _)| arguments);
        arguments(first.0) == arguments(again.0) && self.results.get(first.1) == self.results.get(again.1)
    }

    /// Whether an expression makes a top-level argument, if this recording has it.
    pub(super) fn makes_argument(&self, expr: &Expr, position: usize, key: &str) -> bool {
        let wanted = self.argument(position, &child("", key));
        wanted.is_none_or(|wanted| self.makes(expr, wanted))
    }

    fn makes(&self, expr: &Expr, wanted: &Value) -> bool {
        let scope = Scope { inputs: &self.inputs, results: &self.results };
        expr.resolve(scope).is_ok_and(|found| same(&found, wanted))
    }
}

/// Makes inputs of the literals that differ between recordings.
pub(super) struct Inputs<'o> {
    pub(super) first: &'o mut Map<String, Value>,
    pub(super) others: &'o mut [Other],
    /// Inputs made, by argument and values.
    made: HashMap<String, String>,
}

impl<'o> Inputs<'o> {
    pub(super) fn new(first: &'o mut Map<String, Value>, others: &'o mut [Other]) -> Inputs<'o> {
        Inputs { first, others, made: HashMap::new() }
    }

    /// Replaces what differs in the arguments of an event; pointers of what was replaced.
    pub(super) fn open(
        &mut self,
        arguments: &mut Expr,
        recorded: &Map<String, Value>,
        position: usize,
    ) -> Vec<(String, Reference)> {
        if let Expr::Literal(Value::Object(map)) = arguments {
            let members = std::mem::take(map).into_iter();
            *arguments = Expr::Object(members.map(|(key, value)| (key, Expr::Literal(value))).collect());
        }
        let mut opened = Vec::new();
        let Expr::Object(members) = arguments else { return opened };
        for (key, expr) in members {
            let pointer = child("", key);
            self.literals(expr, &pointer, key, position, &mut opened);
            let agrees = self.others.iter().all(|other| other.makes_argument(expr, position, key));
            // Lists of different lengths can't be told apart item by item.
            if !agrees && let Some(value) = recorded.get(key) {
                *expr = self.input(value, &pointer, key, position, &mut opened);
            }
        }
        opened
    }

    fn literals(
        &mut self,
        expr: &mut Expr,
        pointer: &str,
        name: &str,
        position: usize,
        opened: &mut Vec<(String, Reference)>,
    ) {
        match expr {
            Expr::Literal(value) => {
                let differs = |other: &Other| {
                    other.argument(position, pointer).is_some_and(|found| !same(found, value))
                };
                if self.others.iter().any(differs) {
                    let value = value.clone();
                    *expr = self.input(&value, pointer, name, position, opened);
                }
            }
            Expr::Object(members) => {
                for (key, member) in members {
                    self.literals(member, &child(pointer, key), key, position, opened);
                }
            }
            Expr::List(items) => {
                for (index, member) in items.iter_mut().enumerate() {
                    self.literals(member, &item(pointer, index), name, position, opened);
                }
            }
            Expr::Ref(_) | Expr::Template(_) => {}
        }
    }

    /// An input named after the argument; the same one where all recordings have the same values.
    fn input(
        &mut self,
        value: &Value,
        pointer: &str,
        name: &str,
        position: usize,
        opened: &mut Vec<(String, Reference)>,
    ) -> Expr {
        let seen: Vec<Value> = self
            .others
            .iter()
            .map(|other| other.argument(position, pointer).unwrap_or(value).clone())
            .collect();
        let key = format!("{name}\n{value}\n{}", Value::Array(seen.clone()));
        let name = self.made.entry(key).or_insert_with(|| {
            let numbered = (2..).map(|number| format!("{name}_{number}"));
            let free =
                std::iter::once(name.to_owned()).chain(numbered).find(|name| !self.first.contains_key(name));
            let free = free.unwrap_or_default();
            self.first.insert(free.clone(), value.clone());
            for (other, value) in self.others.iter_mut().zip(seen) {
                other.inputs.insert(free.clone(), value);
            }
            free
        });
        let reference = Reference { source: Source::Input(name.clone()), path: Vec::new(), convert: None };
        opened.retain(|(known, _)| !known.starts_with(pointer));
        opened.push((pointer.to_owned(), reference.clone()));
        Expr::Ref(reference)
    }
}
