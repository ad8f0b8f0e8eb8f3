//! The one integration binary.

mod sandbox_limits;
