//! Reading a JSON document field by field, with every problem found.
//!
//! Owns the small vocabulary that the readers of our file formats share. Refuses to know any format.
//!
//! **Invariant:** a reader that ends with [`Report::finish`] returns a value only if nothing was reported.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::code::Code;
use crate::json::kind;
use crate::problem::{Problem, Problems, child, did_you_mean, hint, item};

/// Collects problems while a document is read.
#[derive(Debug, Default)]
pub struct Report(RefCell<Vec<Problem>>);

impl Report {
    /// Adds a problem at a JSON Pointer.
    pub fn add(&self, code: Code, pointer: impl Into<String>, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem::at(code, pointer, message));
    }

    /// Adds a problem that already has its place.
    pub fn push(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// The value, if it was made and nothing was reported.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        Problems::from_list(self.0.into_inner())?;
        value.ok_or_else(|| Problem::at(Code::Internal, "", "reader gave up without a reason").into())
    }
}

/// An object being read. Fields that were not asked for are unknown.
#[derive(Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    pointer: String,
    known: BTreeSet<&'static str>,
    report: &'a Report,
}

impl<'a> Fields<'a> {
    /// Starts on `value`, or reports that it isn't an object.
    pub fn of(value: &'a Value, pointer: &str, report: &'a Report) -> Option<Fields<'a>> {
        let map = as_object(value, pointer, report)?;
        Some(Fields { map, pointer: pointer.to_owned(), known: BTreeSet::new(), report })
    }

    /// The pointer of one field.
    pub fn pointer(&self, key: &str) -> String {
        child(&self.pointer, key)
    }

    /// A name out of a list; absent is the default.
    pub(crate) fn optional_name<T: Default + fmt::Display>(
        &mut self,
        key: &'static str,
        parse: fn(&str) -> Option<T>,
        all: &[T],
    ) -> T {
        let Some(text) = self.optional_text(key) else {
            return T::default();
        };
        parse(text).unwrap_or_else(|| {
            let names: Vec<String> = all.iter().map(|value| format!("`{value}`")).collect();
            let message = format!("`{}` is not one of {}", text.escape_debug(), names.join(", "));
            self.report.add(Code::FieldValue, self.pointer(key), message);
            T::default()
        })
    }

    /// A field that may be absent.
    pub fn optional(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.insert(key);
        self.map.get(key)
    }

    /// A field that must be there.
    pub fn required(&mut self, key: &'static str) -> Option<&'a Value> {
        let found = self.optional(key);
        if found.is_none() {
            let near = self.map.keys().find(|present| did_you_mean(present, [key]).is_some());
            let hint = near.map(|present| format!("; `{present}` is not it")).unwrap_or_default();
            self.report.add(Code::FieldMissing, self.pointer.clone(), format!("`{key}` is missing{hint}"));
        }
        found
    }

    /// A required text.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        let value = self.required(key)?;
        as_text(value, &self.pointer(key), self.report)
    }

    /// An optional text.
    pub fn optional_text(&mut self, key: &'static str) -> Option<&'a str> {
        let value = self.optional(key)?;
        as_text(value, &self.pointer(key), self.report)
    }

    /// A required list.
    pub fn list(&mut self, key: &'static str) -> Option<&'a [Value]> {
        let value = self.required(key)?;
        as_list(value, &self.pointer(key), self.report)
    }

    /// An optional list; absent is empty.
    pub fn optional_list(&mut self, key: &'static str) -> &'a [Value] {
        let value = self.optional(key);
        value.and_then(|value| as_list(value, &self.pointer(key), self.report)).unwrap_or_default()
    }

    /// A required object.
    pub fn object(&mut self, key: &'static str) -> Option<&'a Map<String, Value>> {
        let value = self.required(key)?;
        as_object(value, &self.pointer(key), self.report)
    }

    /// An optional whole number that isn't negative.
    pub fn optional_count(&mut self, key: &'static str) -> Option<u64> {
        let value = self.optional(key)?;
        let count = value.as_u64();
        if count.is_none() {
            let message = format!("expected a whole number, 0 or more, found {}", shown(value));
            self.report.add(Code::FieldType, self.pointer(key), message);
        }
        count
    }

    /// A required text that a type of this crate can be made from.
    pub fn parsed<T>(&mut self, key: &'static str) -> Option<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let text = self.text(key)?;
        as_parsed(text, &self.pointer(key), self.report)
    }

    /// A value that serde reads, for small parts whose faults need no pointer of their own.
    pub fn typed<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let value = self.required(key)?;
        as_typed(value, &self.pointer(key), self.report)
    }

    /// The same for an optional field.
    pub fn optional_typed<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let value = self.optional(key)?;
        as_typed(value, &self.pointer(key), self.report)
    }

    /// Reports every field that was not asked for.
    pub fn finish(self) {
        for key in self.map.keys().filter(|key| !self.known.contains(key.as_str())) {
            let hint = hint(key, self.known.iter().copied());
            self.report.add(
                Code::FieldUnknown,
                child(&self.pointer, key),
                format!("`{key}` is not a field here{hint}"),
            );
        }
    }

    /// The fields that were not asked for, to be kept as they are.
    pub fn into_rest(self) -> Map<String, Value> {
        self.map
            .iter()
            .filter(|(key, _)| !self.known.contains(key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Goes through without minding fields that were not asked for.
    pub fn ignore_rest(self) {}
}

/// The object, or a report that it isn't one.
pub fn as_object<'a>(value: &'a Value, pointer: &str, report: &Report) -> Option<&'a Map<String, Value>> {
    let map = value.as_object();
    if map.is_none() {
        report.add(Code::FieldType, pointer, format!("expected an object, found {}", kind(value)));
    }
    map
}

/// The list, or a report that it isn't one.
pub fn as_list<'a>(value: &'a Value, pointer: &str, report: &Report) -> Option<&'a [Value]> {
    let list = value.as_array();
    if list.is_none() {
        report.add(Code::FieldType, pointer, format!("expected a list, found {}", kind(value)));
    }
    list.map(Vec::as_slice)
}

