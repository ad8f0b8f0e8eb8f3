//! Approvals that were given before the run, on the command line or in a file.
//!
//! Owns the gate over an [`ApprovalBook`]. Refuses to ask anybody.
//!
//! **Invariant:** taking is atomic: two calls of one process never share a single use.

use std::sync::{Arc, Mutex, PoisonError};

use t2m_core::approval::{Approval, ApprovalBook, ApprovalRequest, Unapproved};
use t2m_core::digest::Digest;
use t2m_core::dispatch::{ApprovalGate, BoxFuture, Clock};
use t2m_core::id::RunId;

/// A gate that knows the approvals it was made with, and no others.
pub struct GivenApprovals {
    book: Mutex<ApprovalBook>,
    clock: Arc<dyn Clock>,
}

impl GivenApprovals {
    /// A gate over these approvals.
    pub fn new(approvals: impl IntoIterator<Item = Approval>, clock: Arc<dyn Clock>) -> GivenApprovals {
        GivenApprovals { book: Mutex::new(ApprovalBook::new(approvals)), clock }
    }

    /// Knows these from now on; reading a file again gives no use back.
    pub fn replace(&self, approvals: impl IntoIterator<Item = Approval>) {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).replace(approvals);
    }
}

impl ApprovalGate for GivenApprovals {
    fn take<'a>(
        &'a self,
        requests: &'a [ApprovalRequest],
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Digest, Unapproved>> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = book.take(requests, run, self.clock.now_ms());
        Box::pin(std::future::ready(answer))
    }

    fn check(&self, requests: &[ApprovalRequest]) -> Result<(), Unapproved> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.check(requests, self.clock.now_ms())
    }
}
