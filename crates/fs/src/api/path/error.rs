//! Errors of operations by path.

use super::walk::components;
use crate::types::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

/// Result of operations by path.
pub type Result<T> = std::result::Result<T, PathError>;

/// An [`Error`] and the path where it occurred.
///
/// It shows as `/srv/www: no such file or directory`. If the look-up ended before the last name, or
/// behind a symbolic link, that place follows: `/srv/www/a: /srv: not a directory`.
#[derive(Clone, Debug)]
pub struct PathError(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    path: Vec<u8>,
    place: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    error: Error,
}

impl PathError {
    /// The error of an operation by inode on the file at `path`.
    pub fn new(path: &[u8], error: Error) -> Self {
        Self(Box::new(Parts {
            path: path.to_vec(),
            place: None,
            target: None,
            error,
        }))
    }

    /// The error of a look-up of `path` that ended at `place`.
    pub(super) fn at_component(path: &[u8], place: Vec<u8>, error: Error) -> Self {
        let mut failed = Self::new(path, error);
        failed.0.place = (components(path) != components(&place)).then_some(place);
        failed
    }

    /// The error of an operation on two paths.
    pub(super) fn with_target(path: &[u8], target: &[u8], error: Error) -> Self {
        let mut failed = Self::new(path, error);
        failed.0.target = Some(target.to_vec());
        failed
    }

    /// The path as the program gave it; in a walk, the path of the file.
    pub fn path(&self) -> &[u8] {
        &self.0.path
    }

    /// The component at which a look-up ended, as a path without symbolic links; `None` if it is
    /// [`Self::path`].
    pub fn component(&self) -> Option<&[u8]> {
        self.0.place.as_deref()
    }

    /// The new name, when a rename, hard link or copy failed though both paths were found.
    pub fn target(&self) -> Option<&[u8]> {
        self.0.target.as_deref()
    }

    /// Cause of the failure, without the paths.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// Linux errno of the cause; see [`Error::errno`].
    pub fn errno(&self) -> i32 {
        self.0.error.errno()
    }
}

impl Display for PathError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let show = String::from_utf8_lossy;
        write!(f, "{}", show(&self.0.path))?;
        if let Some(target) = &self.0.target {
            write!(f, " -> {}", show(target))?;
        }
        if let Some(place) = &self.0.place {
            write!(f, ": {}", show(place))?;
        }
        write!(f, ": {}", self.0.error)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.error)
    }
}

impl From<PathError> for Error {
    fn from(failed: PathError) -> Self {
        failed.0.error
    }
}

impl From<PathError> for io::Error {
    fn from(failed: PathError) -> Self {
        let kind = io::Error::from_raw_os_error(failed.errno()).kind();
        io::Error::new(kind, failed)
    }
}

/// Adds a path to an error.
pub(super) trait At<T> {
    fn at(self, path: &[u8]) -> Result<T>;
}

impl<T> At<T> for crate::types::error::Result<T> {
    fn at(self, path: &[u8]) -> Result<T> {
        self.map_err(|error| PathError::new(path, error))
    }
}
