//! `t2m-host record`: stands between an MCP client and an MCP server, and records.
//!
//! Owns the server's process and the relay of both directions, byte for byte. Refuses to understand what it
//! relays: `import` does that later. Its threads only copy, so the relay never waits for the file.
//!
//! **Invariant:** a line is queued for the file before it is passed on, so no answer stands before its call.

mod tape;

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use t2m_core::code::Code;
use tape::{Closer, Sender, Splitter, Tape};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files::reason;
use crate::out::Out;

/// Record a session between an MCP client and an MCP server.
///
/// Put it in front of the server's command in the client's configuration. The file is written while the
/// session runs and holds what was said, secrets too; only you can read it. `import` and `compile` read it.
/// Ends when the server ends: with 0 if the server ended with 0, else with 6.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host record --out session.jsonl -- t2m-host serve --tool files --dir $PWD
  t2m-host import session.jsonl --out trace.json")]
pub(crate) struct Record {
    /// The recording, JSON lines; an existing file is refused
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The server's command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    server: Vec<OsString>,
}

impl Record {
    pub(crate) fn run(self, out: &mut Out) -> Result<Exit> {
        let unwritable =
            |error: std::io::Error| Failure::of_file(&self.out, Code::FileUnwritable, reason(&error));
        let failed = |message: String| Failure::new(Code::ServerFailed, message);
        let file = tape::create(&self.out).map_err(unwritable)?;
        let (program, args) = self.server.split_first().ok_or_else(|| failed("no server named".into()))?;
        let shown = program.to_string_lossy();
        let started = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut server = started.map_err(|error| {
            // Nothing was recorded: the name is free for the next try.
            let _ = std::fs::remove_file(&self.out);
            failed(format!("the server `{shown}` can't be started: {}", reason(&error)))
        })?;
        let (tape, closer) = Tape::start(file);
        if let Some(input) = server.stdin.take() {
            let splitter = tape.clone().splitter(Sender::Client);
            // Not awaited: a client may keep its end open after the server has gone.
            std::thread::spawn(move || relay(std::io::stdin(), input, splitter));
        }
        if let Some(output) = server.stdout.take() {
            relay(output, std::io::stdout(), tape.splitter(Sender::Server));
        }
        let ended = server.wait().map_err(|error| failed(reason(&error)))?;
        close(closer, &self.out, out)?;
        if ended.success() {
            Ok(Exit::Done)
        } else {
            Err(failed(format!("the server `{shown}` ended: {ended}")))
        }
    }
}

/// Copies until one side ends. What was read is passed on at once.
fn relay(mut from: impl Read, mut to: impl Write, mut splitter: Splitter) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        splitter.feed(read);
        if to.write_all(read).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Ends the file, and says what it doesn't hold.
fn close(closer: Closer, path: &Path, out: &mut Out) -> Result<()> {
    let unwritable = |message: String| Failure::of_file(path, Code::FileUnwritable, message);
    match closer.close() {
        Ok(0) => Ok(()),
        Ok(missing) => {
            out.note(format!("warning: {missing} lines are missing in the recording"));
            Ok(())
        }
        Err(error) => Err(unwritable(reason(&error))),
    }
}
