//! Random streams of operations from a seed, and the interface to run them.
//!
//! Paths are relative to the root. Symlinks in the middle of a path are not followed: such a path
//! fails with `ENOTDIR`, as for a caller that walks inode by inode.
//!
//! Invariants: a stream depends only on its seed and its palette; an operation can be saved as JSON
//! and run again.

mod host;
mod stream;

use serde::{Deserialize, Serialize};

pub use host::HostTarget;
pub use stream::{Palette, Stream};

/// An errno as Linux numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Errno(pub i32);

impl Errno {
    /// The operation is not permitted.
    pub const EPERM: Self = Self(1);
    /// A name of the path does not exist.
    pub const ENOENT: Self = Self(2);
    /// No reader or no driver behind a special file.
    pub const ENXIO: Self = Self(6);
    /// Not allowed for this kind of file.
    pub const EACCES: Self = Self(13);
    /// The name exists already.
    pub const EEXIST: Self = Self(17);
    /// A component of the path is no directory.
    pub const ENOTDIR: Self = Self(20);
    /// The operation is not for directories.
    pub const EISDIR: Self = Self(21);
    /// An argument is invalid.
    pub const EINVAL: Self = Self(22);
    /// No space is left.
    pub const ENOSPC: Self = Self(28);
    /// A name or path is too long.
    pub const ENAMETOOLONG: Self = Self(36);
    /// The directory has entries.
    pub const ENOTEMPTY: Self = Self(39);
    /// The last part of the path is a symlink.
    pub const ELOOP: Self = Self(40);
    /// No such extended attribute.
    pub const ENODATA: Self = Self(61);
    /// Not for this kind of file.
    pub const EOPNOTSUPP: Self = Self(95);
}

/// A system that runs operations: the model, a mounted directory, our library.
pub trait Target {
    /// Runs one operation.
    ///
    /// # Errors
    /// The errno of the first rule that the operation breaks.
    fn run(&mut self, op: &Op) -> Result<(), Errno>;
}

/// Bytes of a name, path or value. A list of numbers in JSON.
pub type Bytes = Vec<u8>;

/// One operation, of which a target makes one or a few system calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the system calls"
)]
pub enum Op {
    /// Creates an empty regular file, exclusively.
    Create { path: Bytes, mode: u32 },
    /// Creates an empty directory.
    Mkdir { path: Bytes, mode: u32 },
    /// Creates a named pipe (FIFO).
    Mkfifo { path: Bytes, mode: u32 },
    /// Creates a socket or a device node.
    Mknod { path: Bytes, mode: u32, node: Node },
    /// Creates the symlink `path`, which leads to `target`.
    Symlink { path: Bytes, target: Bytes },
    /// Creates the hard link `to` to `from`.
    Link { from: Bytes, to: Bytes },
    /// Removes a name, not of a directory.
    Unlink { path: Bytes },
    /// Removes a directory, which must be empty.
    Rmdir { path: Bytes },
    /// Renames, with flags of `renameat2`.
    Rename {
        from: Bytes,
        to: Bytes,
        how: RenameHow,
    },
    /// Writes `len_bytes` bytes generated from `seed`.
    Write {
        path: Bytes,
        offset_bytes: u64,
        len_bytes: u32,
        seed: u64,
    },
    /// Sets the size: cuts the file off, or extends it with a hole.
    Truncate { path: Bytes, size_bytes: u64 },
    /// Sets permission bits, setuid, setgid and sticky among them.
    Chmod { path: Bytes, mode: u32 },
    /// Sets owner and group, without following a symlink.
    Chown { path: Bytes, uid: u32, gid: u32 },
    /// Sets an extended attribute, without following a symlink.
    SetXattr {
        path: Bytes,
        name: String,
        value: Bytes,
        how: XattrHow,
    },
    /// Removes an extended attribute, without following a symlink.
    RemoveXattr { path: Bytes, name: String },
    /// Makes a regular file or directory durable.
    Fsync { path: Bytes },
}

/// Node types of `mknod` besides files and pipes; devices with major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A Unix domain socket.
    Socket,
    /// A character device, by major and minor number.
    Char(u32, u32),
    /// A block device, by major and minor number.
    Block(u32, u32),
}

/// Flags of `renameat2`, one combination each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameHow {
    /// No flag: replaces an existing name.
    Replace,
    /// `RENAME_NOREPLACE`: refuses an existing name.
    NoReplace,
    /// `RENAME_EXCHANGE`: swaps two existing names.
    Exchange,
    /// `RENAME_WHITEOUT`: leaves a character device 0:0.
    Whiteout,
    /// `RENAME_WHITEOUT` and `RENAME_NOREPLACE` together.
    WhiteoutNoReplace,
    /// `RENAME_NOREPLACE` and `RENAME_EXCHANGE`: always refused.
    NoReplaceExchange,
}

/// Flags of `setxattr`, one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrHow {
    /// No flag: creates or replaces the attribute.
    Either,
    /// `XATTR_CREATE`: refuses an existing attribute.
    Create,
    /// `XATTR_REPLACE`: refuses a missing attribute.
    Replace,
}

/// The bytes that a [`Op::Write`] writes.
pub fn written_bytes(seed: u64, len_bytes: u32) -> Bytes {
    crate::rng::Rng::new(seed).bytes(len_bytes as usize)
}

/// The operations as one JSON text, to reproduce a run.
///
/// # Panics
/// Never: operations are plain data.
pub fn to_json(ops: &[Op]) -> String {
    serde_json::to_string(ops).expect("operations are plain data")
}

/// Parses the output of [`to_json`].
///
/// # Errors
/// The text is not a list of operations.
pub fn from_json(text: &str) -> anyhow::Result<Vec<Op>> {
    Ok(serde_json::from_str(text)?)
}
