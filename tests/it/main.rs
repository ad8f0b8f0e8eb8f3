//! The one integration binary.

#[cfg(test)] // tells clippy that helpers are test code too
mod sandbox_limits;
