//! The trace that compiling is measured with.
//!
//! Owns chained events with results of 20 leaves, for the bench and the table of sizes. Refuses to be a document
//! first, which would stand in memory beside the trace.

use serde_json::{Map, Value, json};
use t2m_core::effect::Effect;
use t2m_core::id::NodeId;
use t2m_core::trace::{Event, Trace};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Each event uses two values of the one before it.
pub(crate) fn chain(count: usize) -> Trace {
    let result = |index: usize| -> Map<String, Value> {
        (0..20)
            .map(|leaf| {
                let value = match leaf % 4 {
                    0 => json!(format!("value-{index}-{leaf}")),
                    1 => json!(index * 1000 + leaf),
                    2 => json!(leaf % 8 == 2),
                    _ => json!("a text that every result has"),
                };
                (format!("field_{leaf}"), value)
            })
            .collect()
    };
    let event = |index: usize| {
        let arguments = match index.checked_sub(1) {
            Some(before) => {
                json!({"token": format!("value-{before}-0"), "number": before * 1000 + 1, "page": 1})
            }
            None => json!({"query": "start"}),
        };
        let Value::Object(arguments) = arguments else { unreachable!("it is an object") };
        let id = NodeId::new(format!("e{index}")).unwrap_or_else(|error| unreachable!("{error}"));
        let mut event = Event::new(id, "step", arguments);
        event.result = Value::Object(result(index));
        event.effect = Effect::Read;
        event
    };
    let inputs = Map::from_iter([("query".to_owned(), json!("start"))]);
    Trace { inputs, events: (0..count).map(event).collect(), ..Trace::default() }
}