/// The text, or a report that it isn't one.
pub fn as_text<'a>(value: &'a Value, pointer: &str, report: &Report) -> Option<&'a str> {
    let text = value.as_str();
    if text.is_none() {
        report.add(Code::FieldType, pointer, format!("expected a string, found {}", kind(value)));
    }
    text
}

/// A value made from a text, or a report of why it can't be.
pub fn as_parsed<T>(text: &str, pointer: &str, report: &Report) -> Option<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            report.add(Code::FieldValue, pointer, format!("{error}"));
            None
        }
    }
}

/// A list of texts that a type can be made from.
pub fn as_parsed_list<T>(list: &[Value], pointer: &str, report: &Report) -> Vec<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    list.iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let pointer = item(pointer, index);
            as_parsed(as_text(value, &pointer, report)?, &pointer, report)
        })
        .collect()
}

/// A value that serde can read, or a report of why not.
pub fn as_typed<T: DeserializeOwned>(value: &Value, pointer: &str, report: &Report) -> Option<T> {
    match serde_json::from_value(value.clone()) {
        Ok(value) => Some(value),
        Err(error) => {
            let message = error.to_string();
            let code = if message.starts_with("unknown field") {
                Code::FieldUnknown
            } else if message.starts_with("missing field") {
                Code::FieldMissing
            } else if message.starts_with("invalid type") {
                Code::FieldType
            } else {
                Code::FieldValue
            };
            report.add(code, pointer, message);
            None
        }
    }
}

/// A value as it may stand in a message: short, on one line.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return format!("`{text}`");
    }
    format!("`{}...`", text.chars().take(57).collect::<String>())
}
