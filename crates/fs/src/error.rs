//! Errors of the library, and the one table that maps them to errno.

use rustix::io::Errno;
use uext4_format::{Corrupt, InodeNr};

/// Result of the library's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// The error type. [`Error::errno`] gives the Linux errno that ext4 would answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error("device: {0}")]
    Device(#[from] uext4_device::Error),
    /// The journal failed or was aborted; the file system is read-only from then on.
    #[error("journal: {0}")]
    Journal(#[from] uext4_journal::Error),
    /// A structure on disk is damaged.
    #[error("damaged file system: {0}; run e2fsck on the image")]
    Corrupt(#[from] Corrupt),
    /// The image needs a feature that uext4 does not have.
    #[error("the image needs the feature {0}, which uext4 does not support")]
    Unsupported(&'static str),
    /// An operation or argument that this file system or file does not support.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// A mount option that is unknown or has a bad value.
    #[error("mount option {0}")]
    Option(String),
    /// The device holds no ext4 file system, or one that cannot be mounted as asked.
    #[error("cannot mount: {0}")]
    Mount(String),
    /// The mount cannot change as asked.
    #[error("cannot remount: {0}")]
    Remount(#[from] RemountError),
    /// The file system cannot get the size.
    #[error("cannot resize: {0}")]
    Resize(#[from] ResizeError),
    /// The file system or file is read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("file exists")]
    Exists,
    /// A directory is needed.
    #[error("not a directory")]
    NotDirectory,
    /// Not possible on a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// No free block or directory slot.
    #[error("no space left on device")]
    NoSpace,
    /// No free inode. Linux has one errno for this and [`Self::NoSpace`].
    #[error("no free inodes, though there may be free space")]
    NoInodes,
    /// A quota is used up.
    #[error("disk quota exceeded")]
    Quota,
    /// The name is longer than 255 bytes, or the path too long.
    #[error("file name too long")]
    NameTooLong,
    /// The inode has as many links as the format allows.
    #[error("too many links")]
    TooManyLinks,
    /// The caller may not access this.
    #[error("permission denied")]
    Access,
    /// The caller is not allowed to do this.
    #[error("operation not permitted")]
    NotPermitted,
    /// An argument is invalid.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The file would be larger than the format allows.
    #[error("file too large")]
    TooLarge,
    /// Too many symbolic links on the way.
    #[error("too many levels of symbolic links")]
    Loop,
    /// The two names are on different file systems or projects.
    #[error("invalid cross-device link")]
    CrossDevice,
    /// The extended attribute does not exist.
    #[error("no such attribute")]
    NoAttribute,
    /// The buffer is too small for the value.
    #[error("result too large for the buffer")]
    Range,
    /// The value is longer than an attribute may be.
    #[error("argument too long")]
    TooBig,
    /// Past the last data or hole.
    #[error("no such offset")]
    NoOffset,
    /// The file is in use (mounted over, running).
    #[error("resource busy")]
    Busy,
    /// The handle belongs to an inode that is gone.
    #[error("stale file handle")]
    Stale,
    /// The file system was shut down ([`crate::Filesystem::shutdown`]).
    #[error("the file system was shut down; unmount it, and the next mount recovers it")]
    Shutdown,
    /// The file system was unmounted ([`crate::Filesystem::unmount`]).
    #[error("the file system is unmounted; mount it again")]
    Unmounted,
    /// The encryption key is not there.
    #[error("required key not available")]
    NoKey,
}

/// Reason for a refused remount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemountError {
    /// The option cannot change while mounted.
    #[error("{0} cannot change while mounted; unmount and mount again")]
    Fixed(&'static str),
    /// The device is read-only.
    #[error("the image or device cannot be written")]
    ReadOnlyDevice,
    /// A feature of the file system allows reads only.
    #[error("a feature of the file system is supported for reading only")]
    ReadOnlyFeature,
    /// The journal was not replayed.
    #[error("it was mounted with noload; unmount, and mount read-write to replay the journal")]
    NotReplayed,
    /// Fast commits were replayed in memory only.
    #[error("fast commits were replayed in memory; unmount, and mount read-write to replay them")]
    FastCommits,
    /// The device was written by another party.
    #[error("the device was changed since; unmount and mount again")]
    ChangedBelow,
    /// An error stopped the mount.
    #[error("it was stopped by an error; unmount, run e2fsck, and mount again")]
    Failed,
    /// Deleted files are still open.
    #[error("files without a name are in use; close them first")]
    Busy,
    /// The file system is frozen.
    #[error("it is frozen; thaw it first")]
    Frozen,
}

/// Reason for a refused change of size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// Growth to less than the present size.
    #[error("it has {now_bytes} bytes, which is more")]
    Smaller {
        /// The present size.
        now_bytes: u64,
    },
    /// A mounted file system to less than its size.
    #[error(
        "it has {now_bytes} bytes, and does not become smaller while mounted; unmount it first"
    )]
    SmallerMounted {
        /// The present size.
        now_bytes: u64,
    },
    /// Less than the minimum.
    #[error("it cannot be smaller than {min_blocks} blocks ({min_bytes} bytes): {why}")]
    TooSmall {
        /// The minimum in blocks.
        min_blocks: u64,
        /// The minimum in bytes.
        min_bytes: u64,
        /// What is in the way.
        why: InTheWay,
    },
    /// A block without an owner or with several.
    #[error("block {block} has no owner or several of them; run e2fsck -f first")]
    Owner {
        /// The block.
        block: u64,
    },
    /// More blocks than their numbers allow.
    #[error("it has block numbers of {bits} bits, so at most {max_bytes} bytes")]
    TooManyBlocks {
        /// Bits of a block number: 32 without the feature 64bit, else 48.
        bits: u32,
        /// The largest size.
        max_bytes: u64,
    },
    /// More groups than inode numbers allow.
    #[error("its groups have so many inodes that it has at most {max_bytes} bytes")]
    TooManyInodes {
        /// The largest size.
        max_bytes: u64,
    },
    /// A mount keeps memory for fewer groups.
    #[error(
        "this mount can grow to {limit_bytes} bytes; mount it with a larger growth_limit, or \
         unmount it first"
    )]
    GrowthLimit {
        /// The largest size.
        limit_bytes: u64,
    },
    /// The device is smaller.
    #[error("{needed_bytes} bytes are needed, and the device has {there_bytes}")]
    Device {
        /// Bytes of the file system.
        needed_bytes: u64,
        /// Bytes of the device.
        there_bytes: u64,
    },
    /// It is marked with errors.
    #[error("it is marked with errors; run e2fsck -f first")]
    Errors,
    /// It is not marked clean, as after a crash without a journal.
    #[error("it is not marked clean; run e2fsck -f first")]
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
        /// Reserved blocks.
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
        /// Free blocks.
        free: u64,
    },
    /// A larger inode table has no free run in its group, where it has to be.
    #[error(
        "the larger inode table of group {group} needs {blocks} free blocks in a row in that \
         group; with the feature flex_bg it may be anywhere (uext4 tune -O flex_bg)"
    )]
    OwnTables {
        /// The group.
        group: u32,
        /// Blocks of the table.
        blocks: u32,
    },
    /// A larger inode table has no free run.
    #[error(
        "the larger inode table of group {group} needs {blocks} free blocks in a row; grow or \
         compact the file system first"
    )]
    Tables {
        /// The group.
        group: u32,
        /// Blocks of the table.
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
        /// The first one.
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
        /// The block.
        block: u64,
    },
    /// A block of a reserved inode.
    #[error("inode {inode} has block {block}, which does not move")]
    Reserved {
        /// The inode.
        inode: InodeNr,
        /// A block of it.
        block: u64,
    },
    /// There is no free space for what is behind the new end.
    #[error("before the new end is not enough free space for what is behind it")]
    Space,
    /// The descriptors do not fit, or fill fewer blocks than they have before those of `meta_bg`.
    #[error("the group descriptors keep their place")]
    Descriptors,
}

