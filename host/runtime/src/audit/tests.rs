//! What the log on disk keeps to.
//!
//! Owns a log in a folder of its own for each test. Refuses time: nothing waits for an interval.
//!
//! **Invariant:** every log that a test leaves is verified as `audit verify` would.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;

use t2m_core::audit::{Expect, Report, Verifier};
use t2m_core::digest::Digest;
use t2m_core::id::RunId;

use super::*;

struct Now;

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        7
    }
}

fn options(folder: &Path) -> AuditOptions {
    AuditOptions {
        folder: folder.to_owned(),
        sync: AuditSync::Each,
        max_file_bytes: 2_000,
        program: "test".into(),
    }
}

fn start(folder: &Path) -> Result<(Arc<dyn AuditLog>, AuditCloser), AuditError> {
    start_audit(options(folder), Arc::new(Now))
}

fn entry(run: &str) -> Entry {
    Entry::RunFinished { run: RunId::new(run).unwrap(), code: None, output: Some(Digest::of_bytes(b"")) }
}

/// Waits without a runtime: the answer comes from the writer's thread.
fn kept(kept: Kept) -> Result<(), String> {
    match kept {
        Kept::Waiting(waiting) => {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(waiting)
        }
        Kept::Queued => Ok(()),
        Kept::Refused(why) => Err(why),
    }
}

fn write(folder: &Path, runs: &[&str]) {
    let (log, closer) = start(folder).unwrap();
    for run in runs {
        kept(log.begin(entry(run), true)).unwrap();
    }
    closer.close().unwrap();
}

fn verify(folder: &Path) -> (Report, Vec<String>) {
    let snapshot = AuditSnapshot::take(folder).unwrap();
    let head = snapshot.head.unwrap().link;
    let mut verifier = Verifier::new(Expect { head, ..Expect::default() });
    let mut runs = Vec::new();
    for path in snapshot.files() {
        let mut reader = snapshot.open(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        verifier
            .file(&name, reader.as_mut(), &mut |line, _| runs.extend(line.text("run").map(str::to_owned)))
            .unwrap();
    }
    (verifier.finish(), runs)
}

fn append(folder: &Path, bytes: &[u8]) {
    let (_, path) = super::head::files(folder).unwrap().pop().unwrap();
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// T27, F65: what was recorded is there after a restart, in files of their owner's alone, over rotations.
#[test]
fn records_survive_restarts_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep/audit");
    let names: Vec<String> = (0..30).map(|number| format!("run-{number}")).collect();
    for names in names.chunks(10) {
        write(&dir, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (report, runs) = verify(&dir);
    assert_eq!(report.faults, []);
    assert_eq!(runs, names);
    assert!(super::head::files(&dir).unwrap().len() > 3);
    assert_eq!(audit_head(&dir).unwrap().unwrap().link, report.last);
    for found in fs::read_dir(&dir).unwrap() {
        let about = found.unwrap().metadata().unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

/// T27: a record cut anywhere by a crash is kept, told and no fault; what came before it is all there.
#[test]
fn a_record_cut_by_a_crash_is_accounted_for() {
    let whole = tempfile::tempdir().unwrap();
    write(whole.path(), &["a", "lost"]);
    let (_, path) = super::head::files(whole.path()).unwrap().pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    let line = bytes.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().to_vec();
    let with_zeros = [&line[..40], &[0; 99], b"\n\0\n"].concat();
    // With its last brace a record is whole but for the line break, and the next bytes here would be its.
    for torn in (1..line.len() - 1).step_by(7).map(|end| &line[..end]).chain([with_zeros.as_slice(), b"\n"]) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &["a"]);
        append(folder.path(), torn);
        // A writer that is killed again, in the middle of saying so.
        append(folder.path(), b"\n{\"seq\":4,");
        write(folder.path(), &["b"]);
        let (report, runs) = verify(folder.path());
        assert_eq!(report.faults, [], "{torn:?}");
        assert_eq!((report.torn.len(), runs), (1, vec!["a".to_owned(), "b".to_owned()]), "{torn:?}");
    }
}

/// T27: a log that was changed where it was safe on the disk is not gone on with.
#[test]
fn nothing_is_written_behind_a_log_that_was_changed() {
    type Change = fn(&Path);
    fn newest(dir: &Path) -> PathBuf {
        super::head::files(dir).unwrap().pop().unwrap().1
    }
    let table: &[(&str, Change, Code)] = &[
        (
            "cut",
            |dir| {
                let bytes = fs::read(newest(dir)).unwrap();
                fs::write(newest(dir), &bytes[..bytes.len() - 9]).unwrap()
            },
            Code::AuditMissing,
        ),
        (
            "changed",
            |dir| {
                let mut bytes = fs::read(newest(dir)).unwrap();
                let at = bytes.len() - 90;
                bytes[at] ^= 1;
                fs::write(newest(dir), bytes).unwrap()
            },
            Code::AuditMissing,
        ),
        ("removed", |dir| fs::remove_file(newest(dir)).unwrap(), Code::AuditMissing),
        ("no head", |dir| fs::remove_file(dir.join("head.json")).unwrap(), Code::AuditMissing),
        ("other head", |dir| fs::write(dir.join("head.json"), "{}").unwrap(), Code::AuditChanged),
        (
            "newer head",
            |dir| {
                fs::write(
                    dir.join("head.json"),
                    "{\"format\":\"t2m/audit-head@2\",\"seq\":0,\"hash\":null,\"file\":1,\"end\":0}",
                )
                .unwrap()
            },
            Code::VersionUnsupported,
        ),
    ];
    for (name, change, code) in table {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &["a", "b"]);
        change(folder.path());
        let error = start(folder.path()).map(|_| ()).unwrap_err();
        assert_eq!(error.code, *code, "{name}: {error}");
    }
}

/// F65: several processes share a folder; here each writer has its own lock file handle, as they would.
#[test]
fn several_writers_share_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..4).map(|_| start(folder.path()).unwrap()).collect();
    std::thread::scope(|scope| {
        for (number, (log, _)) in writers.iter().enumerate() {
            scope.spawn(move || {
                for record in 0..25 {
                    kept(log.begin(entry(&format!("{number}-{record}")), record % 5 == 0)).unwrap();
                }
            });
        }
    });
    for (_, closer) in writers {
        closer.close().unwrap();
    }
    let (report, runs) = verify(folder.path());
    assert_eq!(report.faults, []);
    assert_eq!(runs.len(), 100);
    for number in 0..4 {
        let own: Vec<&String> = runs.iter().filter(|run| run.starts_with(&format!("{number}-"))).collect();
        let expected: Vec<String> = (0..25).map(|record| format!("{number}-{record}")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>(), "each writer's records are in its order");
    }
}

