//! `t2m-host record`: stands between an MCP client and an MCP server, and records.
//!
//! Owns the server's process and the relay of both directions, byte for byte. Refuses to understand what it
//! relays: `import` does that later. Its threads only copy, so the relay never waits for the file.
//!
//! **Invariant:** a line is queued for the file before it is passed on, so no answer stands before its call; and
//! however the session ends, the file is ended after it.

mod relay;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use t2m_core::code::Code;

use self::relay::relay;
use self::server::Server;
use crate::failure::{Failure, Result};
use crate::files::reason;
use crate::out::Out;
use crate::tape::{self, Closer, Sender, Tape};

/// Record a session between an MCP client and an MCP server.
///
/// Put it in front of the server's command in the client's configuration. The file is written while the
/// session runs and holds what was said, secrets too; only you can read it. `import` and `compile` read it.
/// Signals are passed on to the server. Ends when the server ends, with its exit status, or with 128 and the
/// number of the signal that ended it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host record --out session.jsonl -- t2m-host serve --tool files --dir $PWD
  t2m-host import session.jsonl --out trace.json")]
pub(crate) struct Record {
    /// The recording, JSON lines; an existing file is refused
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How long the server may say nothing once the client has closed its side; then it is ended. Common clients
    /// wait a minute for an answer, so nobody waits for a later one
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    grace: u64,
    /// The server's command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    server: Vec<OsString>,
}

impl Record {
    pub(crate) fn run(self, out: &mut Out) -> Result<ExitCode> {
        let failed = |message: String| Failure::new(Code::ServerFailed, message);
        let file = tape::create(&self.out)?;
        let (program, args) = self.server.split_first().ok_or_else(|| failed("no server named".into()))?;
        let shown = program.to_string_lossy();
        let (events, told) = channel();
        let started = Server::start(program, args, &events);
        let (mut server, input, output) = started.map_err(|error| {
            // Nothing was recorded: the name is free for the next try.
            let _ = std::fs::remove_file(&self.out);
            failed(format!("the server `{shown}` can't be started: {}", reason(&error)))
        })?;
        let (tape, closer) = Tape::start(file);
        let (to_server, to_client) = (tape.clone().splitter(Sender::Client), tape.splitter(Sender::Server));
        // Neither is awaited: a client may keep its end open after the server has gone, and so may a child of
        // the server.
        let ended = events.clone();
        std::thread::spawn(move || {
            relay(std::io::stdin(), input, to_server, &ended);
            let _ = ended.send(server::Event::InputEnded);
        });
        std::thread::spawn(move || {
            relay(output, std::io::stdout(), to_client, &events);
            let _ = events.send(server::Event::OutputEnded);
        });
        let ended = server.attend(&told, Duration::from_secs(self.grace));
        close(closer, &self.out, out)?;
        let ended = ended.map_err(|error| failed(reason(&error)))?;
        if let Some(why) = ended.why {
            out.note(format!("warning: the server `{shown}` {why}"));
        }
        if !ended.status.success() {
            out.error(format!("the server `{shown}` ended: {}", ended.status));
        }
        Ok(exit_code(ended.status))
    }
}

/// A shell's rule: the status itself, or 128 and the signal's number.
fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let number = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number & 0xff).unwrap_or(1))
}

/// Ends the file, and says what it doesn't hold.
fn close(closer: Closer, path: &Path, out: &mut Out) -> Result<()> {
    let summary =
        closer.close().map_err(|error| Failure::of_file(path, Code::FileUnwritable, reason(&error)))?;
    summary.warnings().iter().for_each(|warning| out.note(format!("warning: {warning}")));
    Ok(())
}
