//! Rust types of `wit/`, made by the engine's macro.
//!
//! Owns nothing by hand. Refuses to leave the crate: [`crate::convert`] turns these types into the core's.
//!
//! **Invariant:** only `tools.call` may wait; every other import returns at once.

#![expect(unreachable_pub, reason = "generated")]

wasmtime::component::bindgen!({
    world: "plugin",
    path: "../../wit",
    imports: {
        "t2m:plugin/tools.call": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

pub use exports::t2m::plugin::handler::Tool;
pub use t2m::plugin::{context, kv, log, secrets, tools, types};
