//! A plain component: functions over every type that WIT has, and no interface of the host's.
//!
//! Owns functions that return what they were given, and some that fail. Refuses more.
//!
//! **Invariant:** what comes back is what was handed over, so that whatever differs is the host's doing.

// It is a guest and nothing else: native linkers refuse the names that a component exports.
#![cfg(target_arch = "wasm32")]

use std::cell::Cell;
use std::hint::black_box;

mod bindings {
    wit_bindgen::generate!({ world: "shapes", path: "wit", pub_export_macro: true });
}

#[expect(unsafe_code, unreachable_pub, reason = "generated: the exports of a component have C names")]
mod export {
    super::bindings::export!(Shapes with_types_in super::bindings);
    use super::Shapes;
}

use bindings::Both;
use bindings::exports::t2m::shapes::echo::{self, Counter, Everything, GuestCounter};
use bindings::exports::t2m::shapes::trouble::{self, Reason};

struct Shapes;

impl bindings::Guest for Shapes {
    fn add(first: i32, second: i32) -> i32 {
        first.wrapping_add(second)
    }

    fn add_both(both: Both) -> i32 {
        both.first.wrapping_add(both.second)
    }

    fn now() {}
}

struct Count(Cell<u32>);

impl GuestCounter for Count {
    fn new() -> Count {
        Count(Cell::new(0))
    }

    fn next(&self) -> u32 {
        self.0.set(self.0.get().wrapping_add(1));
        self.0.get()
    }
}

impl echo::Guest for Shapes {
    type Counter = Count;

    fn all(value: Everything) -> Everything {
        value
    }

    fn small(a: u8, b: i8, c: u16, d: i16, e: u32, f: i32) -> (u8, i8, u16, i16, u32, i32) {
        (a, b, c, d, e, f)
    }

    fn large(unsigned: u64, signed: i64) -> (u64, i64) {
        (unsigned, signed)
    }

    fn floats(single: f32, double: f64) -> (f32, f64) {
        (single, double)
    }

    fn text(value: String) -> String {
        value
    }

    fn shout(value: String, times: Option<u8>) -> String {
        value.to_uppercase().repeat(times.unwrap_or(1).into())
    }

    fn open() -> Counter {
        Counter::new(Count::new())
    }
}

impl trouble::Guest for Shapes {
    fn fail(why: Option<Reason>) -> Result<u32, Reason> {
        why.map_or(Ok(7), Err)
    }

    fn divide(first: i32, second: i32) -> Result<i32, String> {
        first.checked_div(second).ok_or_else(|| format!("{first} can't be divided by {second}"))
    }

    fn check(truth: bool) -> Result<(), ()> {
        if truth { Ok(()) } else { Err(()) }
    }

    fn text() -> String {
        "trouble".to_owned()
    }

    #[expect(clippy::panic, reason = "that is what it is for")]
    fn panic(message: String) {
        panic!("{message}");
    }

    fn spin() {
        let mut number = 0_u64;
        loop {
            number = black_box(number.wrapping_add(1));
        }
    }

    fn flood(count: u32) -> Vec<u8> {
        vec![b'x'; usize::try_from(count).unwrap_or_default()]
    }
}
