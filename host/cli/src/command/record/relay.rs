//! One direction of a recorded session.
//!
//! Owns the copy. Refuses to keep anything back.
//!
//! **Invariant:** what was read is passed on at once, byte for byte.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::Sender;

use super::server::Event;
use crate::tape::Splitter;

/// Copies until one side ends.
pub(super) fn relay(mut from: impl Read, mut to: impl Write, mut splitter: Splitter, events: &Sender<Event>) {
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
        // Whoever waits for the end starts to wait anew.
        let _ = events.send(Event::Passed);
    }
}
