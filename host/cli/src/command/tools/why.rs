//! What each plugin asks for, has and lacks.
//!
//! Owns showing the meeting of `plugin.toml` with what the operator allows. Refuses to decide it: `Asks::granted`
//! does, for loading and for this.
//!
//! **Invariant:** no value of a secret or a variable is read, and no folder is made.

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
    // Of these any grant is enough.
    let any = |name, option: &str, asked: Vec<String>, allowed: Vec<String>, has: Vec<String>| {
        let lacks = !asked.is_empty() && has.is_empty();
        let lacks = lacks.then(|| format!("any; `{option}` grants one")).into_iter().collect();
        let unasked = if asked.is_empty() { allowed } else { Vec::new() };
        Kind { name, asked, has, lacks, unasked }
    };
    // Each of these is there or not.
    let named = |name, asked: &[String], allowed: &[String]| {
        let (has, lacks) = asked.iter().cloned().partition(|name| allowed.contains(name));
        let unasked = if asked.is_empty() { allowed.to_vec() } else { Vec::new() };
        Kind { name, asked: asked.to_vec(), has, lacks, unasked }
    };
    let dirs = match asks.dirs {
        AskedAccess::None => Vec::new(),
        AskedAccess::Read => vec!["to read".to_owned()],
        AskedAccess::ReadWrite => vec!["to read and write".to_owned()],
    };
    let hosts = |grants: &Grants| grants.hosts.iter().map(ToString::to_string).collect();
    let one = |is_so: bool, words: &str| is_so.then(|| words.to_owned()).into_iter().collect();
    let store = |is_so| one(is_so, "one of its own");
    let date = |grants: &Grants| one(grants.clock.is_some(), "the real one");
    let all = [
        any("directories", "--dir DIR", dirs, directories(allowed), directories(has)),
        any("hosts", "--host RULE", asks.hosts.clone(), hosts(allowed), hosts(has)),
        named("secrets", &asks.secrets, &plugin.secrets),
        any("store", "--kv", one(asks.kv, "to keep values"), store(plugin.kv), store(asks.kv && plugin.kv)),
        named("variables", &asks.env, &plugin.env),
        any("date", "--clock", one(asks.clock, "to read the real one"), date(allowed), date(has)),
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
