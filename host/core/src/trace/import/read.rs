//! Reading a recording as it comes.
//!
//! Owns the way from a stream to the entries of a format: one JSON document, or one JSON text a line, with
//! what recorders put around them. Refuses to hold a file of lines: once its format is known, each line is
//! gone before the next.
//!
//! **Invariant:** every line is taken, found without a call, or listed as skipped; a recording that has nothing
//! but lines that can't be read is refused with what is wrong with them.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::calls::Calls;
use super::lines::{Line, Lines};
use super::{Format, ImportOptions, ImportReport, bytes, detect};
use crate::code::Code;
use crate::json::Limits;
use crate::problem::{MAX_PROBLEMS, Place, Problem, Problems, item};
use crate::trace::model::Trace;

/// How many lines, and bytes of them, are looked at before a format must be clear.
const MAX_HEAD_LINES: usize = 4096;
const MAX_HEAD_BYTES: usize = 16 << 20;

/// What places a line in its session, without building the rest of the line. `of` reads it from a line some
/// field of which has another type than expected.
pub(super) fn head<H: for<'de> Deserialize<'de>>(
    line: &[u8],
    of: fn(&Value) -> H,
) -> Result<H, serde_json::Error> {
    match serde_json::from_slice(line) {
        Err(error) if error.is_data() => Ok(of(&serde_json::from_slice(line)?)),
        read => read,
    }
}

/// What a format does with the entries of its recordings.
pub(super) trait Reader {
    /// Whether a line may hold a part of a call. A search for a few bytes: the line isn't parsed yet.
    fn matters(&self, _line: &[u8]) -> bool {
        true
    }

    /// The members of a line that are never looked at, by their keys from the outside in. Whole recordings
    /// are read faster without them.
    fn ignores(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Takes note of a line that holds no part of a call.
    fn pass(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        serde_json::from_slice::<IgnoredAny>(line).map(|_| ())
    }

    /// Whether an entry is a session of its own, of which a file may hold several.
    fn begins_session(&self, _value: &Value) -> bool {
        false
    }

    /// Takes one entry: a line, or a document that has no parts of its own.
    fn record(&mut self, place: &Place, value: Value, calls: &mut Calls);

    /// Takes a whole document.
    fn document(&mut self, value: Value, calls: &mut Calls) {
        calls.count_record();
        self.record(&Place::Pointer(String::new()), value, calls);
    }

    /// Decides what needed the whole recording, and says what it was.
    fn finish(&mut self, calls: &mut Calls) -> Map<String, Value>;
}

/// What was read.
pub(super) enum Content {
    /// The calls of a recording.
    Recording(Box<(Trace, Format, ImportReport)>),
    /// A workflow of another program, as it stands in its file.
    Workflow(Value),
}

/// Reads all of it.
pub(super) fn read(reader: impl BufRead, options: &ImportOptions) -> Result<Content, Problems> {
    let mut lines = Lines::new(reader, options.limits.bytes);
    // The first line may be the whole document, so it has the document's limit.
    let Some(first) = lines.next(usize::MAX)? else {
        return Err(bytes::nothing().into());
    };
    if let Some(problem) = bytes::problem(first.bytes) {
        return Err(problem.into());
    }
    let (number, ended, first) = (first.number, first.ended, first.bytes.to_vec());
    let layout = layout(&first, options);
    if let Layout::Lines(first) = layout
        && let Some(second) = lines.next(options.line_bytes)?.map(owned)
    {
        let mut stream = Stream::new(options);
        stream.first(number, first)?;
        return stream.run(lines, second);
    }
    // Blank lines before the document count for the places of problems.
    let mut whole = vec![b'\n'; number - 1];
    whole.extend_from_slice(&first);
    whole.extend(ended.then_some(b'\n'));
    let (whole, read) = lines.rest(whole)?;
    document(&whole, read, options)
}

/// What the first line says about the rest.
enum Layout {
    /// One text a line, of which this is the first; nothing if the line holds none.
    Lines(Option<Result<Value, Problems>>),
    /// One text.
    Document,
}

fn layout(first: &[u8], options: &ImportOptions) -> Layout {
    if options.from.is_some_and(Format::is_document) {
        return Layout::Document;
    }
    let Some(json) = payload(first) else {
        return Layout::Lines(None);
    };
    if !matches!(json.first(), Some(b'{' | b'[')) {
        return Layout::Document;
    }
    match crate::json::parse(json, options.limits) {
        // A pretty-printed document may begin with a line like `[`, which is no value by itself.
        Err(problems) if breaks_off(&problems) => Layout::Document,
        parsed => Layout::Lines(Some(parsed)),
    }
}

/// Whether a text ends in the middle of a value.
fn breaks_off(problems: &Problems) -> bool {
    problems.iter().any(|problem| problem.code == Code::JsonSyntax && problem.message.starts_with("EOF"))
}

fn document(bytes: &[u8], read: usize, options: &ImportOptions) -> Result<Content, Problems> {
    // A stream of events with a single one is a line still.
    let text = match payload(bytes.trim_ascii()) {
        Some(text) if text.len() < bytes.trim_ascii().len() => text,
        _ => bytes,
    };
    let value = crate::json::parse(text, options.limits)?;
    let format = match options.from {
        Some(format) => format,
        None => detect::of_document(&value)?,
    };
    let (trace, mut report) = match format.reader() {
        None if format == Format::WorkflowIr => return Ok(Content::Workflow(value)),
        None => {
            // Our own recording is one session.
            Sessions::new(options.session).finish()?;
            super::native(&value)?
        }
        Some(mut reader) => {
            let mut calls = Calls::new(format);
            let mut sessions = Sessions::new(options.session);
            match value {
                Value::Array(list) if list.first().is_some_and(|first| reader.begins_session(first)) => {
                    for (index, value) in list.into_iter().enumerate() {
                        if sessions.takes(reader.as_ref(), &value) {
                            calls.count_record();
                            reader.record(&Place::Pointer(item("", index)), value, &mut calls);
                        }
                    }
                }
                value => {
                    sessions.takes(reader.as_ref(), &value);
                    reader.document(value, &mut calls);
                }
            }
            sessions.finish()?;
            let metadata = reader.finish(&mut calls);
            calls.finish(metadata)?
        }
    };
    report.bytes = read;
    Ok(Content::Recording(Box::new((trace, format, report))))
}

/// Which of several sessions is taken.
struct Sessions {
    wanted: Option<usize>,
    found: usize,
}

impl Sessions {
    fn new(wanted: Option<usize>) -> Sessions {
        Sessions { wanted, found: 0 }
    }

