//! Rules for Rust files: not too long, and each says what it is.
//!
//! It owns the limit and its exceptions. It refuses to parse Rust; rustc and clippy do that.
//!
//! **Invariant:** every `.rs` file of the tree is looked at, generated ones too.

use super::{Fault, Tree};

/// A file beyond this is two ideas, or a table, which is then listed below.
const MAX_LINES: usize = 800;

/// Files that may be longer: path and reason. Only tables belong here.
const LONG: &[(&str, &str)] = &[];

/// Checks every Rust file.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines = text.lines().count();
        if lines > MAX_LINES && !LONG.iter().any(|(long, _)| *long == path) {
            let message = format!("{lines} lines, at most {MAX_LINES}; split it by idea");
            faults.push(Fault::new(path, MAX_LINES + 1, "size", message));
        }
        if !text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!")) {
            let message = "must start with `//!`: what it owns, what it refuses, its invariant";
            faults.push(Fault::new(path, 1, "module-doc", message));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn a_file_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
        let at_limit = format!("//! x\n{}", "\n".repeat(MAX_LINES - 1));
        assert_eq!(check(&tree(&[("a.rs", &at_limit)])), []);
        let over = format!("{at_limit}\n");
        assert_eq!(places(&check(&tree(&[("a.rs", &over)]))), ["a.rs:801 size"]);
    }

    #[test]
    fn a_module_says_what_it_is_before_anything_else() {
        assert_eq!(check(&tree(&[("a.rs", "\n//! Says it.\nfn f() {}\n")])), []);
        for text in ["", "fn f() {}\n", "/// Not a module doc.\nfn f() {}\n", "use x;\n//! Late.\n"] {
            assert_eq!(places(&check(&tree(&[("a.rs", text)]))), ["a.rs:1 module-doc"], "`{text}`");
        }
    }
}
