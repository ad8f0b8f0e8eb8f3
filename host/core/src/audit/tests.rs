//! What the log promises, and what it finds.
//!
//! Owns the laws of the chain: no change passes. Refuses files: logs are lines in memory.
//!
//! **Invariant:** a change that a test makes is always a change.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::code::Code;
use crate::digest::Digest;
use crate::id::RunId;

/// A log as files of lines, each with its break.
type Log = Vec<Vec<Vec<u8>>>;

fn opened(torn: Option<Torn>) -> Entry {
    Entry::LogOpened { format: AUDIT_FORMAT, program: "test".into(), torn }
}

fn entry(number: u64) -> Entry {
    let run = RunId::new(format!("run \"{number}\" \u{e4}")).unwrap();
    let digest = Digest::of_bytes(&number.to_le_bytes());
    match number % 2 {
        0 => Entry::RunStarted { run, workflow: digest, inputs: digest, nodes: 2 },
        _ => Entry::RunFinished { run, code: Some(Code::PolicyDenied), output: None },
    }
}

/// Files with so many records each, the first of which is `log-opened`.
fn log(sizes: &[usize]) -> (Log, Link) {
    let (mut last, mut number, mut files) = (None, 0, Vec::new());
    for size in sizes {
        let mut file = Vec::new();
        for index in 0..*size {
            let mut line = String::new();
            number += 1;
            let record = if index == 0 { opened(None) } else { entry(number) };
            last = Some(encode(last, 1_000 + number, &record, &mut line));
            file.push(line.into_bytes());
        }
        files.push(file);
    }
    (files, last.unwrap())
}

fn verify(files: &[Vec<u8>], expect: Expect) -> Report {
    let mut verifier = Verifier::new(expect);
    for (index, bytes) in files.iter().enumerate() {
        verifier.file(&format!("{index}"), &mut bytes.as_slice(), &mut |_, _| {}).unwrap();
    }
    verifier.finish()
}

fn bytes(log: &Log) -> Vec<Vec<u8>> {
    log.iter().map(|file| file.concat()).collect()
}

fn head(link: Link) -> Expect {
    Expect { head: Some(link), ..Expect::default() }
}

fn codes(report: &Report) -> Vec<(Code, &str, u64)> {
    report.faults.iter().map(|fault| (fault.code, fault.file.as_str(), fault.line)).collect()
}

/// T27: a line holds what `sed` and `sha256sum` would check.
#[test]
fn a_line_is_its_record_and_the_hash_of_the_bytes_before_it() {
    let mut line = String::new();
    let link = encode(None, 7, &entry(1), &mut line);
    let (body, hash) = line.trim_end().split_once(",\"hash\":").unwrap();
    assert_eq!(hash, format!("\"{}\"}}", Digest::of_bytes(body.as_bytes())));
    let read = Line::read(line.trim_end().as_bytes()).unwrap();
    assert_eq!((read.link, read.prev, read.at_ms, read.kind()), (link, None, 7, "run-finished"));
    assert_eq!(read.members["code"], Value::from("policy-denied"));
}

/// T27, F65: an untouched log has no fault, over files and with records behind its head.
#[test]
fn an_untouched_log_verifies() {
    let (log, last) = log(&[3, 1, 4]);
    let report = verify(&bytes(&log), head(last));
    assert_eq!((report.records, report.last, codes(&report)), (8, Some(last), vec![]));
    let earlier = Line::read(log[0][2].trim_ascii_end()).unwrap().link;
    let known = Some(earlier.hash);
    assert!(verify(&bytes(&log), Expect { head: Some(earlier), known, before: None }).faults.is_empty());
    // Older files that were put away are vouched for by the hash of their last record.
    let rest = bytes(&log[1..].to_vec());
    assert_eq!(codes(&verify(&rest, head(last))), [(Code::AuditMissing, "0", 1)]);
    assert!(verify(&rest, Expect { before: known, ..head(last) }).faults.is_empty());
    assert_eq!(codes(&verify(&rest, Expect { before: Some(last.hash), ..head(last) })).len(), 1);
}

