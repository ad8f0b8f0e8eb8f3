//! Which entries of a session count.
//!
//! Owns sessions whose entries name the one before them: whoever goes back and tries again leaves a branch
//! that no longer counts. Refuses to look at times.
//!
//! **Invariant:** the main line ends in the entry that was named last, and no entry is on it twice.

use std::collections::HashMap;

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EntryId(usize);

/// What an entry says of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before<'a> {
    /// Its id.
    Id(&'a str),
    /// There is none: the conversation begins here.
    Nothing,
    /// It isn't named, but the conversation goes on.
    Unnamed,
}

#[derive(Debug, Clone, Copy)]
enum Link {
    /// By the number of its id, which may come later or never.
    Id(usize),
    Start,
    Unnamed,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    before: Link,
    /// The entry before it in the file.
    neighbour: Option<EntryId>,
    /// Whether an entry names it.
    named: bool,
}

/// The entries of one session.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The number of each id.
    ids: HashMap<Box<str>, usize>,
    /// The entry of each number, once it was seen, and whether an entry names it.
    seen: Vec<(Option<EntryId>, bool)>,
    nodes: Vec<Node>,
    /// Whether any entry names another one.
    linked: bool,
}

/// The entries that count.
#[derive(Debug)]
pub(super) struct MainLine {
    on: Vec<bool>,
    /// Entries whose named predecessor isn't in the file.
    pub(super) gaps: usize,
}

impl MainLine {
    pub(super) fn has(&self, entry: EntryId) -> bool {
        self.on.get(entry.0).copied().unwrap_or(false)
    }
}

impl Tree {
    fn number(&mut self, id: &str) -> usize {
        match self.ids.get(id) {
            Some(number) => *number,
            None => {
                self.seen.push((None, false));
                self.ids.insert(id.into(), self.seen.len() - 1);
                self.seen.len() - 1
            }
        }
    }

    fn entry(&self, number: usize) -> Option<EntryId> {
        self.seen.get(number).and_then(|(entry, _)| *entry)
    }

    /// Takes an entry in the order of the file, and says whether it is new: an id that came before names the
    /// same entry.
    pub(super) fn add(&mut self, id: Option<&str>, before: Before<'_>) -> (EntryId, bool) {
        let number = id.map(|id| self.number(id));
        if let Some(known) = number.and_then(|number| self.entry(number)) {
            return (known, false);
        }
        let before = match before {
            Before::Id(id) => {
                self.linked = true;
                let number = self.number(id);
                if let Some((entry, named)) = self.seen.get_mut(number) {
                    *named = true;
                    if let Some(node) = entry.and_then(|entry| self.nodes.get_mut(entry.0)) {
                        node.named = true;
                    }
                }
                Link::Id(number)
            }
            Before::Nothing => Link::Start,
            Before::Unnamed => Link::Unnamed,
        };
        let entry = EntryId(self.nodes.len());
        let mut named = false;
        if let Some(slot) = number.and_then(|number| self.seen.get_mut(number)) {
            slot.0 = Some(entry);
            named = slot.1;
        }
        self.nodes.push(Node { before, neighbour: entry.0.checked_sub(1).map(EntryId), named });
        (entry, true)
    }

    /// The entry before a beginning, if that one stands alone as well: then no link was noted, rather than
    /// everything given up.
    fn before_start(&self, node: Node) -> Option<EntryId> {
        let neighbour = node.neighbour?;
        let alone = |other: &Node| matches!(other.before, Link::Start) && !other.named;
        self.nodes.get(neighbour.0).filter(|other| alone(other)).map(|_| neighbour)
    }

    /// The way from `leaf` back to the beginning. A recorder that names no predecessor at all has one line.
    pub(super) fn main_line(&self, leaf: Option<EntryId>) -> MainLine {
        let mut line = MainLine { on: vec![!self.linked; self.nodes.len()], gaps: 0 };
        let mut next = leaf.filter(|_| self.linked);
        while let Some(entry) = next {
            let (Some(on), Some(node)) = (line.on.get_mut(entry.0), self.nodes.get(entry.0)) else {
                break;
            };
            // A circle can't come from a recorder; it ends the way all the same.
            if std::mem::replace(on, true) {
                break;
            }
            next = match node.before {
                Link::Start => self.before_start(*node),
                Link::Unnamed => node.neighbour,
                Link::Id(number) => match self.entry(number) {
                    Some(before) => Some(before),
                    None => {
                        line.gaps += usize::from(node.neighbour.is_some());
                        node.neighbour
                    }
                },
            };
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entries: &[(&str, Before<'_>)]) -> (String, usize) {
        let mut tree = Tree::default();
        let ids: Vec<EntryId> = entries.iter().map(|(id, before)| tree.add(Some(*id), *before).0).collect();
        let main = tree.main_line(ids.last().copied());
        let on = entries.iter().zip(&ids).filter(|(_, id)| main.has(**id)).map(|((name, _), _)| *name);
        (on.collect(), main.gaps)
    }

    #[test]
    fn the_way_back_from_the_last_entry_counts() {
        use Before::{Id, Nothing, Unnamed};
        for (entries, expected) in [
            (vec![("a", Nothing), ("b", Id("a")), ("c", Id("a")), ("d", Id("c"))], ("acd", 0)),
            (vec![("a", Nothing), ("b", Nothing)], ("ab", 0)),
            (vec![("a", Nothing), ("b", Id("a")), ("c", Nothing), ("d", Id("c"))], ("cd", 0)),
            (vec![("a", Nothing), ("b", Id("a")), ("c", Unnamed), ("d", Id("c"))], ("abcd", 0)),
            (vec![("a", Id("elsewhere")), ("b", Id("a")), ("d", Id("lost"))], ("abd", 1)),
            (vec![("a", Id("b")), ("b", Id("a"))], ("ab", 0)),
            (vec![("a", Id("a"))], ("a", 0)),
            (vec![("a", Nothing), ("b", Nothing), ("c", Nothing), ("d", Id("c"))], ("abcd", 0)),
            (vec![("a", Nothing), ("c", Id("b")), ("b", Id("a")), ("d", Id("c"))], ("acbd", 0)),
        ] {
            assert_eq!(line(&entries), (expected.0.to_owned(), expected.1), "{entries:?}");
        }
    }
}
