//! Regular files of the host, read later.

use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use siphasher::sip::SipHasher13;
use uext4_num::{clamp_u32, nonnegative, usize_of};

use super::names::Directory;
use crate::sources::entry::ReadAt;

/// How files are opened: without effects on what is no regular file.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A regular file that is read later.
pub(super) struct HostFile {
    directory: Arc<Directory>,
    /// Start of its name.
    name: u32,
    /// Hash of what changes if the file does.
    stamp: u64,
}

impl HostFile {
    pub(super) fn new(directory: Arc<Directory>, name: usize, stat: &Stat) -> HostFile {
        HostFile {
            directory,
            name: clamp_u32(name),
            stamp: stamp(stat),
        }
    }

    fn open(&self) -> io::Result<std::fs::File> {
        let fd = self.directory.open(usize_of(self.name), READ)?;
        if stamp(&rustix::fs::fstat(&fd)?) != self.stamp {
            return Err(io::Error::other(
                "the file has changed while the image was built",
            ));
        }
        Ok(fd.into())
    }

    /// Where data are: the host's holes are left out.
    pub(super) fn ranges(&self, stat: &Stat) -> io::Result<Vec<Range<u64>>> {
        let size = nonnegative(stat.st_size);
        let whole = 0..size;
        if size == 0 {
            Ok(Vec::new())
        } else if nonnegative(stat.st_blocks) * 512 < size {
            data_ranges(&self.open()?, size)
        } else {
            Ok(vec![whole])
        }
    }
}

impl ReadAt for HostFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.open()?.read_exact_at(buf, offset)
    }
}

fn data_ranges(file: &std::fs::File, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(size);
        if start < end {
            ranges.push(start..end);
        }
        at = end.max(start + 1);
    }
    Ok(ranges)
}

fn stamp(stat: &Stat) -> u64 {
    let mut hasher = SipHasher13::new();
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mode).hash(&mut hasher);
    (stat.st_mtime, stat.st_mtime_nsec).hash(&mut hasher);
    (stat.st_ctime, stat.st_ctime_nsec).hash(&mut hasher);
    hasher.finish()
}
