//! Words that must not stay in the tree: reminders, debugging aids, paths of one machine.
//!
//! It owns the lists and where they count. It refuses to understand what it reads: a word in a string or a
//! comment counts like any other.
//!
//! **Invariant:** the lists are written in pieces, so that this file passes its own rule.

use super::{Fault, Tree};

/// What stays out of sources, and what to do instead.
const REMINDERS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it now or open an issue"),
    (concat!("FIX", "ME"), "do it now or open an issue"),
    (concat!("to", "do!("), "write it"),
    (concat!("unimple", "mented!("), "write it"),
    (concat!("db", "g!("), "remove it"),
    (concat!("#[ig", "nore"), "a test runs or is deleted"),
    (concat!("#[should_", "panic"), "assert the error that comes back"),
];

/// Kinds of files in which reminders are looked for.
const SOURCES: [&str; 6] = [".rs", ".wit", ".toml", ".sh", ".yml", "ci/run"];

/// Folders whose content belongs to one machine, and how many names below one make it a path of that machine.
///
/// Homes of made-up people are not among them; the home and the folder of whoever runs this are.
const MACHINE: &[(&str, usize)] =
    &[(concat!("/ro", "ot"), 0), (concat!("/tm", "p"), 0), (concat!("/wo", "rk"), 2)];

/// Data that was recorded elsewhere and is kept as it was. Our own recordings are not among it.
const RECORDED: &str = "tests/data/";
const OURS: &str = "tests/data/recordings/";

/// Checks every text file. `local` holds folders of the machine this runs on.
pub(crate) fn check(tree: &Tree, local: &[String]) -> Vec<Fault> {
    let folders: Vec<(&str, usize)> =
        MACHINE.iter().copied().chain(local.iter().map(|folder| (folder.as_str(), 0))).collect();
    let mut faults = Vec::new();
    for (path, text) in tree.iter() {
        let recorded = path.starts_with(RECORDED) && !path.starts_with(OURS);
        if recorded {
            continue;
        }
        let source = SOURCES.iter().any(|end| path.ends_with(end));
        for (at, line) in text.lines().enumerate() {
            for (word, advice) in REMINDERS.iter().filter(|(word, _)| source && has_word(line, word)) {
                let message = format!("`{}` must not stay: {advice}", word.trim_end_matches('('));
                faults.push(Fault::new(path, at + 1, "word", message));
            }
            if let Some(found) = machine_path(line, &folders) {
                let message = format!("`{found}` is a path of one machine; write a relative one");
                faults.push(Fault::new(path, at + 1, "machine-path", message));
            }
        }
    }
    faults
}

/// Whether `word` occurs in `line` and isn't part of a longer word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part = |sign: char| sign.is_alphanumeric() || sign == '_';
    let (first, last) = (word.starts_with(part), word.ends_with(part));
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        let goes_on = (first && before.is_some_and(part)) || (last && after.is_some_and(part));
        !goes_on
    })
}

/// The first absolute path of a machine's own folder.
fn machine_path<'a>(line: &str, folders: &[(&'a str, usize)]) -> Option<&'a str> {
    folders.iter().find_map(|(folder, depth)| {
        line.match_indices(folder).find_map(|(at, _)| {
            // A relative path or an address that only contains the folder's name goes on here.
            let inside = |sign: char| sign.is_alphanumeric() || "_-.~})]>*$%/".contains(sign);
            if line.get(..at)?.chars().next_back().is_some_and(inside) {
                return None;
            }
            let rest = line.get(at + folder.len()..)?;
            let part_of_name = |sign: char| sign.is_alphanumeric() || "_-.".contains(sign);
            let end = rest.find(|sign: char| !part_of_name(sign) && sign != '/').unwrap_or(rest.len());
            let mut names = rest.get(..end)?.split('/');
            // What follows at once belongs to the folder's own name.
            let longer = names.next().is_some_and(|name| !name.trim_end_matches('.').is_empty());
            let below = names.filter(|name| !name.is_empty()).count();
            (!longer && below >= *depth).then_some(*folder)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn every_reminder_is_found_in_sources_and_not_in_prose() {
        for (word, _) in REMINDERS {
            let line = format!("x\n  {word}\n");
            assert_eq!(places(&check(&tree(&[("a.rs", &line)]), &[])), ["a.rs:2 word"], "{word}");
            assert_eq!(check(&tree(&[("a.md", &line)]), &[]), [], "{word}");
        }
    }

    #[test]
    fn a_longer_word_is_another_word() {
        let text = format!("{}S {}s my_{}\n", REMINDERS[0].0, "Todo", REMINDERS[2].0);
        assert_eq!(check(&tree(&[("a.rs", &text)]), &[]), []);
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_text_file() {
        let local = ["/srv/ann/t2m".to_owned()];
        let folders = MACHINE.iter().map(|(folder, _)| *folder).chain(["/srv/ann/t2m"]);
        for folder in folders {
            for text in
                [format!("\"{folder}/x/y\""), format!("see {folder}/x/y."), format!("--dir={folder}/x/y")]
            {
                let found = check(&tree(&[("README.md", &text)]), &local);
                assert_eq!(places(&found), ["README.md:1 machine-path"], "{text}");
            }
        }
        let bare = format!("see {}.", MACHINE[0].0);
        assert_eq!(places(&check(&tree(&[("a.rs", &bare)]), &[])), ["a.rs:1 machine-path"]);
    }

    #[test]
    fn paths_that_only_look_like_one_are_left_alone() {
        let folders: Vec<&str> = MACHINE.iter().map(|(folder, _)| *folder).collect();
        let relative =
            folders.iter().map(|folder| format!("a{folder}/b/c {{dir}}{folder}/c/d")).collect::<Vec<_>>();
        let longer = folders.iter().map(|folder| format!("{folder}s/x/y {folder}-x/y/z {folder}.d/x/y"));
        let made_up = format!("/home/ann/notes {}/a.txt", MACHINE[2].0);
        for text in [relative.join(" "), longer.collect::<Vec<_>>().join(" "), made_up] {
            assert_eq!(check(&tree(&[("a.rs", &text)]), &[]), [], "{text}");
        }
    }

    #[test]
    fn recorded_data_stays_as_it_was_except_our_own_recordings() {
        let text = format!("{}/x", MACHINE[0].0);
        assert_eq!(check(&tree(&[("tests/data/traces/a.jsonl", &text)]), &[]), []);
        let ours = check(&tree(&[("tests/data/recordings/a.jsonl", &text)]), &[]);
        assert_eq!(places(&ours), ["tests/data/recordings/a.jsonl:1 machine-path"]);
    }
}
