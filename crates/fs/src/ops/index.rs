//! Locking of a directory's structure by operations.
//!
//! Look-ups and changes of entries are optimistic: they validate the structure's version at the end
//! (`sync::VersionedLock`), and restart if it changed. Only operations that need several leaves, or
//! a new leaf, take the lock.

use super::check_alive;
use crate::dir::{self, DirError, Index};
use crate::inode::Inode;
use crate::{Caller, Error, Fs, Result, credits};
use uext4_sync::{Arc, RwLockReadGuard, VersionedGuard};

type Answer<T> = std::result::Result<T, DirError>;

/// Optimistic tries of an operation before it takes the lock.
const TRIES: u32 = 8;

/// Runs a lookup in a directory. `look` may see an inconsistent state, and runs again then.
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

/// Runs a change of the entries of one directory: optimistically, with the shared lock if the
/// structure changes too often, and with the exclusive lock if it must change.
pub(super) fn with_index<T>(dir: &Inode, change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    without_lock(dir, change, || Ok(false))
}

/// A name to insert into a directory, with the caller.
pub(super) struct Newcomer<'a> {
    pub(super) fs: &'a Fs,
    pub(super) dir: &'a Arc<Inode>,
    pub(super) name: &'a [u8],
    pub(super) caller: &'a Caller,
}

impl Newcomer<'_> {
    /// As [`with_index`], for a change that inserts the name: a full leaf is split while optimistic
    /// operations continue. ENOSPC is final only after freed space has returned.
    pub(super) fn with_index<T>(&self, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.fs
            .with_what_was_freed(|| without_lock(self.dir, &mut change, || self.make_room()))
    }

    /// As [`Self::with_index`], for a change of the directory beyond its entries.
    pub(super) fn with_held_index<T>(&self, change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.with_locks(holding(self.dir, change))
    }

    /// As [`Self::with_index`], for a change that takes the structure's lock itself, in the given
    /// mode, and possibly those of other directories.
    pub(super) fn with_locks<T>(&self, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.fs
            .with_what_was_freed(|| with_lock(&mut change, || self.make_room()))
    }

    /// Whether the caller should retry; the structure's lock is not held.
    fn make_room(&self) -> Result<bool> {
        let (fs, dir) = (self.fs, self.dir);
        let Some(version) = dir.index.version() else {
            dir.index.wait();
            return Ok(true);
        };
        let draft = match dir::draft(fs, dir, self.name) {
            Ok(Some(draft)) => draft,
            _ if !dir.index.is_still(version) => return Ok(true),
            other => return other.map(|_| false),
        };
        if draft.blocks() > 0 && !fs.space.has_room(fs.reserve_of(self.caller)) {
            return Ok(false);
        }
        let _claim = fs.expect_growth(dir, draft.blocks(), self.caller)?;
        let _exclusive = dir.index.write_open();
        check_alive(dir)?;
        let handle = fs.start(credits::DIR_GROW)?;
        dir::carry_out(fs, &handle, dir, self.name, draft)?;
        Ok(true)
    }
}

impl Fs {
    /// Runs `change`; on ENOSPC, frees the inodes of the reclaim queue and retries. That includes
    /// inodes that an earlier try allocated and abandoned. The caller holds no lock except
    /// `Rank::Rename`, for a directory that moves.
    pub(super) fn with_what_was_freed<T>(
        &self,
        mut change: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            match self.space.with_commits(self, &mut change) {
                Err(Error::NoSpace | Error::NoInodes) if self.inodes.evictions.has_work() => {
                    self.reap()?;
                }
                other => return other,
            }
        }
        self.space.with_commits(self, change)
    }
}

/// See [`with_index`]; `make_room` answers whether a retry makes sense for a change that needs
/// space.
fn without_lock<T>(
    dir: &Inode,
    mut change: impl FnMut(Index) -> Answer<T>,
    make_room: impl Fn() -> Result<bool>,
) -> Result<T> {
    for _ in 0..TRIES {
        let Some(version) = dir.index.version() else {
            dir.index.wait();
            continue;
        };
        match change(Index::Free(version)) {
            Err(DirError::Moved) => {}
            Err(DirError::NeedExclusive) if make_room()? => {}
            Err(DirError::NeedExclusive) => {
                return settled(holding(dir, change)(Index::Exclusive));
            }
            other => return settled(other),
        }
    }
    with_lock(holding(dir, change), make_room)
}

fn with_lock<T>(
    mut change: impl FnMut(Index) -> Answer<T>,
    make_room: impl Fn() -> Result<bool>,
) -> Result<T> {
    for _ in 0..TRIES {
        match change(Index::Shared) {
            Err(DirError::NeedExclusive) if make_room()? => {}
            Err(DirError::NeedExclusive) => break,
            other => return settled(other),
        }
    }
    settled(change(Index::Exclusive))
}

/// Wraps `change` to hold the structure's lock of `dir` in the given mode.
fn holding<T>(
    dir: &Inode,
    mut change: impl FnMut(Index) -> Answer<T>,
) -> impl FnMut(Index) -> Answer<T> {
    move |index| {
        let _held = Hold::new(dir, index);
        change(index)
    }
}

/// A held lock of a directory's structure.
#[expect(dead_code, reason = "guards are held, not read")]
pub(super) enum Hold<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Exclusive(VersionedGuard<'a>),
}

impl<'a> Hold<'a> {
    fn new(dir: &'a Inode, index: Index) -> Self {
        let key = u64::from(dir.nr().0);
        match index {
            Index::Exclusive => Hold::Exclusive(dir.index.write_ordered(key)),
            _ => Hold::Shared(dir.index.read_ordered(key)),
        }
    }
}

/// Locks the structures of several directories, ascending by inode number, each once.
pub(super) fn hold_all<'a>(mut wanted: Vec<(&'a Inode, Index)>) -> Vec<Hold<'a>> {
    let exclusive_first = |index: &Index| u8::from(*index != Index::Exclusive);
    wanted.sort_by_key(|(dir, index)| (dir.nr(), exclusive_first(index)));
    wanted.dedup_by_key(|(dir, _)| dir.nr());
    let hold = |(dir, index)| Hold::new(dir, index);
    wanted.into_iter().map(hold).collect()
}

/// Runs a change that takes the structures' locks itself, in the given mode: shared for directories
/// where only entries change.
pub(super) fn with_locks<T>(change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    with_lock(change, || Ok(false))
}

/// The answer of a change that needs no retry.
pub(crate) fn settled<T>(answer: Answer<T>) -> Result<T> {
    answer.map_err(|error| match error {
        DirError::Fs(error) => error,
        DirError::NeedExclusive => Error::NoSpace,
        DirError::Moved => Error::Busy,
    })
}
