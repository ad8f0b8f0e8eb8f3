//! What stands on a line before a place in it.
//!
//! Owns whether those words are assignments, as in a shell or an `.env` file. Refuses to go back.
//!
//! **Invariant:** every character is looked at once, however many places are asked for.

/// The line up to a place that only moves on.
#[derive(Default)]
pub(super) struct Line {
    at: usize,
    /// A word before the last one is no assignment.
    other: bool,
    word_start: usize,
    equals: bool,
    semicolon: bool,
    /// The last word is `export`, or a start of it.
    export: bool,
}

impl Line {
    /// Moves on to a place in the text.
    pub(super) fn read_to(&mut self, text: &str, place: usize) {
        let part = text.get(self.at..place).unwrap_or_default();
        for (offset, c) in part.char_indices() {
            let at = self.at + offset;
            if c.is_whitespace() {
                self.end_word(text, at);
                self.other &= c != '\n';
                (self.word_start, self.equals, self.semicolon) = (at + c.len_utf8(), false, false);
            }
            self.equals |= c == '=';
            self.semicolon |= c == ';';
        }
        self.at = self.at.max(place);
        self.export = text.get(self.word_start..self.at) == Some("export");
    }

    fn end_word(&mut self, text: &str, end: usize) {
        let word = text.get(self.word_start..end).unwrap_or_default();
        self.other |= !word.is_empty() && word != "export" && (!self.equals || self.semicolon);
    }

    /// Whether every word is `export` or an assignment.
    pub(super) fn is_assignments(&self) -> bool {
        let last = self.word_start == self.at || self.export || (self.equals && !self.semicolon);
        last && !self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_assignments_are_told_from_others() {
        for (before, expected) in [
            ("", true),
            ("A=1 B=2 ", true),
            ("export ", true),
            ("echo x\nexport A=1 ", true),
            ("echo ", false),
            ("A=1 echo ", false),
            ("A=1; ", false),
            ("A=1\nrun\n", true),
            ("x", false),
        ] {
            for step in 0..=before.len() {
                let text = format!("{before}PASSWORD=x");
                let mut line = Line::default();
                line.read_to(&text, step);
                line.read_to(&text, before.len());
                assert_eq!(line.is_assignments(), expected, "{before:?}");
            }
        }
    }
}
