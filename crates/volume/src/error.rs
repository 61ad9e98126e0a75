//! Errors of work on a file system that is not mounted.

use uext4_format::{Corrupt, InodeNr};

/// Result of the crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type. The engine's error has the same cases and texts, beside those of operations on
/// files: its users see one type, and this crate does not know the others.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The device failed with this error.
    #[error("device: {0}")]
    Device(#[from] uext4_device::Error),
    /// The journal failed with this error.
    #[error("journal: {0}")]
    Journal(#[from] uext4_journal::Error),
    /// A structure on disk is damaged.
    #[error("damaged file system: {0}; run `uext4 fsck` on the image")]
    Corrupt(#[from] Corrupt),
    /// The image needs a feature that uext4 does not have.
    #[error("the image needs the feature {0}, which uext4 does not support")]
    Unsupported(&'static str),
    /// A change that this file system does not support.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The device holds no ext4 file system, or one that cannot be opened as asked.
    #[error("cannot mount: {0}")]
    Mount(String),
    /// The file system cannot get the size, or cannot be changed as it is.
    #[error("cannot resize: {0}")]
    Resize(#[from] ResizeError),
    /// The file system or the device is read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// No block is free for the change.
    #[error("no space left on device")]
    NoSpace,
    /// An argument is invalid; the text says which and why.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
}

/// Reason for a refused change of size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// Growth to less than the present size.
    #[error("it has {now_bytes} bytes, which is more")]
    Smaller {
        /// Present size in bytes.
        now_bytes: u64,
    },
    /// A mounted file system to less than its size.
    #[error(
        "it has {now_bytes} bytes, and does not become smaller while mounted; unmount it first"
    )]
    SmallerMounted {
        /// Present size in bytes.
        now_bytes: u64,
    },
    /// The new size is less than the minimum.
    #[error("it cannot be smaller than {min_blocks} blocks ({min_bytes} bytes): {why}")]
    TooSmall {
        /// Least possible size, in blocks.
        min_blocks: u64,
        /// Least possible size, in bytes.
        min_bytes: u64,
        /// What is in the way.
        why: InTheWay,
    },
    /// A block without an owner or with several.
    #[error("block {block} has no owner or several of them; run `uext4 fsck -f` first")]
    Owner {
        /// Number of such a block.
        block: u64,
    },
    /// More blocks than their numbers allow.
    #[error("it has block numbers of {bits} bits, so at most {max_bytes} bytes")]
    TooManyBlocks {
        /// Bits of a block number: 32 without the feature 64bit, else 48.
        bits: u32,
        /// Largest size in bytes.
        max_bytes: u64,
    },
    /// More groups than inode numbers allow.
    #[error("its groups have so many inodes that it has at most {max_bytes} bytes")]
    TooManyInodes {
        /// Largest size in bytes.
        max_bytes: u64,
    },
    /// A mount keeps memory for fewer groups.
    #[error(
        "this mount can grow to {limit_bytes} bytes; mount it with a larger growth_limit, or \
         unmount it first"
    )]
    GrowthLimit {
        /// Largest size of this mount in bytes.
        limit_bytes: u64,
    },
    /// The device is smaller than the new size.
    #[error("{needed_bytes} bytes are needed, and the device has {there_bytes}")]
    Device {
        /// Bytes of the file system.
        needed_bytes: u64,
        /// Size of the device, in bytes.
        there_bytes: u64,
    },
    /// It was not unmounted, or is not opened by its primary superblock.
    #[error("it was not unmounted; mount and unmount it, or run `uext4 fsck`, and try again")]
    NotRecovered,
    /// It is marked with errors.
    #[error("it is marked with errors; run `uext4 fsck -f` first")]
    Errors,
    /// It is not marked clean, as after a crash without a journal.
    #[error("it is not marked clean; run `uext4 fsck -f` first")]
    Unclean,
    /// The reserved descriptor blocks contradict the features.
    #[error("blocks are reserved for descriptors against its features; run e2fsck -f first")]
    Reserved,
    /// Wider descriptors take more blocks than are reserved for them.
    #[error(
        "wider descriptors need {more} more blocks behind their table, where {reserved} are \
         reserved; resize2fs -b moves what is there"
    )]
    ReservedDescriptors {
        /// Blocks that the table becomes longer by.
        more: u32,
        /// Blocks reserved behind the descriptor table.
        reserved: u32,
    },
    /// There is no space for bitmaps and inode tables.
    #[error("bitmaps and inode tables of the last groups do not fit; choose a larger size")]
    TooTight,
    /// Larger inode tables take more blocks than are free.
    #[error(
        "the larger inode tables need {wanted} blocks beside the present ones, and {free} are \
         free; grow the file system first"
    )]
    TableSpace {
        /// Blocks of all new tables.
        wanted: u64,
        /// Blocks that are free for them.
        free: u64,
    },
    /// A larger inode table has no free run in its group, where it has to be.
    #[error(
        "the larger inode table of group {group} needs {blocks} free blocks in a row in that \
         group; with the feature flex_bg it may be anywhere (uext4 tune -O flex_bg)"
    )]
    OwnTables {
        /// Number of the group, from 0.
        group: u32,
        /// Length of the larger table, in blocks.
        blocks: u32,
    },
    /// A larger inode table has no free run.
    #[error(
        "the larger inode table of group {group} needs {blocks} free blocks in a row; grow or \
         compact the file system first"
    )]
    Tables {
        /// Number of the group, from 0.
        group: u32,
        /// Length of the larger table, in blocks.
        blocks: u32,
    },
    /// The log cannot hold the change.
    #[error(
        "its journal has room for {room} blocks, and the change has {wanted}; enlarge it first"
    )]
    Journal {
        /// Blocks that would change at once.
        wanted: u64,
        /// Blocks that one transaction may change.
        room: u64,
    },
}

