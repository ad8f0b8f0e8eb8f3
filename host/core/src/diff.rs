//! Two traces, or two workflows, side by side.
//!
//! Owns the alignment and what counts as a difference. Refuses to compare what only says when or by what
//! something was made: times, durations, run ids, the recorder's notes, the compiler and its reasons.
//!
//! The alignment: equal ids with equal tools first; of the rest the first call of a tool belongs to the first
//! of that tool on the other side, and so on; then equal ids whose tools differ.
//!
//! **Invariant:** every event or node of both sides is aligned, removed or added; two sides without an entry
//! mean the same.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::compare::{Difference, differences};
use crate::document::shown;
use crate::id::NodeId;
use crate::problem::{child, item};
use crate::trace::{Event, Trace};
use crate::workflow::{Expr, Node, Part, Reference, Source, Template, Workflow};

/// What two sides differ in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Events or nodes that mean the same on both sides.
    pub same: usize,
    /// What belongs to no single event or node.
    pub whole: Vec<Change>,
    /// Events or nodes that differ, in the order of the first side; added ones at the end.
    pub entries: Vec<Entry>,
}

/// One event or node that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// How.
    pub kind: EntryKind,
    /// Its id.
    pub id: String,
    /// Its id on the other side, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_id: Option<String>,
    /// Its tool; on the first side, if both have it.
    pub tool: String,
    /// What changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// How an event or node differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Only the first side has it.
    Removed,
    /// Only the second side has it.
    Added,
    /// Both have it, with changes.
    Changed,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What changed.
    pub what: What,
    /// Where, and from what to what.
    #[serde(flatten)]
    pub difference: Difference,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The name of the whole.
    Name,
    /// An input or its recorded value.
    Input,
    /// The schema of an input.
    Schema,
    /// How the output is made.
    Output,
    /// The tool.
    Tool,
    /// A literal argument.
    Argument,
    /// Where an argument comes from.
    Reference,
    /// The recorded result.
    Result,
    /// How the call ended.
    Status,
    /// The effect.
    Effect,
    /// Whether it may be repeated.
    Idempotency,
    /// What it waits for, or the events it declares to need.
    Order,
    /// Its place among the others of a recording.
    Place,
    /// Declared keys.
    Keys,
    /// Its time limit.
    Timeout,
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            What::Name => "name",
            What::Input => "input",
            What::Schema => "schema",
            What::Output => "output",
            What::Tool => "tool",
            What::Argument => "argument",
            What::Reference => "reference",
            What::Result => "result",
            What::Status => "status",
            What::Effect => "effect",
            What::Idempotency => "idempotency",
            What::Order => "order",
            What::Place => "place",
            What::Keys => "keys",
            What::Timeout => "timeout",
        }
    }
}

/// Compares two traces.
pub fn traces(before: &Trace, after: &Trace) -> Diff {
    let mut whole = Changes::default();
    whole.value(What::Name, "", &json!(before.name), &json!(after.name));
    whole.value(What::Input, "", &Value::Object(before.inputs.clone()), &Value::Object(after.inputs.clone()));
    let key = |event: &Event| (event.id.to_string(), event.tool.clone());
    let pairs = align(&before.events, &after.events, key);
    let names = Names::of(&pairs, |event: &Event| event.id.as_str());
    let places = places(&pairs, &before.events, &after.events);
    pairs.diff(whole, key, |at, one, two| {
        let mut changes = Changes::default();
        changes.text(What::Tool, &one.tool, &two.tool);
        changes.value(What::Argument, "", &json!(one.arguments), &json!(two.arguments));
        changes.value(What::Result, "", &one.result, &two.result);
        changes.text(What::Status, one.status.as_str(), two.status.as_str());
        changes.text(What::Effect, one.effect.as_str(), two.effect.as_str());
        changes.text(What::Idempotency, one.idempotency.as_str(), two.idempotency.as_str());
        let ids = |list: &[NodeId]| list.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let needed = one.dependencies.iter().map(|id| names.later(id.as_str())).collect();
        changes.set(What::Order, &needed, &ids(&two.dependencies));
        let keys = |event: &Event| -> BTreeSet<String> {
            let reads = event.reads.iter().map(|key| format!("reads {key}"));
            reads.chain(event.writes.iter().map(|key| format!("writes {key}"))).collect()
        };
        changes.set(What::Keys, &keys(one), &keys(two));
        if let Some((from, to)) = places.get(&at) {
            changes.text(What::Place, from, to);
        }
        changes
    })
}