    /// Whether an entry is a part of the session that is taken.
    fn takes(&mut self, reader: &dyn Reader, value: &Value) -> bool {
        self.found += usize::from(reader.begins_session(value));
        // What stands before the first session belongs to it.
        self.found.max(1) == self.wanted.unwrap_or(1)
    }

    /// Refuses to choose for the caller.
    fn finish(&self) -> Result<(), Problems> {
        let found = self.found.max(1);
        let message = match self.wanted {
            None if found > 1 => format!("{found} sessions in one file; choose one with `--session`"),
            Some(wanted) if wanted == 0 || wanted > found => {
                format!("there is no session {wanted}; the file holds {found}, counted from 1")
            }
            _ => return Ok(()),
        };
        Err(Problem::new(Code::TooMany, Place::Whole, message).into())
    }
}

/// A line that outlives the next one.
struct Owned {
    number: usize,
    bytes: Vec<u8>,
    ended: bool,
    dropped: Option<usize>,
}

fn owned(line: Line<'_>) -> Owned {
    Owned { number: line.number, bytes: line.bytes.to_vec(), ended: line.ended, dropped: line.dropped }
}

impl Owned {
    fn line(&self) -> Line<'_> {
        Line { number: self.number, bytes: &self.bytes, ended: self.ended, dropped: self.dropped }
    }
}

struct Stream<'o> {
    options: &'o ImportOptions,
    /// What was read before the format was known.
    head: Vec<(usize, Value)>,
    head_bytes: usize,
    /// The format, once it is known.
    known: Option<(Format, Box<dyn Reader>, Calls)>,
    sessions: Sessions,
    /// What is wrong with the first lines that can't be read.
    problems: Vec<Problem>,
    /// Such lines, each with its first fault.
    unreadable: Vec<Problem>,
    /// The number of a last line that breaks off.
    partial: Option<usize>,
    /// Lines that were too long, and their lengths.
    long: Vec<(usize, usize)>,
}

