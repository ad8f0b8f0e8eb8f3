//! `add` as a plain component, for hosts that make tools of a component's functions.
//!
//! Owns the two functions that hosts are compared by. Refuses more.
//!
//! **Invariant:** it does what `tests/guests/add` does, so that only the hosts differ.

// It is a guest and nothing else: native linkers refuse the names that a component exports.
#![cfg(target_arch = "wasm32")]

use std::hint::black_box;

mod bindings {
    wit_bindgen::generate!({ world: "adder", path: "wit", pub_export_macro: true });
}

#[expect(unsafe_code, unreachable_pub, reason = "generated: the exports of a component have C names")]
mod export {
    super::bindings::export!(Adder with_types_in super::bindings);
    use super::Adder;
}

struct Adder;

impl bindings::Guest for Adder {
    fn add(first: i32, second: i32) -> i32 {
        first.wrapping_add(second)
    }

    fn spin() {
        let mut number = 0_u64;
        loop {
            number = black_box(number.wrapping_add(1));
        }
    }
}
