//! What tells some recordings from others: the condition that a call which only some have may depend on.
//!
//! Owns the table of everything that recordings say before a call, and the search for what differs. Refuses to
//! decide: with few recordings many things differ by chance, so the result is an offer, the likeliest first.
//!
//! Looked at are inputs and results of nodes: every value in objects, the first item of each list, and whether a
//! list has items; also inside text that holds JSON. Likeliest is what is a flag, is there or not, or is a list
//! with or without items; then a plain word; then a number beyond a bound; then any other text, if two
//! recordings agree in it. Of equals, inputs and the nearest result come first.
//!
//! **Invariant:** a condition that is offered holds in each of the recordings that have the call and in none of
//! the others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::hash::same;
use super::offered::json_texts;
use crate::workflow::{Condition, Reference, Source, Step, Test};

/// Most values looked at, in all inputs and results together.
const MAX_ROWS: usize = 20_000;

/// Most values of results looked at for one call, the nearest.
const MAX_NEAR: usize = 2_000;

/// Most conditions offered for one call.
const MAX_NAMED: usize = 4;

/// Longest text compared, in bytes. Longer ones are contents, not states.
const MAX_TEXT: usize = 200;

/// Longest text that is a plain word.
const MAX_WORD: usize = 32;

/// What one recording has in one place.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Nothing,
    Scalar(Value),
    List(usize),
    /// An object, or a text that is too long or holds JSON.
    Other,
}

struct Row {
    reference: Reference,
    /// The column of the node; nothing for inputs.
    column: Option<usize>,
    seen: Vec<Seen>,
}

/// Everything that recordings say, in the order of nodes.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds an input or a result. `values` are those of the recordings.
    pub(super) fn add(&mut self, source: Source, column: Option<usize>, values: &[Option<&Value>]) {
        let reference = Reference { source, path: Vec::new(), convert: None };
        self.walk(&reference, column, values);
    }

    fn walk(&mut self, reference: &Reference, column: Option<usize>, values: &[Option<&Value>]) {
        if self.rows.len() >= MAX_ROWS {
            return;
        }
        let seen: Vec<Seen> = values.iter().map(|value| value.map_or(Seen::Nothing, look)).collect();
        if seen.iter().skip(1).any(|other| Some(other) != seen.first()) {
            self.rows.push(Row { reference: reference.clone(), column, seen });
        }
        let below = |step: Step| {
            let mut below = reference.clone();
            below.path.push(step);
            below
        };
        let present = || values.iter().copied().flatten();
        let keys: BTreeSet<&String> =
            present().filter_map(Value::as_object).flat_map(|map| map.keys()).collect();
        for key in keys {
            let members: Vec<Option<&Value>> = values.iter().map(|value| value.as_ref()?.get(key)).collect();
            self.walk(&below(Step::Key(key.clone())), column, &members);
        }
        if present().any(Value::is_array) {
            let first: Vec<Option<&Value>> =
                values.iter().map(|value| value.as_ref()?.as_array()?.first()).collect();
            self.walk(&below(Step::Index(0)), column, &first);
        }
        if present().any(Value::is_string) {
            let parsed: Vec<Option<Value>> = values
                .iter()
                .map(|value| json_texts((*value).filter(|value| value.is_string())?).into_iter().next())
                .map(|parsed| parsed.filter(|parsed| !parsed.is_null()))
                .collect();
            if parsed.iter().any(Option::is_some) {
                let inner: Vec<Option<&Value>> = parsed.iter().map(Option::as_ref).collect();
                self.walk(&below(Step::ParseJson), column, &inner);
            }
        }
    }

    /// What holds in the recordings that have a call and in no other; the call stands before `column`.
    pub(super) fn tell(&self, column: usize, having: &[bool]) -> Vec<Condition> {
        // Rows stand in the order of columns, inputs first.
        let inputs = self.rows.partition_point(|row| row.column.is_none());
        let end = self.rows.partition_point(|row| row.column.is_none_or(|node| node < column));
        let near = end.saturating_sub(MAX_NEAR).max(inputs);
        let rows = self.rows.iter().enumerate();
        let rows = rows.filter(|(at, _)| *at < inputs || (near..end).contains(at));
        let mut found: Vec<(u8, usize, usize, Condition)> = rows
            .filter_map(|(order, row)| {
                let (rank, test) = test(&row.seen, having)?;
                let distance = row.column.map_or(1, |node| column - node);
                let condition = Condition { value: row.reference.clone(), test };
                Some((rank, distance, order, condition))
            })
            .collect();
        found.sort_by_key(|(rank, distance, order, _)| (*rank, *distance, *order));
        found.into_iter().take(MAX_NAMED).map(|(_, _, _, condition)| condition).collect()
    }
}