/// T27: each kind of change has its code and its line.
#[test]
fn faults_have_their_code_and_line() {
    type Change = fn(&mut Log);
    type Found = (Code, &'static str, u64);
    let table: &[(&str, Change, &[Found])] = &[
        ("changed", |log| log[0][1][20] ^= 1, &[(Code::AuditChanged, "0", 2)]),
        (
            "changed first",
            |log| log[0][0][20] ^= 1,
            &[(Code::AuditMissing, "0", 2), (Code::AuditChanged, "0", 1)],
        ),
        ("removed", |log| drop(log[0].remove(1)), &[(Code::AuditMissing, "0", 2)]),
        (
            "removed first of a file",
            |log| drop(log[1].remove(0)),
            &[(Code::AuditMissing, "1", 1), (Code::AuditMissing, "1", 1)],
        ),
        ("file removed", |log| drop(log.remove(1)), &[(Code::AuditMissing, "1", 1)]),
        ("swapped", |log| log[0].swap(1, 2), &[(Code::AuditOrder, "0", 3)]),
        ("far swapped", |log| log[2].swap(1, 3), &[(Code::AuditOrder, "2", 3), (Code::AuditOrder, "2", 4)]),
        (
            "files swapped",
            |log| log.swap(0, 1),
            &[(Code::AuditOrder, "1", 1), (Code::AuditOrder, "1", 2), (Code::AuditOrder, "1", 3)],
        ),
        ("inserted text", |log| log[0].insert(1, b"{}\n".to_vec()), &[(Code::AuditInserted, "0", 2)]),
        ("inserted blank", |log| log[0].insert(1, b"\n".to_vec()), &[(Code::AuditInserted, "0", 2)]),
        (
            "repeated",
            |log| {
                let line = log[0][1].clone();
                log[0].insert(2, line)
            },
            &[(Code::AuditInserted, "0", 3)],
        ),
        (
            "too long",
            |log| log[0].insert(1, [vec![b'x'; 40_000], vec![b'\n']].concat()),
            &[(Code::AuditInserted, "0", 2)],
        ),
        (
            "cut in a line",
            |log| log[2][3].truncate(9),
            &[(Code::AuditTorn, "2", 4), (Code::AuditMissing, "2", 4)],
        ),
        (
            "cut before the break",
            |log| assert!(log[2][3].pop().is_some()),
            &[(Code::AuditTorn, "2", 4), (Code::AuditMissing, "2", 4)],
        ),
        ("cut at a record", |log| drop(log[2].pop()), &[(Code::AuditMissing, "2", 3)]),
        ("emptied file", |log| log[2].clear(), &[(Code::AuditMissing, "2", 0), (Code::AuditMissing, "2", 0)]),
    ];
    let mut wrong = Vec::new();
    for (name, change, expected) in table {
        let (mut log, last) = log(&[3, 3, 4]);
        change(&mut log);
        let report = verify(&bytes(&log), head(last));
        let mut found = codes(&report);
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!("{name}: {:#?}", report.faults));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// T27: a record made anew with its own hash doesn't fit what follows it.
#[test]
fn a_record_with_a_new_hash_breaks_the_chain() {
    let (mut log, last) = log(&[4]);
    let before = Line::read(log[0][0].trim_ascii_end()).unwrap().link;
    let mut line = String::new();
    encode(Some(before), 9, &entry(9), &mut line);
    log[0][1] = line.into_bytes();
    assert_eq!(codes(&verify(&bytes(&log), head(last))), [(Code::AuditChanged, "0", 3)]);
    // The last record has nobody behind it but the head.
    let (mut log, last) = self::log(&[2]);
    let mut line = String::new();
    encode(Some(before), 9, &entry(9), &mut line);
    log[0][1] = line.into_bytes();
    assert_eq!(codes(&verify(&bytes(&log), head(last))), [(Code::AuditChanged, "0", 2)]);
}

/// T27: another version of the format is refused by name.
#[test]
fn another_format_is_refused() {
    let mut line = String::new();
    encode(None, 1, &Entry::LogOpened { format: "t2m/audit@2", program: "p".into(), torn: None }, &mut line);
    assert_eq!(codes(&verify(&[line.into_bytes()], Expect::default())), [(Code::VersionUnsupported, "0", 1)]);
}

/// What a writer that was killed leaves, noted by the next one, which goes on behind it.
fn torn_log(torn: &[u8]) -> (Vec<u8>, Link) {
    let (log, last) = log(&[2]);
    let mut file = [log[0].concat(), torn.to_vec()].concat();
    let noted = torn.strip_suffix(b"\n").unwrap_or(torn);
    if noted.len() == torn.len() {
        file.push(b'\n');
    }
    let note = Torn { bytes: noted.len() as u64, digest: Digest::of_bytes(noted) };
    let mut line = String::new();
    let last = encode(Some(last), 5, &opened(Some(note)), &mut line);
    file.extend_from_slice(line.as_bytes());
    (file, last)
}

/// T27: a torn record that the next writer accounts for is told, and is no fault; its bytes count all the same.
#[test]
fn a_torn_record_is_explained_by_the_one_behind_it() {
    let long = vec![0; 40_000];
    for torn in [b"{\"seq\":3".as_slice(), b"{\"seq\":3,\n{\"se", b"x\n", b"\n", b"a\n\n\0b", &long] {
        let (file, last) = torn_log(torn);
        let report = verify(std::slice::from_ref(&file), head(last));
        assert!(report.faults.is_empty(), "{torn:?}: {:#?}", report.faults);
        assert_eq!(report.torn.iter().map(|torn| torn.line).collect::<Vec<_>>(), [3]);
    }
    let (file, _) = torn_log(b"{\"seq\":3");
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 2;
        assert!(!verify(&[changed], Expect::default()).faults.is_empty(), "byte {at}");
    }
    // Nothing before it is torn.
    let (log, last) = log(&[1]);
    let mut line = String::new();
    encode(Some(last), 5, &opened(Some(Torn { bytes: 1, digest: last.hash })), &mut line);
    let file = [log[0].concat(), line.into_bytes()].concat();
    assert_eq!(codes(&verify(&[file], Expect::default())), [(Code::AuditChanged, "0", 2)]);
}

/// T27, F65: on a small log every other value of every byte, every cut, removal and swap is found.
#[test]
fn every_change_of_a_small_log_is_found() {
    let (log, last) = log(&[2, 1]);
    let found = |files: &[Vec<u8>]| !verify(files, head(last)).faults.is_empty();
    let whole = bytes(&log);
    assert!(!found(&whole));
    for file in 0..2 {
        for at in 0..whole[file].len() {
            for value in (0..=u8::MAX).step_by(29).chain([b'\n', b' ', whole[file][at] ^ 32]) {
                let mut changed = whole.clone();
                changed[file][at] = value;
                assert!(value == whole[file][at] || found(&changed), "file {file}, byte {at}, value {value}");
            }
            let mut cut = whole.clone();
            cut[file].truncate(at);
            assert!(found(&cut), "file {file}, cut at {at}");
            let mut without = whole.clone();
            without[file].remove(at);
            assert!(found(&without), "file {file}, without byte {at}");
        }
    }
}

/// Whatever order and choice of lines isn't the whole log is found.
fn is_found(files: &[Vec<u8>], last: Link) -> bool {
    !verify(files, head(last)).faults.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// T27, F65: a changed byte anywhere, a removed, repeated or moved record, a cut: each is found.
    #[test]
    fn every_change_of_a_random_log_is_found(
        sizes in proptest::collection::vec(1_usize..6, 1..4),
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u8..), 24),
    ) {
        let (log, last) = log(&sizes);
        let whole = bytes(&log);
        prop_assert!(!is_found(&whole, last));
        for (a, b, flip) in picks {
            let file = a.index(log.len());
            let (from, to) = (a.index(log[file].len()), b.index(log[file].len()));
            let mut changed = whole.clone();
            let at = b.index(changed[file].len());
            changed[file][at] ^= flip;
            prop_assert!(is_found(&changed, last), "byte {at} of file {file}");
            let mut cut = whole.clone();
            cut[file].truncate(at);
            prop_assert!(is_found(&cut, last), "cut at {at} of file {file}");
            let mut removed = log.clone();
            removed[file].remove(from);
            prop_assert!(is_found(&bytes(&removed), last), "record {from} of file {file}");
            let mut repeated = log.clone();
            repeated[file].insert(to, log[file][from].clone());
            prop_assert!(is_found(&bytes(&repeated), last), "record {from} again at {to}");
            let mut swapped = log.clone();
            swapped[file].swap(from, to);
            prop_assert!(from == to || is_found(&bytes(&swapped), last), "{from} and {to} of file {file}");
        }
    }

    /// Any bytes are read without a panic, in any pieces.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let report = verify(std::slice::from_ref(&bytes), Expect::default());
        prop_assert!(!report.faults.is_empty());
    }
}
