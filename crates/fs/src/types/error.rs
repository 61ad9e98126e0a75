//! Errors of the library, and the one table that maps them to errno.

use rustix::io::Errno;
use uext4_format::Corrupt;
pub use uext4_volume::{InTheWay, ResizeError};

/// Result of the library's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// The error type. [`Error::errno`] gives the Linux errno that ext4 would return.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An access to the device failed or was refused.
    #[error("device: {0}")]
    Device(#[from] uext4_device::Error),
    /// The journal failed or was aborted; the file system is read-only from then on.
    #[error("journal: {0}")]
    Journal(#[from] uext4_journal::Error),
    /// A structure on disk is damaged.
    #[error("damaged file system: {0}; run `uext4 fsck` on the image")]
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
    /// The name is in use already.
    #[error("file exists")]
    Exists,
    /// A component of the path, or the operand, must be a directory and is not.
    #[error("not a directory")]
    NotDirectory,
    /// Not possible on a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries besides "." and "..".
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
    /// An argument is invalid; the text says which and why.
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
    /// The image or device cannot be written.
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
    /// An error stopped the mount; only a new mount writes again.
    #[error("it was stopped by an error; unmount, run `uext4 fsck`, and mount again")]
    Failed,
    /// Deleted files are still open.
    #[error("files without a name are in use; close them first")]
    Busy,
    /// The file system is frozen.
    #[error("it is frozen; thaw it first")]
    Frozen,
}

impl From<uext4_volume::Error> for Error {
    fn from(error: uext4_volume::Error) -> Self {
        use uext4_volume::Error as Below;
        match error {
            Below::Device(error) => Error::Device(error),
            Below::Journal(error) => Error::Journal(error),
            Below::Corrupt(corrupt) => Error::Corrupt(corrupt),
            Below::Unsupported(feature) => Error::Unsupported(feature),
            Below::NotSupported(problem) => Error::NotSupported(problem),
            Below::Mount(problem) => Error::Mount(problem),
            Below::Resize(refused) => Error::Resize(refused),
            Below::ReadOnly => Error::ReadOnly,
            Below::NoSpace => Error::NoSpace,
            Below::Invalid(problem) => Error::Invalid(problem),
        }
    }
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
        Why::NotRecovered | Why::Errors | Why::Unclean | Why::Reserved | Why::Owner { .. } => {
            Errno::UCLEAN
        }
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