fn look(value: &Value) -> Seen {
    match value {
        Value::Array(list) => Seen::List(list.len()),
        Value::Object(_) => Seen::Other,
        Value::String(text) if text.len() > MAX_TEXT => Seen::Other,
        scalar => Seen::Scalar(scalar.clone()),
    }
}

/// A flag, a plain word, or anything else.
fn rank(value: &Value, agreeing: usize) -> Option<u8> {
    match value {
        Value::Bool(_) | Value::Null => Some(0),
        Value::String(text) if text.len() <= MAX_WORD && text.chars().all(in_words) => Some(1),
        _ => (agreeing > 1).then_some(3),
    }
}

fn in_words(c: char) -> bool {
    c.is_alphabetic() || " _-.".contains(c)
}

/// What holds of every value of those having the call and of none of the others, and how likely it is to be
/// the reason: 0 is the likeliest.
fn test(seen: &[Seen], having: &[bool]) -> Option<(u8, Test)> {
    let side = |wanted: bool| -> Vec<&Seen> {
        seen.iter().zip(having).filter(|(_, has)| **has == wanted).map(|(seen, _)| seen).collect()
    };
    let (with, without) = (side(true), side(false));
    let all =
        |side: &[&Seen], fits: &dyn Fn(&Seen) -> bool| !side.is_empty() && side.iter().all(|seen| fits(seen));
    let nothing = |seen: &Seen| *seen == Seen::Nothing;
    let something = |seen: &Seen| *seen != Seen::Nothing;
    let empty = |seen: &Seen| *seen == Seen::List(0);
    let filled = |seen: &Seen| matches!(seen, Seen::List(count) if *count > 0);
    for (yes, no, test) in [
        (&something as &dyn Fn(&Seen) -> bool, &nothing as &dyn Fn(&Seen) -> bool, Test::Present),
        (&nothing, &something, Test::Missing),
        (&filled, &empty, Test::Filled),
        (&empty, &filled, Test::Empty),
    ] {
        if all(&with, yes) && all(&without, no) {
            return Some((0, test));
        }
    }
    if let (Some(with), Some(without)) = (range(&with), range(&without)) {
        if compare(&with.0, &without.1).is_gt() {
            return Some((2, Test::AtLeast(with.0)));
        }
        if compare(&with.1, &without.0).is_lt() {
            return Some((2, Test::AtMost(with.1)));
        }
    }
    let only = |side: &[&Seen], other: &[&Seen]| {
        let Seen::Scalar(value) = side.first()? else { return None };
        let is = |seen: &&Seen| matches!(seen, Seen::Scalar(found) if same(found, value));
        let apart = side.iter().all(is) && !other.iter().any(is);
        Some((rank(value, side.len()).filter(|_| apart)?, value.clone()))
    };
    let equals = only(&with, &without).map(|(rank, value)| (rank, Test::Equals(value)));
    equals.or_else(|| only(&without, &with).map(|(rank, value)| (rank, Test::Differs(value))))
}

/// The smallest and the largest, if all are numbers.
fn range(side: &[&Seen]) -> Option<(Value, Value)> {
    let mut numbers = Vec::with_capacity(side.len());
    for seen in side {
        match seen {
            Seen::Scalar(value) if value.is_number() => numbers.push(value),
            _ => return None,
        }
    }
    let least = numbers.iter().min_by(|a, b| compare(a, b))?;
    let most = numbers.iter().max_by(|a, b| compare(a, b))?;
    Some(((*least).clone(), (*most).clone()))
}

