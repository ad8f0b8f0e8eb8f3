//! Write a t2m-host tool as a WebAssembly component.
//!
//! Owns what a plugin author sees: the [`Plugin`] trait, typed arguments and results, errors, the host's
//! functions ([`log`], [`context`], [`tools`], [`http`], [`secrets`], [`kv`]) and a native test harness (`testing`). Refuses to know what a
//! tool does, and asks the host for nothing but the WIT package `t2m:plugin` and, where a plugin uses [`http`],
//! `wasi:http`.
//!
//! INVARIANT: nothing kept in memory outlives a call, because every call runs in a fresh instance.
//!
//! ```
//! use t2m_plugin_sdk::{Deserialize, Error, JsonSchema, Plugin, Serialize, Tools, export};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Half {
//!     /// The number to halve; it must be even.
//!     number: i64,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Halved {
//!     result: i64,
//! }
//!
//! fn half(args: Half) -> Result<Halved, Error> {
//!     if args.number % 2 != 0 {
//!         return Err(Error::new("not-even", format!("{} has no whole half", args.number)));
//!     }
//!     Ok(Halved { result: args.number / 2 })
//! }
//!
//! struct Numbers;
//!
//! impl Plugin for Numbers {
//!     fn tools(tools: &mut Tools) {
//!         tools.pure("half", "Halves an even number.", half).title("Half");
//!     }
//! }
//!
//! export!(Numbers);
//!
//! let mut harness = t2m_plugin_sdk::testing::Harness::<Numbers>::new();
//! let reply = harness.call("half", r#"{"number": 8}"#)?;
//! assert_eq!(reply.structured.as_deref(), Some(r#"{"result":4}"#));
//! # Ok::<(), Error>(())
//! ```
//!
//! The derive macros need `serde` and `schemars` 1 beside this crate in the plugin's `Cargo.toml`, and the
//! plugin is built with `crate-type = ["cdylib"]` for `wasm32-wasip2`.

// The example plugin, which names this crate from outside, is compiled into the unit tests.
#[cfg(test)]
extern crate self as t2m_plugin_sdk;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
pub mod context;
#[cfg(not(target_arch = "wasm32"))]
mod double;
mod error;
#[cfg(test)]
#[path = "../examples/hello.rs"]
mod hello;
pub mod http;
pub mod kv;
pub mod log;
mod reply;
mod schema;
pub mod secrets;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod tool;
pub mod tools;
mod url;
#[cfg(target_arch = "wasm32")]
mod wasi_http;

#[cfg(target_arch = "wasm32")]
use bindings as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

pub use error::Error;
pub use reply::{Content, Media, Outcome, Output, Reply};
pub use schemars::{self, JsonSchema};
pub use serde::{self, Deserialize, Serialize};
pub use serde_json;
pub use tool::{Effect, Idempotency, NoArguments, Tool, ToolOptions, Tools};

/// A plugin: a set of tools.
pub trait Plugin {
    /// Adds the plugin's tools.
    ///
    /// Runs once for every call, in a fresh instance, so it should do nothing but add tools. Adding is
    /// cheap: schemas are made only when the host asks for the list.
    fn tools(tools: &mut Tools);
}

/// What the custom section `t2m-plugin` of every component built with this crate holds.
///
/// The host reads it before it instantiates anything. The section lies in the core module inside the
/// component and survives every kind of `strip`, which only takes names and debug information.
pub const SECTION: &str = concat!(r#"{"wit":"0.1.0","sdk":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Makes a type that implements [`Plugin`] the plugin this crate is compiled to. Does nothing on native
/// targets, where the type is driven by `testing`.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: () = {
            let _: fn(&mut $crate::Tools) = <$plugin as $crate::Plugin>::tools;
        };
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Component = $crate::bindings::Component<$plugin>;
    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::SECTION;

    #[test]
    fn section_names_the_wit_version_this_crate_is_built_against() {
        let world = include_str!("../../wit/world.wit");
        let section: serde_json::Value = serde_json::from_str(SECTION).unwrap();
        let wit = section["wit"].as_str().unwrap();
        assert!(world.contains(&format!("package t2m:plugin@{wit};")));
        assert_eq!(section["sdk"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_first_plugin_takes_at_most_20_lines() {
        let example = include_str!("../examples/hello.rs");
        let (plugin, _tests) = example.split_once("#[cfg(test)]").unwrap();
        let lines = plugin.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
        assert!(lines.count() <= 20);
    }
}
