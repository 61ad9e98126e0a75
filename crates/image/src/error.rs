//! Errors of containers.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a container was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict each other, or the size of the file system.
    #[error("{problem}; {advice}")]
    Refused {
        /// What does not go together.
        problem: &'static str,
        /// What the user can do about it, for the message.
        advice: &'static str,
    },
    /// A file could not be made.
    #[error("{path}: cannot be written: {error}")]
    File {
        /// Path of the file on the host.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// An access to the image failed.
    #[error(transparent)]
    Device(#[from] uext4_device::Error),
    /// A line of the table of partitions cannot be followed.
    #[error(transparent)]
    Table(#[from] crate::Fault),
    /// The callback for progress has asked for the end.
    #[error("cancelled; nothing was made")]
    Cancelled,
}
