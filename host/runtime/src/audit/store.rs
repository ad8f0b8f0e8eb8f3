//! The files of one log, as one process appends to them.
//!
//! Owns the lock, the place where the next record goes, and what is done about a record that a killed writer
//! left unfinished. Refuses to go on behind anything else that isn't a record: then somebody changed the log.
//!
//! **Invariant:** what was written stays. Bytes that make no record are kept, and the record behind them says so.

use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use t2m_core::audit::{AUDIT_FORMAT, Entry, Line, MAX_LINE_BYTES, Tail, Torn, Verifier, encode};
use t2m_core::code::Code;

use super::head::{Head, audit_head, files, is_plain, name_of, private};
use super::{AuditError, AuditOptions};

/// How long another process may hold the lock. It does so for one write, never while it waits for the disk.
const LOCK_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Store {
    options: AuditOptions,
    lock: Arc<File>,
    file: File,
    /// Behind the last record that is known here.
    at: Head,
    /// The same, as far as it is on the disk.
    synced: Head,
    /// The record that the head was last seen to name.
    head: u64,
}

impl Store {
    /// Opens the log, or begins one, and notes that this program writes from now on.
    pub(super) fn open(options: AuditOptions, now_ms: u64) -> Result<Store, AuditError> {
        let folder = &options.folder;
        make_folder(folder)?;
        let path = folder.join("lock");
        is_plain(&path)?;
        let lock = private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| AuditError::io(&path, &error))?;
        let lock = Arc::new(lock);
        let held = Held::take(&lock, folder)?;
        let at = start(folder)?;
        let file = open_file(folder, at.file, at.seq() == 0)?;
        check_last(folder, &file, &at)?;
        let mut store = Store { options, lock, file, at, synced: at, head: at.seq() };
        if !store.catch_up(now_ms)? {
            let opened = store.opened(None);
            store.put(&[(now_ms, &opened)], &mut 0)?;
        }
        drop(held);
        sync_folder(store.folder())?;
        store.sync(true)?;
        store.write_head()?;
        Ok(store)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Whether the head says less than is on the disk.
    pub(super) fn head_lags(&self) -> bool {
        self.head < self.synced.seq()
    }

    /// Writes records behind everything that is there. `done` of them are written already, and grows.
    pub(super) fn append(&mut self, records: &[(u64, &Entry)], done: &mut usize) -> Result<(), AuditError> {
        let Some((now_ms, _)) = records.get(*done) else { return Ok(()) };
        let _held = Held::take(&self.lock, &self.options.folder)?;
        self.is_still_there()?;
        self.catch_up(*now_ms)?;
        self.put(records, done)
    }

    fn put(&mut self, records: &[(u64, &Entry)], done: &mut usize) -> Result<(), AuditError> {
        let mut text = String::new();
        let (mut at, mut gathered) = (self.at, 0);
        while let Some((now_ms, entry)) = records.get(*done + gathered) {
            let before = text.len();
            let link = encode(at.link, *now_ms, entry, &mut text);
            let end = at.end + long(text.len() - before);
            if end <= self.options.max_file_bytes || at.end == 0 {
                at = Head { link: Some(link), end, ..at };
                gathered += 1;
                continue;
            }
            text.truncate(before);
            self.write(&text, at)?;
            *done += std::mem::take(&mut gathered);
            text.clear();
            self.next_file(*now_ms)?;
            at = self.at;
            // The first record of a file is there, so the one that didn't fit is next, however large.
            let link = encode(at.link, *now_ms, entry, &mut text);
            at = Head { link: Some(link), end: at.end + long(text.len()), ..at };
            gathered = 1;
        }
        self.write(&text, at)?;
        *done += gathered;
        Ok(())
    }

    /// Makes sure of what was written. Others append meanwhile.
    pub(super) fn sync(&mut self, durable: bool) -> Result<(), AuditError> {
        if durable {
            self.file.sync_data().map_err(|error| AuditError::io(self.folder(), &error))?;
        }
        self.synced = self.at;
        Ok(())
    }

    /// Says how far the log has come, unless another process has said more.
    pub(super) fn write_head(&mut self) -> Result<(), AuditError> {
        let _held = Held::take(&self.lock, &self.options.folder)?;
        self.is_still_there()?;
        let there = audit_head(self.folder())?.map_or(0, |head| head.seq());
        if there < self.synced.seq() {
            self.synced.write(self.folder(), self.options.sync != super::AuditSync::Never)?;
        }
        self.head = self.synced.seq().max(there);
        Ok(())
    }

