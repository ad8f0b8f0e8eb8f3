//! What the fuzz targets found, once more.
//!
//! Owns the replay of `tests/fuzz/corpus`: each file through the check of its target. Refuses to fuzz; CONTRIBUTING
//! says how that is done.
//!
//! **Invariant:** a file in a target's folder breaks none of its laws.

use std::path::Path;

#[expect(
    clippy::panic,
    unreachable_pub,
    reason = "the fuzz targets use it as a library, and a broken law panics"
)]
#[path = "../../../tests/fuzz/src/checks.rs"]
mod checks;

/// T03: no input of the corpus makes a reader panic, lose a call or contradict itself.
#[test]
fn the_corpus_breaks_no_law() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus"));
    for target in ["import", "workflow", "redact", "compile"] {
        let check = checks::by_name(target).unwrap();
        let files: Vec<_> =
            std::fs::read_dir(folder.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 10, "the corpus of `{target}` has gone");
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            if std::panic::catch_unwind(|| check(&bytes)).is_err() {
                panic!("{} breaks a law of `{target}`", file.display());
            }
        }
    }
}
