//! The one integration binary.
//!
//! Owns nothing but the list. Refuses a second binary: each links the engine anew.
//!
//! **Invariant:** every module drives the real program or the real sandbox.

mod cli;
mod dispatch_order;
mod filesystem;
mod mathqa;
mod sandbox_limits;
