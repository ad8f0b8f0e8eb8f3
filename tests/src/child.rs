//! A child process whose output is read while it runs, with a time limit for everything.
//!
//! It owns pipes, reader threads and the end of the child. It refuses to interpret what is read.
//!
//! **Invariant:** dropping it kills the child and waits for it; no function here blocks longer than the limit
//! it was given.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, Outcome};

/// How often a child without an event to wait for is asked whether it has ended.
const POLL: Duration = Duration::from_millis(5);

/// A running program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Takes over from `stdin` once [`Running::write_in_background`] was called.
    queue: Option<Sender<Vec<u8>>>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    errors: String,
}

impl Running {
    /// Starts a program with pipes on all three streams.
    pub(crate) fn start(command: &mut Command) -> Outcome<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|why| Failure::at(format_args!("can't start `{name}`"), why))?;
        let stdin = child.stdin.take();
        let stdout = read_lines(child.stdout.take());
        let stderr = read_lines(child.stderr.take());
        Ok(Self { child, stdin, queue: None, stdout, stderr, errors: String::new() })
    }

    /// Writes to the child and flushes.
    pub fn write(&mut self, text: &str) -> Outcome<()> {
        let stdin = self.stdin.as_mut().ok_or_else(|| Failure::new("standard input is closed"))?;
        stdin.write_all(text.as_bytes())?;
        Ok(stdin.flush()?)
    }

    /// Writes from a thread, so that a child that doesn't read can't block the test, then closes the pipe.
    pub fn feed(&mut self, bytes: Vec<u8>) {
        if let Some(mut stdin) = self.stdin.take() {
            // A child that ends without reading all of it is no fault of the test.
            thread::spawn(move || stdin.write_all(&bytes).is_ok());
        }
    }

    /// From now on [`Running::queue`] writes, from a thread that ends with the child or with this value.
    pub(crate) fn write_in_background(&mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let (sender, receiver) = channel::<Vec<u8>>();
            thread::spawn(move || {
                // A child that has closed its input reads nothing more; what it did is seen in its output.
                receiver.iter().all(|bytes| stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_ok())
            });
            self.queue = Some(sender);
        }
    }

    /// Has bytes written after those queued before; never blocks.
    pub(crate) fn queue(&mut self, bytes: Vec<u8>) -> Outcome<()> {
        let queue = self.queue.as_ref().ok_or_else(|| Failure::new("standard input is closed"))?;
        // The writer ends when the child has closed its input, which a test may provoke.
        let _ = queue.send(bytes);
        Ok(())
    }

    /// Stops reading standard output: the reader closes the pipe when the next line comes.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = channel().1;
    }

    /// The next line of standard output with its line end; `None` when the child has closed it.
    pub fn line(&mut self, until: Instant) -> Outcome<Option<String>> {
        match self.stdout.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Failure::new("no line in time")),
        }
    }

    /// Everything that is left on standard output.
    pub fn rest(&mut self, until: Instant) -> Outcome<String> {
        let mut text = String::new();
        while let Some(line) = self.line(until)? {
            text.push_str(&line);
        }
        Ok(text)
    }

    /// Standard error so far; waits for its end until `until`.
    pub fn errors(&mut self, until: Instant) -> &str {
        while let Ok(line) = self.stderr.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.errors.push_str(&line);
        }
        &self.errors
    }

    /// Waits for the end of the child; `None` if it is still running at `until`.
    pub fn wait(&mut self, until: Instant) -> Outcome<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(left.min(POLL));
        }
    }

    /// Closes standard input, after what was queued, which asks a server to end.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
        self.queue = None;
    }

    /// Kills the child and waits for it.
    pub fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_lines(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stream) = stream {
        thread::spawn(move || send_lines(stream, &sender));
    }
    receiver
}

fn send_lines(stream: impl Read, sender: &Sender<String>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut bytes = Vec::new();
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                    return;
                }
            }
        }
    }
}
