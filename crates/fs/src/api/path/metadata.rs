//! Attributes of a file, with the interface of `std::fs::Metadata`.

use crate::types::attr::{Attr, FileType, Timestamp};
use std::time::{Duration, SystemTime};

/// Attributes of a file at the time of the call that returned them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(Attr);

impl Metadata {
    pub(super) fn new(attr: Attr) -> Self {
        Self(attr)
    }

    /// All attributes, with those that have no method here.
    pub fn attr(&self) -> &Attr {
        &self.0
    }

    /// Type of the file; a symbolic link is a type of its own.
    pub fn file_type(&self) -> FileType {
        self.0.kind
    }

    /// True for a directory, not for a symbolic link to one.
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileType::Directory
    }

    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.0.kind == FileType::Regular
    }

    /// True for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileType::Symlink
    }

    /// Size in bytes, holes included.
    #[expect(clippy::len_without_is_empty, reason = "as std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.0.size_bytes
    }

    /// Permission bits with setuid, setgid and sticky (`0o7777`).
    pub fn mode(&self) -> u16 {
        self.0.mode
    }

    /// User id of the owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group id of the file.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Inode number, from 1.
    pub fn ino(&self) -> u32 {
        self.0.ino.0
    }

    /// Number of hard links.
    pub fn nlink(&self) -> u32 {
        self.0.links
    }

    /// Time of the last change of the data.
    pub fn modified(&self) -> SystemTime {
        system_time(self.0.mtime)
    }

    /// Time of the last read, subject to the atime mount options.
    pub fn accessed(&self) -> SystemTime {
        system_time(self.0.atime)
    }

    /// Time of creation; `None` when the inode has no field for it.
    pub fn created(&self) -> Option<SystemTime> {
        (self.0.crtime != Timestamp::default()).then(|| system_time(self.0.crtime))
    }
}

/// Converts a time; ext4's range, 1901 to 2446, fits `SystemTime` on Linux.
fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH - seconds
    } else {
        SystemTime::UNIX_EPOCH + seconds
    };
    whole + Duration::from_nanos(u64::from(time.nanoseconds))
}
