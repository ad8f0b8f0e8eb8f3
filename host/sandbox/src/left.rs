//! What a call that gave its answer leaves behind.
//!
//! Owns the used instance, with the slots that it holds, until there is time to take it down. Refuses to depend on
//! one caller's runtime for that, which may stand still.
//!
//! **Invariant:** at most one is here, and none while anybody waits for a slot: who finds no free one takes down
//! what is here first, and who leaves something here with no slot free takes it down again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
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
pub(crate) struct Leftover(Mutex<Place>);

#[derive(Default)]
struct Place {
    left: Option<Left>,
    /// The runtime that has been asked to come for it.
    asked: Option<Id>,
}

impl Leftover {
    /// Leaves something here, if this runtime can be asked to come for it: one that hasn't come since it was last
    /// asked is busy, and so is its caller, who gets the thing back.
    pub(crate) fn put(&self, left: Left) -> Result<(), Left> {
        let mut place = self.place();
        let runtime = Handle::current().id();
        if place.asked == Some(runtime) {
            return Err(left);
        }
        place.asked = Some(runtime);
        let before = place.left.replace(left);
        // Not under the lock.
        drop(place);
        drop(before);
        Ok(())
    }

    /// Comes for what was left, as asked.
    pub(crate) fn come(&self) {
        self.place().asked = None;
        self.take_down();
    }

    /// Takes down what is here.
    pub(crate) fn take_down(&self) {
        let left = self.place().left.take();
        drop(left);
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
