//! Names and ids as types, so that one can't stand where another is meant.
//!
//! Owns the rules for each name. Refuses to make ids up: whoever needs one brings its text.
//!
//! **Invariant:** a value of these types always satisfies its rule, because each has one constructor; copies share
//! the text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest id or name that Trace v1 allows, in characters.
pub const MAX_ID_CHARS: usize = 256;

/// Longest tool name that MCP allows, in bytes.
pub const MAX_TOOL_NAME: usize = 128;

/// A text that breaks the rule of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: {rule}")]
pub struct InvalidName {
    kind: &'static str,
    rule: &'static str,
    text: String,
}

fn id_rule(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= MAX_ID_CHARS && !text.contains(['\r', '\n', '\0'])
}

fn tool_rule(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TOOL_NAME
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

macro_rules! name {
    ($(#[$doc:meta])+ $type:ident, $kind:literal, $check:ident, $rule:literal) => {
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the rule and makes the value.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text = text.into();
                if $check(&text) {
                    Ok($type(text.into()))
                } else {
                    let text = text.chars().take(MAX_ID_CHARS).collect::<String>().escape_debug().to_string();
                    Err(InvalidName { kind: $kind, rule: $rule, text })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                $type::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                $type::new(text)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A tool's name, by the rule of MCP (2025-11-25, server/tools, "Tool Names").
    ToolName, "tool name", tool_rule, "1 to 128 of `A-Z a-z 0-9 _ - .`"
);
name!(
    /// A node of a workflow, or a name below one for a nested call.
    NodeId, "node id", id_rule, "1 to 256 characters, not blank, no line break or NUL"
);
name!(
    /// One run of a workflow.
    RunId, "run id", id_rule, "1 to 256 characters, not blank, no line break or NUL"
);
name!(
    /// A loaded plugin.
    PluginId, "plugin name", tool_rule, "1 to 128 of `A-Z a-z 0-9 _ - .`"
);

/// A tool name that MCP allows, near to a recorded one and none of those that are taken.
pub fn allowed_tool_name(recorded: &str, is_taken: impl Fn(&str) -> bool) -> String {
    // Room for a number behind it.
    let near: String = recorded.chars().take(MAX_TOOL_NAME - 8).collect();
    let near: String =
        near.chars().map(|c| if tool_rule(c.encode_utf8(&mut [0; 4])) { c } else { '_' }).collect();
    let near = if near.is_empty() { "_".to_owned() } else { near };
    let numbered = (2..=MAX_ID_CHARS).map(|number| format!("{near}_{number}"));
    std::iter::once(near.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_obey_their_rules() {
        for good in ["a", "read_text_file", "a.b-c", &"x".repeat(128)] {
            assert!(ToolName::new(good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a/b", "ä", &"x".repeat(129)] {
            assert!(ToolName::new(bad).is_err(), "{bad}");
        }
        for bad in ["", "  ", "a\nb", "a\0", &"x".repeat(257)] {
            assert!(NodeId::new(bad).is_err(), "{bad:?}");
        }
        assert!(NodeId::new("ä".repeat(256)).is_ok());
    }

    #[test]
    fn a_name_near_to_a_recorded_one_is_allowed_and_free() {
        for (recorded, expected) in [("a b", "a_b_2"), ("über", "_ber"), ("x/y:z", "x_y_z"), ("", "_")] {
            assert_eq!(allowed_tool_name(recorded, |name| name == "a_b"), expected);
        }
        assert!(ToolName::new(allowed_tool_name(&"n".repeat(200), |name| !name.ends_with("_256"))).is_ok());
    }
}
