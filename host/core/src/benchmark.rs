//! How well the compiler finds where arguments come from, measured on data whose truth is known.
//!
//! Owns the measures and the reading of the two public kinds of data: recorded calls with a gold producer
//! for each argument, and programs that can be run again. Refuses to call anything: a program's functions
//! come in through [`Machine`].
//!
//! **Invariant:** equal data and options give equal figures; no figure depends on chance or time.

mod dataflow;
mod programs;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::code::Code;
use crate::problem::{Place, Problem, Problems};

pub use dataflow::{Class, CurvePoint, Dataflow, Edges, HeldOut, Item, edges, held_out};
pub use programs::{Counterfactual, Machine, Program, counterfactual};

/// Data of one kind.
#[derive(Debug, Clone)]
pub enum Data {
    /// Recorded calls, each argument with its gold producers.
    Dataflow(Vec<Item>),
    /// Programs, each call with its true sources.
    Programs(Vec<Program>),
}

/// What was measured; a part that the data can't give is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Measured {
    /// Precision, recall, and the held-out outcomes.
    #[serde(flatten)]
    pub dataflow: Option<Dataflow>,
    /// Programs under changed inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counterfactual: Option<Counterfactual>,
    /// Recordings or programs read.
    pub items: usize,
}

/// Reads JSON lines of either kind; the first line says which.
pub fn read(bytes: &[u8]) -> Result<Data, Problems> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .peekable();
    let is_program = match lines.peek() {
        Some((_, line)) => {
            serde_json::from_slice::<Value>(line).is_ok_and(|first| first.get("num_list").is_some())
        }
        None => return Err(Problem::new(Code::TraceEmpty, Place::Whole, "the data has no lines").into()),
    };
    if is_program { each(lines).map(Data::Programs) } else { each(lines).map(Data::Dataflow) }
}

fn each<'b, T: for<'de> Deserialize<'de>>(
    lines: impl Iterator<Item = (usize, &'b [u8])>,
) -> Result<Vec<T>, Problems> {
    let (mut read, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in lines {
        match serde_json::from_slice(line) {
            Ok(item) => read.push(item),
            Err(error) => {
                let place = Place::Line(index + 1);
                problems.push(Problem::new(Code::FieldValue, place, error.to_string()));
            }
        }
    }
    Problems::from_list(problems)?;
    Ok(read)
}

/// A part of a whole, 0 of nothing.
fn fraction(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::Options;

    fn items(text: &str) -> Vec<Item> {
        match read(text.as_bytes()).unwrap() {
            Data::Dataflow(items) => items,
            Data::Programs(_) => panic!("these are recordings"),
        }
    }

    fn item(id: &str, hotel: &str, city: &str, gold: &str) -> String {
        let calls = format!(
            r#"[{{"name": "find", "arguments": {{"city": "{city}"}}, "result": {{"hotel": {{"id": "{hotel}"}}}}}},
                {{"name": "book", "arguments": {{"hotel_id": "{hotel}", "nights": 2}}, "result": {{"ok": true}}}}]"#
        );
        let text = format!(
            r#"{{"id": "{id}", "calls": {calls}, "arg_gold": [
                {{"call": 0, "arg_path": ["city"], "cls": "NEG", "gold": []}},
                {{"call": 1, "arg_path": ["hotel_id"], "cls": "POS", "gold": [{gold}]}},
                {{"call": 1, "arg_path": ["nights"], "cls": "MAYBE", "gold": []}}]}}"#
        );
        text.replace('\n', " ") + "\n"
    }

    /// T05: an edge counts if it leads to the gold producer, a path if it leads to the gold place there.
    #[test]
    fn edges_and_paths_are_scored_against_the_gold() {
        for (gold, edge, path) in
            [(r#"[0, ["hotel", "id"]]"#, 1.0, 1.0), (r#"[0, ["hotel", "name"]]"#, 1.0, 0.0)]
        {
            let items = items(&item("a", "h-778123", "Lisbon", gold));
            let found = edges(&items, &Options::default(), &mut |_, _, _| {}).unwrap();
            assert_eq!((found.edge_precision, found.edge_recall), (edge, edge), "{gold}");
            assert_eq!((found.path_precision, found.path_recall), (path, path), "{gold}");
        }
    }

    /// T05: a workflow of one recording binds the values of another one.
    #[test]
    fn held_out_recordings_get_their_own_values() {
        let gold = r#"[0, ["hotel", "id"]]"#;
        let text = item("a", "h-778123", "Lisbon", gold) + &item("b", "h-901247", "Porto", gold);
        let found = held_out(&items(&text), 1, &Options::default(), &mut |_, _, _, _| {}).unwrap();
        assert_eq!((found.pairs, found.right, found.wrong_value, found.literal_bound), (2, 1.0, 0.0, 0.0));
    }

    #[test]
    fn data_that_can_not_be_read_is_refused_with_every_line() {
        assert_eq!(read(b"\n").unwrap_err().code(), Code::TraceEmpty);
        let problems = read(b"{}\n[]\n").unwrap_err();
        let places: Vec<String> = problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["line 1", "line 2"]);
    }
}
