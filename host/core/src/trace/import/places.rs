//! Places inside an entry.
//!
//! Owns the way from an entry's place to that of a part of it. Refuses to know formats.
//!
//! **Invariant:** a part's place begins with its entry's.

use crate::problem::Place;

/// The place of the part at a JSON Pointer from there.
pub(super) fn at(place: &Place, pointer: &str) -> Place {
    match place {
        Place::Whole => Place::Pointer(pointer.to_owned()),
        Place::Pointer(before) => Place::Pointer(format!("{before}{pointer}")),
        Place::Line(line) | Place::LineColumn(line, _) => Place::LinePointer(*line, pointer.to_owned()),
        Place::LinePointer(line, before) => Place::LinePointer(*line, format!("{before}{pointer}")),
    }
}
