//! How operations hold the structure of a directory.
//!
//! A look-up and a change of entries hold nothing: they ask at the end whether the structure is the
//! one that they began with (`sync::VersionedLock`), and begin again if it is not. Only what needs
//! more than one leaf, or a leaf more, takes the lock.

use crate::dir::{DirError, Index};
use crate::inode::Inode;
use crate::{Error, Result};

type Answer<T> = std::result::Result<T, DirError>;

/// How often an operation begins again before it holds the structure.
const TRIES: u32 = 8;

/// Looks into a directory. `look` may see what moves, and is asked again then.
pub(super) fn look_into<T>(dir: &Inode, look: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 0..TRIES {
        let Some(version) = dir.index.version() else {
            dir.index.wait();
            continue;
        };
        let answer = look();
        if dir.index.is_still(version) {
            return answer;
        }
    }
    let _shared = dir.index.read();
    look()
}

/// Runs a change of the entries of one directory: without holding its structure, holding it where
/// that moves too often, and alone where the structure has to change.
pub(super) fn with_index<T>(dir: &Inode, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    for _ in 0..TRIES {
        let Some(version) = dir.index.version() else {
            dir.index.wait();
            continue;
        };
        match change(Index::Free(version)) {
            Err(DirError::Moved) => {}
            Err(DirError::NeedExclusive) => return restructure(dir, change),
            other => return settled(other),
        }
    }
    with_held_index(dir, change)
}

/// As [`with_index`], for a change that does more to the directory than to change entries.
pub(super) fn with_held_index<T>(
    dir: &Inode,
    mut change: impl FnMut(Index) -> Answer<T>,
) -> Result<T> {
    {
        let _shared = dir.index.read();
        match change(Index::Shared) {
            Err(DirError::NeedExclusive) => {}
            other => return settled(other),
        }
    }
    restructure(dir, change)
}

fn restructure<T>(dir: &Inode, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    let _alone = dir.index.write_open();
    match change(Index::Beside) {
        Err(DirError::NeedExclusive) => {}
        other => return settled(other),
    }
    dir.index.close();
    settled(change(Index::Exclusive))
}

/// The answer of a change that needs no other try.
pub(crate) fn settled<T>(answer: Answer<T>) -> Result<T> {
    answer.map_err(|error| match error {
        DirError::Fs(error) => error,
        DirError::NeedExclusive => Error::NoSpace,
        DirError::Moved => Error::Busy,
    })
}
