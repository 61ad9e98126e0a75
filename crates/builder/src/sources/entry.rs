//! What a source says of one file: path, attributes, type and contents.

use std::io::{self, Read};
use std::ops::Range;
use uext4_format::{DeviceNumber, Timestamp};

/// A file of a source, or one more name of a file.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Path below the root of the image: names separated by one `/` each, any bytes but zero, no
    /// `.` or `..`; empty for the root directory itself.
    pub path: Vec<u8>,
    /// Owner, mode, time and extended attributes; ignored for [`Node::Link`].
    pub attributes: Attributes,
    /// Type of the file, with its contents or target.
    pub node: Node<'a>,
}

/// Attributes of a file, as the image gets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits with setuid, setgid and sticky: the low 12 bits of the mode.
    pub permissions: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Last change of the contents; the image has it as time of all four kinds.
    pub mtime: Timestamp,
    /// Extended attributes in any order, each name once.
    pub xattrs: Vec<Xattr>,
}

/// An extended attribute as Linux names and stores it: ACLs as `system.posix_acl_access` in the
/// form of `getxattr`, capabilities as `security.capability`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Name with its prefix.
    pub name: Vec<u8>,
    /// Value, any bytes.
    pub value: Vec<u8>,
}

/// Type and contents of a file.
#[derive(Debug)]
pub enum Node<'a> {
    /// A directory; its entries come as entries of their own.
    Directory,
    /// A regular file with its contents.
    File(Content<'a>),
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
    /// One more name of the file at this path, which the same layer has already given, or a layer
    /// below it has.
    Link(Vec<u8>),
    /// A character device with its number.
    CharDevice(DeviceNumber),
    /// A block device with its number.
    BlockDevice(DeviceNumber),
    /// A named pipe (FIFO).
    Fifo,
    /// A Unix domain socket.
    Socket,
}

/// Contents of a regular file.
pub struct Content<'a> {
    /// Size of the file in bytes.
    pub size: u64,
    /// Its bytes outside of holes.
    pub data: Data<'a>,
}

/// Bytes of a file outside of holes, which are zero.
pub enum Data<'a> {
    /// A stream that has the bytes of these ranges one after the other, and can be read only during
    /// [`crate::Sink::add`]. The ranges are ascending and do not pass the file's end.
    Stream {
        /// The ranges of the file, in bytes.
        ranges: Vec<Range<u64>>,
        /// The bytes of the ranges, one after the other.
        reader: &'a mut dyn Read,
    },
    /// A file that can be read at any later time, from any thread. The builder finds its zero
    /// blocks itself; the ranges are where data may be.
    Later {
        /// The ranges of the file, in bytes, ascending.
        ranges: Vec<Range<u64>>,
        /// The file; offsets are those of the new file.
        file: Box<dyn ReadAt>,
    },
}

/// A file that several threads can read at any offset.
pub trait ReadAt: Send + Sync {
    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// Those of the source; [`io::ErrorKind::UnexpectedEof`] if the file has become shorter.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl std::fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = match &self.data {
            Data::Stream { ranges, .. } | Data::Later { ranges, .. } => ranges,
        };
        f.debug_struct("Content")
            .field("size", &self.size)
            .field("ranges", ranges)
            .finish_non_exhaustive()
    }
}