impl Error {
    /// The Linux errno of this error.
    pub fn errno(&self) -> i32 {
        self.linux().raw_os_error()
    }

    fn linux(&self) -> Errno {
        match self {
            Error::Device(device) => device_errno(device),
            Error::Journal(journal) => journal_errno(journal),
            Error::Corrupt(_) => Errno::UCLEAN,
            Error::Unsupported(_) | Error::NotSupported(_) => Errno::OPNOTSUPP,
            Error::Option(_) | Error::Mount(_) | Error::Invalid(_) => Errno::INVAL,
            Error::Remount(why) => remount_errno(why),
            Error::Resize(why) => resize_errno(why),
            Error::ReadOnly => Errno::ROFS,
            Error::NotFound => Errno::NOENT,
            Error::Exists => Errno::EXIST,
            Error::NotDirectory => Errno::NOTDIR,
            Error::IsDirectory => Errno::ISDIR,
            Error::NotEmpty => Errno::NOTEMPTY,
            Error::NoSpace | Error::NoInodes => Errno::NOSPC,
            Error::Quota => Errno::DQUOT,
            Error::NameTooLong => Errno::NAMETOOLONG,
            Error::TooManyLinks => Errno::MLINK,
            Error::Access => Errno::ACCESS,
            Error::NotPermitted => Errno::PERM,
            Error::TooLarge => Errno::FBIG,
            Error::Loop => Errno::LOOP,
            Error::CrossDevice => Errno::XDEV,
            Error::NoAttribute => Errno::NODATA,
            Error::Range => Errno::RANGE,
            Error::TooBig => Errno::TOOBIG,
            Error::NoOffset => Errno::NXIO,
            Error::Busy => Errno::BUSY,
            Error::Stale => Errno::STALE,
            Error::Shutdown | Error::Unmounted => Errno::IO,
            Error::NoKey => Errno::NOKEY,
        }
    }
}

