//! Errors of this crate.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the device, damage, or not a file system.
    #[error(transparent)]
    Volume(#[from] uext4_volume::Error),
    /// The image needs more memory than the limit allows.
    #[error("more than {limit_bytes} bytes of memory are needed")]
    Memory {
        /// The limit.
        limit_bytes: u64,
    },
}

impl From<uext4_format::Corrupt> for Error {
    fn from(corrupt: uext4_format::Corrupt) -> Self {
        Self::Volume(corrupt.into())
    }
}

impl From<uext4_journal::Error> for Error {
    fn from(error: uext4_journal::Error) -> Self {
        Self::Volume(error.into())
    }
}

impl From<uext4_device::Error> for Error {
    fn from(error: uext4_device::Error) -> Self {
        Self::Volume(error.into())
    }
}
