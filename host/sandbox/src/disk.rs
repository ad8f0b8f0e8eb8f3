//! What a call may write in the folders it was granted.
//!
//! Owns the count of bytes and of new names, around WASI's own files. Refuses to look at paths and permissions:
//! WASI's files do that, and every call here goes on to them.
//!
//! **Invariant:** what is counted is counted before it is written, and a call that would go beyond its limit ends
//! there. Bytes that a file grows by without being written count as written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags,
    PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream, OutputStream, StreamError, StreamResult};

use crate::limits::Limits;

/// The guest would have written more than its limit.
#[derive(Debug, thiserror::Error)]
#[error("the limit of what a call may write is reached")]
pub(crate) struct WroteTooMuch;

/// What a call has written.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: AtomicU64,
    most_bytes: u64,
    names: AtomicU64,
    most_names: u64,
}

impl Written {
    pub(crate) fn new(limits: Limits) -> Arc<Written> {
        Arc::new(Written {
            bytes: AtomicU64::new(0),
            most_bytes: limits.written_bytes,
            names: AtomicU64::new(0),
            most_names: u64::from(limits.created_files),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add_bytes(&self, more: u64) -> wasmtime::Result<()> {
        add(&self.bytes, more, self.most_bytes)
    }

    fn add_name(&self) -> FsResult<()> {
        add(&self.names, 1, self.most_names).map_err(FsError::trap)
    }
}

fn add(sum: &AtomicU64, more: u64, most: u64) -> wasmtime::Result<()> {
    let within = |sum: u64| sum.checked_add(more).filter(|sum| *sum <= most);
    let added = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
    added.map(|_| ()).map_err(|_| WroteTooMuch.into())
}

/// WASI's files with a count of what is written.
pub(crate) struct Files<'a> {
    pub(crate) wasi: WasiFilesystemCtxView<'a>,
    pub(crate) written: Arc<Written>,
}

/// The way to [`Files`], for the linker.
pub(crate) struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

impl Files<'_> {
    /// Counts what a file grows by if something is put at `offset`, without what is put there.
    fn add_gap(&mut self, file: &Resource<Descriptor>, offset: Filesize) -> FsResult<()> {
        // What can't tell its size isn't written to either: WASI refuses it.
        let size = match self.wasi.table.get(file)? {
            Descriptor::File(file) => file.file.metadata().map_or(0, |about| about.len()),
            Descriptor::Dir(_) => return Ok(()),
        };
        self.written.add_bytes(offset.saturating_sub(size)).map_err(FsError::trap)
    }

    /// Refuses named pipes and devices: opening one may wait for ever, in a thread that nothing ends. No guest can
    /// make one, so what is found here is there when it is opened.
    async fn refuse_what_waits(
        &mut self,
        folder: &Resource<Descriptor>,
        path_flags: PathFlags,
        path: &str,
    ) -> FsResult<()> {
        let folder = Resource::new_borrow(folder.rep());
        let waits = match self.wasi.stat_at(folder, path_flags, path.to_owned()).await {
            Ok(about) => !matches!(
                about.type_,
                DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink
            ),
            // It isn't there, or may not be looked at: opening says which.
            Err(_) => false,
        };
        if waits { Err(ErrorCode::NotPermitted.into()) } else { Ok(()) }
    }

    fn counted(&mut self, stream: Resource<DynOutputStream>) -> FsResult<Resource<DynOutputStream>> {
        let inner = self.wasi.table.delete(stream)?;
        let counted: DynOutputStream = Box::new(Counted { inner, written: Arc::clone(&self.written) });
        Ok(self.wasi.table.push(counted)?)
    }
}

/// A stream into a file.
struct Counted {
    inner: DynOutputStream,
    written: Arc<Written>,
}

#[async_trait]
impl Pollable for Counted {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[async_trait]
impl OutputStream for Counted {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.written.add_bytes(bytes.len() as u64).map_err(StreamError::Trap)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.written.add_bytes(bytes.len() as u64).map_err(StreamError::Trap)?;
        self.inner.blocking_write_and_flush(bytes).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

impl Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.wasi.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.wasi.filesystem_error_code(error)
    }
}

impl HostDescriptor for Files<'_> {
    async fn write(
        &mut self,
        file: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        self.add_gap(&file, offset)?;
        self.written.add_bytes(bytes.len() as u64).map_err(FsError::trap)?;
        self.wasi.write(file, bytes, offset).await
    }

