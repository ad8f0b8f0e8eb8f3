//! A plugin that says what its clocks show.
//!
//! Owns reading them, in tools of two effects. Refuses to make anything of it.
//!
//! **Invariant:** both tools do the same.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Serialize;
use t2m_plugin_sdk::{Error, NoArguments, Plugin, Tools, export};

#[derive(Serialize, JsonSchema)]
struct Clocks {
    /// The date, in nanoseconds since 1970.
    date: u64,
    /// What passed on the clock that isn't a date between two readings, in nanoseconds.
    passed: u64,
}

fn clocks(_: NoArguments) -> Result<Clocks, Error> {
    let start = Instant::now();
    let date = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(Clocks { date: u64::try_from(date)?, passed: u64::try_from(start.elapsed().as_nanos())? })
}

struct Dated;

impl Plugin for Dated {
    fn tools(tools: &mut Tools) {
        tools.read("look", "Reads the clocks.", clocks);
        tools.pure("guess", "Reads the clocks in a tool that is pure.", clocks);
    }
}

export!(Dated);
