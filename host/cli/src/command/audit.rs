//! `t2m-host audit`: what was let through, refused and asked about, and whether the log of it is whole.
//!
//! Owns reading a log and showing it. Refuses to write or mend one.
//!
//! **Invariant:** every action goes along the whole chain, and a log with a fault never ends with status 0.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use t2m_core::audit::{Expect, Line, Report, Verifier};
use t2m_core::code::Code;
use t2m_core::digest::Digest;
use t2m_core::id::RunId;
use t2m_runtime::AuditSnapshot;
use tempfile::NamedTempFile;

use crate::audit_log::failure;
use crate::config;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::files::{self, reason};
use crate::out::{Out, one_line};

/// Show, verify or export the audit log.
///
/// `[audit]` of `t2m.toml` turns it on for `run` and `serve`. A record is a line of JSON that ends with the
/// SHA-256 of what stands before `,"hash"` in it, and begins with that of the record before.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  t2m-host audit show --only denied
  t2m-host audit verify
  t2m-host audit verify --dir /backup/audit --expect-head sha256:...
  t2m-host audit export --since 2026-11-01T00:00:00Z --out november.jsonl

The exit status is 0 if the log is whole, and 4 if anything in it was changed, moved, removed or cut.")]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List records, the newest last
    Show {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        filter: Filter,
        /// At most so many, the newest ones
        #[arg(long, value_name = "N", default_value_t = 100)]
        last: usize,
    },
    /// Say whether the log is what was written, and every place where it isn't
    Verify {
        #[command(flatten)]
        log: LogArgs,
        /// A record with this hash has to be there: keep the one that `verify` prints where nobody who writes to
        /// the log can change it
        #[arg(long, value_name = "HASH")]
        expect_head: Option<Digest>,
    },
    /// Copy records as lines of JSON, byte by byte if `--out` names a file
    Export {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        filter: Filter,
        /// Write to this file, which only you can read
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Which log.
#[derive(Debug, clap::Args)]
struct LogArgs {
    /// The log's folder [default: `audit.dir` of the configuration]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Hash of the record before the first one, if older files were put away
    #[arg(long, value_name = "HASH")]
    after: Option<Digest>,
}

/// Which of its records.
#[derive(Debug, clap::Args)]
struct Filter {
    /// Only records of this run
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,
    /// Only records from this moment on, such as 2026-11-30T20:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only records before this moment
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Only decisions of this kind
    #[arg(long, value_enum)]
    only: Option<Decided>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Decided {
    /// The call ran
    Allowed,
    /// It was refused
    Denied,
    /// A person has to approve or look first
    Asked,
}

impl Filter {
    fn takes(&self, line: &Line) -> bool {
        let at = i64::try_from(line.at_ms).unwrap_or(i64::MAX);
        let kind = self.only.map(|only| match only {
            Decided::Allowed => "allowed",
            Decided::Denied => "denied",
            Decided::Asked => "asked",
        });
        self.run.as_ref().is_none_or(|run| line.text("run") == Some(run.as_str()))
            && self.since.is_none_or(|since| at >= since.as_millisecond())
            && self.until.is_none_or(|until| at < until.as_millisecond())
            && kind.is_none_or(|kind| line.text("decision") == Some(kind))
    }
}

/// What was read of a log.
struct Read {
    report: Report,
    files: usize,
    headless: bool,
}

impl AuditCommand {
    pub(crate) fn run(self, named: Option<&Path>, out: &mut Out) -> Result<Exit> {
        match self.action {
            Action::Show { log, filter, last } => show(&log, &filter, last, named, out),
            Action::Verify { log, expect_head } => verify(&log, expect_head, named, out),
            Action::Export { log, filter, out: file } => export(&log, &filter, file.as_deref(), named, out),
        }
    }
}

impl LogArgs {
    fn folder(&self, named: Option<&Path>, out: &mut Out) -> Result<PathBuf> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        config::load(named, out)?.audit.dir.ok_or_else(|| {
            Failure::new(Code::UsageInvalid, "no log is named: the configuration has no `audit.dir`")
                .with_next("name the folder with `--dir`")
        })
    }

    /// Goes through the whole log.
    fn read(&self, folder: &Path, known: Option<Digest>, each: &mut dyn FnMut(&Line, &[u8])) -> Result<Read> {
        let snapshot = AuditSnapshot::take(folder).map_err(failure)?;
        let files = snapshot.files().count();
        if files == 0 && snapshot.head.is_none() {
            return Err(Failure::of_file(folder, Code::FileUnreadable, "there is no audit log here"));
        }
        let head = snapshot.head.and_then(|head| head.link);
        let mut verifier = Verifier::new(Expect { before: self.after, head, known });
        for path in snapshot.files() {
            let mut reader = snapshot.open(path).map_err(failure)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            verifier
                .file(&name, reader.as_mut(), each)
                .map_err(|error| Failure::of_file(path, Code::FileUnreadable, reason(&error)))?;
        }
        Ok(Read { report: verifier.finish(), files, headless: snapshot.head.is_none() })
    }
}

impl Read {
    /// Without the head nobody knows whether the end is the end.
    const HEADLESS: &str = "`head.json` is missing, so that removed records at the end can't be told";

    fn exit(&self) -> Exit {
        let first = self.report.faults.first().map(|fault| fault.code);
        match first.or(self.headless.then_some(Code::AuditMissing)) {
            None => Exit::Done,
            Some(code) => Exit::of(code),
        }
    }

    /// Says that what was shown is of a log with faults.
    fn warn(&self, out: &mut Out) {
        let faults = self.report.faults.len() + usize::from(self.headless);
        if faults > 0 {
            out.error(format!("the log has {faults} faults: `t2m-host audit verify` lists them"));
        }
    }

    fn to_json(&self) -> Value {
        let Report { records, last, faults, more, torn } = &self.report;
        let mut faults: Vec<Value> = faults.iter().map(|fault| json!(fault)).collect();
        if self.headless {
            let (code, message) = (Code::AuditMissing, Read::HEADLESS);
            faults.push(json!({"code": code, "file": "head.json", "line": 0, "message": message}));
        }
        json!({
            "valid": faults.is_empty(), "files": self.files, "records": records,
            "last": last.map(|last| json!({"seq": last.seq, "hash": last.hash})),
            "torn": torn, "faults": faults, "more_faults": more,
        })
    }

    fn to_text(&self) -> String {
        let Report { records, last, faults, more, torn } = &self.report;
        let mut lines = vec![format!("{records} records in {} files", self.files)];
        if let Some(last) = last {
            lines.push(format!("last record: {}, hash {}", last.seq, last.hash));
        }
        lines.extend(torn.iter().map(|torn| {
            let (file, line) = (&torn.file, torn.line);
            format!("{file}:{line}: {} bytes of a record that was never finished, as its writer's next start says", torn.bytes)
        }));
        lines.extend(
            faults.iter().map(|fault| {
                format!("error[{}]: {}:{}: {}", fault.code, fault.file, fault.line, fault.message)
            }),
        );
        if self.headless {
            lines.push(format!("error[{}]: {}", Code::AuditMissing, Read::HEADLESS));
        }
        if *more > 0 {
            lines.push(format!("and {more} more faults"));
        }
        if faults.is_empty() && !self.headless {
            lines.push("the log is whole".to_owned());
        }
        lines.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n")
    }
}

fn verify(log: &LogArgs, known: Option<Digest>, named: Option<&Path>, out: &mut Out) -> Result<Exit> {
    let read = log.read(&log.folder(named, out)?, known, &mut |_, _| {})?;
    out.data(|| read.to_text(), || read.to_json());
    Ok(read.exit())
}

fn show(log: &LogArgs, filter: &Filter, last: usize, named: Option<&Path>, out: &mut Out) -> Result<Exit> {
    let mut kept: VecDeque<Line> = VecDeque::new();
    let read = log.read(&log.folder(named, out)?, None, &mut |line, _| {
        if filter.takes(line) {
            kept.push_back(line.clone());
            if kept.len() > last {
                kept.pop_front();
            }
        }
    })?;
    let table = || kept.iter().map(row).collect::<Vec<_>>().join("\n");
    out.data(table, || {
        let records: Vec<&serde_json::Map<String, Value>> = kept.iter().map(|line| &line.members).collect();
        json!({"records": records, "log": read.to_json()})
    });
    read.warn(out);
    Ok(read.exit())
}

/// A record as a line for people.
fn row(line: &Line) -> String {
    let at = Timestamp::from_millisecond(i64::try_from(line.at_ms).unwrap_or(i64::MAX));
    let at = at.map_or_else(|_| line.at_ms.to_string(), |at| format!("{at:.3}"));
    let text = |name: &str| line.text(name).unwrap_or("-");
    let what = match line.kind() {
        "call-decided" => {
            let why = line.text("code").map(|code| format!(" {code} at {}", text("stage")));
            let before = if line.text("phase") == Some("preflight") { ", before the run" } else { "" };
            format!("{}{}{before}", text("decision"), why.unwrap_or_default())
        }
        "log-opened" => format!("{} writes", text("program")),
        kind => {
            let ended = if kind == "run-started" { "started" } else { "done" };
            line.text("code").unwrap_or(ended).to_owned()
        }
    };
    let about = match line.kind() {
        "log-opened" => String::new(),
        "call-decided" | "call-ended" => format!("  {} {} {}", text("run"), text("node"), text("tool")),
        _ => format!("  {}", text("run")),
    };
    one_line(&format!("{:>7}  {at}  {:<12}  {what}{about}", line.link.seq, line.kind()))
}

fn export(
    log: &LogArgs,
    filter: &Filter,
    path: Option<&Path>,
    named: Option<&Path>,
    out: &mut Out,
) -> Result<Exit> {
    let folder = log.folder(named, out)?;
    // Beside its place, which it takes once it is whole.
    let mut file = path.map(|path| beside(path, &folder)).transpose()?.map(std::io::BufWriter::new);
    let mut failed: Option<std::io::Error> = None;
    let mut text = Vec::new();
    let read = log.read(&folder, None, &mut |line, bytes| {
        if !filter.takes(line) {
            return;
        }
        match &mut file {
            Some(file) => failed = failed.take().or(write_line(file, bytes).err()),
            None => {
                text.extend_from_slice(bytes);
                text.push(b'\n');
            }
        }
    })?;
    if let (Some(path), Some(file)) = (path, file) {
        let kept = file.into_inner().map_err(std::io::IntoInnerError::into_error);
        let kept = kept.and_then(|file| Ok(file.persist(path).map(drop)?));
        if let Some(error) = failed.or(kept.err()) {
            return Err(Failure::of_file(path, Code::FileUnwritable, reason(&error)));
        }
    } else if !text.is_empty() {
        out.raw(&String::from_utf8_lossy(&text));
    }
    read.warn(out);
    Ok(read.exit())
}

/// A file beside the one that is to be written, which isn't one of the log.
fn beside(path: &Path, log: &Path) -> Result<NamedTempFile> {
    let folder = files::folder_of(path).canonicalize();
    let is_inside = |folder: PathBuf| log.canonicalize().is_ok_and(|log| folder.starts_with(log));
    if folder.is_ok_and(is_inside) {
        let message = "nothing but the log itself is written to its folder";
        return Err(Failure::of_file(path, Code::FileUnwritable, message));
    }
    files::begin_private(path)
}

fn write_line(file: &mut std::io::BufWriter<NamedTempFile>, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.write_all(b"\n")
}
