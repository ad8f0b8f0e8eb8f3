//! Standard output and standard error.
//!
//! Owns the rule that standard output is data and standard error is talk. Refuses printing anywhere else.
//!
//! **Invariant:** with `--format json` standard output holds JSON and nothing but JSON; no text of a recording,
//! plugin or file can steer the terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::SyncSender;

use serde_json::{Value, json};
use t2m_core::code::Code;
use t2m_core::problem::Place;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::args::Format;
use crate::failure::Failure;

/// Where a command writes.
pub(crate) struct Out {
    format: Format,
    quiet: bool,
    /// Notes that wait for the end of the command: in JSON a failure has to be all there is.
    held: Option<Vec<String>>,
    /// Why standard output could not be written, if so.
    broken: Option<String>,
}

impl Out {
    pub(crate) fn new(format: Format, quiet: bool) -> Out {
        Out { format, quiet, held: None, broken: None }
    }

    /// Keeps notes until the command has ended, so that a failure in JSON stands alone.
    pub(crate) fn hold_notes(&mut self) {
        self.held = self.is_json().then(Vec::new);
    }

    /// Says the notes that were kept.
    pub(crate) fn say_notes(&mut self) {
        self.held.take().into_iter().flatten().for_each(|note| talk(&note));
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether only errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a person may be shown something that moves.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && self.format == Format::Human && std::io::stderr().is_terminal()
    }

    /// One result: as it is for people, or as JSON.
    pub(crate) fn data(&mut self, human: impl FnOnce() -> String, machine: impl FnOnce() -> Value) {
        let text = match self.format {
            Format::Human => human(),
            Format::Json => pretty(&machine()),
        };
        self.raw(&text);
    }

    /// Text that is the same in every format, such as a diagram.
    pub(crate) fn raw(&mut self, text: &str) {
        let text = &printable(text);
        let mut stdout = std::io::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let written = write!(stdout, "{text}{end}").and_then(|()| stdout.flush());
        // A reader that went away, such as `head`, has read what it wanted.
        if let Err(error) = written.as_ref()
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            self.broken = Some(crate::files::reason(error));
        }
    }

    /// Fails if standard output could not be written.
    pub(crate) fn check(&mut self) -> crate::failure::Result<()> {
        match self.broken.take() {
            Some(reason) => {
                Err(Failure::new(Code::FileUnwritable, format!("standard output can't be written: {reason}")))
            }
            None => Ok(()),
        }
    }

    /// Something for people only.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        match &mut self.held {
            _ if self.quiet => {}
            Some(held) => held.push(text.as_ref().to_owned()),
            None => talk(text.as_ref()),
        }
    }

    /// Something that went wrong, for people. Quiet doesn't hide it.
    pub(crate) fn error(&mut self, text: impl AsRef<str>) {
        talk(text.as_ref());
    }

    /// Why the command failed. Quiet doesn't hide it.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if self.is_json() {
            let notes = self.held.take().unwrap_or_default();
            talk(&pretty(&failure_json(failure, &notes)));
            return;
        }
        for problem in failure.problems.iter() {
            talk(&format!("error[{}]: {}", problem.code, one_line(&problem.message)));
            match (&failure.file, &problem.place) {
                (Some(file), Place::Whole) => {
                    talk(&format!("  in {}", one_line(&file.display().to_string())))
                }
                (Some(file), place) => talk(&one_line(&format!("  in {} at {place}", file.display()))),
                (None, Place::Whole) => {}
                (None, place) => talk(&one_line(&format!("  at {place}"))),
            }
        }
        talk(&format!("  next: {}", failure.next()));
    }
}

/// A line of a program that we started, on standard error. It may hold colours: that program was the user's
/// own choice.
pub(crate) fn pass_on(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Text of somebody else on one line, so that it can't pass for lines of ours.
pub(crate) fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}

/// One line, or a few, on standard error.
fn talk(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// Text that can't steer a terminal or look like other text: control characters and those that turn the
/// direction of writing are shown as JSON escapes, so that JSON stays what it is. Texts from recordings,
/// plugins and files all come through here.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c != '\n' && t2m_core::terminal::steers(c);
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn failure_json(failure: &Failure, notes: &[String]) -> Value {
    let code = failure.problems.code();
    json!({
        "error": {
            "code": code,
            "blame": code.blame(),
            "retry": code.retry(),
            "next": failure.next(),
            "notes": notes,
            "file": failure.file.as_ref().map(|path| path.display().to_string()),
            "problems": failure.problems,
        }
    })
}

/// JSON for people and programs: two spaces, sorted keys.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Logs go to standard error: warnings by default, `-v` for more, `T2M_LOG` for a filter of one's own.
/// A server's log must not wait for whoever reads it, so `queued` lines that find no room are dropped.
pub(crate) fn init_log(verbose: u8, queued: bool) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    // The protocol library logs whole messages, arguments included.
    let usual = || EnvFilter::new(format!("{level},rmcp=error"));
    let filter = EnvFilter::try_from_env("T2M_LOG").unwrap_or_else(|_| usual());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log_writer(queued))
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Lines that wait to be written. Each is at most a guest's message, 64 KiB.
const LOG_QUEUE: usize = 64;

fn log_writer(queued: bool) -> BoxMakeWriter {
    if !queued {
        return BoxMakeWriter::new(std::io::stderr);
    }
    let (sender, lines) = std::sync::mpsc::sync_channel::<Vec<u8>>(LOG_QUEUE);
    let thread = std::thread::Builder::new().name("t2m-log".to_owned()).spawn(move || {
        for line in lines {
            let _ = std::io::stderr().write_all(&line);
        }
    });
    match thread {
        Ok(_) => BoxMakeWriter::new(move || QueuedLog(sender.clone())),
        Err(_) => BoxMakeWriter::new(std::io::stderr),
    }
}

/// Takes one line, which the subscriber writes in one piece.
struct QueuedLog(SyncSender<Vec<u8>>);

impl Write for QueuedLog {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.try_send(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_steer_a_terminal_and_json_stays_json() {
        assert_eq!(printable("plain\n\ttext ä"), "plain\n\ttext ä");
        assert_eq!(printable("\u{1b}[31mred\u{9b}x\u{202e}"), "\\u001b[31mred\\u009bx\\u202e");
        let value = json!({"text": "a\u{9b}b\u{202e}"});
        let back: Value = serde_json::from_str(&printable(&pretty(&value))).unwrap();
        assert_eq!(back, value);
    }
}