/// T27: a log that can't be written lets nothing begin; what ended meanwhile is written once it works again.
#[test]
fn a_log_that_can_not_be_written_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let (log, closer) = start(folder.path()).unwrap();
    kept(log.begin(entry("before"), true)).unwrap();
    // Whatever holds the file up: here it is shorter than it was, and later as before.
    let (_, path) = super::head::files(folder.path()).unwrap().pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, b"").unwrap();
    let why = kept(log.begin(entry("during"), true)).unwrap_err();
    assert!(why.contains("can't be written"), "{why}");
    assert!(matches!(log.begin(entry("refused"), false), Kept::Refused(_)));
    log.end(entry("ended"));
    fs::write(&path, bytes).unwrap();
    closer.close().unwrap();
    let (report, runs) = verify(folder.path());
    assert_eq!(report.faults, []);
    assert_eq!(runs, ["before", "during", "ended"]);
}

/// A queue that is full refuses what begins, and has room for what ends.
#[test]
fn a_full_queue_refuses_what_begins() {
    let (queue, messages) = channel();
    let shared = Arc::new(Shared::default());
    let log = AuditQueue { queue, shared, clock: Arc::new(Now), sync: AuditSync::Interval };
    let begin = || {
        let digest = Digest::of_bytes(b"");
        let run = RunId::new("r").unwrap();
        log.begin(Entry::RunStarted { run, workflow: digest, inputs: digest, nodes: 1 }, true)
    };
    for _ in 0..MAX_QUEUED / 2 {
        assert!(matches!(begin(), Kept::Queued));
    }
    assert!(matches!(begin(), Kept::Refused(_)));
    log.end(entry("r"));
    assert_eq!(messages.try_iter().count(), MAX_QUEUED / 2 + 1);
    drop(messages);
    log.shared.waiting.store(0, Ordering::Relaxed);
    assert!(matches!(begin(), Kept::Refused(_)), "a writer that is gone");
}