/// What keeps a file system from being smaller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InTheWay {
    /// Inodes of groups that would go, for which groups that stay have no free ones.
    #[error(
        "inode {inode} and others of groups that would go ({needed} in all) need free inodes \
         before, and there are {there}"
    )]
    Inodes {
        /// The first of these inodes.
        inode: InodeNr,
        /// How many there are.
        needed: u64,
        /// Free inodes of groups that stay.
        there: u64,
    },
    /// Inodes keep their numbers.
    #[error("inode {inode} is in a group that would go, and the feature stable_inodes keeps it")]
    StableInodes {
        /// The first one of a group that would go.
        inode: InodeNr,
    },
    /// Without a journal a crash could lose inodes on their way.
    #[error(
        "inode {inode} is in a group that would go; it moves only with a journal, which makes that \
         safe (uext4 tune -O has_journal)"
    )]
    InodesWithoutJournal {
        /// The first one of a group that would go.
        inode: InodeNr,
    },
    /// Bitmaps or inode tables of a group that stays.
    #[error("a bitmap or an inode table ends with block {block}, and has no place before the end")]
    Metadata {
        /// The last block of it.
        block: u64,
    },
    /// The block of the multiple mount protection.
    #[error("block {block} is that of the multiple mount protection, and does not move")]
    Mmp {
        /// Number of its block.
        block: u64,
    },
    /// A block of a reserved inode.
    #[error("inode {inode} has block {block}, which does not move")]
    Reserved {
        /// Number of the reserved inode.
        inode: InodeNr,
        /// One of its blocks that would have to move.
        block: u64,
    },
    /// There is no free space for what is behind the new end.
    #[error("before the new end is not enough free space for what is behind it")]
    Space,
    /// The descriptors do not fit, or fill fewer blocks than they have before those of `meta_bg`.
    #[error("the group descriptors keep their place")]
    Descriptors,
}
