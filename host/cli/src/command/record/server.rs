//! The recorded server's process.
//!
//! Owns its start in a process group of its own, the signals that are passed on to the group, and the end.
//! Refuses to end a server that still has a client, unless a signal asks for it.
//!
//! **Invariant:** once the client is gone, or a signal asked for the end, waiting is bounded.

use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Time between asking a server to end and ending it. Clients of the official SDKs give two seconds.
const ASKED: Duration = Duration::from_secs(2);

/// How long what a server said last may be on its way, once it has ended. A child of the server may hold its
/// output open for good.
const DRAIN: Duration = Duration::from_secs(2);

/// What the session's threads tell.
#[derive(Debug)]
pub(super) enum Event {
    /// Bytes went by.
    Passed,
    /// The client closed its side, or the server stopped reading.
    InputEnded,
    /// The server closed its output, or the client stopped reading.
    OutputEnded,
    /// Somebody wants this program, and so the server, to end or to hear something.
    Signal(Signal),
    /// The process is gone.
    Ended(Result<ExitStatus>),
}

/// A signal that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGHUP: many servers read their files again.
    Hangup,
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: ExitStatus,
    /// What a person should know of it.
    pub(super) why: Option<&'static str>,
}

/// A server that runs.
pub(super) struct Server {
    group: u32,
}

impl Server {
    /// Starts it. Its end and the signals that come are told to `events`.
    pub(super) fn start(
        program: &OsStr,
        args: &[OsString],
        events: &Sender<Event>,
    ) -> Result<(Server, ChildStdin, ChildStdout)> {
        // First of all: until then a signal would end this program alone.
        listen(events.clone())?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let server = Server { group: child.id() };
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err(std::io::Error::other("its streams aren't there"));
        };
        let events = events.clone();
        std::thread::spawn(move || wait(child, &events));
        Ok((server, input, output))
    }

    /// Waits for the end, and sees to it.
    pub(super) fn attend(&mut self, events: &Receiver<Event>, grace: Duration) -> Result<End> {
        let mut wait = Wait::default();
        let mut why = None;
        let (mut ended, mut output_ended) = (None, false);
        loop {
            let event = match wait.until {
                Some(until) => events.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Passed) => wait.again(),
                Ok(Event::InputEnded) if ended.is_none() && !wait.asked => wait.start(grace),
                Ok(Event::InputEnded) => {}
                Ok(Event::OutputEnded) => {
                    output_ended = true;
                    if ended.is_none() && !wait.asked && wait.until.is_none() {
                        wait.start(grace);
                    }
                }
                Ok(Event::Signal(signal)) => {
                    self.signal(signal);
                    match ended {
                        None if signal == Signal::Terminate => wait.ask(),
                        None => {}
                        Some(_) => output_ended = true,
                    }
                }
                Ok(Event::Ended(status)) => {
                    ended = Some(status?);
                    // Something it left behind may go on writing for ever.
                    wait = Wait { asked: true, ..Wait::default() };
                    wait.start(DRAIN);
                }
                Err(RecvTimeoutError::Timeout) if ended.is_none() => {
                    if wait.asked {
                        self.signal(Signal::Kill);
                        wait.killed();
                    } else {
                        why = Some("went on after its client had gone, and was ended");
                        self.signal(Signal::Terminate);
                        wait.ask();
                    }
                }
                Err(_) => output_ended = true,
            }
            if let Some(status) = ended.filter(|_| output_ended) {
                return Ok(End { status, why });
            }
        }
    }

    fn signal(&self, signal: Signal) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal as Unix, kill_process_group};
            let signal = match signal {
                Signal::Hangup => Unix::HUP,
                Signal::Interrupt => Unix::INT,
                Signal::Terminate => Unix::TERM,
                Signal::Kill => Unix::KILL,
            };
            if let Some(group) = i32::try_from(self.group).ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
                let _ = kill_process_group(group, signal);
            }
        }
        #[cfg(not(unix))]
        let _ = (self.group, signal);
    }
}

/// Until when to wait, if there is an end to it.
#[derive(Default)]
struct Wait {
    until: Option<Instant>,
    time: Duration,
    /// The server was asked to end.
    asked: bool,
}

impl Wait {
    fn start(&mut self, time: Duration) {
        (self.time, self.until) = (time, Some(Instant::now() + time));
    }

    /// A server that still says something isn't stuck; one that was asked to end has its time and no more.
    fn again(&mut self) {
        if self.until.is_some() && !self.asked {
            self.start(self.time);
        }
    }

    fn ask(&mut self) {
        self.asked = true;
        self.start(ASKED);
    }

    fn killed(&mut self) {
        self.until = None;
    }
}

fn wait(mut child: Child, events: &Sender<Event>) {
    let _ = events.send(Event::Ended(child.wait()));
}

#[cfg(unix)]
fn listen(events: Sender<Event>) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let signal = tokio::select! {
                    Some(()) = hangup.recv() => Signal::Hangup,
                    Some(()) = interrupt.recv() => Signal::Interrupt,
                    Some(()) = terminate.recv() => Signal::Terminate,
                    else => return,
                };
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        });
    });
    Ok(())
}

#[cfg(not(unix))]
fn listen(_: Sender<Event>) -> Result<()> {
    Ok(())
}
