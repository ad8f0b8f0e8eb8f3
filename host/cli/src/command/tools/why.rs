//! What each plugin asks for, has and lacks.
//!
//! Owns showing the meeting of `plugin.toml` with what the operator allows. Refuses to decide it: `Asks::granted`
//! does, for loading and for this.
//!
//! **Invariant:** no value of a secret or a variable is shown, only names.

use serde_json::{Value, json};
use t2m_sandbox::{Access, Grants};

use crate::manifest::AskedAccess;
use crate::out::one_line;
use crate::plugins::Granted;

/// One kind of grant.
struct Kind {
    name: &'static str,
    asked: Vec<String>,
    has: Vec<String>,
    /// Asked for and not given.
    lacks: Vec<String>,
    /// Allowed and not asked for.
    unasked: Vec<String>,
}

pub(super) fn text(plugins: &[Granted]) -> String {
    let mut lines = Vec::new();
    for plugin in plugins {
        lines.push(plugin.name.to_string());
        let kinds = kinds(plugin);
        if kinds.is_empty() {
            lines.push("  asks for nothing and is allowed nothing".to_owned());
        }
        for kind in kinds {
            let list =
                |texts: &[String]| if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") };
            let mut line = format!("  {:<12} asks {}; has {}", kind.name, list(&kind.asked), list(&kind.has));
            if !kind.lacks.is_empty() {
                line.push_str(&format!("; lacks {}", kind.lacks.join(", ")));
            }
            if !kind.unasked.is_empty() {
                line.push_str(&format!("; allowed but not asked for: {}", kind.unasked.join(", ")));
            }
            lines.push(one_line(&line));
        }
    }
    lines.join("\n")
}

pub(super) fn machine(plugins: &[Granted]) -> Value {
    let plugin = |plugin: &Granted| {
        let kinds = kinds(plugin).into_iter().map(|kind| {
            let all = json!({
                "asked": kind.asked, "has": kind.has, "lacks": kind.lacks, "not_asked_for": kind.unasked,
            });
            (kind.name.to_owned(), all)
        });
        json!({"plugin": plugin.name, "grants": kinds.collect::<serde_json::Map<_, _>>()})
    };
    plugins.iter().map(plugin).collect()
}

/// The kinds that are asked for or allowed.
fn kinds(plugin: &Granted) -> Vec<Kind> {
    let Granted { asks, allowed, has, .. } = plugin;
    // With an option, any grant of the kind is enough; without one, each is there or not by its name.
    let kind = |name, option: Option<&str>, asked: Vec<String>, list: fn(&Grants) -> Vec<String>| {
        let (allowed, has) = (list(allowed), list(has));
        let lacks = match option {
            Some(option) if !asked.is_empty() && has.is_empty() => {
                vec![format!("any; `{option}` grants one")]
            }
            Some(_) => Vec::new(),
            None => asked.iter().filter(|name| !has.contains(name)).cloned().collect(),
        };
        let unasked = if asked.is_empty() { allowed } else { Vec::new() };
        Kind { name, asked, has, lacks, unasked }
    };
    let dirs = match asks.dirs {
        AskedAccess::None => Vec::new(),
        AskedAccess::Read => vec!["to read".to_owned()],
        AskedAccess::ReadWrite => vec!["to read and write".to_owned()],
    };
    let kept = asks.kv.then(|| "to keep values".to_owned()).into_iter().collect();
    let all = [
        kind("directories", Some("--dir DIR"), dirs, directories),
        kind("hosts", Some("--host RULE"), asks.hosts.clone(), |grants| {
            grants.hosts.iter().map(ToString::to_string).collect()
        }),
        kind("secrets", None, asks.secrets.clone(), |grants| {
            grants.secrets.iter().map(|secret| secret.name().to_owned()).collect()
        }),
        kind("store", Some("--kv"), kept, |grants| {
            grants.kv.iter().map(|_| "one of its own".to_owned()).collect()
        }),
        kind("variables", None, asks.env.clone(), |grants| grants.env.keys().cloned().collect()),
    ];
    all.into_iter().filter(|kind| !(kind.asked.is_empty() && kind.unasked.is_empty())).collect()
}

fn directories(grants: &Grants) -> Vec<String> {
    let shown = |access| match access {
        Access::ReadOnly => "to read",
        Access::ReadWrite => "to read and write",
    };
    grants.dirs.iter().map(|dir| format!("{} ({})", dir.path.display(), shown(dir.access))).collect()
}
