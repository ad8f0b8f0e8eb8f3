//! When to read everything again.
//!
//! Owns the two reasons: SIGHUP, as service managers send it, and a changed file. Refuses to read anything.
//!
//! **Invariant:** a file that is being written is told once it has stood still for one look.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use t2m_core::code::Code;

use crate::failure::{Failure, Result};

/// Time between two looks at the files. A person who saves one notices no delay, and two dozen `stat` calls a
/// second cost nothing.
const LOOK: Duration = Duration::from_millis(500);

/// The reasons to reload, as they come.
pub(super) struct Reloads {
    #[cfg(unix)]
    hangups: tokio::signal::unix::Signal,
    watched: Option<Watched>,
}

struct Watched {
    files: Vec<PathBuf>,
    /// What was there when they were read.
    read: Vec<Seen>,
}

/// Length and time of a file, if it is there.
type Seen = Option<(u64, Option<SystemTime>)>;

impl Reloads {
    /// Waits for signals, and for changes of `files` if there are any to watch.
    pub(super) fn new(files: Option<Vec<PathBuf>>) -> Result<Reloads> {
        let watched = files.map(|files| Watched { read: look(&files), files });
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let hangups = signal(SignalKind::hangup())
                .map_err(|error| Failure::new(Code::Internal, format!("no signal handler: {error}")))?;
            Ok(Reloads { hangups, watched })
        }
        #[cfg(not(unix))]
        Ok(Reloads { watched })
    }

    /// Watches these files from now on, if any are watched at all.
    pub(super) fn look_at(&mut self, files: impl FnOnce() -> Vec<PathBuf>) {
        if let Some(watched) = &mut self.watched {
            let files = files();
            if files != watched.files {
                *watched = Watched { read: look(&files), files };
            }
        }
    }

    /// Waits for the next reason.
    pub(super) async fn next(&mut self) {
        let changed = async {
            match &mut self.watched {
                Some(watched) => watched.changed().await,
                None => std::future::pending().await,
            }
        };
        #[cfg(unix)]
        tokio::select! {
            // Without a further signal only a change is a reason.
            Some(()) = self.hangups.recv() => {}
            () = changed => {}
        }
        #[cfg(not(unix))]
        changed.await;
    }
}

impl Watched {
    async fn changed(&mut self) {
        let mut before = look(&self.files);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = look(&self.files);
            if now == before && now != self.read {
                self.read = now;
                return;
            }
            before = now;
        }
    }
}

fn look(files: &[PathBuf]) -> Vec<Seen> {
    let seen =
        |file: &PathBuf| std::fs::metadata(file).ok().map(|about| (about.len(), about.modified().ok()));
    files.iter().map(seen).collect()
}
