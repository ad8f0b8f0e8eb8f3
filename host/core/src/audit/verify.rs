//! Whether a log is what was written.
//!
//! Owns the walk along the chain and the words for every fault. Refuses files: whoever has them hands them in
//! one after the other, oldest first.
//!
//! **Invariant:** memory is bounded whatever is read: one line, and at most [`MAX_FAULTS`] faults of each kind
//! of list.

mod junk;

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Serialize;

use self::junk::Junk;
use super::line::{Line, Link, MAX_LINE_BYTES};
use super::record::AUDIT_FORMAT;
use crate::code::Code;
use crate::digest::Digest;

/// Most faults that are kept; more are counted.
const MAX_FAULTS: usize = 1_000;

/// What is known of the log from elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expect {
    /// Hash of the record before the first one, if older files were put away.
    pub before: Option<Digest>,
    /// The record that the log had reached at least.
    pub head: Option<Link>,
    /// Hash of a record that must be there.
    pub known: Option<Digest>,
}

/// One thing that isn't as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Stable code.
    pub code: Code,
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong.
    pub message: String,
    #[serde(skip)]
    order: usize,
}

/// A place where a writer was killed in the middle of a record, and the next one said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TornPlace {
    /// The file.
    pub file: String,
    /// The first line that is torn.
    pub line: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Bytes behind the last record of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// How many, without the last line break.
    pub bytes: u64,
    /// Their digest.
    pub digest: Digest,
    /// Whether a line break ends them.
    pub ended: bool,
}

/// What a log is.
#[derive(Debug, Clone)]
pub struct Report {
    /// Records that were read.
    pub records: u64,
    /// The last one.
    pub last: Option<Link>,
    /// Everything that is wrong, in the order of the log.
    pub faults: Vec<Fault>,
    /// Faults beyond those.
    pub more: u64,
    /// Torn records that a later one accounts for: no fault.
    pub torn: Vec<TornPlace>,
}

/// Records that were passed over. They are missing, unless they stand further on.
struct Gap {
    last: u64,
    file: usize,
    line: u64,
}

/// Reads a log, file by file.
pub struct Verifier {
    expect: Expect,
    files: Vec<String>,
    line: u64,
    /// Whether the current file has begun with its first record.
    opened: bool,
    high: Option<Link>,
    records: u64,
    junk: Option<Junk>,
    /// Lines of files before this one that are no records: one of them may be what seems to be missing.
    carried: u64,
    gaps: BTreeMap<u64, Gap>,
    known_seen: bool,
    faults: Vec<Fault>,
    more: u64,
    torn: Vec<TornPlace>,
}

impl Verifier {
    /// Starts at the beginning of a log.
    pub fn new(expect: Expect) -> Verifier {
        Verifier {
            known_seen: expect.known.is_none(),
            expect,
            files: Vec::new(),
            line: 0,
            opened: false,
            high: None,
            records: 0,
            junk: None,
            carried: 0,
            gaps: BTreeMap::new(),
            faults: Vec::new(),
            more: 0,
            torn: Vec::new(),
        }
    }

    /// Goes on behind a record that is known: in the same file, or with the next one.
    pub fn behind(last: Option<Link>, in_file: bool) -> Verifier {
        Verifier { high: last, opened: in_file, ..Verifier::new(Expect::default()) }
    }

    /// Reads the next file, or what follows in it after [`behind`](Verifier::behind), and hands out its records
    /// with their bytes.
    pub fn file(
        &mut self,
        name: &str,
        reader: &mut dyn BufRead,
        each: &mut dyn FnMut(&Line, &[u8]),
    ) -> std::io::Result<()> {
        if !self.files.is_empty() {
            self.end_of_file();
            self.opened = false;
        }
        self.files.push(name.to_owned());
        self.line = 0;
        let mut line = Vec::new();
        while let Some(ended) = self.next_line(reader, &mut line)? {
            self.line += 1;
            match ended {
                Ended::TooLong { ended } => self.junk_mut().end(ended),
                Ended::Whole => match Line::read(&line) {
                    Ok(record) => {
                        self.record(&record);
                        each(&record, &line);
                    }
                    Err(why) => self.add_junk(&line, why, true),
                },
                Ended::Never => self.add_junk(&line, "its end is missing".to_owned(), false),
            }
        }
        if !self.opened && self.junk.is_none() {
            self.fault(Code::AuditMissing, 0, "the file has no record".to_owned());
        }
        Ok(())
    }

    /// What stands behind the last record that was read.
    pub fn tail(&self) -> Option<Tail> {
        self.junk.as_ref().map(Junk::tail)
    }

