//! Files of the tree: 80 bytes each, and the location of their contents.

use std::borrow::Cow;
use std::ops::Range;

use uext4_format::{BlockNr, FileType, InodeNr, Timestamp};

use crate::sources::entry::ReadAt;
use crate::tree::ids::{AttributesId, NameId};

/// Reason why a directory exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Only for names below it that hide others. The image does not have it.
    Marks,
    /// For files below it. The first entry gives it attributes.
    Implicit,
    /// An entry; also all other files.
    Entry,
    /// Stands for the file of a layer below to which a hard link leads.
    Pending,
    /// Value of an extended attribute.
    Value,
}

/// Blocks of a file that follow one another in the file and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedRun {
    /// First block of the file.
    pub(crate) logical: u32,
    /// Length in blocks.
    pub(crate) blocks: u32,
    /// First block on disk.
    pub(crate) start: BlockNr,
}

/// Location of the contents of a file, as far as the build has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataLocation {
    /// The file has no data.
    None,
    /// In a file that is read later: an index.
    Later(u32),
    /// In memory, as many bytes as the file has: target of a symbolic link, or what the inode
    /// holds (feature `inline_data`). An offset in the arena.
    Kept(u32),
    /// The children of a directory: a range of the sorted names.
    Children { first: u32, count: u32 },
    /// One run of blocks on the device.
    One(MappedRun),
    /// Several runs: an index into the lists of runs.
    Many(u32),
}

/// A file of the tree, of any type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) kind: FileType,
    pub(crate) origin: Origin,
    /// One more than the layer that hides everything below of the layers below it; 0: none.
    pub(crate) opaque: u16,
    /// The name of a directory; `None` for a root.
    pub(crate) name: Option<NameId>,
    pub(crate) attributes: AttributesId,
    pub(crate) nanoseconds: u32,
    pub(crate) seconds: i64,
    /// Size in bytes; of a device, its numbers.
    pub(crate) size: u64,
    /// Digest of the contents. Of a directory with an index: 1.
    pub(crate) digest: u64,
    pub(crate) location: DataLocation,
    /// Names, and for a directory `.` and the `..` below it; counted at the end.
    pub(crate) links: u32,
    pub(crate) ino: InodeNr,
}

impl File {
    pub(crate) fn mtime(&self) -> Timestamp {
        Timestamp::new(self.seconds, self.nanoseconds)
    }

    /// Whether the directory has an index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.is_directory() && self.digest != 0
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }
}

/// A file whose contents are read at the end.
pub(crate) struct Later {
    pub(crate) file: Box<dyn ReadAt>,
    /// Where data may be; `None`: everywhere.
    pub(crate) ranges: Option<Box<[Range<u64>]>>,
}

impl Later {
    /// Where data may be in a file of this size.
    pub(crate) fn ranges_of(&self, size: u64) -> Cow<'_, [Range<u64>]> {
        match &self.ranges {
            Some(ranges) => Cow::Borrowed(ranges),
            None => Cow::Owned(std::iter::once(0..size).collect()),
        }
    }
}
