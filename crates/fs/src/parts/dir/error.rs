//! Errors of changes to a directory, and what they need to be retried.

use crate::types::error::Error;
use uext4_format::Corrupt;

/// Reason why a change was not made.
#[derive(Debug)]
pub(crate) enum DirError {
    /// More than one leaf must change: retry with [`LockMode::Exclusive`](super::LockMode).
    /// Nothing was changed.
    NeedExclusive,
    /// The leaf has no space for the name: retry after [`super::carry_out`]. Nothing was changed.
    Full,
    /// The structure or the name changed meanwhile: retry. Nothing was changed.
    Moved,
    /// The operation failed with this error.
    Fs(Error),
}

impl DirError {
    /// Maps `Stale` to `Moved`, so that the caller retries: the leaf was split during its search.
    pub(super) fn of_search(self) -> Self {
        match self {
            DirError::Fs(Error::Stale) => DirError::Moved,
            other => other,
        }
    }
}

impl From<Error> for DirError {
    fn from(error: Error) -> Self {
        DirError::Fs(error)
    }
}

impl From<Corrupt> for DirError {
    fn from(corrupt: Corrupt) -> Self {
        DirError::Fs(corrupt.into())
    }
}

/// Answer of a change, or what it lacks.
pub(crate) type DirResult<T> = Result<T, DirError>;
