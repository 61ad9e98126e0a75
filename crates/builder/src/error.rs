//! Errors of building.

use std::io;
use std::path::Path;

/// Longest path that a message shows: one of an archive may have a megabyte.
const SHOWN_MAX_BYTES: usize = 500;

/// Result of building, with the reason why there is no image.
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
        /// What the user can do about it, for the message.
        advice: &'static str,
    },
    /// The tree does not fit into the image.
    #[error(
        "the image has {blocks} blocks, and the tree with its metadata needs {needed_bytes} bytes; \
         give a larger size, or the size min"
    )]
    NoSpace {
        /// Length of the image in blocks.
        blocks: u64,
        /// Size with which everything fits, with the same number of inodes, in bytes.
        needed_bytes: u64,
    },
    /// The image is full before the end of the tree, or has too few groups for its inodes.
    #[error("the image of {blocks} blocks is full; give a larger size, or the size min")]
    Full {
        /// Length of the image in blocks.
        blocks: u64,
    },
    /// The file of the image could not be made.
    #[error("{path}: cannot be written: {error}")]
    Image {
        /// Path of the file on the host.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The device of the image failed.
    #[error(transparent)]
    Device(#[from] uext4_device::Error),
    /// The options make no file system.
    #[error(transparent)]
    Format(#[from] uext4_mkfs::Error),
    /// The builder has failed before, and takes nothing more.
    #[error("an earlier error has ended this build; begin another one")]
    Ended,
    /// The callback for progress has asked for the end.
    #[error("cancelled; nothing was made")]
    Cancelled,
}

impl Error {
    /// A path of the host that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: impl Into<io::Error>) -> Error {
        Error::Source {
            source_name: path.display().to_string(),
            error: error.into(),
        }
    }

    /// A refusal that names a path in the image.
    pub(crate) fn refused(path: &[u8], problem: impl Into<String>, advice: &'static str) -> Error {
        Error::Refused {
            source_name: shown(path),
            problem: problem.into(),
            advice,
        }
    }
}

/// A path in the image, for messages; the start of a long one.
pub(crate) fn shown(path: &[u8]) -> String {
    match path.split_at_checked(SHOWN_MAX_BYTES) {
        Some((start, [_, ..])) => format!("/{}...", start.escape_ascii()),
        _ => format!("/{}", path.escape_ascii()),
    }
}
