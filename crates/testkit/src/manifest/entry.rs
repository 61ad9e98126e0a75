//! Entry of a manifest: the visible state of one name.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use crate::tree::{Device, Time};

/// A tree as seen through system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Entry by path relative to the root (the root has the empty path).
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// Type of an inode, as `st_mode` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file (`S_IFREG`).
    File,
    /// Directory (`S_IFDIR`).
    Directory,
    /// Symbolic link (`S_IFLNK`).
    Symlink,
    /// Character device (`S_IFCHR`).
    CharDevice,
    /// Block device (`S_IFBLK`).
    BlockDevice,
    /// Named pipe (`S_IFIFO`).
    Fifo,
    /// Unix domain socket (`S_IFSOCK`).
    Socket,
}

/// Visible state of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Type of the inode.
    pub kind: FileKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Number of hard links.
    pub nlink: u64,
    /// Size in bytes (`st_size`).
    pub size_bytes: u64,
    /// Allocated sectors of 512 bytes.
    pub allocated_sectors: u64,
    /// Time of the last access.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Device number of a device node.
    pub device: Option<Device>,
    /// Target of a symlink; `None` for other types.
    pub target: Option<Vec<u8>>,
    /// Extended attributes of all namespaces, ACLs among them.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Hash of a regular file's content, holes read as zeros.
    pub hash: Option<u128>,
    /// Runs of data found by `SEEK_DATA` and `SEEK_HOLE`.
    pub data_runs: Option<Vec<DataRun>>,
    /// First path of the hard link group, if it has more than one in the tree.
    pub link_group: Option<Vec<u8>>,
}

/// A run of data in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRun {
    /// First byte of the run, as an offset in the file.
    pub start_bytes: u64,
    /// First byte after it.
    pub end_bytes: u64,
}

impl Entry {
    /// An entry with only its type.
    pub fn new(kind: FileKind) -> Self {
        let epoch = Time {
            seconds: 0,
            nanos: 0,
        };
        Self {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: 1,
            size_bytes: 0,
            allocated_sectors: 0,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            device: None,
            target: None,
            xattrs: BTreeMap::new(),
            hash: None,
            data_runs: None,
            link_group: None,
        }
    }
}

/// Hash of content: XXH3 of 128 bits, sufficient without an adversary.
#[derive(Clone, Default)]
pub struct Hasher(Xxh3);

impl Hasher {
    /// The hash of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes that follow those added before.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    pub fn finish(&self) -> u128 {
        self.0.digest128()
    }
}
