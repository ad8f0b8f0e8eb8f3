//! `add` for t2m-host, as an author would write it with the SDK.
//!
//! Owns the two tools that hosts are compared by. Refuses more.
//!
//! **Invariant:** it does what `tests/guests/add-wit` does, so that only the hosts differ.

// It is a guest and nothing else.
#![cfg(target_arch = "wasm32")]

use std::hint::black_box;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use t2m_plugin_sdk::{Plugin, Tools, export};

#[derive(Deserialize, JsonSchema)]
struct Two {
    first: i32,
    second: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
struct Sum {
    result: i32,
}

struct Adder;

impl Plugin for Adder {
    fn tools(tools: &mut Tools) {
        tools.pure("add", "Adds two numbers.", |two: Two| {
            Ok(Sum { result: two.first.wrapping_add(two.second) })
        });
        tools.pure("spin", "Never returns.", |_: Nothing| {
            let mut number = 0_i32;
            while black_box(true) {
                number = black_box(number.wrapping_add(1));
            }
            Ok(Sum { result: number })
        });
    }
}
export!(Adder);
