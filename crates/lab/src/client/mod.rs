//! Client: a current directory with the operations of the experiments.

mod library;
mod syscalls;

pub(crate) use library::LibraryClient;
pub(crate) use syscalls::SystemClient;

use anyhow::Result;
use std::path::PathBuf;

/// Path of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Through the kernel's page cache.
    Through,
    /// Direct I/O (`O_DIRECT`): memory, offset and length are aligned.
    Past,
}

/// One worker's access to a file system.
pub(crate) trait Client {
    /// Creates the directory `name` here, unless it exists.
    fn make_dir(&self, name: &str) -> Result<()>;
    /// Changes to the directory `name`.
    fn enter(&mut self, name: &str) -> Result<()>;
    /// Another client, in the directory `name` here.
    fn below(&self, name: &str) -> Result<Box<dyn Client>>;
    /// Creates an empty file, exclusively, and closes it.
    fn create(&self, name: &str) -> Result<()>;
    /// Looks a name up and reads its attributes.
    fn stat(&self, name: &str) -> Result<()>;
    /// Looks up a name that does not exist.
    fn miss(&self, name: &str) -> Result<()>;
    /// Lists the directory; returns the number of names.
    fn list(&self) -> Result<u64>;
    /// Removes a file by its name.
    fn remove(&self, name: &str) -> Result<()>;
    /// Creates a file, exclusively, and keeps it open.
    fn open_new(&self, name: &str) -> Result<Box<dyn OpenFile>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> Result<Box<dyn OpenFile>>;
    /// Makes all changes to this file system durable.
    fn sync(&self) -> Result<()>;
    /// A path of this directory for other programs, valid while this exists; `None` in the library.
    fn path(&self) -> Option<PathBuf>;
}

pub(crate) trait OpenFile {
    /// Allocates a range; the file grows to hold it.
    fn fallocate(&self, offset_bytes: u64, len_bytes: u64) -> Result<()>;
    /// Sets the size; a longer file ends with a hole.
    fn truncate(&self, size_bytes: u64) -> Result<()>;
    /// Writes all of `data`.
    fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()>;
    /// Reads; returns the number of bytes, 0 at the end.
    fn read(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize>;
    /// Reads the attributes from the file system itself, not from a cache of the kernel.
    fn attributes(&self) -> Result<()>;
    /// Sets the path of its data from now on, where there is a choice.
    fn set_cache(&self, cache: Cache) -> Result<()>;
    /// Makes the file and its size durable.
    fn fsync(&self) -> Result<()>;
    /// Number of contiguous runs on the device with the file's data.
    fn extent_count(&self) -> Result<usize>;
    /// Drops the kernel's cached data of the file, where there is such a cache.
    fn drop_cache(&self) -> Result<()>;
}

/// Number of runs, given as `(start, length)`, after merging adjacent ones.
pub(crate) fn count_runs(runs: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut end = None;
    runs.filter(|&(start, len)| {
        let anew = end != Some(start);
        end = Some(start + len);
        anew
    })
    .count()
}
