//! What a component's author wrote about its functions and types.
//!
//! Owns reading the section that tools for WIT write: `package-docs`, a version byte and JSON. Refuses to fail:
//! words are no part of what a component does, so a section that can't be read is as good as none.
//!
//! **Invariant:** no text that comes out of here is longer than [`MAX_TEXT`] characters.

use std::collections::BTreeMap;

use serde_json::Value;
use t2m_core::json::{Limits, parse};
use wasmtime::component::types::Type;

/// The section's name.
pub(crate) const SECTION: &str = "package-docs";

/// Largest section that is read, in bytes. WASI's own words for HTTP take 12 KiB.
pub(crate) const MAX_SECTION: usize = 1 << 20;

/// Longest text about one thing, in characters.
const MAX_TEXT: usize = 4 << 10;

/// Members that are looked at to tell two types apart.
const MAX_MEMBERS: usize = 10_000;

/// Worlds that are looked into; a package has one or two.
const MAX_WORLDS: usize = 100;

/// What a type is known by where it has no name: its kind and the names of its members.
pub(crate) type Key = (char, String);

/// The words about one component.
#[derive(Default)]
pub(crate) struct Docs {
    package: Value,
    /// Types by the names that they have where they are defined.
    named: BTreeMap<String, About>,
    /// Types have no names where they are used, so they are known by what they are made of.
    known: BTreeMap<Key, About>,
}

/// The words about a type and its members.
#[derive(Debug, Default, Clone)]
pub(crate) struct About {
    doc: Option<String>,
    members: BTreeMap<String, String>,
}

impl About {
    /// About the type.
    pub(crate) fn doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// About one of its members.
    pub(crate) fn member(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(String::as_str)
    }
}

impl Docs {
    /// Reads a section's content.
    pub(crate) fn read(section: &[u8]) -> Docs {
        // 0 and 1 differ in what else may be there.
        let json = match section.split_first() {
            Some((0 | 1, json)) => json,
            _ => return Docs::default(),
        };
        match parse(json, Limits { bytes: MAX_SECTION, ..Limits::default() }) {
            Ok(package) => Docs { named: types(&package), package, known: BTreeMap::new() },
            Err(problems) => {
                tracing::debug!(target: "t2m_sandbox", "section `{SECTION}` can't be read: {problems}");
                Docs::default()
            }
        }
    }

    /// What a function does. `interface` is the last part of its interface's name.
    pub(crate) fn function(&self, interface: Option<&str>, name: &str) -> Option<String> {
        let mut worlds = parts(&self.package, "worlds").take(MAX_WORLDS);
        let found = match interface {
            None => worlds.find_map(|world| {
                let of = |list: &str| world.get(list)?.get(name);
                of("func_exports").or_else(|| of("funcs"))
            }),
            Some(interface) => {
                let own = self.package.get("interfaces").and_then(|list| list.get(interface));
                let inline = || {
                    worlds.find_map(|world| {
                        let of = |list: &str| world.get(list)?.get(interface);
                        of("interface_exports").or_else(|| of("interfaces"))
                    })
                };
                own.or_else(inline)?.get("funcs")?.get(name)
            }
        }?;
        // In version 0 the text stands there by itself.
        text(found.get("docs").unwrap_or(found))
    }

    /// Notes that there is a type of this name, so that it is known where it is used.
    pub(crate) fn note(&mut self, name: &str, ty: &Type) {
        if self.named.is_empty() {
            return;
        }
        let key = match ty {
            Type::Record(record) => key('r', record.fields().map(|field| field.name)),
            Type::Variant(variant) => key('v', variant.cases().map(|case| case.name)),
            Type::Enum(cases) => key('e', cases.names()),
            Type::Flags(flags) => key('f', flags.names()),
            _ => return,
        };
        self.note_key(name, &key);
    }

    /// The same for a type of which only that is known.
    pub(crate) fn note_key(&mut self, name: &str, key: &Key) {
        if let Some(about) = self.named.get(name) {
            self.known.entry(key.clone()).or_insert_with(|| about.clone());
        }
    }

    /// The words about a type that has these members.
    pub(crate) fn members<'n>(&self, kind: char, names: impl Iterator<Item = &'n str>) -> About {
        if self.known.is_empty() {
            return About::default();
        }
        self.known.get(&key(kind, names)).cloned().unwrap_or_default()
    }
}

/// The parts of a package, `interfaces` or `worlds`.
fn parts<'d>(package: &'d Value, of: &str) -> impl Iterator<Item = &'d Value> {
    package.get(of).and_then(Value::as_object).into_iter().flatten().map(|(_, part)| part)
}

/// What is written about types, the first of each name.
fn types(package: &Value) -> BTreeMap<String, About> {
    let mut named = BTreeMap::new();
    for part in parts(package, "interfaces").chain(parts(package, "worlds")) {
        for (name, found) in part.get("types").and_then(Value::as_object).into_iter().flatten() {
            let items = found.get("items").and_then(Value::as_object).into_iter().flatten();
            let members = items.filter_map(|(name, words)| Some((name.clone(), text(words)?))).collect();
            let about = About { doc: found.get("docs").and_then(text), members };
            named.entry(name.clone()).or_insert(about);
        }
    }
    named
}

/// What a type with these members is known by.
pub(crate) fn key<'n>(kind: char, names: impl Iterator<Item = &'n str>) -> Key {
    let mut text = String::new();
    for name in names.take(MAX_MEMBERS) {
        text.push_str(name);
        text.push(',');
    }
    (kind, text)
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| text.chars().take(MAX_TEXT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(text: &str) -> Docs {
        Docs::read(text.as_bytes())
    }

    /// P08: comments are found wherever the two versions of the format have them.
    #[test]
    fn words_are_found_in_both_versions() {
        let new = docs(
            "\u{1}{\"worlds\":{\"w\":{\"func_exports\":{\"add\":{\"docs\":\" Adds. \"}},\
             \"interface_exports\":{\"own\":{\"funcs\":{\"f\":{\"docs\":\"Inline.\"}}}}}},\
             \"interfaces\":{\"echo\":{\"funcs\":{\"all\":{\"docs\":\"Echoes.\",\"stability\":1}}}}}",
        );
        assert_eq!(new.function(None, "add").as_deref(), Some("Adds."));
        assert_eq!(new.function(Some("echo"), "all").as_deref(), Some("Echoes."));
        assert_eq!(new.function(Some("own"), "f").as_deref(), Some("Inline."));
        assert_eq!(new.function(Some("echo"), "add"), None);
        let old = docs("\u{0}{\"worlds\":{\"w\":{\"funcs\":{\"add\":\"Adds.\"}}}}");
        assert_eq!(old.function(None, "add").as_deref(), Some("Adds."));
    }

    /// P08: a section that can't be read is as good as none, and a long text is cut.
    #[test]
    fn a_broken_section_says_nothing() {
        for bad in
            ["", "\u{2}{}", "\u{1}{", "\u{1}[]", "\u{1}{\"worlds\":[1]}", "\u{1}{\"worlds\":{\"w\":3}}"]
        {
            assert_eq!(docs(bad).function(None, "add"), None, "{bad:?}");
        }
        let long =
            format!("\u{1}{{\"worlds\":{{\"w\":{{\"funcs\":{{\"f\":\"{}\"}}}}}}}}", "ä".repeat(MAX_TEXT + 9));
        assert_eq!(docs(&long).function(None, "f").map(|text| text.chars().count()), Some(MAX_TEXT));
    }
}
