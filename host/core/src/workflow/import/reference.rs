//! References as Trace2MCP writes them: `inputs.name.key[0]`, `nodes.id.result.key`.
//!
//! Owns that text form. Refuses what stands for two references at once: an empty name is dropped when the
//! other program reads it back.
//!
//! **Invariant:** a text that is read has exactly one meaning in the other program.

use crate::id::NodeId;
use crate::workflow::expr::{Reference, Source, Step};

/// What a text refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// All inputs at once.
    Inputs,
    /// One value.
    Value(Reference),
}

/// Reads a reference, or says why it is none.
pub(super) fn read(text: &str) -> Result<Target, String> {
    if text == "inputs" {
        return Ok(Target::Inputs);
    }
    if let Some(rest) = text.strip_prefix("inputs.") {
        let mut path = steps(rest)?.into_iter();
        let Some(Step::Key(name)) = path.next() else {
            return Err("it names no input".to_owned());
        };
        return Ok(Target::Value(Reference {
            source: Source::Input(name),
            path: path.collect(),
            convert: None,
        }));
    }
    let Some((id, rest)) = text.strip_prefix("nodes.").and_then(|rest| rest.split_once(".result")) else {
        return Err("it begins with neither `inputs` nor `nodes.ID.result`".to_owned());
    };
    let node = NodeId::new(unescaped(id)).map_err(|error| error.to_string())?;
    let path = match rest.strip_prefix('.') {
        Some(rest) => steps(rest)?,
        None if rest.is_empty() => Vec::new(),
        None if rest.starts_with('[') => steps(rest)?,
        None => return Err("`result` is followed by neither `.` nor `[`".to_owned()),
    };
    Ok(Target::Value(Reference { source: Source::Node(node), path, convert: None }))
}

/// A path that isn't empty.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for part in text.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Step::Key(unescaped(key)));
        } else if rest.is_empty() {
            return Err("it has an empty name, which is dropped when Trace2MCP reads it".to_owned());
        }
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').ok_or("a `[` has no `]`")?;
            let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
            let index = index.parse().ok().filter(|_| is_index);
            steps.push(Step::Index(index.ok_or("between `[` and `]` stands no list index")?));
            rest = after;
        }
        if !rest.is_empty() {
            return Err("a `]` is followed by neither `.` nor `[`".to_owned());
        }
        if key.contains(']') {
            return Err("a `]` has no `[`".to_owned());
        }
    }
    Ok(steps)
}

/// The other program escapes four characters; every other `%` stands for itself.
fn unescaped(text: &str) -> String {
    text.replace("%5D", "]").replace("%5B", "[").replace("%2E", ".").replace("%2e", ".").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        match read(text)? {
            Target::Inputs => Ok("all inputs".to_owned()),
            Target::Value(reference) => Ok(reference.to_string()),
        }
    }

    /// T08: what the other format writes becomes the reference that it means, or is refused.
    #[test]
    fn each_text_means_one_reference() {
        for (text, expected) in [
            ("inputs", "all inputs"),
            ("inputs.email", "input email"),
            ("inputs.note.a%2Eb[0][12].c", "input note[\"a.b\"][0][12].c"),
            ("inputs.100%25", "input \"100%\""),
            ("nodes.a.result", "a"),
            ("nodes.a.result[3].b", "a[3].b"),
            ("nodes.a%2Eb-1.result.x%5B0%5D", "\"a.b-1\"[\"x[0]\"]"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "inputs.",
            "inputs.a..b",
            "inputs.a.",
            "inputs.[0]",
            "nodes.a",
            "nodes..result.x",
            "nodes.a.results",
            "nodes.a.result.",
            "nodes.a.result[",
            "nodes.a.result[x]",
            "nodes.a.result[+1]",
            "nodes.a.result[1]x",
            "nodes.a.result.x]",
            "nodes.a.result[99999999999999999999999]",
            "#/definitions/x",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
