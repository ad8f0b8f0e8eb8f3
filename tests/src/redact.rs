//! Replaces what differs from run to run.
//!
//! It owns paths and times. It refuses to guess: only paths it was given and times in RFC 3339 form change.
//!
//! **Invariant:** a time keeps its width, so columns in golden files stay in place.

use std::path::Path;

/// A list of replacements.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    replacements: Vec<(String, String)>,
    times: bool,
}

impl Redactor {
    /// Replaces nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a path wherever it begins a path.
    #[must_use]
    pub fn path(self, path: &Path, name: &str) -> Self {
        self.text(&path.to_string_lossy(), name)
    }

    /// Replaces a text. Where two fit at one place, the longer wins.
    #[must_use]
    pub fn text(mut self, text: &str, name: &str) -> Self {
        if !text.is_empty() {
            self.replacements.push((text.to_owned(), name.to_owned()));
            self.replacements.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
        self
    }

    /// Sets every digit of an RFC 3339 time to zero.
    #[must_use]
    pub fn times(mut self) -> Self {
        self.times = true;
        self
    }

    /// Applies all of it.
    pub fn redact(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(sign) = rest.chars().next() {
            let hit =
                self.replacements.iter().find_map(|(from, to)| Some((rest.strip_prefix(from.as_str())?, to)));
            if let Some((after, name)) = hit {
                out.push_str(name);
                rest = after;
                continue;
            }
            let width = if self.times { time_width(rest) } else { 0 };
            let width = if width == 0 { sign.len_utf8() } else { width };
            let (piece, after) = rest.split_at(width);
            if width > sign.len_utf8() {
                out.extend(piece.chars().map(|sign| if sign.is_ascii_digit() { '0' } else { sign }));
            } else {
                out.push_str(piece);
            }
            rest = after;
        }
        out
    }
}

/// Bytes of the RFC 3339 time that `text` begins with, or 0.
fn time_width(text: &str) -> usize {
    const SHAPE: &str = "0000-00-00T00:00:00";
    let mut signs = text.bytes();
    for shape in SHAPE.bytes() {
        let fits = |sign: u8| {
            if shape == b'0' { sign.is_ascii_digit() } else { sign == shape }
        };
        if !signs.next().is_some_and(fits) {
            return 0;
        }
    }
    let rest = text.get(SHAPE.len()..).unwrap_or_default();
    let fraction = rest.strip_prefix('.').map_or(0, |digits| {
        let number = digits.bytes().take_while(u8::is_ascii_digit).count();
        if number == 0 { 0 } else { number + 1 }
    });
    let zone = rest.get(fraction..).unwrap_or_default();
    let offset = zone.bytes().take(6).map(|sign| if sign.is_ascii_digit() { b'0' } else { sign });
    let offset: Vec<u8> = offset.collect();
    let zone = match offset.as_slice() {
        [b'Z', ..] => 1,
        b"+00:00" | b"-00:00" => 6,
        _ => return 0,
    };
    SHAPE.len() + fraction + zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_two_paths_wins_whatever_the_order() {
        let redactor = Redactor::new().path(Path::new("/a"), "[a]").path(Path::new("/a/b"), "[b]");
        assert_eq!(redactor.redact("/a/b/c /a/c é"), "[b]/c [a]/c é");
    }

    #[test]
    fn times_keep_their_width_and_other_numbers_stay() {
        let redactor = Redactor::new().times();
        for (text, expected) in [
            ("at 2026-11-29T20:55:00.816808Z.", "at 0000-00-00T00:00:00.000000Z."),
            ("2026-11-29T20:55:00+02:00 x", "0000-00-00T00:00:00+00:00 x"),
            ("2026-11-29 2026-11-29T20:55 7", "2026-11-29 2026-11-29T20:55 7"),
            ("2026-11-29T20:55:00", "2026-11-29T20:55:00"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
    }
}
