//! Why a snapshot ends.

use uext4_num::low_u32;

/// Why a snapshot cannot be read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotEnd {
    /// What is overwritten meanwhile takes more memory than the limit.
    #[error("what was overwritten since takes more than its limit of memory, {limit_bytes} bytes")]
    MemoryFull {
        /// The limit.
        limit_bytes: u64,
    },
    /// The same of the file.
    #[error(
        "what was overwritten since takes more than the limit of its file, {limit_bytes} bytes"
    )]
    SpillFull {
        /// The limit.
        limit_bytes: u64,
    },
    /// The file cannot be written.
    #[error(
        "the file for what was overwritten cannot be written: {}",
        std::io::Error::from_raw_os_error(*errno)
    )]
    SpillFailed {
        /// The error of the system.
        errno: i32,
    },
    /// Writes to the device took too long to find a moment without any.
    #[error("no moment without a write was found in {seconds} seconds")]
    NeverIdle {
        /// The limit.
        seconds: u64,
    },
    /// A user ended it.
    #[error("it was aborted")]
    Aborted,
    /// The device is not in use any more.
    #[error("the file system was unmounted, or its server has ended")]
    Closed,
    /// The mount became read-only and gave up its claim on the device.
    #[error("the mount became read-only, and other hosts may write the device")]
    Unclaimed,
    /// The server of the mount does not answer.
    #[error("the server of the mount did not answer in time")]
    Silent,
    /// The server of the mount breaks the protocol.
    #[error("the server of the mount gave no proper answer")]
    Malformed,
}

impl SnapshotEnd {
    /// As two numbers, for other processes.
    pub fn to_numbers(self) -> (u32, u64) {
        match self {
            Self::Closed => (0, 0),
            Self::MemoryFull { limit_bytes } => (1, limit_bytes),
            Self::SpillFull { limit_bytes } => (2, limit_bytes),
            Self::SpillFailed { errno } => (3, errno.cast_unsigned().into()),
            Self::NeverIdle { seconds } => (4, seconds),
            Self::Aborted => (5, 0),
            Self::Silent => (6, 0),
            Self::Malformed => (7, 0),
            Self::Unclaimed => (8, 0),
        }
    }

    /// The opposite of [`Self::to_numbers`].
    pub fn of_numbers(kind: u32, value: u64) -> Self {
        match kind {
            1 => Self::MemoryFull { limit_bytes: value },
            2 => Self::SpillFull { limit_bytes: value },
            3 => Self::SpillFailed {
                errno: low_u32(value).cast_signed(),
            },
            4 => Self::NeverIdle { seconds: value },
            5 => Self::Aborted,
            6 => Self::Silent,
            7 => Self::Malformed,
            8 => Self::Unclaimed,
            _ => Self::Closed,
        }
    }
}