fn remount_errno(why: &RemountError) -> Errno {
    use RemountError as Why;
    match why {
        Why::ReadOnlyDevice | Why::ReadOnlyFeature | Why::Failed => Errno::ROFS,
        Why::Busy | Why::Frozen | Why::ChangedBelow => Errno::BUSY,
        Why::Fixed(_) | Why::NotReplayed | Why::FastCommits => Errno::INVAL,
    }
}

fn resize_errno(why: &ResizeError) -> Errno {
    use ResizeError as Why;
    match why {
        Why::Smaller { .. } | Why::SmallerMounted { .. } => Errno::INVAL,
        Why::Errors | Why::Unclean | Why::Reserved | Why::Owner { .. } => Errno::UCLEAN,
        Why::Device { .. }
        | Why::TooTight
        | Why::ReservedDescriptors { .. }
        | Why::TableSpace { .. }
        | Why::OwnTables { .. }
        | Why::Tables { .. }
        | Why::Journal { .. }
        | Why::TooSmall { .. } => Errno::NOSPC,
        Why::TooManyBlocks { .. } | Why::TooManyInodes { .. } | Why::GrowthLimit { .. } => {
            Errno::FBIG
        }
    }
}

fn device_errno(error: &uext4_device::Error) -> Errno {
    match error {
        uext4_device::Error::ReadOnly | uext4_device::Error::WriteProtected => Errno::ROFS,
        uext4_device::Error::Io { source, .. } => source
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error),
        uext4_device::Error::Busy { .. } => Errno::BUSY,
        _ => Errno::IO,
    }
}

fn journal_errno(error: &uext4_journal::Error) -> Errno {
    match error {
        uext4_journal::Error::Aborted { .. } => Errno::ROFS,
        uext4_journal::Error::Corrupt(_) => Errno::UCLEAN,
        _ => Errno::IO,
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::new(
            std::io::Error::from_raw_os_error(error.errno()).kind(),
            error,
        )
    }
}