/// Compares two workflows.
pub fn workflows(before: &Workflow, after: &Workflow) -> Diff {
    let key = |node: &Node| (node.id.to_string(), node.tool.to_string());
    let pairs = align(&before.nodes, &after.nodes, key);
    let names = Names::of(&pairs, |node: &Node| node.id.as_str());
    let mut whole = Changes::default();
    whole.text(What::Name, &before.name, &after.name);
    let inputs: BTreeSet<&String> = before.inputs.keys().chain(after.inputs.keys()).collect();
    for name in inputs {
        let pointer = child("", name);
        match (before.inputs.get(name), after.inputs.get(name)) {
            (Some(one), Some(two)) => {
                let default = |value: &Option<Value>| value.iter().cloned().collect::<Vec<_>>();
                whole.value(What::Schema, &pointer, &one.schema, &two.schema);
                let (one, two) = (default(&one.default), default(&two.default));
                for change in differences(&pointer, &json!(one), &json!(two)) {
                    // The list stands for a value that may be missing.
                    let start = pointer.len() + "/0".len();
                    let rest = change.pointer.get(start..).unwrap_or_default();
                    let pointer = format!("{pointer}{rest}");
                    whole.0.push(Change { what: What::Input, difference: Difference { pointer, ..change } });
                }
            }
            (one, two) => {
                let text = |input: Option<&crate::workflow::Input>| input.map(|input| shown(&input.schema));
                whole.push(What::Input, &pointer, text(one), text(two));
            }
        }
    }
    whole.expr(What::Output, "", &names.rename(&before.output), &after.output);
    pairs.diff(whole, key, |_, one, two| {
        let mut changes = Changes::default();
        changes.text(What::Tool, one.tool.as_str(), two.tool.as_str());
        changes.expr(What::Argument, "", &names.rename(&one.arguments), &two.arguments);
        let result = |node: &Node| node.recorded.as_ref().map(|recorded| recorded.result.clone());
        match (result(one), result(two)) {
            (Some(one), Some(two)) => changes.value(What::Result, "", &one, &two),
            (one, two) => changes.push(What::Result, "", one.as_ref().map(shown), two.as_ref().map(shown)),
        }
        changes.text(What::Effect, one.effect.as_str(), two.effect.as_str());
        changes.text(What::Idempotency, one.idempotency.as_str(), two.idempotency.as_str());
        let earlier = one.after.iter().map(|id| names.later(id.as_str())).collect();
        changes.set(What::Order, &earlier, &two.after.iter().map(ToString::to_string).collect());
        changes.value(What::Timeout, "", &json!(one.timeout_ms), &json!(two.timeout_ms));
        changes
    })
}

/// Both sides, aligned by position.
struct Pairs<'a, T> {
    before: &'a [T],
    after: &'a [T],
    /// For each of the first side its counterpart.
    counterpart: Vec<Option<usize>>,
}

fn align<'a, T>(before: &'a [T], after: &'a [T], key: impl Fn(&T) -> (String, String)) -> Pairs<'a, T> {
    let keys: Vec<(String, String)> = before.iter().map(&key).collect();
    let mut by_id: HashMap<String, (String, usize)> = HashMap::new();
    let mut by_tool: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (position, (id, tool)) in after.iter().map(&key).enumerate() {
        by_tool.entry(tool.clone()).or_default().push_back(position);
        by_id.insert(id, (tool, position));
    }
    let mut taken: HashSet<usize> = HashSet::new();
    let mut counterpart: Vec<Option<usize>> = keys
        .iter()
        .map(|(id, tool)| by_id.get(id).filter(|(other, _)| other == tool).map(|(_, position)| *position))
        .collect();
    taken.extend(counterpart.iter().flatten());
    for (slot, (_, tool)) in counterpart.iter_mut().zip(&keys).filter(|(slot, _)| slot.is_none()) {
        let Some(queue) = by_tool.get_mut(tool) else { continue };
        while let Some(position) = queue.pop_front() {
            if taken.insert(position) {
                *slot = Some(position);
                break;
            }
        }
    }
    for (slot, (id, _)) in counterpart.iter_mut().zip(&keys).filter(|(slot, _)| slot.is_none()) {
        *slot = by_id.get(id).map(|(_, position)| *position).filter(|position| taken.insert(*position));
    }
    Pairs { before, after, counterpart }
}