    /// Whether anything but the tail is wrong so far.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty() || !self.gaps.is_empty()
    }

    /// The last record so far.
    pub fn last(&self) -> Option<Link> {
        self.high
    }

    /// Everything that was found.
    pub fn finish(mut self) -> Report {
        self.end_of_file();
        for (first, gap) in std::mem::take(&mut self.gaps) {
            let message = match gap.last - first {
                0 => format!("record {first} is missing before this one"),
                _ => format!("records {first} to {} are missing before this one", gap.last),
            };
            self.fault_in(gap.file, Code::AuditMissing, gap.line, message);
        }
        let reached = self.high.map_or(0, |high| high.seq);
        if let Some(head) = self.expect.head.filter(|head| head.seq > reached) {
            let message = format!(
                "the log ends with record {reached}, and its head says that it had reached {}",
                head.seq
            );
            self.fault(Code::AuditMissing, self.line, message);
        }
        if let Some(known) = self.expect.known.filter(|_| !self.known_seen) {
            self.fault(Code::AuditMissing, self.line, format!("no record has the hash {known}"));
        }
        self.faults.sort_by_key(|fault| (fault.order, fault.line));
        Report {
            records: self.records,
            last: self.high,
            faults: self.faults,
            more: self.more,
            torn: self.torn,
        }
    }

    /// Reads one line, of which only so much is kept as a record may have.
    fn next_line(&mut self, reader: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<Ended>> {
        line.clear();
        let (mut any, mut long) = (false, false);
        loop {
            let chunk = match reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (part, found) = match memchr::memchr(b'\n', chunk) {
                Some(at) => (chunk.get(..at).unwrap_or_default(), true),
                None => (chunk, false),
            };
            let at_end = chunk.is_empty();
            any |= !at_end;
            if !long && line.len() + part.len() > MAX_LINE_BYTES {
                long = true;
                let number = self.line + 1;
                let why = format!("longer than {MAX_LINE_BYTES} bytes");
                self.junk_mut().begin(number, why);
                self.junk_mut().update(line);
            }
            if long {
                self.junk_mut().update(part);
            } else {
                line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(found);
            reader.consume(taken);
            if found || at_end {
                let ended = if long {
                    Ended::TooLong { ended: found }
                } else if found {
                    Ended::Whole
                } else {
                    Ended::Never
                };
                return Ok(any.then_some(ended));
            }
        }
    }

    fn record(&mut self, line: &Line) {
        self.records += 1;
        if !std::mem::replace(&mut self.opened, true) && line.kind() != "log-opened" {
            let message = "the first record of a file is `log-opened`, and this isn't one".to_owned();
            self.fault(Code::AuditMissing, self.line, message);
        }
        if line.kind() == "log-opened" {
            self.log_opened(line);
        }
        self.place(line);
        if self.expect.known == Some(line.link.hash) {
            self.known_seen = true;
        }
        if let Some(head) = self.expect.head
            && head.seq == line.link.seq
            && head.hash != line.link.hash
        {
            let message = format!("record {} isn't the one that the head names", head.seq);
            self.fault(Code::AuditChanged, self.line, message);
        }
    }

    fn log_opened(&mut self, line: &Line) {
        let format = line.text("format").unwrap_or_default();
        if format != AUDIT_FORMAT {
            let message = format!("format `{format}` isn't supported; this program reads `{AUDIT_FORMAT}`");
            self.fault(Code::VersionUnsupported, self.line, message);
        }
        match line.torn() {
            Ok(None) => {}
            Ok(Some(torn)) => {
                let follows = self.follows(line);
                let tail = self.tail();
                let same = tail.is_some_and(|tail| (tail.bytes, tail.digest) == (torn.bytes, torn.digest));
                if let Some(junk) = self.junk.take_if(|_| follows && same) {
                    let file = self.files.last().cloned().unwrap_or_default();
                    self.torn.push(TornPlace { file, line: junk.first(), bytes: torn.bytes });
                    self.torn.truncate(MAX_FAULTS);
                } else {
                    let message = format!("{} torn bytes are to stand before it, and don't", torn.bytes);
                    self.fault(Code::AuditChanged, self.line, message);
                }
            }
            Err(why) => self.fault(Code::AuditChanged, self.line, why),
        }
    }

    /// Whether a record comes right behind the last one.
    fn follows(&self, line: &Line) -> bool {
        match self.high {
            Some(high) => line.link.seq == high.seq + 1 && line.prev == Some(high.hash),
            None => match self.expect.before {
                Some(before) => line.prev == Some(before),
                None => line.link.seq == 1 && line.prev.is_none(),
            },
        }
    }

    /// Puts a record into the chain.
    fn place(&mut self, line: &Line) {
        let seq = line.link.seq;
        let junk = self.junk.take();
        let unread = junk.as_ref().map_or(0, Junk::lines) + std::mem::take(&mut self.carried);
        let reached = self.high.map_or(0, |high| high.seq);
        if self.follows(line) {
            self.spend(junk, 0);
            self.high = Some(line.link);
            return;
        }
        if self.high.is_none() && self.expect.before.is_some() {
            self.spend(junk, 0);
            let message = "the first record doesn't follow the one with the hash given".to_owned();
            self.fault(Code::AuditMissing, self.line, message);
            self.high = Some(line.link);
        } else if seq > reached + 1 {
            // As many lines that are no records as records are missing: those were changed.
            let missing = seq - reached - 1;
            self.spend(junk, missing);
            if missing > unread {
                let gap = Gap { last: seq - 1, file: self.here(), line: self.line };
                if self.gaps.len() < MAX_FAULTS {
                    self.gaps.insert(reached + 1 + unread, gap);
                } else {
                    self.more += 1;
                }
            }
            self.high = Some(line.link);
        } else if seq == reached + 1 {
            self.spend(junk, 0);
            let message =
                format!("record {seq} names another record before it than the one that stands there");
            self.fault(Code::AuditChanged, self.line, message);
            self.high = Some(line.link);
        } else {
            self.spend(junk, 0);
            if self.fill_gap(seq) {
                let message = format!("record {seq} stands behind record {reached}");
                self.fault(Code::AuditOrder, self.line, message);
            } else {
                let message = format!("record {seq} stands here once more");
                self.fault(Code::AuditInserted, self.line, message);
            }
        }
    }

    /// Whether a record was passed over; it no longer is.
    fn fill_gap(&mut self, seq: u64) -> bool {
        let Some((first, last)) = self
            .gaps
            .range(..=seq)
            .next_back()
            .map(|(first, gap)| (*first, gap.last))
            .filter(|(_, last)| seq <= *last)
        else {
            return false;
        };
        let Some(gap) = self.gaps.remove(&first) else { return false };
        let Gap { file, line, .. } = gap;
        if first < seq {
            self.gaps.insert(first, Gap { last: seq - 1, file, line });
        }
        if seq < last {
            self.gaps.insert(seq + 1, Gap { last, file, line });
        }
        true
    }

    /// Lines that are no records: the first ones were records, the others weren't written here.
    fn spend(&mut self, junk: Option<Junk>, records: u64) {
        let Some(junk) = junk else { return };
        self.more += junk.unlisted();
        for (index, (line, why)) in (0_u64..).zip(junk.into_list()) {
            let code = if index < records { Code::AuditChanged } else { Code::AuditInserted };
            self.fault(code, line, format!("not what was written: {why}"));
        }
    }

    /// What is left behind the last record of a file isn't accounted for.
    fn end_of_file(&mut self) {
        let Some(junk) = self.junk.take() else { return };
        self.carried += junk.lines();
        self.more += junk.unlisted();
        let torn = !junk.tail().ended;
        let list = junk.into_list();
        let last = list.len();
        for (index, (line, why)) in list.into_iter().enumerate() {
            if torn && index + 1 == last {
                let message = "the log ends in the middle of this record".to_owned();
                self.fault(Code::AuditTorn, line, message);
            } else {
                self.fault(Code::AuditChanged, line, format!("not what was written: {why}"));
            }
        }
    }

    fn junk_mut(&mut self) -> &mut Junk {
        self.junk.get_or_insert_default()
    }

    fn add_junk(&mut self, bytes: &[u8], why: String, ended: bool) {
        let line = self.line;
        let junk = self.junk_mut();
        junk.begin(line, why);
        junk.update(bytes);
        junk.end(ended);
    }

    fn here(&self) -> usize {
        self.files.len().saturating_sub(1)
    }

    fn fault(&mut self, code: Code, line: u64, message: String) {
        self.fault_in(self.here(), code, line, message);
    }

    fn fault_in(&mut self, order: usize, code: Code, line: u64, message: String) {
        if self.faults.len() >= MAX_FAULTS {
            self.more += 1;
            return;
        }
        let file = self.files.get(order).cloned().unwrap_or_default();
        self.faults.push(Fault { code, file, line, message, order });
    }
}

/// How a line ended.
enum Ended {
    Whole,
    Never,
    TooLong { ended: bool },
}