fn compare(one: &Value, two: &Value) -> std::cmp::Ordering {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole(one), whole(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => one.as_f64().unwrap_or_default().total_cmp(&two.as_f64().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The conditions that tell the recordings marked from the others, as texts.
    fn told(values: &[Value], having: &[bool]) -> Vec<String> {
        let mut table = Table::default();
        let values: Vec<Option<&Value>> = values.iter().map(Some).collect();
        table.add(Source::Node("n".parse().unwrap()), Some(0), &values);
        table.tell(1, having).iter().map(ToString::to_string).collect()
    }

    /// T15: each kind of condition, and the order in which they are offered.
    #[test]
    fn conditions_say_what_differs_the_likeliest_first() {
        let rows: [(Value, Value, &[&str]); 9] = [
            (json!({"open": true, "n": 1}), json!({"open": false, "n": 1}), &["n.open equals `true`"]),
            (json!({"error": null}), json!({}), &["n.error is there"]),
            (json!({}), json!({"next": "x7"}), &["n.next isn't there"]),
            (json!({"items": [4]}), json!({"items": []}), &["n.items has items", "n.items[0] is there"]),
            (json!({"total": 120.5}), json!({"total": 80}), &["n.total is at least `120.5`"]),
            (json!({"left": 0}), json!({"left": 3}), &["n.left is at most `0`"]),
            (json!({"id": "h-77810"}), json!({"id": "h-10442"}), &[]),
            (
                json!({"amount": 7, "state": "late", "paid": false}),
                json!({"amount": 9, "state": "due", "paid": true}),
                &["n.paid equals `false`", "n.state equals `\"late\"`", "n.amount is at most `7`"],
            ),
            (
                json!({"content": [{"text": "{\"stock\": \"none\"}"}]}),
                json!({"content": [{"text": "{\"stock\": \"full\"}"}]}),
                &["n.content[0].text(json).stock equals `\"none\"`"],
            ),
        ];
        for (with, without, expected) in rows {
            assert_eq!(told(&[with, without], &[true, false]), expected);
        }
        let ids = ["a1", "b2", "b2"].map(|id| json!({"id": id}));
        assert_eq!(told(&ids, &[true, false, false]), ["n.id isn't `\"b2\"`"]);
        assert_eq!(told(&ids, &[false, true, true]), ["n.id equals `\"b2\"`"]);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (0i64..3).prop_map(Value::from),
            (0u8..3).prop_map(|n| json!(f64::from(n) + 0.5)),
            "(on|off|x1|\\{\"k\":[0-2]\\})".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// T15: the invariant, by the meaning of the tests written down a second time.
        #[test]
        fn conditions_hold_where_the_call_is_and_nowhere_else(
            values in prop::collection::vec((any_value(), any::<bool>()), 2..5),
        ) {
            let mut table = Table::default();
            let recorded: Vec<Option<&Value>> = values.iter().map(|(value, _)| Some(value)).collect();
            table.add(Source::Node("n".parse().unwrap()), Some(0), &recorded);
            let having: Vec<bool> = values.iter().map(|(_, has)| *has).collect();
            for condition in table.tell(1, &having) {
                for (value, has) in &values {
                    let found = condition.value.follow(Some(value)).ok().map(std::borrow::Cow::into_owned);
                    let number = |value: &Value| value.as_f64().unwrap();
                    let holds = match (&condition.test, &found) {
                        (Test::Equals(wanted), found) => found.as_ref().is_some_and(|found| same(found, wanted)),
                        (Test::Differs(wanted), found) => found.as_ref().is_none_or(|found| !same(found, wanted)),
                        (Test::Present, found) => found.is_some(),
                        (Test::Missing, found) => found.is_none(),
                        (Test::Filled, found) => found.as_ref().unwrap().as_array().unwrap() != &Vec::<Value>::new(),
                        (Test::Empty, found) => found.as_ref().unwrap().as_array().unwrap().is_empty(),
                        (Test::AtLeast(bound), found) => number(found.as_ref().unwrap()) >= number(bound),
                        (Test::AtMost(bound), found) => number(found.as_ref().unwrap()) <= number(bound),
                    };
                    prop_assert_eq!(holds, *has, "{} of {}", condition, value);
                }
            }
        }
    }
}
