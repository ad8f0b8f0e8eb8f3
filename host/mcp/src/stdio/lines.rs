//! Lines of a stream.
//!
//! Owns the buffer. Refuses to look into a line.
//!
//! **Invariant:** no line beyond the limit is given out, and at most twice the limit is held.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line, in bytes. 4 MiB: what a guest may hand over in one result, and a second's work to read and check.
pub(super) const MAX_LINE: usize = 4 << 20;

/// Read at once, and kept when a long line has gone.
const CHUNK: usize = 64 << 10;

/// What a stream gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// A line of so many bytes, which is gone.
    TooLong(usize),
    /// Nothing more will come.
    End,
}

/// Reads lines.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were given out already.
    used: usize,
    /// Bytes of `buffer` that hold no end of line.
    searched: usize,
    /// Bytes of a too long line that are gone.
    dropped: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::with_capacity(CHUNK), used: 0, searched: 0, dropped: 0, ended: false }
    }

    /// The next line. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Line<'_> {
        loop {
            if let Some(length) = self.find() {
                let start = self.used;
                self.used += length + 1;
                self.searched = self.used;
                if self.dropped > 0 || length > MAX_LINE {
                    return Line::TooLong(std::mem::take(&mut self.dropped) + length);
                }
                return Line::Whole(self.buffer.get(start..start + length).unwrap_or_default());
            }
            if self.ended {
                return self.rest();
            }
            self.make_room();
            match self.input.read_buf(&mut self.buffer).await {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("standard input can't be read: {error}");
                    self.ended = true;
                }
            }
        }
    }

    /// How far away the next end of line is.
    fn find(&mut self) -> Option<usize> {
        let fresh = self.buffer.get(self.searched..).unwrap_or_default();
        let found = memchr::memchr(b'\n', fresh).map(|at| self.searched + at - self.used);
        self.searched = self.buffer.len();
        found
    }

    /// What stands after the last end of line: a script may leave out the last one.
    fn rest(&mut self) -> Line<'_> {
        let start = std::mem::replace(&mut self.used, self.buffer.len());
        let rest = self.buffer.get(start..).unwrap_or_default();
        match (std::mem::take(&mut self.dropped), rest) {
            (0, []) => Line::End,
            (0, rest) if rest.len() <= MAX_LINE => Line::Whole(rest),
            (dropped, rest) => Line::TooLong(dropped + rest.len()),
        }
    }

    fn make_room(&mut self) {
        self.buffer.drain(..self.used);
        self.searched -= self.used;
        self.used = 0;
        if self.buffer.len() > MAX_LINE || self.dropped > 0 {
            self.dropped += self.buffer.len();
            self.buffer.clear();
            self.searched = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > CHUNK {
            self.buffer = Vec::with_capacity(CHUNK);
        }
        self.buffer.reserve(CHUNK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::Whole(line) if line.len() > 10 => found.push(format!("({})", line.len())),
                Line::Whole(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                Line::TooLong(length) => found.push(format!("<{length}>")),
                Line::End => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_needs_no_end() {
        assert_eq!(all(b"a\n\nbc\r\nd").await, ["a", "", "bc\r", "d"]);
        assert_eq!(all(b"a\n").await, ["a"]);
        assert_eq!(all(b"").await, Vec::<String>::new());
    }

    /// P13: a line beyond the limit is told by its length, and the next one is read.
    #[tokio::test]
    async fn a_line_beyond_the_limit_is_dropped() {
        let long = vec![b'x'; MAX_LINE + 3 * CHUNK + 1];
        let text = [b"a\n".as_slice(), &long, b"\nb\n", &long].concat();
        let told = format!("<{}>", long.len());
        assert_eq!(all(&text).await, ["a", &told, "b", &told]);
        let fits = vec![b'y'; MAX_LINE];
        let text = [&fits, b"\nb".as_slice()].concat();
        assert_eq!(all(&text).await, [format!("({MAX_LINE})").as_str(), "b"]);
    }
}