impl<'a, T> Pairs<'a, T> {
    fn list(&self) -> impl Iterator<Item = (usize, &'a T, usize, &'a T)> + '_ {
        self.before.iter().zip(&self.counterpart).enumerate().filter_map(|(at, (one, other))| {
            let other = (*other)?;
            Some((at, one, other, self.after.get(other)?))
        })
    }

    fn diff(
        &self,
        whole: Changes,
        key: impl Fn(&T) -> (String, String),
        compare: impl Fn(usize, &T, &T) -> Changes,
    ) -> Diff {
        let mut diff = Diff { same: 0, whole: whole.0, entries: Vec::new() };
        for (at, (one, other)) in self.before.iter().zip(&self.counterpart).enumerate() {
            let (id, tool) = key(one);
            let Some(two) = other.and_then(|other| self.after.get(other)) else {
                let kind = EntryKind::Removed;
                diff.entries.push(Entry { kind, id, other_id: None, tool, changes: Vec::new() });
                continue;
            };
            let changes = compare(at, one, two).0;
            let other_id = Some(key(two).0).filter(|other| *other != id);
            if changes.is_empty() && other_id.is_none() {
                diff.same += 1;
            } else {
                diff.entries.push(Entry { kind: EntryKind::Changed, id, other_id, tool, changes });
            }
        }
        let found: BTreeSet<usize> = self.counterpart.iter().flatten().copied().collect();
        for (_, two) in self.after.iter().enumerate().filter(|(at, _)| !found.contains(at)) {
            let (id, tool) = key(two);
            let kind = EntryKind::Added;
            diff.entries.push(Entry { kind, id, other_id: None, tool, changes: Vec::new() });
        }
        diff
    }
}

/// The second side's ids by the first side's.
struct Names(BTreeMap<String, String>);

impl Names {
    fn of<T>(pairs: &Pairs<'_, T>, id: impl Fn(&T) -> &str) -> Names {
        Names(pairs.list().map(|(_, one, _, two)| (id(one).to_owned(), id(two).to_owned())).collect())
    }

    fn later(&self, id: &str) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }

    fn reference(&self, reference: &Reference) -> Reference {
        let mut reference = reference.clone();
        if let Source::Node(id) = &reference.source
            && let Ok(id) = NodeId::new(self.later(id.as_str()))
        {
            reference.source = Source::Node(id);
        }
        reference
    }

    /// The expression with the second side's ids.
    fn rename(&self, expr: &Expr) -> Expr {
        match expr {
            Expr::Literal(_) => expr.clone(),
            Expr::Ref(reference) => Expr::Ref(self.reference(reference)),
            Expr::Template(template) => {
                let part = |part: &Part| match part {
                    Part::Ref(reference) => Part::Ref(self.reference(reference)),
                    Part::Text(text) => Part::Text(text.clone()),
                };
                Expr::Template(Template(template.0.iter().map(part).collect()))
            }
            Expr::Object(members) => {
                Expr::Object(members.iter().map(|(key, member)| (key.clone(), self.rename(member))).collect())
            }
            Expr::List(items) => Expr::List(items.iter().map(|item| self.rename(item)).collect()),
        }
    }
}

