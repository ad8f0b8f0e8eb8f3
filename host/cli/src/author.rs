//! What the commands for plugin authors share.
//!
//! Owns projects, builds, checks and test cases of plugins. Refuses decisions about calls: those are the
//! dispatcher's, here as everywhere.
//!
//! **Invariant:** a plugin's own build command is started by [`build`] alone.

pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod case;
pub(crate) mod findings;
pub(crate) mod fixture;
pub(crate) mod sources;
pub(crate) mod template;
pub(crate) mod trial;
