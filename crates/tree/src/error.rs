//! Errors of transfers.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use uext4::path::PathError;

/// Result of a transfer, or of a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// The error type; each error names the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the host cannot be read or made.
    #[error("{}: {error}", path.display())]
    Host {
        /// Path on the host.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file of the image cannot be read or made.
    #[error(transparent)]
    Image(#[from] PathError),
    /// The image does not take an extended attribute, most often because it is too large.
    #[error("{error}: the extended attribute {name}")]
    Attribute {
        /// Name of the attribute, with its prefix.
        name: String,
        /// Why, and the path in the image.
        #[source]
        error: PathError,
    },
    /// The host does not take an extended attribute.
    #[error("{}: {error}: the extended attribute {name}", path.display())]
    HostAttribute {
        /// Path on the host.
        path: PathBuf,
        /// Name of the attribute, with its prefix.
        name: String,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The image has a structure that no copy can have.
    #[error("{}: {damage}", String::from_utf8_lossy(path))]
    Damaged {
        /// Path in the image.
        path: Vec<u8>,
        /// Kind of the damage.
        damage: Damage,
    },
    /// A directory of the image has so many others above it that it is not copied.
    #[error(
        "{}: it is below {levels} directories, which is as deep as a copy goes; it and all in it \
         are left out",
        short(path)
    )]
    TooDeep {
        /// Path in the image.
        path: Vec<u8>,
        /// Number of directories above it.
        levels: usize,
    },
    /// The data of a file cannot be read from this byte on; an archive has zeroes instead.
    #[error("{error}; the archive has zeroes from byte {offset} on")]
    Incomplete {
        /// First byte of the file that was not read.
        offset: u64,
        /// Why, and the path in the image.
        #[source]
        error: PathError,
    },
    /// The archive cannot be written.
    #[error("the archive cannot be written: {0}")]
    Output(#[source] io::Error),
    /// A symbolic link that is followed leads to a directory above it.
    #[error("{}: leads back to {}, without end", path.display(), above.display())]
    Loop {
        /// Path of the link on the host.
        path: PathBuf,
        /// Path of the directory above it.
        above: PathBuf,
    },
    /// A path without a last name, such as `/` or `..`, where a new file needs one.
    #[error("{}: a name is needed", path.display())]
    NoName {
        /// The path, as the caller gave it.
        path: PathBuf,
    },
    /// The callback ended the transfer before all files were copied.
    #[error("the transfer was cancelled")]
    Cancelled,
}

/// Damage of an image that only a copy notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A directory has two entries.
    #[error("the directory inode {0} has a second name here: a cycle, or two directories of one")]
    SecondName(u32),
    /// The name is empty, `.` or `..`, or contains `/` or a zero byte.
    #[error("no file can have this name")]
    Name,
    /// Reads end before the size of the file.
    #[error("its data end before its size")]
    ShortData,
}

impl Error {
    /// Whether the transfer cannot go on: the target is full or read-only, or it was cancelled. An
    /// attribute without space says nothing of the space for other files.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Host { error, .. } => matches!(
                Errno::from_io_error(error),
                Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
            ),
            Self::Image(failed) => matches!(
                failed.error(),
                uext4::Error::NoSpace
                    | uext4::Error::NoInodes
                    | uext4::Error::ReadOnly
                    | uext4::Error::Journal(_)
            ),
            Self::Cancelled | Self::Output(_) => true,
            _ => false,
        }
    }
}

/// Most bytes that are shown of a path with thousands of names.
const SHORT_BYTES: usize = 200;

fn short(path: &[u8]) -> String {
    match path.split_at_checked(SHORT_BYTES) {
        Some((start, [_, ..])) => format!("{}...", String::from_utf8_lossy(start)),
        _ => String::from_utf8_lossy(path).into_owned(),
    }
}

/// Adds the path on the host to an error.
pub(crate) trait OnHost<T> {
    /// `path` is evaluated only for an error.
    fn on_host(self, path: impl FnOnce() -> PathBuf) -> Result<T>;
}

impl<T, E: Into<io::Error>> OnHost<T> for std::result::Result<T, E> {
    fn on_host(self, path: impl FnOnce() -> PathBuf) -> Result<T> {
        self.map_err(|error| Error::Host {
            path: path(),
            error: error.into(),
        })
    }
}

/// Adds the path in the image to an error.
pub(crate) trait InImage<T> {
    /// `path` is evaluated only for an error.
    fn in_image(self, path: impl FnOnce() -> Vec<u8>) -> Result<T>;
}

impl<T> InImage<T> for uext4::Result<T> {
    fn in_image(self, path: impl FnOnce() -> Vec<u8>) -> Result<T> {
        self.map_err(|error| PathError::new(&path(), error).into())
    }
}
