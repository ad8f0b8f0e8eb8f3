//! The core reaches the world through ports only.
//!
//! It owns the list of standard modules that `t2m-core` must not name. It refuses to look at tests, which
//! may do what they like.
//!
//! **Invariant:** what follows `#[cfg(test)]` in a file is test code; our files end with their tests.

use super::words::has_word;
use super::{Fault, Tree};

const FOLDER: &str = "host/core/src/";

/// What the core must not name, and the port that stands for it.
const WORLD: &[(&str, &str)] = &[
    ("std::fs", "files belong to the caller"),
    ("std::net", "the network belongs to the caller"),
    ("std::process", "processes belong to the caller"),
    ("std::env", "the environment belongs to the caller"),
    ("std::thread", "threads belong to the caller"),
    ("SystemTime", "time comes from the `Clock` port"),
    ("Instant", "time comes from the `Clock` port"),
];

/// Checks the sources of the core.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(FOLDER)) {
        let code = text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        for (at, line) in code.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for (name, reason) in WORLD.iter().filter(|(name, _)| has_word(line, name)) {
                let message = format!("the core must not use `{name}`: {reason}");
                faults.push(Fault::new(path, at + 1, "purity", message));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn the_core_names_no_file_clock_or_process_outside_its_tests() {
        let text = "//! std::fs is not ours\nuse std::fs::File;\nlet now = Instant::now();\nInstantly;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let found = check(&tree(&[("host/core/src/a.rs", text), ("host/cli/src/a.rs", text)]));
        assert_eq!(places(&found), ["host/core/src/a.rs:2 purity", "host/core/src/a.rs:3 purity"]);
    }
}
