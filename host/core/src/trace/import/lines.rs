//! Lines of a stream.
//!
//! Owns the limits on what is read: the whole stream and each line. Refuses to look into a line.
//!
//! **Invariant:** at most one line is held, and no line longer than asked for.

use std::io::{BufRead, ErrorKind};

use crate::code::Code;
use crate::problem::{Place, Problem};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One line, without its end and the blanks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'l> {
    /// Counted from 1.
    pub(super) number: usize,
    /// What it holds; empty if it was too long.
    pub(super) bytes: &'l [u8],
    /// Whether the line's end was there. The last line of a file that is still written has none.
    pub(super) ended: bool,
    /// How long a line was that was too long to be held.
    pub(super) dropped: Option<usize>,
}

/// Reads lines.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: usize,
    read: usize,
    limit: usize,
}

impl<R: BufRead> Lines<R> {
    /// At most `limit` bytes are read in all.
    pub(super) fn new(reader: R, limit: usize) -> Lines<R> {
        Lines { reader, line: Vec::new(), number: 0, read: 0, limit }
    }

    /// Bytes read so far.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Lines read so far, blank ones among them.
    pub(super) fn count(&self) -> usize {
        self.number
    }

    /// The next line that isn't blank. One of more than `cap` bytes is read over, not held.
    pub(super) fn next(&mut self, cap: usize) -> Result<Option<Line<'_>>, Problem> {
        loop {
            let Some((length, ended)) = self.fill(cap)? else {
                return Ok(None);
            };
            self.number += 1;
            let long = length > cap;
            if long || !self.line.trim_ascii().is_empty() {
                let bytes = if long { &[] } else { self.line.trim_ascii() };
                let dropped = long.then_some(length);
                return Ok(Some(Line { number: self.number, bytes, ended, dropped }));
            }
        }
    }

    /// Everything after the last line, behind `before`.
    pub(super) fn rest(mut self, mut before: Vec<u8>) -> Result<(Vec<u8>, usize), Problem> {
        while let Some((_, ended)) = self.fill(usize::MAX)? {
            before.extend_from_slice(&self.line);
            if ended {
                before.push(b'\n');
            }
        }
        Ok((before, self.read))
    }

    /// Reads one line and returns its length and whether its end was there; nothing at the end of the stream.
    fn fill(&mut self, cap: usize) -> Result<Option<(usize, bool)>, Problem> {
        self.line.clear();
        let (mut length, mut started) = (0, false);
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            if chunk.is_empty() {
                return Ok(started.then_some((length, false)));
            }
            let end = memchr::memchr(b'\n', chunk);
            let part = end.and_then(|end| chunk.get(..end)).unwrap_or(chunk);
            let used = part.len() + usize::from(end.is_some());
            length += part.len();
            if length <= cap {
                self.line.extend_from_slice(part);
            } else {
                self.line.clear();
            }
            self.read = self.read.saturating_add(used);
            self.reader.consume(used);
            if self.read > self.limit {
                let message = format!("more than {} bytes", self.limit);
                return Err(Problem::new(Code::FileTooLarge, Place::Whole, message));
            }
            started = true;
            if end.is_some() {
                self.strip_bom();
                return Ok(Some((length, true)));
            }
            if self.number == 0 {
                self.strip_bom();
            }
        }
    }

    fn strip_bom(&mut self) {
        if self.number == 0 && self.line.starts_with(BOM) {
            self.line.drain(..BOM.len());
        }
    }
}

fn unreadable(error: &std::io::Error) -> Problem {
    Problem::new(Code::FileUnreadable, Place::Whole, error.to_string().to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Number, content, whether it ended, and the length of what was dropped.
    fn all(text: &str, buffer: usize, cap: usize) -> Vec<(usize, String, bool, Option<usize>)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text.as_bytes()), 1000);
        let mut found = Vec::new();
        while let Some(line) = lines.next(cap).unwrap() {
            let bytes = String::from_utf8(line.bytes.to_vec()).unwrap();
            found.push((line.number, bytes, line.ended, line.dropped));
        }
        assert_eq!(lines.read(), text.len());
        found
    }

    #[test]
    fn lines_are_the_same_whatever_the_buffer_holds() {
        let text = "\u{feff}one\r\n\n  \r\ntwo two two\nthree";
        for buffer in 1..40 {
            let expected = vec![
                (1, "one".to_owned(), true, None),
                (4, String::new(), true, Some(11)),
                (5, "three".to_owned(), false, None),
            ];
            assert_eq!(all(text, buffer, 8), expected, "{buffer}");
        }
        assert_eq!(all("", 8, 6), vec![]);
    }

    #[test]
    fn the_limit_holds_for_the_whole_stream() {
        let mut lines = Lines::new("1234\n5678\n9".as_bytes(), 9);
        assert!(lines.next(99).is_ok());
        assert_eq!(lines.next(99).unwrap_err().code, Code::FileTooLarge);
        let lines = Lines::new("1234\n5678\n9".as_bytes(), 11);
        assert_eq!(lines.rest(b"0\n".to_vec()).unwrap(), (b"0\n1234\n5678\n9".to_vec(), 11));
    }
}
