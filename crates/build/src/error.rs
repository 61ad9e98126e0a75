//! Errors of building.

use std::io;

/// Result of building.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an image was not built. Paths are those in the image unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A source could not be read.
    #[error("{source_name}: cannot be read: {error}")]
    Source {
        /// The source, as its user named it.
        source_name: String,
        /// The error of the system or of a decoder.
        error: io::Error,
    },
    /// A source has contents that no image can have, or that are not allowed.
    #[error("{source_name}: {problem}; {advice}")]
    Refused {
        /// The source, as its user named it.
        source_name: String,
        /// What is where, for example "the entry at byte 512 has the name ../x".
        problem: String,
        /// What to do.
        advice: &'static str,
    },
}