/// For each pair whose predecessor among the pairs differs: what it came after, and comes after now.
fn places(pairs: &Pairs<'_, Event>, before: &[Event], after: &[Event]) -> BTreeMap<usize, (String, String)> {
    let mut sorted: Vec<(usize, usize)> = pairs.list().map(|(at, _, other, _)| (at, other)).collect();
    let first: Vec<(usize, usize)> = sorted.clone();
    sorted.sort_by_key(|(_, other)| *other);
    let earlier: HashMap<usize, usize> =
        sorted.iter().zip(sorted.iter().skip(1)).map(|(one, two)| (two.0, one.0)).collect();
    let text = |event: Option<&Event>| match event {
        Some(event) => format!("after {}", event.id),
        None => "first".to_owned(),
    };
    let mut last: Option<usize> = None;
    let mut found = BTreeMap::new();
    for (at, _) in first {
        let now = earlier.get(&at).copied();
        if now != last {
            let counterpart = now.and_then(|now| pairs.counterpart.get(now).copied().flatten());
            let from = text(last.and_then(|last| before.get(last)));
            found.insert(at, (from, text(counterpart.and_then(|other| after.get(other)))));
        }
        last = Some(at);
    }
    found
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn push(&mut self, what: What, pointer: &str, before: Option<String>, after: Option<String>) {
        if before != after {
            let difference = Difference { pointer: pointer.to_owned(), before, after };
            self.0.push(Change { what, difference });
        }
    }

    fn text(&mut self, what: What, before: &str, after: &str) {
        self.push(what, "", Some(before.to_owned()), Some(after.to_owned()));
    }

    fn value(&mut self, what: What, pointer: &str, before: &Value, after: &Value) {
        let found = differences(pointer, before, after);
        self.0.extend(found.into_iter().map(|difference| Change { what, difference }));
    }

    fn set(&mut self, what: What, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        for gone in before.difference(after) {
            self.push(what, "", Some(gone.clone()), None);
        }
        for new in after.difference(before) {
            self.push(what, "", None, Some(new.clone()));
        }
    }

    fn expr(&mut self, literal: What, pointer: &str, before: &Expr, after: &Expr) {
        match (parts(before), parts(after)) {
            (Parts::Data(before), Parts::Data(after)) => self.value(literal, pointer, &before, &after),
            (Parts::Object(before), Parts::Object(after)) => {
                let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                for key in keys {
                    let pointer = child(pointer, key);
                    match (before.get(key), after.get(key)) {
                        (Some(before), Some(after)) => self.expr(literal, &pointer, before, after),
                        (before, after) => self.one_side(literal, &pointer, before, after),
                    }
                }
            }
            (Parts::List(before), Parts::List(after)) => {
                for index in 0..before.len().max(after.len()) {
                    let pointer = item(pointer, index);
                    match (before.get(index), after.get(index)) {
                        (Some(before), Some(after)) => self.expr(literal, &pointer, before, after),
                        (before, after) => self.one_side(literal, &pointer, before, after),
                    }
                }
            }
            _ => self.one_side(literal, pointer, Some(before), Some(after)),
        }
    }

    fn one_side(&mut self, literal: What, pointer: &str, before: Option<&Expr>, after: Option<&Expr>) {
        let bound = |expr: Option<&Expr>| expr.is_some_and(|expr| !expr.references().is_empty());
        let what = match literal {
            What::Argument if bound(before) || bound(after) => What::Reference,
            other => other,
        };
        let text = |expr: Option<&Expr>| {
            expr.map(|expr| match expr {
                Expr::Ref(reference) => reference.to_string(),
                Expr::Template(template) => template.to_string(),
                Expr::Literal(value) => shown(value),
                made => shown(&made.sketch()),
            })
        };
        self.push(what, pointer, text(before), text(after));
    }
}

/// An expression by its outer shape, so that data and expressions of the same shape meet.
enum Parts {
    Data(Value),
    Reference,
    Object(BTreeMap<String, Expr>),
    List(Vec<Expr>),
}

fn parts(expr: &Expr) -> Parts {
    match expr {
        Expr::Ref(_) | Expr::Template(_) => Parts::Reference,
        Expr::Object(members) => Parts::Object(members.clone()),
        Expr::List(items) => Parts::List(items.clone()),
        Expr::Literal(Value::Object(map)) => Parts::Object(literals(map)),
        Expr::Literal(Value::Array(list)) => {
            Parts::List(list.iter().map(|value| Expr::Literal(value.clone())).collect())
        }
        Expr::Literal(value) => Parts::Data(value.clone()),
    }
}

fn literals(map: &Map<String, Value>) -> BTreeMap<String, Expr> {
    map.iter().map(|(key, value)| (key.clone(), Expr::Literal(value.clone()))).collect()
}

impl Diff {
    /// Whether both sides mean the same.
    pub fn is_same(&self) -> bool {
        self.whole.is_empty() && self.entries.is_empty()
    }

    /// As lines for people.
    pub fn lines(&self) -> Vec<String> {
        let count = |kind| self.entries.iter().filter(|entry| entry.kind == kind).count();
        let mut lines = vec![format!(
            "{} the same, {} changed, {} added, {} removed",
            self.same,
            count(EntryKind::Changed),
            count(EntryKind::Added),
            count(EntryKind::Removed)
        )];
        lines.extend(self.whole.iter().map(|change| format!("  {change}")));
        for entry in &self.entries {
            let (sign, other) = match (&entry.kind, &entry.other_id) {
                (EntryKind::Removed, _) => ("-", String::new()),
                (EntryKind::Added, _) => ("+", String::new()),
                (EntryKind::Changed, None) => ("~", String::new()),
                (EntryKind::Changed, Some(other)) => ("~", format!(" -> {other}")),
            };
            lines.push(format!("{sign} {}{other} ({})", entry.id, entry.tool));
            lines.extend(entry.changes.iter().map(|change| format!("    {change}")));
        }
        lines
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what.as_str(), self.difference)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compiler::{Claims, Options, compile};
    use crate::trace::from_value;

