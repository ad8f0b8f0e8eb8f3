//! The order of names for people.
//!
//! Owns an approximation of the Unicode root collation, in which the official server sorts: exact for
//! ASCII, by code point beyond it. Refuses to carry the tables that the rest would need.
//!
//! INVARIANT: the order is total and depends on the names alone.

use std::cmp::Ordering;

/// ASCII before letters and digits, in collation order.
const SYMBOLS: &str = "\t\n\u{b}\u{c}\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares two names: letters first without their case, then small before capital.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let primary = a.chars().map(weight).cmp(b.chars().map(weight));
    primary
        .then_with(|| a.chars().map(char::is_uppercase).cmp(b.chars().map(char::is_uppercase)))
        .then_with(|| a.cmp(b))
}

fn weight(c: char) -> (u8, u32) {
    match SYMBOLS.find(c) {
        Some(index) => (0, u32::try_from(index).unwrap_or(0)),
        None if c.is_ascii_digit() => (1, u32::from(c)),
        None => (2, c.to_lowercase().next().map_or(0, u32::from)),
    }
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn names_are_sorted_for_people() {
        let mut names = ["b", "B", "a", "A", "_x", ".git", "10", "2", "a.txt", "a-b", "README.md", "src"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["_x", ".git", "10", "2", "a", "A", "a-b", "a.txt", "b", "B", "README.md", "src"]);
    }
}
