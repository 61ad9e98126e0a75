//! How operations hold the structure of a directory.
//!
//! A look-up and a change of entries hold nothing: they ask at the end whether the structure is the
//! one that they began with (`sync::VersionedLock`), and begin again if it is not. Only what needs
//! more than one leaf, or a leaf more, takes the lock.

use super::check_alive;
use crate::dir::{self, DirError, Index};
use crate::inode::Inode;
use crate::{Caller, Error, Fs, Result, credits};
use std::sync::Arc;
use uext4_sync::{RwLockReadGuard, VersionedGuard};

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
pub(super) fn with_index<T>(dir: &Inode, change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    without_lock(dir, change, || Ok(false))
}

/// A name that a directory is to take, and for whom.
pub(super) struct Newcomer<'a> {
    pub(super) fs: &'a Fs,
    pub(super) dir: &'a Arc<Inode>,
    pub(super) name: &'a [u8],
    pub(super) caller: &'a Caller,
}

impl Newcomer<'_> {
    /// As [`with_index`], for a change that puts the name in: where its leaf is full, that is split
    /// beside others. "No space" is believed when what was freed has come back.
    pub(super) fn with_index<T>(&self, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.fs
            .with_what_was_freed(|| without_lock(self.dir, &mut change, || self.make_room()))
    }

    /// As [`Self::with_index`], for a change that does more to the directory than to change
    /// entries.
    pub(super) fn with_held_index<T>(&self, change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.with_locks(holding(self.dir, change))
    }

    /// As [`Self::with_index`], for a change that holds the structure itself as it is told, and
    /// maybe that of other directories.
    pub(super) fn with_locks<T>(&self, mut change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
        self.fs
            .with_what_was_freed(|| with_lock(&mut change, || self.make_room()))
    }

    /// True when it is worth to look again; nobody holds the structure.
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
    /// Runs `change`; when it finds no space, again with that of inodes that wait to be freed: the
    /// last one, too, that an earlier try took and left. Nothing is locked but `Rank::Rename`, for
    /// a directory that moves.
    pub(super) fn with_what_was_freed<T>(
        &self,
        mut change: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            match self.space.with_commits(self, &mut change) {
                Err(Error::NoSpace | Error::NoInodes) if self.inodes.reclaim.has_work() => {
                    self.reap()?;
                }
                other => return other,
            }
        }
        self.space.with_commits(self, change)
    }
}

/// See [`with_index`]; `make_room` answers whether it is worth to try again what needs more.
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

/// `change`, holding the structure of `dir` as it is told.
fn holding<T>(
    dir: &Inode,
    mut change: impl FnMut(Index) -> Answer<T>,
) -> impl FnMut(Index) -> Answer<T> {
    move |index| {
        let _held = Hold::new(dir, index);
        change(index)
    }
}

/// The structure of a directory, held.
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

/// Holds the structures of several directories, taken ascending by inode number, each once.
pub(super) fn hold_all<'a>(mut wanted: Vec<(&'a Inode, Index)>) -> Vec<Hold<'a>> {
    let exclusive_first = |index: &Index| u8::from(*index != Index::Exclusive);
    wanted.sort_by_key(|(dir, index)| (dir.nr(), exclusive_first(index)));
    wanted.dedup_by_key(|(dir, _)| dir.nr());
    let hold = |(dir, index)| Hold::new(dir, index);
    wanted.into_iter().map(hold).collect()
}

/// Runs a change that holds structures itself as it is told: of all directories that change entries
/// only, shared.
pub(super) fn with_locks<T>(change: impl FnMut(Index) -> Answer<T>) -> Result<T> {
    with_lock(change, || Ok(false))
}

/// The answer of a change that needs no other try.
pub(crate) fn settled<T>(answer: Answer<T>) -> Result<T> {
    answer.map_err(|error| match error {
        DirError::Fs(error) => error,
        DirError::NeedExclusive => Error::NoSpace,
        DirError::Moved => Error::Busy,
    })
}
