//! Runs WebAssembly component plugins under limits and grants.
//!
//! Owns the engine, the compiled-component cache, the limits, what a component may import, and the way from
//! a cleared call to a fresh instance and back. Refuses to decide whether a call may be made: it takes a
//! `ClearedCall`, which only the dispatch can build. No type of the engine leaves this crate.
//!
//! ```no_run
//! # async fn demo() -> Result<(), t2m_sandbox::SandboxError> {
//! use t2m_sandbox::{PluginSource, Sandbox, SandboxConfig};
//!
//! let sandbox = Sandbox::new(SandboxConfig::default())?;
//! let wasm = std::fs::read("math.wasm").expect("a file");
//! let source = PluginSource::new("math".parse().expect("a plugin name"), wasm.into());
//! let plugin = sandbox.load(source).await?;
//! println!("{} tools", plugin.tools().len());
//! # Ok(()) }
//! ```
//!
//! **Invariant:** a call runs in an instance made for it alone, and whatever stops it has one stable code;
//! the next call finds nothing of the one before.

mod ahead;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod bindings;
mod cache;
mod call;
mod clock;
mod compile;
mod convert;
mod disk;
mod engine;
mod entry;
mod error;
#[cfg(any(feature = "fuzz", test))]
#[doc(hidden)]
pub mod fuzz;
mod grants;
mod http;
mod imports;
mod kv;
mod left;
mod limits;
mod outcome;
mod plugin;
mod sandbox;
mod sdk;
mod state;
mod ticker;
mod typed;
mod workers;

pub use clock::Date;
pub use compile::{CompileLimits, Compiler, compile_component};
pub use engine::EngineInfo;
pub use error::SandboxError;
pub use grants::{Access, DirGrant, Grants};
pub use http::{HostRule, HttpLimits, Network, SecretGrant, SystemNetwork};
pub use imports::Capabilities;
pub use limits::Limits;
pub use plugin::{Description, Plugin, PluginSource};
pub use sandbox::{Sandbox, SandboxConfig};
pub use sdk::{ComponentInfo, SdkVersion, WIT_VERSION};
pub use typed::LeftOut;
