//! Realistic tree from a seed: typical contents of a file system, with all known corner cases.
//!
//! A [`TreeSpec`] is only a description. [`TreeSpec::apply`] creates it in any mounted directory,
//! [`TreeSpec::manifest`] is the expected result.
//!
//! Invariants: a parent precedes its children, the first name of a hard link group precedes the
//! others. The same seed and shape give the same tree.
//!
//! Not here: reading a tree ([`crate::manifest`]).

mod apply;
mod attributes;
mod content;
mod expect;
mod generate;
mod names;
mod tar;

use std::collections::BTreeMap;

pub use content::{Content, Piece, Style};
pub use tar::{pack, unpack};

/// A tree below some root; the root itself is not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSpec {
    /// Every name, parents first.
    pub nodes: Vec<Node>,
}

/// One name and, unless it is a further hard link, its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path relative to the root, no leading slash.
    pub path: Vec<u8>,
    /// Type, with what belongs to it.
    pub kind: NodeKind,
    /// Attributes of its inode.
    pub attributes: Attributes,
}

/// Type of a node, with its content, target or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A regular file with its content.
    File(Content),
    /// A directory; its entries are nodes of their own.
    Directory,
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
    /// Another name of the node with this index.
    HardLink(usize),
    /// A character device with its number.
    CharDevice(Device),
    /// A block device with its number.
    BlockDevice(Device),
    /// A named pipe (FIFO).
    Fifo,
    /// A socket, of which only the name counts.
    Socket,
}

/// Major and minor number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Major number, 12 bits.
    pub major: u32,
    /// Minor number, 20 bits.
    pub minor: u32,
}

/// Attributes of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits with setuid, setgid and sticky (`0o7777`).
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of content.
    pub mtime: Time,
    /// Extended attributes, full names.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A time as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanos: u32,
}

/// Size and features of a tree.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of names in the tree.
    pub entries: usize,
    /// Privilege of the process that applies it.
    pub privilege: Privilege,
    /// Longest symlink target: below the block size of the file system, and below 4096.
    pub symlink_max_bytes: usize,
    /// Most bytes of names and values of extended attributes of one inode.
    pub xattr_max_bytes: usize,
    /// Most bytes of data in all files together.
    pub data_max_bytes: u64,
}

/// Privilege of the process that applies a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Owners, device nodes, `trusted.` and `security.` attributes.
    Root,
    /// Only what every user may do.
    User,
}

impl Shape {
    /// A tree of `entries` names for root and 4 KiB blocks.
    pub fn new(entries: usize) -> Self {
        Self {
            entries,
            privilege: Privilege::Root,
            symlink_max_bytes: 4095,
            xattr_max_bytes: 3000,
            data_max_bytes: (16 << 20) + ((entries as u64) << 13),
        }
    }

    /// The same for a file system with blocks of `block_size_bytes`.
    pub fn for_block_size(mut self, block_size_bytes: usize) -> Self {
        self.symlink_max_bytes = (block_size_bytes - 1).min(4095);
        self.xattr_max_bytes = (block_size_bytes * 3 / 4).min(3000);
        self
    }
}
