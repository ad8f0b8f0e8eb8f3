//! What a call that gave its answer leaves behind.
//!
//! Owns the used instance, with the slots that it holds, until there is time to take it down. Refuses to depend on
//! one caller's runtime for that, which may stand still.
//!
//! **Invariant:** at most one is here, and none while anybody waits for a slot: who finds no free one takes down
//! what is here first, and who leaves something here with no slot free takes it down again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use crate::ahead::Ready;

/// A used instance and its slots, which are free once it is gone.
pub(crate) struct Left {
    _instance: Ready,
    _slots: [OwnedSemaphorePermit; 2],
}

impl Left {
    pub(crate) fn new(instance: Ready, slots: [OwnedSemaphorePermit; 2]) -> Left {
        Left { _instance: instance, _slots: slots }
    }
}

/// The place for it.
#[derive(Default)]
pub(crate) struct Leftover(Mutex<Option<Left>>);

impl Leftover {
    /// Leaves something here if the place is free, and takes it down otherwise.
    pub(crate) fn put(&self, left: Left) {
        let mut place = self.place();
        if place.is_none() {
            *place = Some(left);
        } else {
            drop(place);
            drop(left);
        }
    }

    /// Takes down what is here.
    pub(crate) fn take_down(&self) {
        // The lock is free by the time it is dropped.
        let left = self.place().take();
        drop(left);
    }

    fn place(&self) -> MutexGuard<'_, Option<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static ASKED: Arc<AtomicBool> = Arc::default();
}

/// A thread has been asked to come back when it has time, until this is dropped. Only one at once does so: a thread
/// that hasn't come yet is busy.
pub(crate) struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Asks this thread, unless it is busy.
    pub(crate) fn this_thread() -> Option<Asked> {
        let asked = ASKED.with(Arc::clone);
        (!asked.swap(true, Ordering::Relaxed)).then_some(Asked(asked))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
