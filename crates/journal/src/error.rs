//! Errors of the journal.

use uext4_format::Corrupt;
use uext4_sync::Arc;

/// Reasons why the journal refuses an operation or has stopped.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A read, write or flush of the home device or of the log's device failed.
    #[error(transparent)]
    Device(#[from] uext4_device::Error),
    /// A structure of the log is invalid.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The journal stopped earlier; nothing is written any more.
    #[error("the journal was aborted: {cause}")]
    Aborted {
        /// The failure that stopped the journal.
        cause: Arc<Error>,
    },
    /// A journal without a log could not write blocks home and continues
    /// ([`crate::FailedWrite::Continue`]): the blocks are in memory only.
    #[error("metadata is in memory only: {cause}")]
    Unwritten {
        /// Error of the last attempt to write them.
        cause: Arc<Error>,
    },
    /// A flush of the device failed since the journal was opened. Data written before that flush
    /// may be lost, even if later flushes succeed.
    #[error("a flush of the device failed before, and with it what was written may be lost")]
    Lost,
    /// A handle asks for more than a transaction can hold.
    #[error("{wanted} journal credits wanted, a transaction holds {limit}")]
    TooManyCredits {
        /// Credits asked for, in blocks.
        wanted: u32,
        /// Credits of a whole transaction, in blocks.
        limit: u32,
    },
    /// A transaction does not fit the empty log.
    #[error("a transaction of {blocks} blocks does not fit the log")]
    LogTooSmall {
        /// Length of the transaction in blocks of the log.
        blocks: u64,
    },
    /// The log holds transactions that were not replayed.
    #[error("the journal needs recovery")]
    NeedsRecovery,
    /// The journal has unknown incompatible features.
    #[error("the journal has unknown features {bits:#x}")]
    UnknownFeatures {
        /// Bits of `s_feature_incompat` that are unknown.
        bits: u32,
    },
    /// Rendering a live object panicked: a bug of ours.
    #[error("rendering a transaction panicked")]
    Panicked,
    /// The journal was closed: it takes no more changes.
    #[error("the journal is closed")]
    Closed,
}

impl Error {
    /// The errno that the journal superblock keeps; `None` for a regular close.
    pub(crate) fn stored_errno(&self) -> Option<i32> {
        use rustix::io::Errno;
        let errno = match self {
            Error::Closed => return None,
            Error::Aborted { cause } => return cause.stored_errno(),
            Error::Corrupt(_) => Errno::UCLEAN,
            _ => Errno::IO,
        };
        Some(-errno.raw_os_error())
    }

    /// The result of later calls after this error stopped the journal.
    pub(crate) fn aborted(self) -> Error {
        match self {
            Error::Aborted { .. } => self,
            cause => Error::Aborted {
                cause: Arc::new(cause),
            },
        }
    }
}
