//! The schema of values that were observed.
//!
//! Owns the widening of one value's schema until it allows every other one. Refuses to narrow by chance: values
//! are never listed, and what one recording shows alone says a type and no more.
//!
//! What is said, of all values that stand in one place:
//!
//! - The types seen, `null` among them. Of null alone nothing is said.
//! - `integer` if several recordings show only integers, else `number`.
//! - An object's properties, those of all observed objects together. Required is what every one has, if there
//!   are several recordings; other properties stay allowed.
//! - A list's items: one schema for every item of every observed list.
//! - A `format` of texts, if several recordings have texts there and all of them have it.
//!
//! **Invariant:** a schema made here allows every value it was made from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A schema that allows every value of the same type.
pub(super) fn schema_of(value: &Value) -> Value {
    schema_of_all(&[value])
}

/// A schema that allows every value like these, one from each recording.
pub(super) fn schema_of_all(values: &[&Value]) -> Value {
    let several = values.len() > 1;
    let mut seen = Seen::default();
    values.iter().for_each(|value| seen.add(value));
    seen.schema(several)
}

/// What was seen in one place.
#[derive(Default)]
struct Seen<'v> {
    null: bool,
    boolean: bool,
    integer: bool,
    float: bool,
    texts: usize,
    /// Formats that every text so far has.
    formats: Option<BTreeSet<&'static str>>,
    lists: usize,
    items: Option<Box<Seen<'v>>>,
    objects: usize,
    /// By name: in how many objects, and what.
    members: BTreeMap<&'v str, (usize, Seen<'v>)>,
}

impl<'v> Seen<'v> {
    fn add(&mut self, value: &'v Value) {
        match value {
            Value::Null => self.null = true,
            Value::Bool(_) => self.boolean = true,
            Value::Number(number) if number.is_f64() => self.float = true,
            Value::Number(_) => self.integer = true,
            Value::String(text) => {
                self.texts += 1;
                let own = FORMATS.iter().filter(|(_, fits)| fits(text)).map(|(name, _)| *name);
                self.formats = Some(match self.formats.take() {
                    None => own.collect(),
                    Some(formats) => own.filter(|name| formats.contains(name)).collect(),
                });
            }
            Value::Array(list) => {
                self.lists += 1;
                for item in list {
                    self.items.get_or_insert_default().add(item);
                }
            }
            Value::Object(map) => {
                self.objects += 1;
                for (key, member) in map {
                    let (count, seen) = self.members.entry(key).or_default();
                    *count += 1;
                    seen.add(member);
                }
            }
        }
    }

    fn schema(&self, several: bool) -> Value {
        let mut types = Vec::new();
        let mut add = |seen: bool, name: &str| types.extend(seen.then(|| json!(name)));
        add(self.lists > 0, "array");
        add(self.boolean, "boolean");
        let whole = several && self.integer && !self.float;
        add(whole, "integer");
        add(!whole && (self.integer || self.float), "number");
        add(self.objects > 0, "object");
        add(self.texts > 0, "string");
        let mut schema = Map::new();
        match types.len() {
            // A null says that there is no value, and nothing of what others there may be.
            0 => return json!({}),
            1 if !self.null => schema.insert("type".to_owned(), types.pop().unwrap_or_default()),
            _ => {
                types.extend(self.null.then(|| json!("null")));
                schema.insert("type".to_owned(), Value::Array(types))
            }
        };
        if let Some(items) = self.items.as_ref().map(|items| items.schema(several)).filter(says_something) {
            schema.insert("items".to_owned(), items);
        }
        if self.objects > 0 {
            let members = self.members.iter();
            let properties: Map<_, _> =
                members.map(|(key, (_, seen))| ((*key).to_owned(), seen.schema(several))).collect();
            schema.insert("properties".to_owned(), Value::Object(properties));
            let members = self.members.iter().filter(|(_, (count, _))| *count == self.objects);
            let required: Vec<Value> = members.map(|(key, _)| json!(key)).collect();
            if several && !required.is_empty() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
        }
        let format = self.formats.as_ref().filter(|_| several && self.texts > 1);
        if let Some(format) = format.and_then(|formats| formats.first()) {
            schema.insert("format".to_owned(), json!(format));
        }
        Value::Object(schema)
    }
}

fn says_something(schema: &Value) -> bool {
    *schema != json!({})
}

/// A format and whether a text has it.
type Format = (&'static str, fn(&str) -> bool);

/// Formats that are told by their look. No text has two of them.
const FORMATS: [Format; 5] =
    [("date", is_date), ("date-time", is_date_time), ("email", is_email), ("uri", is_uri), ("uuid", is_uuid)];

/// Whether the text looks like a pattern in which `0` stands for a digit and `x` for a hexadecimal one.
fn looks(text: &str, pattern: &str) -> bool {
    let fits = |(found, wanted): (char, char)| match wanted {
        '0' => found.is_ascii_digit(),
        'x' => found.is_ascii_hexdigit(),
        other => found == other,
    };
    text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(fits)
}

fn number(text: &str, from: usize, to: usize) -> u32 {
    text.get(from..to).and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX)
}

