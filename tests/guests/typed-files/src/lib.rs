//! Files by plain functions: a path in, a text or an error out.
//!
//! Owns three functions on the standard library's files. Refuses more.
//!
//! **Invariant:** it knows nothing of the host; what it may open was granted.

// It is a guest and nothing else: native linkers refuse the names that a component exports.
#![cfg(target_arch = "wasm32")]

use std::fs;
use std::io;

mod bindings {
    wit_bindgen::generate!({ world: "plain-files", path: "wit", pub_export_macro: true });
}

#[expect(unsafe_code, unreachable_pub, reason = "generated: the exports of a component have C names")]
mod export {
    super::bindings::export!(Files with_types_in super::bindings);
    use super::Files;
}

struct Files;

fn said(error: io::Error) -> String {
    error.to_string()
}

impl bindings::Guest for Files {
    fn read_text(path: String) -> Result<String, String> {
        fs::read_to_string(path).map_err(said)
    }

    fn write_text(path: String, text: String) -> Result<(), String> {
        fs::write(path, text).map_err(said)
    }

    fn list_names(path: String) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(path).map_err(said)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<Result<Vec<_>, _>>().map_err(said)?;
        names.sort();
        Ok(names)
    }
}
