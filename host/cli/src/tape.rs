//! The file of a recording, written while the session runs.
//!
//! Owns the queue to the writer's thread and the lines of the file: `{"ts","direction","message"}`, the MCP
//! log form that `import` reads, so a file that breaks off anywhere is still read up to there. Refuses to make
//! the session wait: what doesn't fit the queue is counted.
//!
//! **Invariant:** the file holds whole lines in the order they were noted, and says what is missing.

mod summary;

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender as Queue, channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::json::{Limits, parse};

use crate::failure::{Failure, Result};
use crate::files::reason;

pub(crate) use summary::Summary;

/// Longer lines are relayed but not recorded.
const MAX_LINE: usize = 16 << 20;
/// What may wait for the disk, each line counted with what it costs to keep it. Enough for a burst of half a
/// million short notifications.
const MAX_QUEUED_BYTES: usize = 64 << 20;
const LINE_COST: usize = 64;

/// Who sent a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender {
    Client,
    Server,
}

impl Sender {
    fn direction(self) -> &'static str {
        match self {
            Sender::Client => "client_to_server",
            Sender::Server => "server_to_client",
        }
    }
}

enum Entry {
    Line(Line),
    End,
}

struct Line {
    sender: Sender,
    unix_ms: u64,
    /// More members of the entry, as JSON, each with its comma; empty for a line that was overheard.
    about: String,
    /// Nothing, if the line was too long to keep.
    bytes: Option<Vec<u8>>,
}

#[derive(Default)]
struct Shared {
    queued: AtomicUsize,
    lost: AtomicU64,
}

/// The relay's end of the queue.
#[derive(Clone)]
pub(crate) struct Tape {
    lines: Queue<Entry>,
    shared: Arc<Shared>,
}

impl Tape {
    /// Starts the writer.
    pub(crate) fn start(file: File) -> (Tape, Closer) {
        let (lines, queue) = channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer { file, written: 0, summary: Summary::default(), shared: Arc::clone(&shared) };
        let writing = std::thread::spawn(move || writer.run(&queue));
        let closer = Closer { lines: lines.clone(), writing };
        (Tape { lines, shared }, closer)
    }

    /// Cuts one direction of the session into lines.
    pub(crate) fn splitter(self, sender: Sender) -> Splitter {
        Splitter { tape: self, sender, line: Vec::new(), too_long: false }
    }

    /// Queues one message. `about` is what the entry says of it, each member with a comma behind it.
    pub(crate) fn note(&self, sender: Sender, about: String, bytes: Vec<u8>) {
        let bytes = (bytes.len() <= MAX_LINE).then_some(bytes);
        self.queue(sender, about, bytes);
    }

    fn queue(&self, sender: Sender, about: String, bytes: Option<Vec<u8>>) {
        let size = LINE_COST + about.len() + bytes.as_ref().map_or(0, Vec::len);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let before = self.shared.queued.fetch_add(size, Ordering::Relaxed);
        let fits = before.saturating_add(size) <= MAX_QUEUED_BYTES;
        if !fits || self.lines.send(Entry::Line(Line { sender, unix_ms, about, bytes })).is_err() {
            self.shared.queued.fetch_sub(size, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends the file. Dropping the tapes isn't enough: the client's thread keeps its own while it reads.
pub(crate) struct Closer {
    lines: Queue<Entry>,
    writing: JoinHandle<std::io::Result<Summary>>,
}

impl Closer {
    /// Waits until what is queued is on the disk.
    pub(crate) fn close(self) -> std::io::Result<Summary> {
        // A writer that is gone says so below.
        let _ = self.lines.send(Entry::End);
        self.writing.join().unwrap_or_else(|_| Err(std::io::Error::other("the writer broke off")))
    }
}

/// One direction, cut into lines.
pub(crate) struct Splitter {
    tape: Tape,
    sender: Sender,
    line: Vec<u8>,
    too_long: bool,
}

impl Splitter {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n");
            let kept = text.unwrap_or(part);
            if self.line.len().saturating_add(kept.len()) > MAX_LINE {
                self.too_long = true;
                self.line = Vec::new();
            }
            if !self.too_long {
                self.line.extend_from_slice(kept);
            }
            if text.is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            self.tape.queue(self.sender, String::new(), None);
        } else if !line.trim_ascii().is_empty() {
            self.tape.queue(self.sender, String::new(), Some(line));
        }
    }
}

impl Drop for Splitter {
    /// A last line without its end was relayed too.
    fn drop(&mut self) {
        self.end_line();
    }
}

struct Writer {
    file: File,
    /// Where the last whole line ends.
    written: u64,
    summary: Summary,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Entry>) -> std::io::Result<Summary> {
        let mut unsaid = 0;
        while let Ok(Entry::Line(line)) = queue.recv() {
            let size = LINE_COST + line.about.len() + line.bytes.as_ref().map_or(0, Vec::len);
            unsaid = self.say_missing(unsaid);
            let entry = self.entry(&line);
            if self.append(&entry).is_err() {
                unsaid += 1;
                self.summary.missing += 1;
            }
            self.shared.queued.fetch_sub(size, Ordering::Relaxed);
        }
        self.say_missing(unsaid);
        self.file.sync_all()?;
        Ok(self.summary)
    }

    /// Writes how many lines are missing here, and gives back what it couldn't write.
    fn say_missing(&mut self, unsaid: u64) -> u64 {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        self.summary.missing += lost;
        let unsaid = unsaid + lost;
        let said = unsaid == 0 || self.append(&json_line(&json!({"missing_lines": unsaid}))).is_ok();
        if said { 0 } else { unsaid }
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        // Half a line from a write that failed would spoil the next one.
        self.file.set_len(self.written)?;
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(line)?;
        self.written += u64::try_from(line.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn entry(&mut self, line: &Line) -> Vec<u8> {
        let Line { sender, unix_ms, about, bytes } = line;
        let direction = sender.direction();
        let note =
            |why: &str| json_line(&json!({"ts": unix_ms, "direction": direction, "not_recorded": why}));
        let Some(bytes) = bytes else {
            self.summary.too_long += 1;
            return note("the line is too long");
        };
        let mut entry =
            format!("{{\"ts\":{unix_ms},\"direction\":\"{direction}\",{about}\"message\":").into_bytes();
        entry.extend_from_slice(bytes.trim_ascii());
        entry.push(b'}');
        // As import will read it: a line it can't read would spoil the whole file. The parts are looked at
        // too, because a line like `1},{"a":2` closes the entry itself.
        let read = |bytes: &[u8]| parse(bytes, Limits::default()).ok();
        let (Some(message), Some(_)) = (read(bytes), read(&entry)) else {
            self.summary.count_unreadable(bytes);
            return note("the line is no JSON that can be read");
        };
        self.summary.count(&message);
        entry.push(b'\n');
        entry
    }
}

fn json_line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// Makes the file, private from its first moment. What exists, a link too, is refused.
pub(crate) fn create(path: &Path) -> Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map_err(|error| {
        let failure = Failure::of_file(path, Code::FileUnwritable, reason(&error));
        match error.kind() {
            ErrorKind::AlreadyExists => failure.with_next("name a file that isn't there yet"),
            _ => failure,
        }
    })
}