impl<'o> Stream<'o> {
    fn new(options: &'o ImportOptions) -> Stream<'o> {
        let known = options.from.and_then(|format| Some((format, format.reader()?, Calls::new(format))));
        Stream {
            options,
            head: Vec::new(),
            head_bytes: 0,
            known,
            sessions: Sessions::new(options.session),
            problems: Vec::new(),
            unreadable: Vec::new(),
            partial: None,
            long: Vec::new(),
        }
    }

    fn first(&mut self, number: usize, parsed: Option<Result<Value, Problems>>) -> Result<(), Problems> {
        match parsed {
            None => Ok(()),
            Some(Ok(value)) => {
                self.entry(number, value);
                if self.known.is_none() { self.detect(false) } else { Ok(()) }
            }
            Some(Err(problems)) => {
                self.broken(number, problems);
                Ok(())
            }
        }
    }

    fn run(mut self, mut lines: Lines<impl BufRead>, second: Owned) -> Result<Content, Problems> {
        self.line(second.line())?;
        while let Some(line) = lines.next(self.options.line_bytes)? {
            self.line(line)?;
        }
        if self.known.is_none() {
            self.detect(true)?;
        }
        let Some((format, mut reader, mut calls)) = self.known else {
            Problems::from_list(self.problems)?;
            return Err(detect::unknown_lines(&self.head));
        };
        self.sessions.finish()?;
        let unreadable = self.unreadable.len();
        for Problem { code, place, message } in self.unreadable {
            calls.skip(place, format!("the line can't be read: {message} ({code})"));
        }
        if unreadable > 0 {
            calls.warn_of_gap(format!(
                "{unreadable} lines can't be read and were left out: calls may be missing"
            ));
        }
        for (number, length) in &self.long {
            let reason = format!("a line of {length} bytes, more than {}", self.options.line_bytes);
            calls.skip(Place::Line(*number), reason);
        }
        if !self.long.is_empty() {
            calls.warn_of_gap(format!(
                "{} lines were too long to be read: calls may be missing",
                self.long.len()
            ));
        }
        if let Some(line) = self.partial {
            calls.skip(Place::Line(line), "the last line breaks off and was left out");
            calls.warn(format!("line {line} breaks off: the recording may be incomplete"));
        }
        let metadata = reader.finish(&mut calls);
        // Where nothing was found, what is wrong with the lines says why.
        let (trace, mut report) = match calls.finish(metadata) {
            Err(problems) if problems.code() == Code::TraceEmpty => {
                Problems::from_list(self.problems)?;
                return Err(problems);
            }
            finished => finished?,
        };
        report.unreadable = unreadable;
        report.bytes = lines.read();
        report.lines = lines.count();
        Ok(Content::Recording(Box::new((trace, format, report))))
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Problems> {
        if let Some(length) = line.dropped {
            self.long.push((line.number, length));
            return Ok(());
        }
        let Some(json) = payload(line.bytes) else {
            return Ok(());
        };
        if let Some((_, reader, calls)) = &mut self.known
            && !reader.matters(json)
        {
            calls.count_record();
            if let Err(error) = reader.pass(json) {
                let problems = crate::json::parse(json, self.options.limits).err();
                let problems = problems.unwrap_or_else(|| crate::json::syntax_problem(&error).into());
                self.bad_line(line, json, problems);
            }
            return Ok(());
        }
        let without = self.known.as_ref().map(|(_, reader, _)| reader.ignores()).unwrap_or_default();
        match crate::json::parse_without(json, self.options.limits, without) {
            Ok(value) => {
                self.head_bytes += json.len();
                self.entry(line.number, value);
                if self.known.is_none() {
                    self.detect(false)?;
                }
            }
            Err(problems) => self.bad_line(line, json, problems),
        }
        Ok(())
    }

    /// A file that is still being written ends in the middle of a line.
    fn bad_line(&mut self, line: Line<'_>, json: &[u8], problems: Problems) {
        if !line.ended && problems.code() == Code::JsonSyntax {
            self.partial = Some(line.number);
            return;
        }
        // The line's place in the session may be readable all the same; then what follows it keeps its own.
        if let Some((_, reader, _)) = &mut self.known {
            let _ = reader.pass(json);
        }
        self.broken(line.number, problems);
    }

    fn broken(&mut self, number: usize, problems: Problems) {
        let mut problems = problems.into_list().into_iter().map(|problem| on_line(number, problem));
        let first = problems.next();
        self.unreadable.extend(first.clone());
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.extend(first.into_iter().chain(problems));
        }
    }

    fn entry(&mut self, number: usize, value: Value) {
        match &mut self.known {
            Some((_, reader, calls)) => {
                if !self.sessions.takes(reader.as_ref(), &value) {
                    return;
                }
                calls.count_record();
                reader.record(&Place::Line(number), value, calls);
            }
            None => self.head.push((number, value)),
        }
    }

    fn detect(&mut self, complete: bool) -> Result<(), Problems> {
        let full = self.head.len() >= MAX_HEAD_LINES || self.head_bytes >= MAX_HEAD_BYTES;
        let format = match detect::of_lines(&self.head, complete || full) {
            Some(format) => format,
            None if full => return Err(detect::unknown_lines(&self.head)),
            None => return Ok(()),
        };
        self.known = format.reader().map(|reader| (format, reader, Calls::new(format)));
        for (number, value) in std::mem::take(&mut self.head) {
            self.entry(number, value);
        }
        Ok(())
    }
}

/// The JSON of a line; a recorded event stream has it behind `data:` and other fields beside it.
fn payload(line: &[u8]) -> Option<&[u8]> {
    if let Some(data) = line.strip_prefix(b"data:") {
        return Some(data.trim_ascii());
    }
    let noise: [&[u8]; 4] = [b"event:", b"id:", b"retry:", b":"];
    (!noise.iter().any(|prefix| line.starts_with(prefix))).then_some(line)
}

fn on_line(number: usize, problem: Problem) -> Problem {
    let place = match problem.place {
        Place::LineColumn(_, column) => Place::LineColumn(number, column),
        Place::Pointer(pointer) => Place::LinePointer(number, pointer),
        _ => Place::Line(number),
    };
    Problem { place, ..problem }
}

/// A person's limits apply to a text inside the recording as well.
pub(super) fn parse_inner(text: &str) -> Option<Value> {
    crate::json::parse(text.as_bytes(), Limits::default()).ok()
}
