//! Errors of a device.

/// An error of a device, with its place.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operating system, or an injected fault, failed an access.
    #[error("{op}{} failed: {source}", extent(op, *offset, *len))]
    Io {
        /// `read`, `write`, `flush`, `discard` or `open`.
        op: &'static str,
        /// First byte of the access.
        offset: u64,
        /// Length of the access in bytes.
        len: u64,
        /// The error of the operating system, or an injected one.
        source: uext4_sync::Arc<std::io::Error>,
    },
    /// The access reaches past the end of the device.
    #[error("{len} bytes at byte {offset} are past the end, which is at byte {size_bytes}")]
    OutOfRange {
        /// First byte of the access.
        offset: u64,
        /// Length of the access in bytes.
        len: u64,
        /// Size of the device in bytes.
        size_bytes: u64,
    },
    /// Another process, or another mount of this one, has the device open for writing.
    #[error("{path} is in use: {user}")]
    Busy {
        /// The device or image file.
        path: std::path::PathBuf,
        /// The program, mount or device that uses the storage.
        user: crate::User,
    },
    /// Another host took the file system over: its MMP block no longer names this mount.
    #[error("the claim on the file system is lost: {user}; nothing more is written")]
    Taken {
        /// The holder that the MMP block names.
        user: crate::User,
    },
    /// The device has no such partition.
    #[error("there is no partition {number}")]
    NoPartition {
        /// The requested number, from 1.
        number: u32,
    },
    /// The device ends before the partition does.
    #[error(
        "partition {number} ends at byte {end_bytes}, past the end of the device, which is at byte \
         {size_bytes}"
    )]
    PartitionCut {
        /// The requested number, from 1.
        number: u32,
        /// First byte after the partition.
        end_bytes: u64,
        /// Size of the device in bytes.
        size_bytes: u64,
    },
    /// The device does not begin with a partition table.
    #[error("there is no partition table")]
    NoPartitionTable,
    /// The partition table of the device is invalid.
    #[error("the partition table cannot be used: {problem}")]
    PartitionTable {
        /// The first violation found, as text of the message.
        problem: &'static str,
    },
    /// The table is none of a GPT, which is the only one that is changed.
    #[error("partition {number} is one of an MBR, whose partitions are not made longer here")]
    NotGpt {
        /// The requested number, from 1.
        number: u32,
    },
    /// Another partition is behind this one.
    #[error("partition {number} can have {room_bytes} bytes: behind it is partition {next}")]
    PartitionBehind {
        /// The requested number, from 1.
        number: u32,
        /// What it can have, in bytes.
        room_bytes: u64,
        /// The number of the other one.
        next: u32,
    },
    /// The path leads to a file that has no blocks.
    #[error("it is {kind}; a file or a block device is needed")]
    Kind {
        /// What it is, as text.
        kind: &'static str,
    },
    /// A snapshot cannot be read any more; what it is a snapshot of is not affected.
    #[error("the snapshot has ended: {0}")]
    SnapshotEnded(crate::SnapshotEnd),
    /// The device was opened read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The block device refuses all writes (`blockdev --setro`, a switch).
    #[error("the device is write-protected")]
    WriteProtected,
}

/// The byte range of the failure; empty for opening and flushing, which concern the whole file.
fn extent(op: &str, offset: u64, len: u64) -> String {
    match op {
        "open" | "flush" => String::new(),
        _ => format!(" of {len} bytes at byte {offset}"),
    }
}

impl Error {
    /// The first byte of a read that failed; `None` for any other error.
    pub fn failed_read(&self) -> Option<u64> {
        match self {
            Self::Io {
                op: "read", offset, ..
            } => Some(*offset),
            _ => None,
        }
    }

    /// An error of the operating system, with its place.
    pub fn io(op: &'static str, offset: u64, len: u64, source: impl Into<std::io::Error>) -> Self {
        Self::Io {
            op,
            offset,
            len,
            source: uext4_sync::Arc::new(source.into()),
        }
    }
}
