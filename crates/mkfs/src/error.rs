//! Errors of mkfs.

use uext4_format::{Corrupt, Feature};

/// Reasons why no file system is made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write to the device, or a read of it, failed.
    #[error(transparent)]
    Device(#[from] uext4_device::Error),
    /// A feature that mkfs cannot make.
    #[error("cannot make a file system with the feature {0}")]
    Unsupported(Feature),
    /// A requested feature needs another one.
    #[error("the feature {feature} needs the feature {needs}")]
    Needs {
        /// The feature that was requested.
        feature: Feature,
        /// The feature that it needs.
        needs: Feature,
    },
    /// Two features exclude each other.
    #[error("the features {0} and {1} exclude each other")]
    Conflict(Feature, Feature),
    /// A number is out of range; the text has the range.
    #[error("{0}")]
    OutOfRange(&'static str),
    /// The device is too small for a file system with these options.
    #[error("the device is too small")]
    TooSmall,
    /// More inodes than the groups can hold.
    #[error("too many inodes")]
    TooManyInodes,
    /// Metadata, journal and first directories do not fit.
    #[error("no space left for {0}")]
    NoSpace(&'static str),
    /// The chosen numbers contradict each other.
    #[error(transparent)]
    Contradiction(#[from] Corrupt),
}
