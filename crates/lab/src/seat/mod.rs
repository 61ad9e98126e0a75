//! Where a worker sits: a current directory and the operations that experiments are made of.

mod library;
mod syscalls;

pub(crate) use library::LibrarySeat;
pub(crate) use syscalls::SystemSeat;

use anyhow::Result;
use std::path::PathBuf;

/// What a file's data go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// The kernel's page cache.
    Through,
    /// Past it (`O_DIRECT`): memory, offset and length are aligned.
    Past,
}

/// One worker's way into a file system.
pub(crate) trait Seat {
    /// Makes the directory `name` here, unless it is there.
    fn make_dir(&self, name: &str) -> Result<()>;
    /// Goes into the directory `name`.
    fn enter(&mut self, name: &str) -> Result<()>;
    /// Another seat, in the directory `name` here.
    fn below(&self, name: &str) -> Result<Box<dyn Seat>>;
    /// Makes an empty file that was not there, and closes it.
    fn create(&self, name: &str) -> Result<()>;
    /// Looks a name up and reads its attributes.
    fn stat(&self, name: &str) -> Result<()>;
    /// Looks up a name that is not there.
    fn miss(&self, name: &str) -> Result<()>;
    /// Lists the directory; how many names there are.
    fn list(&self) -> Result<u64>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes a file that was not there, and keeps it open.
    fn open_new(&self, name: &str) -> Result<Box<dyn OpenFile>>;
    /// Makes everything durable that was done in this file system.
    fn sync(&self) -> Result<()>;
    /// A path of this directory for other programs, while this lives; `None` in the library.
    fn path(&self) -> Option<PathBuf>;
}

/// An open file.
pub(crate) trait OpenFile {
    /// Allocates a range; the file grows to hold it.
    fn fallocate(&self, offset_bytes: u64, len_bytes: u64) -> Result<()>;
    /// Sets the size.
    fn truncate(&self, size_bytes: u64) -> Result<()>;
    /// Writes all of `data`.
    fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()>;
    /// Reads; answers how many bytes, 0 at the end.
    fn read(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize>;
    /// Asks for the attributes, of the file system itself and not of a cache of the kernel.
    fn attributes(&self) -> Result<()>;
    /// From now on its data go this way, where there is a choice.
    fn set_cache(&self, cache: Cache) -> Result<()>;
    /// Makes the file durable.
    fn fsync(&self) -> Result<()>;
    /// Stretches of the device that the file's data stand in.
    fn extent_count(&self) -> Result<usize>;
    /// Lets the kernel forget cached data of the file, where there is such a cache.
    fn drop_cache(&self) -> Result<()>;
}

/// How many stretches runs of `(start, length)` make when those that touch count as one.
fn stretches(runs: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut end = None;
    let starts_anew = |&(start, len): &(u64, u64)| {
        let anew = end != Some(start);
        end = Some(start + len);
        anew
    };
    runs.filter(starts_anew).count()
}
