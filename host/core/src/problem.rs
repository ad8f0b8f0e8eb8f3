//! What is wrong with an input, and where.
//!
//! Owns the shape in which every reader of this crate reports: all problems of one input at once.
//! Refuses to print: the command line does that.
//!
//! **Invariant:** [`Problems`] made by [`Problems::from_list`] is never empty.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::code::Code;

/// Most problems that one report carries; a file with more has one cause.
pub const MAX_PROBLEMS: usize = 100;

/// Where in an input a problem is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The input as a whole.
    Whole,
    /// A JSON Pointer (RFC 6901).
    Pointer(String),
    /// A line, counted from 1.
    Line(usize),
    /// A line and a column, both counted from 1.
    LineColumn(usize, usize),
    /// A line of a JSON Lines file and a JSON Pointer inside it.
    LinePointer(usize, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => f.write_str("the whole input"),
            Place::Pointer(pointer) if pointer.is_empty() => f.write_str("the top level"),
            Place::Pointer(pointer) => f.write_str(pointer),
            Place::Line(line) => write!(f, "line {line}"),
            Place::LineColumn(line, column) => write!(f, "line {line}, column {column}"),
            Place::LinePointer(line, pointer) => write!(f, "line {line}, {pointer}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable code.
    pub code: Code,
    /// Where it is.
    pub place: Place,
    /// What is wrong; lower case, no final period.
    pub message: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(code: Code, place: Place, message: impl Into<String>) -> Problem {
        Problem { code, place, message: message.into() }
    }

    /// A problem at a JSON Pointer.
    pub fn at(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::new(code, Place::Pointer(pointer.into()), message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.code, self.place, self.message)
    }
}

/// Every problem of one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `Err` with the problems if there are any, cut at [`MAX_PROBLEMS`].
    pub fn from_list(mut list: Vec<Problem>) -> Result<(), Problems> {
        if list.is_empty() {
            return Ok(());
        }
        list.truncate(MAX_PROBLEMS);
        Err(Problems(list))
    }

    /// A single problem.
    pub fn one(problem: Problem) -> Problems {
        Problems(vec![problem])
    }

    /// The problems, in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// The first one's code, which stands for the whole report.
    pub fn code(&self) -> Code {
        self.0.first().map_or(Code::Internal, |problem| problem.code)
    }

    /// The problems themselves.
    pub fn into_list(self) -> Vec<Problem> {
        self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems::one(problem)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// `pointer` extended by one object key, escaped after RFC 6901.
pub fn child(pointer: &str, key: &str) -> String {
    // Compiling makes one for each value that it looks at, and hardly any key needs escaping.
    let mut longer = String::with_capacity(pointer.len() + 1 + key.len());
    longer.push_str(pointer);
    longer.push('/');
    if key.contains(['~', '/']) {
        longer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    } else {
        longer.push_str(key);
    }
    longer
}

/// `pointer` extended by one array index.
pub fn item(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}

/// What a JSON Pointer leads to in an object; the object itself, `""`, is no value of its own.
pub(crate) fn lookup<'v>(object: &'v Map<String, Value>, pointer: &str) -> Option<&'v Value> {
    let inside = pointer.strip_prefix('/')?;
    let (key, rest) = inside.split_at(inside.find('/').unwrap_or(inside.len()));
    let found = match key.contains('~') {
        true => object.get(&key.replace("~1", "/").replace("~0", "~")),
        false => object.get(key),
    };
    if rest.is_empty() { found } else { found?.pointer(rest) }
}

/// The nearest known word, if one is near enough to be a slip of the finger.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// The end of a message about a word that isn't known: a question if one is near, and nothing otherwise.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(word, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
