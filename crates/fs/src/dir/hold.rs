//! How a caller holds the structure of a directory.

use super::DirError;
use crate::{Inode, credits};
use uext4_sync::Version;

/// How the caller holds the directory's `index` lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// Not at all: entries may change while this is the version.
    Free(Version),
    /// Shared: entries may change.
    Shared,
    /// Exclusively and closed: blocks may come and move.
    Exclusive,
}

impl Index {
    /// `answer`, unless what it was found in may have moved meanwhile.
    pub(crate) fn checked<T, E>(self, dir: &Inode, answer: Result<T, E>) -> Result<T, DirError>
    where
        DirError: From<E>,
    {
        self.check(dir)?;
        Ok(answer?)
    }

    /// Refuses a structure that is not the one that the caller began with. With a block of it
    /// locked the answer is good until that is unlocked.
    pub(super) fn check(self, dir: &Inode) -> Result<(), DirError> {
        match self {
            Index::Free(version) if !dir.index.is_still(version) => Err(DirError::Moved),
            _ => Ok(()),
        }
    }

    /// What a handle logs besides, if a name makes the directory grow.
    pub(crate) fn growth_credits(self) -> u32 {
        match self {
            Index::Free(_) | Index::Shared => 0,
            Index::Exclusive => credits::DIR_GROW,
        }
    }
}
