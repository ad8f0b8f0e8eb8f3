//! The laws of the fuzz targets.

pub mod checks;
