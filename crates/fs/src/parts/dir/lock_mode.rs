//! How an operation holds the `index` lock of a directory.

use super::error::DirError;
use crate::state::inode::Inode;
use crate::types::credits;
use uext4_sync::Version;

/// Mode in which the caller holds the `index` lock of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Optimistic, without a lock: entries may change while the version is valid.
    Optimistic(Version),
    /// Shared: entries may change.
    Shared,
    /// Exclusive and closed: blocks may be added and moved.
    Exclusive,
}

impl LockMode {
    /// Validates `answer`; [`DirError::Moved`] if the structure changed while it was computed.
    pub(crate) fn checked<T, E>(self, dir: &Inode, answer: Result<T, E>) -> Result<T, DirError>
    where
        DirError: From<E>,
    {
        self.check(dir)?;
        Ok(answer?)
    }

    /// Fails if the structure has changed since the caller sampled the version. If a block of the
    /// directory is locked, success holds until that is unlocked.
    pub(super) fn check(self, dir: &Inode) -> Result<(), DirError> {
        match self {
            LockMode::Optimistic(version) if !dir.index.is_still(version) => Err(DirError::Moved),
            _ => Ok(()),
        }
    }

    /// Additional credits of a handle for a name that makes the directory grow.
    pub(crate) fn growth_credits(self) -> u32 {
        match self {
            LockMode::Optimistic(_) | LockMode::Shared => 0,
            LockMode::Exclusive => credits::DIR_GROW,
        }
    }
}
