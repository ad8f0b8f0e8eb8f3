//! What has to hold for whatever a component says.
//!
//! Owns the laws that the fuzz targets of `tests/fuzz` check, and the replay of their corpus. Refuses to run
//! anything: these are the readers between a component and the host.
//!
//! **Invariant:** a check ends by returning, or by a panic that says which law is broken.

#![expect(clippy::panic, reason = "a broken law panics")]

use serde_json::Value;
use t2m_core::schema::Schema;
use t2m_core::terminal::steers;
use t2m_core::tool::Usage;
use wasmtime::component::Val;

use crate::bindings::{Tool, types};
use crate::convert;
use crate::imports::Capabilities;
use crate::sdk::ComponentInfo;
use crate::typed::shape::{Int, Members, Named, Shape};
use crate::typed::{read, schema, write};

/// Bytes that a conversion may take here.
const ROOM: usize = 1 << 20;

/// A check by the name of its target.
pub fn by_name(target: &str) -> Option<fn(&[u8])> {
    Some(match target {
        "component" => component,
        "describe" => describe,
        "result" => result,
        "types" => types,
        _ => return None,
    })
}

/// Any bytes as a component: what is wrong is said without characters that steer a terminal.
pub fn component(bytes: &[u8]) {
    let said: Vec<String> = match ComponentInfo::read(bytes) {
        Ok(info) => [Capabilities::all(), Capabilities::default()]
            .into_iter()
            .flat_map(|granted| info.problems(granted))
            .map(|problem| problem.message().to_owned())
            .collect(),
        Err(error) => vec![error.message().to_owned()],
    };
    for text in said {
        assert!(!text.chars().any(steers), "a message steers the terminal: {text:?}");
    }
}

/// The texts of some bytes, which are cut at each `0xff`.
fn texts(bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.split(|byte| *byte == 0xff).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Any texts as what `describe` returned: all of it is taken, or none.
pub fn describe(bytes: &[u8]) {
    let all: Vec<String> = texts(bytes).collect();
    let text = |tool: &[String], at: usize| tool.get(at).cloned();
    let tools: Vec<Tool> = all
        .chunks(6)
        .map(|tool| Tool {
            name: text(tool, 0).unwrap_or_default(),
            title: text(tool, 4),
            description: text(tool, 3).unwrap_or_default(),
            input_schema: text(tool, 1).unwrap_or_default(),
            output_schema: text(tool, 2),
            effect: types::Effect::Unknown,
            idempotency: types::Idempotency::Unknown,
            reads: text(tool, 5).into_iter().collect(),
            writes: Vec::new(),
        })
        .collect();
    let count = tools.len();
    match convert::descriptors(tools, ROOM) {
        Ok(list) => assert_eq!(list.len(), count, "a tool is lost"),
        Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
    }
}

/// Any texts as what a call returned: a result is JSON, and a failure is told whatever it says.
pub fn result(bytes: &[u8]) {
    let mut all = texts(bytes);
    let first = all.next().unwrap_or_default();
    let second = all.next();
    let content = all.map(types::Content::Text).collect();
    let reply = types::ToolResult { content, structured: Some(first.clone()) };
    if let Ok(reply) = convert::reply(reply, Usage::default(), ROOM) {
        let value: Result<Value, _> = serde_json::from_str(&first);
        assert_eq!(reply.structured, value.ok(), "the result isn't what was returned");
    }
    let error =
        types::ToolError { code: first.clone(), message: first, retryable: false, details: second.clone() };
    let failure = convert::failure(error, ROOM);
    assert_eq!(failure.details.is_some(), second.is_some(), "the details are lost");
}

/// Any bytes as a type and a JSON value of it: what is read is written as it was, and the schema allows it.
pub fn types(bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len()));
    let shape = shape(&mut head.iter().copied(), 0);
    let Ok(json) = serde_json::from_slice::<Value>(tail.get(1..).unwrap_or_default()) else { return };
    let allowed = Schema::compile(&schema::of(&shape)).is_ok_and(|schema| schema.allows(&json));
    let val = match read::value(&shape, &json, &mut read::Room::new(ROOM)) {
        Ok(val) => val,
        Err(fault) => {
            assert!(!fault.message().is_empty(), "refused without a reason");
            return;
        }
    };
    assert!(allowed, "the schema refuses what is read: {json} of {shape:?}");
    let again = |val: Val| write::json(&shape, val, &mut write::Room::new(ROOM));
    let Ok(written) = again(val) else { panic!("what was read can't be written: {json} of {shape:?}") };
    let read_again = read::value(&shape, &written, &mut read::Room::new(ROOM));
    let Ok(read_again) = read_again else { panic!("what was written can't be read: {written} of {shape:?}") };
    assert_eq!(again(read_again).ok(), Some(written), "a value changes on its way");
}

/// A type of some bytes.
fn shape(bytes: &mut impl Iterator<Item = u8>, depth: usize) -> Shape {
    let kind = bytes.next().unwrap_or_default();
    let ints = [Int::U8, Int::S8, Int::U16, Int::S16, Int::U32, Int::S32, Int::U64, Int::S64];
    let leaf = match kind % 8 {
        0 => Shape::Bool,
        1 => Shape::F32,
        2 => Shape::F64,
        3 => Shape::Char,
        4 => Shape::String,
        5 => Shape::Bytes,
        number => ints.get(usize::from(kind >> 4) % 8).map_or(Shape::Bool, |int| {
            if number == 6 { Shape::Int(*int) } else { Shape::Enum(names("case", kind >> 6)) }
        }),
    };
    if depth > 4 || kind < 128 {
        return leaf;
    }
    let below = depth + 1;
    let mut boxed = || Box::new(shape(bytes, below));
    match kind % 7 {
        0 => Shape::List(boxed()),
        1 => Shape::Option(boxed()),
        2 => Shape::Result { ok: Some(boxed()), err: (kind & 8 == 0).then(&mut boxed) },
        3 => Shape::Tuple(vec![*boxed(), *boxed()]),
        4 => Shape::Flags(names("flag", kind >> 5)),
        5 => Shape::Record(Members::new(None, vec![named(0, *boxed()), named(1, *boxed())])),
        _ => Shape::Variant(Members::new(None, vec![named(0, None), named(1, Some(*boxed()))])),
    }
}

fn named<T>(number: u8, of: T) -> Named<T> {
    Named { name: format!("name-{number}"), doc: None, of }
}

fn names(word: &str, more: u8) -> Members<()> {
    let all = (0..=more).map(|number| Named { name: format!("{word}-{number}"), doc: None, of: () });
    Members::new(None, all.collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// P08: no input of the corpus makes a reader panic or contradict itself.
    #[test]
    fn the_corpus_breaks_no_law() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus"));
        for target in ["component", "describe", "result", "types"] {
            let check = by_name(target).unwrap();
            let files: Vec<_> =
                std::fs::read_dir(folder.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(files.len() >= 8, "the corpus of `{target}` has gone");
            for file in files {
                let bytes = std::fs::read(&file).unwrap();
                if std::panic::catch_unwind(|| check(&bytes)).is_err() {
                    panic!("{} breaks a law of `{target}`", file.display());
                }
            }
        }
    }
}
