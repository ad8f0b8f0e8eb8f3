//! A plugin that remembers.
//!
//! Owns a counter in its memory. Refuses grants: an instance with grants never serves a second call.
//!
//! **Invariant:** `count` returns how many calls of this instance came before, and one.

// It is a guest and nothing else.
#![cfg(target_arch = "wasm32")]
#![expect(clippy::panic, reason = "a trap is wanted")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_plugin_sdk::{Error, Plugin, Tools, export};

#[derive(Deserialize, JsonSchema)]
struct Rounds {
    rounds: u32,
}

#[derive(Serialize, JsonSchema)]
struct Count {
    count: u32,
}

static CALLS: AtomicU32 = AtomicU32::new(0);

fn count() -> Count {
    Count { count: CALLS.fetch_add(1, Ordering::Relaxed) + 1 }
}

struct Counter;

impl Plugin for Counter {
    fn tools(tools: &mut Tools) {
        tools.pure("count", "Counts its calls, after some rounds of work.", |work: Rounds| {
            (0..work.rounds).for_each(|round| drop(black_box(round)));
            Ok(count())
        });
        tools.pure("fail", "Counts, and fails.", |_: Rounds| -> Result<Count, Error> {
            Err(Error::new("counted", count().count.to_string()))
        });
        tools.pure("trap", "Traps.", |_: Rounds| -> Result<Count, Error> { panic!("trapped") });
    }
}
export!(Counter);
