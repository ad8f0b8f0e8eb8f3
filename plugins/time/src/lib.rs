//! The tools of the official MCP time server, sandboxed.
//!
//! Owns names, arguments and results, which are those of `mcp-server-time`. Refuses a local time zone: in the sandbox
//! there is none, so that each call names its zones.
//!
//! INVARIANT: each call reads the date once, and everything that it says follows from that moment and its arguments.

#[cfg(test)]
mod tests;
mod zones;

use std::time::SystemTime;

use jiff::Timestamp;
use t2m_plugin_sdk::{
    Deserialize, Error, JsonSchema, Output, Plugin, Reply, Serialize, Tools, export, serde_json,
};

/// What the tools read, for the order of calls.
const KEYS: &[&str] = &["clock:/"];

#[derive(Deserialize, JsonSchema)]
struct Current {
    /// Name of a time zone in the IANA database, such as `Europe/London`
    timezone: String,
}

#[derive(Deserialize, JsonSchema)]
struct Convert {
    /// IANA name of the time zone that the time is given in, such as `America/New_York`
    source_timezone: String,
    /// Time of today in that zone, `HH:MM` with 24 hours
    time: String,
    /// IANA name of the time zone that is wanted, such as `Asia/Tokyo`
    target_timezone: String,
}

fn now() -> Result<Timestamp, Error> {
    Ok(Timestamp::try_from(SystemTime::now())?)
}

/// A result whose text is its JSON, as the official server has it.
fn told<T: Serialize + JsonSchema>(value: T) -> Result<Reply<T>, Error> {
    let text = serde_json::to_string_pretty(&value)?;
    Ok(Reply::structured(value).text(text))
}

fn get_current_time(args: Current) -> Result<impl Output, Error> {
    told(zones::current(now()?, &args.timezone)?)
}

fn convert_time(args: Convert) -> Result<impl Output, Error> {
    told(zones::convert(now()?, &args.source_timezone, &args.time, &args.target_timezone)?)
}

struct Time;

impl Plugin for Time {
    fn tools(tools: &mut Tools) {
        tools
            .read("get_current_time", "Tells the date and the time of now in a time zone.", get_current_time)
            .title("Get Current Time")
            .non_idempotent()
            .reads(KEYS);
        tools
            .read(
                "convert_time",
                "Tells what a time of today in one time zone is in another one, and how far the two are apart.",
                convert_time,
            )
            .title("Convert Time")
            .non_idempotent()
            .reads(KEYS);
    }
}

export!(Time);
