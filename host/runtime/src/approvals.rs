//! Approvals that were given before the run, on the command line or in a file.
//!
//! Owns the gate over an [`ApprovalBook`]. Refuses to ask anybody.
//!
//! **Invariant:** taking is atomic: two calls of one process never share a single use.

use std::sync::{Arc, Mutex, PoisonError};

use t2m_core::approval::{Approval, ApprovalBook, ApprovalRequest, Unapproved};
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
}

impl ApprovalGate for GivenApprovals {
    fn take<'a>(
        &'a self,
        request: &'a ApprovalRequest,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<(), Unapproved>> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = book.take(request, run, self.clock.now_ms());
        Box::pin(std::future::ready(answer))
    }

    fn could_take(&self, request: &ApprovalRequest) -> bool {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.covers(request, self.clock.now_ms())
    }
}
