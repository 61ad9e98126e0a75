//! Files that become partitions: copied with their holes, and hashed on the way.
//!
//! Invariants: blocks of zeroes are not written, and not hashed, so neither the bytes of the image
//! nor the hash depend on the holes of the host's file.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use sha2::{Digest, Sha256};
use uext4_device::BlockDevice;
use uext4_num::{clamp_usize, u64_of};

use crate::Result;
use crate::progress::Meter;
use crate::table::Problem;

/// Bytes of a block that is a hole or is not.
const BLOCK: u64 = 4096;
/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// A file that is open.
pub(crate) struct Content {
    file: File,
    there: Metadata,
}

impl Content {
    /// Opens `path`, which must be a regular file.
    pub(crate) fn open(path: &Path) -> std::result::Result<Content, Problem> {
        // A pipe would make the open wait.
        let found = std::fs::metadata(path).map_err(Problem::Content)?;
        if !found.is_file() {
            return Err(Problem::ContentKind);
        }
        let file = File::open(path).map_err(Problem::Content)?;
        let there = file.metadata().map_err(Problem::Content)?;
        if there.is_file() {
            Ok(Content { file, there })
        } else {
            Err(Problem::ContentKind)
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.there.len()
    }

    /// Device and inode number.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.there.dev(), self.there.ino())
    }

    /// Copies it to byte `at` of a blank disk. Returns a hash of its bytes, or what is wrong.
    ///
    /// # Errors
    /// Of the disk, or cancelled.
    pub(crate) fn copy(
        &self,
        disk: &dyn BlockDevice,
        at: u64,
        meter: &mut Meter<'_>,
    ) -> Result<std::result::Result<[u8; 32], Problem>> {
        let mut hash = Sha256::new();
        hash.update(self.len().to_le_bytes());
        let mut done = 0;
        while done < self.len() {
            let data = match uext4_device::data_from(&self.file, done) {
                Ok(data) => data.unwrap_or(self.len()..self.len()),
                Err(error) => return Ok(Err(Problem::Content(error))),
            };
            let start = (data.start / BLOCK * BLOCK).clamp(done, self.len());
            meter.add(start - done)?;
            done = start;
            let end = data.end.next_multiple_of(BLOCK).min(self.len());
            while done < end {
                let mut bytes = vec![0; clamp_usize((end - done).min(PIECE))];
                if let Err(error) = self.file.read_exact_at(&mut bytes, done) {
                    return Ok(Err(match error.kind() {
                        io::ErrorKind::UnexpectedEof => Problem::ContentChanged,
                        _ => Problem::Content(error),
                    }));
                }
                put(disk, at + done, done, &bytes, &mut hash)?;
                done += u64_of(bytes.len());
                meter.add(u64_of(bytes.len()))?;
            }
        }
        // Files of /proc have bytes although their size is 0.
        let has_more = self.file.read_at(&mut [0], self.len());
        Ok(match self.file.metadata() {
            Err(error) => Err(Problem::Content(error)),
            Ok(_) if has_more.is_ok_and(|bytes| bytes > 0) => Err(Problem::ContentChanged),
            Ok(now) if state(&now) != state(&self.there) => Err(Problem::ContentChanged),
            Ok(_) => Ok(hash.finalize().into()),
        })
    }
}

/// What changes with the bytes of a file. Its owner can set the time of modification back, but not
/// that of the change of the inode.
fn state(found: &Metadata) -> [i64; 5] {
    let len = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let modified = (found.mtime(), found.mtime_nsec());
    let changed = (found.ctime(), found.ctime_nsec());
    [len, modified.0, modified.1, changed.0, changed.1]
}

/// Writes and hashes what is not zero. `offset` is that in the file, at the start of a block.
fn put(
    disk: &dyn BlockDevice,
    at: u64,
    offset: u64,
    bytes: &[u8],
    hash: &mut Sha256,
) -> Result<()> {
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let blocks: Vec<&[u8]> = bytes.chunks(clamp_usize(BLOCK)).collect();
    let mut done = 0;
    for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len = run.iter().map(|block| block.len()).sum::<usize>();
        if !run.first().is_some_and(|block| is_zero(block)) {
            disk.write_at(at + u64_of(done), &bytes[done..done + len])?;
            for (nr, block) in (0..).zip(run) {
                hash.update((offset + u64_of(done) + nr * BLOCK).to_le_bytes());
                hash.update(block);
            }
        }
        done += len;
    }
    Ok(())
}