    /// Whether the file and the lock are still those of the folder. What is written to a file that was removed or
    /// replaced is gone, and whoever has another lock writes at the same time.
    fn is_still_there(&self) -> Result<(), AuditError> {
        for (name, open) in [(name_of(self.at.file), &self.file), ("lock".to_owned(), &*self.lock)] {
            let path = self.options.folder.join(&name);
            let open = open.metadata().map_err(|error| AuditError::io(&path, &error))?;
            if !path.symlink_metadata().is_ok_and(|there| is_same(&there, &open)) {
                let message = format!("`{name}` was removed or replaced while it was written");
                return Err(AuditError::new(Code::AuditMissing, &path, message));
            }
        }
        Ok(())
    }

    /// The number of the next file.
    fn next_number(&self) -> Result<u32, AuditError> {
        self.at.file.checked_add(1).ok_or_else(|| {
            let message = "no file can have a greater number than the last one";
            AuditError::new(Code::AuditUnwritable, self.folder(), message)
        })
    }

    fn opened(&self, torn: Option<Torn>) -> Entry {
        Entry::LogOpened { format: AUDIT_FORMAT, program: self.options.program.clone(), torn }
    }

    /// Goes on behind what other processes wrote, and accounts for what one of them left unfinished. Says whether
    /// it wrote that this program is here now.
    fn catch_up(&mut self, now_ms: u64) -> Result<bool, AuditError> {
        let mut noted = false;
        loop {
            let path = self.options.folder.join(name_of(self.at.file));
            let io = |error: std::io::Error| AuditError::io(&path, &error);
            let length = self.file.metadata().map_err(io)?.len();
            if length < self.at.end {
                let message = format!("`{}` is shorter than it was", name_of(self.at.file));
                return Err(AuditError::new(Code::AuditMissing, &path, message));
            }
            let number = self.next_number()?;
            let is_last = !self.options.folder.join(name_of(number)).exists();
            if length > self.at.end || length == 0 {
                let tail = self.read_new(&path, length)?;
                if is_last && (tail.is_some() || length == 0) {
                    self.go_on(tail, length, now_ms)?;
                    noted = true;
                } else if tail.is_some() {
                    let message = format!("`{}` ends with bytes that are no record", name_of(self.at.file));
                    return Err(AuditError::new(Code::AuditChanged, &path, message));
                }
            }
            if is_last {
                return Ok(noted);
            }
            // Whoever began the next file has made sure of this one, if that is wished for.
            self.file = open_file(&self.options.folder, number, false)?;
            self.at = Head { file: number, end: 0, ..self.at };
        }
    }

    /// Reads the records that are new, and gives what stands behind the last one.
    fn read_new(&mut self, path: &Path, length: u64) -> Result<Option<Tail>, AuditError> {
        let io = |error: std::io::Error| AuditError::io(path, &error);
        let mut file = self.file.try_clone().map_err(io)?;
        file.seek(SeekFrom::Start(self.at.end)).map_err(io)?;
        let mut reader = BufReader::new(file.take(length - self.at.end));
        let mut verifier = Verifier::behind(self.at.link, self.at.end > 0);
        verifier.file(&name_of(self.at.file), &mut reader, &mut |_, _| {}).map_err(io)?;
        let tail = verifier.tail();
        let last = verifier.last();
        if verifier.has_faults() && length > 0 {
            let report = verifier.finish();
            let fault = report.faults.first();
            let why = fault.map(|fault| fault.message.clone()).unwrap_or_default();
            let code = fault.map_or(Code::AuditChanged, |fault| fault.code);
            let message = format!("`{}` isn't what was written: {why}", name_of(self.at.file));
            return Err(AuditError::new(code, path, message));
        }
        let behind = tail.map_or(0, |tail| tail.bytes + u64::from(tail.ended));
        self.at = Head { link: last, end: length - behind, ..self.at };
        Ok(tail)
    }

    /// Begins a file, or goes on behind bytes that are no record. They stand behind everything that was on the
    /// disk for sure, since reading began there.
    fn go_on(&mut self, tail: Option<Tail>, length: u64, now_ms: u64) -> Result<(), AuditError> {
        let mut text = String::new();
        if tail.is_some_and(|tail| !tail.ended) {
            text.push('\n');
        }
        let torn = tail.map(|tail| Torn { bytes: tail.bytes, digest: tail.digest });
        let link = encode(self.at.link, now_ms, &self.opened(torn), &mut text);
        let end = length + long(text.len());
        // What was there is part of the file once the record behind it is written.
        let before = std::mem::replace(&mut self.at.end, length);
        let written = self.write(&text, Head { link: Some(link), end, ..self.at });
        if written.is_err() {
            self.at.end = before;
        }
        written
    }

