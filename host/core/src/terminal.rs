//! Characters that steer a terminal.
//!
//! Owns the one list. Refuses to say what is shown in their place: a log and JSON have rules of their own.
//!
//! **Invariant:** text without them moves no cursor and looks like no other text.

/// Whether a character moves a cursor, ends a line, or turns the direction of writing. A tab does no harm; who
/// shows several lines lets line breaks through.
pub fn steers(c: char) -> bool {
    (c.is_control() && c != '\t')
        // Also Unicode's own ends of lines.
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_or_turns_the_writing_steers() {
        for c in ['\u{1b}', '\u{9b}', '\n', '\r', '\0', '\u{202e}', '\u{2028}', '\u{2066}', '\u{200f}'] {
            assert!(steers(c), "{c:?}");
        }
        for c in ['a', ' ', '\t', 'ä', '☃', '\u{2027}', '\u{202f}'] {
            assert!(!steers(c), "{c:?}");
        }
    }
}