fn is_date(text: &str) -> bool {
    if !looks(text, "0000-00-00") {
        return false;
    }
    let (year, month, day) = (number(text, 0, 4), number(text, 5, 7), number(text, 8, 10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// RFC 3339 with capital letters, no leap seconds.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else { return false };
    let Some((time, zone)) = rest.split_at_checked(8) else { return false };
    let clock = |text: &str| number(text, 0, 2) < 24 && number(text, 3, 5) < 60;
    let (fraction, zone) = match zone.strip_prefix('.') {
        None => ("0", zone),
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
    };
    let offset = zone.strip_prefix(['+', '-']).is_some_and(|zone| looks(zone, "00:00") && clock(zone));
    is_date(date)
        && looks(time, "00:00:00")
        && clock(time)
        && number(time, 6, 8) < 60
        && !fraction.is_empty()
        && (zone == "Z" || offset)
}

fn is_uuid(text: &str) -> bool {
    looks(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

/// The common form alone: one dot-separated word on each side, without quotes or comments.
fn is_email(text: &str) -> bool {
    let Some((name, host)) = text.split_once('@') else { return false };
    let word = |text: &str, more: &str| {
        let labels = text.split('.');
        let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        !text.is_empty() && labels.clone().all(|label| !label.is_empty() && label.chars().all(fits))
    };
    let labels =
        host.split('.').all(|label| label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-'));
    name.len() <= 64
        && host.len() <= 253
        && host.contains('.')
        && labels
        && word(name, "_+-")
        && word(host, "-")
}

/// Addresses of the web, without anything that would have to be escaped.
fn is_uri(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return false;
    };
    let (host, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host
        .split_once(':')
        .map_or(host, |(host, port)| if number(port, 0, port.len()) < 65_536 { host } else { "" });
    let in_host = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let in_tail = |c: char| c.is_ascii_alphanumeric() || "-._~/?=&+,:;@!*".contains(c);
    !host.is_empty() && host.chars().all(in_host) && tail.chars().all(in_tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::Schema;

    fn of(values: &[Value]) -> Value {
        schema_of_all(&values.iter().collect::<Vec<_>>())
    }

    /// T15: each rule of the head comment.
    #[test]
    fn schemas_widen_until_they_allow_every_recording() {
        let rows = [
            (vec![json!(3)], json!({"type": "number"})),
            (vec![json!(3), json!(4)], json!({"type": "integer"})),
            (vec![json!(3), json!(4.5)], json!({"type": "number"})),
            (vec![json!(28.0), json!(3)], json!({"type": "number"})),
            (vec![json!(null)], json!({})),
            (vec![json!(null), json!(null)], json!({})),
            (vec![json!("a"), json!(null)], json!({"type": ["string", "null"]})),
            (vec![json!("a"), json!(1), json!(true)], json!({"type": ["boolean", "integer", "string"]})),
            (vec![json!([])], json!({"type": "array"})),
            (vec![json!([null])], json!({"type": "array"})),
            (
                vec![json!([]), json!([1, "x"])],
                json!({"type": "array", "items": {"type": ["integer", "string"]}}),
            ),
            (vec![json!({"a": 1})], json!({"type": "object", "properties": {"a": {"type": "number"}}})),
            (
                vec![json!({"a": 1, "b": "x"}), json!({"a": 2, "c": null})],
                json!({"type": "object", "required": ["a"], "properties": {
                    "a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}}),
            ),
            (
                vec![json!({"a": 1}), json!("whole")],
                json!({"type": ["object", "string"], "required": ["a"], "properties": {"a": {"type": "integer"}}}),
            ),
            // The same three values again and again are no list of what is allowed.
            (vec![json!("low"), json!("high"), json!("low")], json!({"type": "string"})),
        ];
        for (values, expected) in rows {
            assert_eq!(of(&values), expected, "{values:?}");
        }
    }

    /// T15: a format is said only where several recordings have it and none has not.
    #[test]
    fn formats_need_every_text() {
        let rows = [
            ("date", vec!["2024-02-29", "1999-12-31"]),
            ("date-time", vec!["2024-02-29T23:59:59Z", "2024-01-01T00:00:00.25+02:00"]),
            ("uuid", vec!["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174001"]),
            ("email", vec!["ann@example.org", "bo+x@mail.example.co"]),
            ("uri", vec!["https://example.org", "http://localhost:8080/a/b?c=d&e=1"]),
        ];
        for (format, texts) in &rows {
            let values: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
            assert_eq!(of(&values)["format"], json!(format));
            assert_eq!(of(&values[..1]), json!({"type": "string"}), "one recording says a type");
            for (other, texts) in &rows {
                if other != format {
                    let mixed = [values[0].clone(), json!(texts[0])];
                    assert_eq!(of(&mixed), json!({"type": "string"}), "{mixed:?}");
                }
            }
        }
        for wrong in [
            "2024-02-30",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-02-29T24:00:00Z",
            "2024-02-29T23:59:59",
            "2024-02-29T23:59:59.Z",
            "ann@localhost",
            "@example.org",
            "a@b@c.org",
            "a..b@c.org",
            "ann@-x.org",
            "https://",
            "http://a b/",
            "http://x:99999/",
            "ftp://x/",
            "https://exämple.org",
            "",
            "é024-02-29",
        ] {
            assert_eq!(of(&[json!(wrong), json!(wrong)]), json!({"type": "string"}), "{wrong}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            Just(json!(28.0)),
            "(2024-02-29|2024-02-3[01]|a@b.org|https://x.org/|[0-9T:.Z-]{8,20}|\\PC{0,6})"
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{0,1}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// T15: the law of this file, with formats checked too, and whatever the order of the recordings.
        #[test]
        fn every_observed_value_is_allowed(values in prop::collection::vec(any_value(), 1..5)) {
            let schema = of(&values);
            let strict = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            prop_assert!(Schema::compile(&schema).is_ok());
            for value in &values {
                prop_assert!(strict.is_valid(value), "{schema} refuses {value}");
            }
            let turned: Vec<Value> = values.iter().rev().cloned().collect();
            prop_assert_eq!(of(&turned), schema);
        }
    }
}