    fn write_via_stream(
        &mut self,
        file: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.add_gap(&file, offset)?;
        let stream = self.wasi.write_via_stream(file, offset)?;
        self.counted(stream)
    }

    fn append_via_stream(&mut self, file: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.wasi.append_via_stream(file)?;
        self.counted(stream)
    }

    async fn set_size(&mut self, file: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.add_gap(&file, size)?;
        self.wasi.set_size(file, size).await
    }

    async fn open_at(
        &mut self,
        folder: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        self.refuse_what_waits(&folder, path_flags, &path).await?;
        if open_flags.contains(OpenFlags::CREATE) {
            self.written.add_name()?;
        }
        self.wasi.open_at(folder, path_flags, path, open_flags, flags).await
    }

    async fn create_directory_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.written.add_name()?;
        self.wasi.create_directory_at(folder, path).await
    }

    async fn link_at(
        &mut self,
        folder: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        new_folder: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.written.add_name()?;
        self.wasi.link_at(folder, path_flags, path, new_folder, new_path).await
    }

    async fn symlink_at(&mut self, folder: Resource<Descriptor>, to: String, path: String) -> FsResult<()> {
        // WASI doesn't follow a link out of the folder, but others who read there would.
        if to.split('/').any(|step| step == "..") {
            return Err(ErrorCode::NotPermitted.into());
        }
        self.written.add_name()?;
        self.wasi.symlink_at(folder, to, path).await
    }

    // Nothing below makes anything larger.

    async fn advise(
        &mut self,
        file: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        self.wasi.advise(file, offset, length, advice).await
    }

    async fn sync_data(&mut self, file: Resource<Descriptor>) -> FsResult<()> {
        self.wasi.sync_data(file).await
    }

    async fn get_flags(&mut self, file: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.wasi.get_flags(file).await
    }

    async fn get_type(&mut self, file: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.wasi.get_type(file).await
    }

    async fn set_times(
        &mut self,
        file: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.wasi.set_times(file, accessed, modified).await
    }

    async fn read(
        &mut self,
        file: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        self.wasi.read(file, length, offset).await
    }

    async fn read_directory(
        &mut self,
        folder: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        self.wasi.read_directory(folder).await
    }

    async fn sync(&mut self, file: Resource<Descriptor>) -> FsResult<()> {
        self.wasi.sync(file).await
    }

    async fn stat(&mut self, file: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        self.wasi.stat(file).await
    }

    async fn stat_at(
        &mut self,
        folder: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        self.wasi.stat_at(folder, path_flags, path).await
    }

    async fn set_times_at(
        &mut self,
        folder: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.wasi.set_times_at(folder, path_flags, path, accessed, modified).await
    }

    fn drop(&mut self, file: Resource<Descriptor>) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.wasi, file)
    }

    async fn readlink_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.wasi.readlink_at(folder, path).await
    }

    async fn remove_directory_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.wasi.remove_directory_at(folder, path).await
    }

    async fn rename_at(
        &mut self,
        folder: Resource<Descriptor>,
        path: String,
        new_folder: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.wasi.rename_at(folder, path, new_folder, new_path).await
    }

    async fn unlink_file_at(&mut self, folder: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.wasi.unlink_file_at(folder, path).await
    }

    fn read_via_stream(
        &mut self,
        file: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.wasi.read_via_stream(file, offset)
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.wasi.is_same_object(one, other).await
    }

    async fn metadata_hash(&mut self, file: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        self.wasi.metadata_hash(file).await
    }

    async fn metadata_hash_at(
        &mut self,
        folder: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        self.wasi.metadata_hash_at(folder, path_flags, path).await
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        entries: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.wasi.read_directory_entry(entries).await
    }

    fn drop(&mut self, entries: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        HostDirectoryEntryStream::drop(&mut self.wasi, entries)
    }
}
