//! What one call may use, as the configuration says it.
//!
//! Owns the names and units of the limits. Refuses to know why each is what it is: `t2m_sandbox::Limits` says so.
//!
//! **Invariant:** every limit of the sandbox can be set here, and none to more than the sandbox lets a plugin have.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_sandbox::{HttpLimits, Limits};

/// Makes both types of every limit but the wall clock, which has a unit of its own. Those of HTTP
/// come last, each with its name in the sandbox.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ident = $schema:tt, $least:literal;)+
     http: $($(#[doc = $http_doc:literal])+ $http:ident is $inner:ident: $http_type:ident = $http_schema:tt;)+) => {
        /// Limits of one call.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct LimitsConfig {
            /// Wall clock, in milliseconds.
            #[schemars(range(min = 1, max = longest_wall_ms()))]
            pub(crate) wall_ms: u64,
            $($(#[doc = $doc])+
            #[schemars(range(min = $least, max = Limits::ceiling().$name))]
            pub(crate) $name: $type,)+
            $($(#[doc = $http_doc])+
            #[schemars(range(min = 0, max = HttpLimits::ceiling().$inner))]
            pub(crate) $http: $http_type,)+
        }

        /// Limits that differ from others.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct LimitsPatch {
            /// Wall clock, in milliseconds.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = "u64", range(min = 1, max = longest_wall_ms()))]
            pub(crate) wall_ms: Option<u64>,
            $($(#[doc = $doc])+
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = $schema, range(min = $least, max = Limits::ceiling().$name))]
            pub(crate) $name: Option<$type>,)+
            $($(#[doc = $http_doc])+
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = $http_schema, range(min = 0, max = HttpLimits::ceiling().$inner))]
            pub(crate) $http: Option<$http_type>,)+
        }

        impl LimitsPatch {
            /// These limits over others.
            pub(crate) fn over(&self, base: Limits) -> Limits {
                Limits {
                    wall: self.wall_ms.map_or(base.wall, Duration::from_millis),
                    $($name: self.$name.unwrap_or(base.$name),)+
                    http: HttpLimits { $($inner: self.$http.unwrap_or(base.http.$inner),)+ ..base.http },
                }
            }

            pub(crate) fn is_empty(&self) -> bool {
                *self == LimitsPatch::default()
            }
        }

        impl LimitsConfig {
            /// The same for the sandbox.
            pub(crate) fn to_limits(&self) -> Limits {
                let http = HttpLimits { $($inner: self.$http,)+ ..HttpLimits::default() };
                Limits { wall: Duration::from_millis(self.wall_ms), $($name: self.$name,)+ http }
            }
        }
    };
}

limits! {
    /// About one unit for each Wasm instruction.
    fuel: u64 = "u64", 1;
    /// All linear memories together, in bytes.
    memory_bytes: usize = "usize", 65536;
    /// Elements of all tables together.
    table_elements: usize = "usize", 0;
    /// Core instances.
    instances: usize = "usize", 1;
    /// Linear memories.
    memories: usize = "usize", 0;
    /// Tables.
    tables: usize = "usize", 0;
    /// Bytes a guest may hand over in one result or host call.
    transfer_bytes: usize = "usize", 1;
    /// Bytes of log messages.
    log_bytes: u64 = "u64", 0;
    /// Log messages.
    log_lines: u32 = "u32", 0;
    /// Bytes kept of standard output, and again of standard error.
    stdio_bytes: usize = "usize", 0;
    /// Open files, folders, streams and timers together.
    handles: usize = "usize", 1;
    /// Bytes written in granted folders.
    written_bytes: u64 = "u64", 0;
    /// Files, folders and links made in granted folders.
    created_files: u32 = "u32", 0;
    http:
    /// HTTP requests, refused ones included.
    http_requests is requests: u32 = "u32";
    /// Bytes sent over HTTP.
    http_sent_bytes is sent_bytes: u64 = "u64";
    /// Bytes received over HTTP.
    http_received_bytes is received_bytes: u64 = "u64";
}

fn longest_wall_ms() -> u64 {
    u64::try_from(Limits::ceiling().wall.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULTS, parse};

    /// P02: the defaults that people read are those that hold.
    #[test]
    fn the_embedded_defaults_are_those_of_the_sandbox() {
        let config = parse(DEFAULTS.as_bytes()).unwrap();
        assert_eq!(config.limits.to_limits(), Limits::default());
    }
}