    /// Ends the file and begins the next one.
    fn next_file(&mut self, now_ms: u64) -> Result<(), AuditError> {
        self.sync(self.options.sync != super::AuditSync::Never)?;
        let number = self.next_number()?;
        self.file = open_file(&self.options.folder, number, true)?;
        if self.options.sync != super::AuditSync::Never {
            sync_folder(&self.options.folder)?;
        }
        self.at = Head { file: number, end: 0, ..self.at };
        let mut text = String::new();
        let link = encode(self.at.link, now_ms, &self.opened(None), &mut text);
        let end = long(text.len());
        self.write(&text, Head { link: Some(link), end, ..self.at })
    }

    /// Writes whole lines, after which the log has come to `at`.
    fn write(&mut self, text: &str, at: Head) -> Result<(), AuditError> {
        let written = self.file.write_all(text.as_bytes());
        if let Err(error) = written {
            // Half a batch, which nobody was told of, would be taken for another process's when it is tried
            // again. If it can't be taken back, the next one finds it and accounts for it.
            let _ = self.file.set_len(self.at.end);
            return Err(AuditError::io(&self.options.folder.join(name_of(at.file)), &error));
        }
        self.at = at;
        Ok(())
    }
}

/// Where the log of a folder goes on; a head is made before the first record, so that one without is a fault.
fn start(folder: &Path) -> Result<Head, AuditError> {
    let head = audit_head(folder)?;
    let missing = |message: String| Err(AuditError::new(Code::AuditMissing, folder, message));
    match (head, files(folder)?.is_empty()) {
        (None, true) => {
            let head = Head::start();
            head.write(folder, true)?;
            Ok(head)
        }
        (None, false) => missing("`head.json` is missing beside the files of the log".to_owned()),
        (Some(head), true) if head.seq() > 0 => {
            missing(format!("the log had come to record {}, and its files are gone", head.seq()))
        }
        (Some(head), _) => Ok(head),
    }
}

#[cfg(unix)]
fn is_same(there: &Metadata, open: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (there.dev(), there.ino()) == (open.dev(), open.ino())
}

#[cfg(not(unix))]
fn is_same(there: &Metadata, _: &Metadata) -> bool {
    there.is_file()
}

fn open_file(folder: &Path, number: u32, create: bool) -> Result<File, AuditError> {
    let path = folder.join(name_of(number));
    is_plain(&path)?;
    let opened = private().read(true).append(true).create(create).open(&path);
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            AuditError::new(Code::AuditMissing, &path, format!("`{}` is gone", name_of(number)))
        }
        _ => AuditError::io(&path, &error),
    })
}

/// The record that the head names has to be there.
fn check_last(folder: &Path, file: &File, at: &Head) -> Result<(), AuditError> {
    let Some(link) = at.link else { return Ok(()) };
    let path = folder.join(name_of(at.file));
    let io = |error: std::io::Error| AuditError::io(&path, &error);
    let from = at.end.saturating_sub(long(MAX_LINE_BYTES) + 2);
    let mut file = file.try_clone().map_err(io)?;
    file.seek(SeekFrom::Start(from)).map_err(io)?;
    let mut bytes = Vec::new();
    (&file).take(at.end - from).read_to_end(&mut bytes).map_err(io)?;
    let line = bytes.strip_suffix(b"\n").and_then(|text| text.rsplit(|byte| *byte == b'\n').next());
    let found = line.and_then(|line| Line::read(line).ok()).map(|line| line.link);
    if found == Some(link) {
        return Ok(());
    }
    let message = format!("record {} isn't where the head says", link.seq);
    let code = if found.is_some() { Code::AuditChanged } else { Code::AuditMissing };
    Err(AuditError::new(code, &path, message))
}

fn make_folder(folder: &Path) -> Result<(), AuditError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(|error| AuditError::io(folder, &error))
}

fn sync_folder(folder: &Path) -> Result<(), AuditError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| AuditError::io(folder, &error))
}

fn long(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The lock, as long as this lives.
pub(super) struct Held(Arc<File>);

impl Held {
    pub(super) fn take(lock: &Arc<File>, folder: &Path) -> Result<Held, AuditError> {
        let since = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Held(Arc::clone(lock))),
                Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_WAIT => {
                    // Nothing tells when another process gives it back.
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    let message = "another process holds its lock and doesn't give it back";
                    return Err(AuditError::new(Code::AuditUnwritable, folder, message));
                }
                Err(TryLockError::Error(error)) => return Err(AuditError::io(&folder.join("lock"), &error)),
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The system gives it back at the latest when the file is closed.
        let _ = self.0.unlock();
    }
}