    fn trace(inputs: Value, events: Value) -> Trace {
        from_value(&json!({"inputs": inputs, "events": events})).unwrap()
    }

    fn hotel(city: &str) -> Trace {
        trace(
            json!({"city": city}),
            json!([
                {"id": "find", "tool": "find", "arguments": {"city": city}, "side_effect": "read", "result": {"id": "h-77810"}},
                {"id": "book", "tool": "book", "arguments": {"hotel_id": "h-77810", "nights": 2}, "side_effect": "write"},
            ]),
        )
    }

    /// T29: what two traces differ in, by id and place.
    #[test]
    fn traces_are_compared_field_by_field() {
        let one = hotel("Porto");
        assert!(traces(&one, &one).is_same());
        let mut two = hotel("Porto");
        two.events[0].started_at = None;
        two.events[0].duration_ms = Some(3.0);
        assert!(traces(&one, &two).is_same(), "when it happened doesn't count");
        two.inputs["city"] = json!("Lisbon");
        two.events[0].result["id"] = json!("h-1");
        two.events[1].status = crate::trace::Status::failed();
        two.events[1].tool = "reserve".to_owned();
        two.events[1].dependencies = vec![NodeId::new("find").unwrap()];
        two.events.push(Event::new(NodeId::new("pay").unwrap(), "pay", Map::new()));
        assert_eq!(
            traces(&one, &two).lines(),
            [
                "0 the same, 2 changed, 1 added, 0 removed",
                "  input: /city `\"Porto\"` -> `\"Lisbon\"`",
                "~ find (find)",
                "    result: /id `\"h-77810\"` -> `\"h-1\"`",
                "~ book (book)",
                "    tool: book -> reserve",
                "    status: success -> failed",
                "    order: nothing -> find",
                "+ pay (pay)",
            ]
        );
        two.events.truncate(1);
        assert_eq!(traces(&one, &two).lines().last().unwrap(), "- book (book)");

        let mut turned = hotel("Porto");
        turned.events.reverse();
        assert_eq!(
            traces(&one, &turned).lines()[1..],
            [
                "~ find (find)",
                "    place: first -> after book",
                "~ book (book)",
                "    place: after find -> first"
            ]
        );
    }

    /// T29: two workflows; renamed nodes are found by their tool, and references follow the new names.
    #[test]
    fn workflows_are_compared_by_meaning() {
        let compiled = |trace| {
            compile(trace, &Options { claims: Claims::Believe, ..Options::default() }).unwrap().workflow
        };
        let one = compiled(hotel("Porto"));
        assert!(workflows(&one, &one.clone()).is_same());
        let mut renamed = hotel("Porto");
        renamed.events[0].id = NodeId::new("search").unwrap();
        assert_eq!(
            workflows(&one, &compiled(renamed)).lines(),
            ["1 the same, 1 changed, 0 added, 0 removed", "~ find -> search (find)"]
        );
        let mut other = hotel("Lisbon");
        other.events[0].result = json!({"nothing": 1});
        other.events[1].arguments["nights"] = json!(3);
        assert_eq!(
            workflows(&one, &compiled(other)).lines(),
            [
                "0 the same, 2 changed, 0 added, 0 removed",
                "  input: /city `\"Porto\"` -> `\"Lisbon\"`",
                "~ find (find)",
                "    result: /id `\"h-77810\"` -> nothing",
                "    result: /nothing nothing -> `1`",
                "~ book (book)",
                "    reference: /hotel_id find.id -> `\"h-77810\"`",
                "    argument: /nights `2` -> `3`",
                "    order: nothing -> find",
            ]
        );
        let json = serde_json::to_value(workflows(&one, &compiled(hotel("Lisbon")))).unwrap();
        assert_eq!(json["whole"][0]["what"], json!("input"));
        assert_eq!(json["whole"][0]["pointer"], json!("/city"));
    }
}
