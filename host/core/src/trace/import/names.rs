//! Names of tools that carry a server.
//!
//! Owns the two spellings `mcp__server__tool` and a namespace beside the name. Refuses to change a name:
//! an event has the one that was recorded.
//!
//! **Invariant:** a name that isn't wholly of that form carries nothing.

use super::calls::Call;

/// The server and the tool of `mcp__server__tool`.
pub(super) fn of_mcp(name: &str) -> Option<(&str, &str)> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// The server of a namespace such as `mcp__server__` or `mcp__server`.
pub(super) fn of_namespace(namespace: &str) -> Option<&str> {
    let server = namespace.strip_prefix("mcp__")?;
    let server = server.strip_suffix("__").unwrap_or(server);
    (!server.is_empty()).then_some(server)
}

/// The call with the server and tool that its name carries, if it does.
pub(super) fn noted(call: Call) -> Call {
    match of_mcp(&call.tool).map(|(server, tool)| (server.to_owned(), tool.to_owned())) {
        Some((server, tool)) => call.with("server", server).with("tool", tool),
        None => call,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_names() {
        for (name, expected) in [
            ("mcp__git__git_log", Some(("git", "git_log"))),
            ("mcp__my_server__a__b", Some(("my_server", "a__b"))),
            ("mcp__git", None),
            ("mcp____x", None),
            ("Read", None),
            ("x_mcp__a__b", None),
        ] {
            assert_eq!(of_mcp(name), expected, "{name}");
        }
        assert_eq!(of_namespace("mcp__docs__"), Some("docs"));
        assert_eq!(of_namespace("mcp__docs"), Some("docs"));
        assert_eq!((of_namespace("mcp__"), of_namespace("web")), (None, None));
    }
}
