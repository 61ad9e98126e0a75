//! Locking of a directory's structure by operations, and their retries.
//!
//! Look-ups and changes of entries are optimistic: they validate the structure's version at the end
//! (`sync::VersionedLock`), and restart if it changed. Only operations that need several leaves, or
//! a new leaf, take the lock. This is the one level of an operation that retries
//! ([`crate::state::base::Retries`]): a changed name, a full leaf and lack of space lead here.

use super::check_alive;
use crate::cache::dcache::HashedName;
use crate::parts::dir::{self, DirError, DirResult, LockMode, SplitReason};
use crate::state::base::Retries;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::cell::Cell;
use uext4_sync::{Arc, Sequence, SharedGuard, VersionedGuard};

/// Tries with the shared lock before an operation takes the exclusive one.
const SHARED_TRIES: usize = 8;

/// Runs a lookup in a directory. `lookup` may see an inconsistent state, and runs again then.
pub(super) fn retry_lookup<T>(dir: &Inode, lookup: impl Fn() -> Result<T>) -> Result<T> {
    for version in dir.index.tries() {
        let answer = lookup();
        if dir.index.is_still(version) && !matches!(answer, Err(Error::Stale)) {
            return answer;
        }
    }
    let _shared = dir.index.read();
    lookup()
}

/// A name of a directory that an operation changes for a caller.
pub(super) struct NameChange<'a> {
    pub(super) fs: &'a Fs,
    pub(super) dir: &'a Arc<Inode>,
    pub(super) name: HashedName<'a>,
    pub(super) caller: &'a Caller,
    /// The leaf of the name will soon be full.
    pub(super) is_tight: Cell<bool>,
}

impl<'a> NameChange<'a> {
    pub(super) fn new(fs: &'a Fs, dir: &'a InodeRef, name: &'a [u8], caller: &'a Caller) -> Self {
        let (dir, name) = (dir.arc(), fs.hashed(name));
        Self {
            fs,
            dir,
            name,
            caller,
            is_tight: Cell::new(false),
        }
    }

    /// The inode of the name, by an optimistic lookup; the last try takes the shared lock.
    pub(super) fn lookup_once(&self) -> Result<Option<InodeRef>> {
        retry_lookup(self.dir, || dir::lookup(self.fs, self.dir, &self.name))
    }

    /// Runs a change of the directory's entries. A full leaf is split while optimistic operations
    /// continue.
    pub(super) fn with_index<T>(&self, change: impl FnMut(LockMode) -> DirResult<T>) -> Result<T> {
        let modes = self
            .dir
            .index
            .tries()
            .map(LockMode::Optimistic)
            .chain(shared());
        let change = holding(self.dir, change);
        let answer = retried(self.fs, modes, change, || self.make_room());
        if answer.is_ok() && self.is_tight.get() && self.dir.dir_blocks().is_crowded() {
            self.dir.dir_blocks().count_split_try();
            // Whatever it lacks, the next name that finds the leaf full reports.
            _ = self.split_leaf(SplitReason::Soon);
        }
        answer
    }

    /// As [`Self::with_index`], for a change of the directory beyond its entries.
    pub(super) fn with_held_index<T>(
        &self,
        change: impl FnMut(LockMode) -> DirResult<T>,
    ) -> Result<T> {
        self.with_locks(holding(self.dir, change))
    }

    /// As [`Self::with_index`], for a change that takes the structure's lock itself, in the given
    /// mode, and possibly those of other directories.
    pub(super) fn with_locks<T>(&self, change: impl FnMut(LockMode) -> DirResult<T>) -> Result<T> {
        retried(self.fs, shared(), change, || self.make_room())
    }

    /// Makes space in the leaf of the name; false if more than that leaf must change. The
    /// structure's lock is not held.
    fn make_room(&self) -> Result<bool> {
        let Some(version) = self.dir.index.version() else {
            self.dir.index.wait();
            return Ok(true);
        };
        match self.split_leaf(SplitReason::Full) {
            Err(_) | Ok(false) if !self.dir.index.is_still(version) => Ok(true),
            answer => answer,
        }
    }

    /// Splits the leaf of the name, or waits until another thread has; false as above. The right
    /// to split comes before the draft: of the threads that find a leaf full, one drafts.
    fn split_leaf(&self, why: SplitReason) -> Result<bool> {
        let (fs, dir) = (self.fs, self.dir);
        let Some(leaf) = dir::leaf_to_split(fs, dir, &self.name)? else {
            return Ok(false);
        };
        let blocks = dir.dir_blocks();
        let Some(_alone) = blocks.begin_split(leaf) else {
            if why == SplitReason::Full {
                blocks.await_split(leaf);
            }
            return Ok(true);
        };
        let draft = match dir::draft(fs, dir, &self.name, why) {
            Ok(draft) if draft.leaf() == leaf => draft,
            Ok(_) | Err(DirError::Moved) => return Ok(true),
            Err(DirError::NeedExclusive) => return Ok(false),
            Err(error) => return settled(Err(error)),
        };
        if draft.blocks() > 0 && !fs.space.has_room(fs.reserve_of(self.caller)) {
            return Ok(false);
        }
        let _claim = fs.reserve_growth_quota(dir, draft.blocks(), self.caller)?;
        match self.split(draft) {
            Ok(behind) => {
                if let Some(node) = behind {
                    dir::renew(dir, node);
                }
                Ok(true)
            }
            Err(DirError::NeedExclusive) => Ok(false),
            Err(error) => settled(Err(error)),
        }
    }

    /// Splits the drafted leaf, unless another thread has.
    fn split(&self, draft: dir::Draft) -> DirResult<dir::StaleNode> {
        let (fs, dir) = (self.fs, self.dir);
        let _held = dir.index.divide();
        check_alive(dir)?;
        let handle = fs.start(credits::DIR_GROW)?;
        dir::carry_out(fs, &handle, dir, &self.name, draft)
    }
}

impl Fs {
    /// Runs `change`, which needs space and no directory; ENOSPC is final only after freed space
    /// has returned. The caller holds no lock.
    pub(super) fn retry_after_reclaim<T>(
        &self,
        mut change: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        retried(self, std::iter::empty(), |_| Ok(change()?), || Ok(false))
    }

    /// Frees the inodes of the reclaim queue, which includes those that an earlier try allocated
    /// and abandoned, or waits for freed clusters. Whether a retry may have what was lacking since
    /// `before`.
    fn reclaim_for(&self, lacking: &Error, before: Sequence) -> Result<bool> {
        if self.inodes.evictions.has_work() {
            return self.reap().map(|()| true);
        }
        match lacking {
            Error::NoSpace => self.space.may_return_since(&self.base, before),
            _ => Ok(false),
        }
    }
}

/// Runs `change` in each of `modes` until its answer is final, and in the exclusive one from then
/// on, or as soon as it is needed. `make_room` makes space in a full leaf; false if that needs the
/// exclusive mode.
///
/// What a try lacks is waited for after it, with no lock and no handle held. For example, thread A
/// finds a leaf full under its handle, and thread B holds the structure exclusively and waits in
/// [`Fs::start`] for a commit. If A waited for the structure there, the commit would wait for A's
/// handle: a deadlock.
///
/// The count of returns is sampled before the try. For example, the try finds no space, and a
/// commit then returns what thread B freed. Nothing is pending any more when A asks; only the
/// older sample shows that a retry may find it.
fn retried<T>(
    fs: &Fs,
    modes: impl Iterator<Item = LockMode>,
    mut change: impl FnMut(LockMode) -> DirResult<T>,
    make_room: impl Fn() -> Result<bool>,
) -> Result<T> {
    let mut retries = Retries::default();
    let mut needs_exclusive = false;
    let mut modes = modes.fuse();
    loop {
        let before = fs.space.returns();
        let mode = if needs_exclusive { None } else { modes.next() };
        let mut answer = change(mode.unwrap_or(LockMode::Exclusive));
        if matches!(answer, Err(DirError::Full)) {
            answer = Err(match make_room() {
                Ok(true) => DirError::Moved,
                Ok(false) => DirError::NeedExclusive,
                Err(error) => error.into(),
            });
        }
        let is_to_retry = match &answer {
            Err(DirError::Moved) => true,
            Err(DirError::NeedExclusive) => !std::mem::replace(&mut needs_exclusive, true),
            Err(DirError::Fs(lacking @ (Error::NoSpace | Error::NoInodes))) => {
                fs.reclaim_for(lacking, before)?
            }
            _ => false,
        };
        if !is_to_retry || !retries.may_retry() {
            return settled(answer);
        }
    }
}

fn shared() -> impl Iterator<Item = LockMode> {
    std::iter::repeat_n(LockMode::Shared, SHARED_TRIES)
}

/// Wraps `change` to hold the structure's lock of `dir` in the given mode.
fn holding<T>(
    dir: &Inode,
    mut change: impl FnMut(LockMode) -> DirResult<T>,
) -> impl FnMut(LockMode) -> DirResult<T> {
    move |index| {
        let _held = Hold::new(dir, index);
        change(index)
    }
}

/// A held lock of a directory's structure.
#[expect(dead_code, reason = "guards are held, not read")]
pub(super) enum Hold<'a> {
    Shared(SharedGuard<'a>),
    Exclusive(VersionedGuard<'a>),
}

impl<'a> Hold<'a> {
    fn new(dir: &'a Inode, index: LockMode) -> Option<Self> {
        let key = u64::from(dir.nr().0);
        match index {
            LockMode::Optimistic(_) => None,
            LockMode::Shared => Some(Hold::Shared(dir.index.read_ordered(key))),
            LockMode::Exclusive => Some(Hold::Exclusive(dir.index.write_ordered(key))),
        }
    }
}

/// Locks the structures of several directories, ascending by inode number, each once.
pub(super) fn lock_all<'a>(mut wanted: Vec<(&'a Inode, LockMode)>) -> Vec<Hold<'a>> {
    // The exclusive mode comes first, so that it is the one kept of a directory named twice.
    wanted.sort_by_key(|(dir, index)| (dir.nr(), *index != LockMode::Exclusive));
    wanted.dedup_by_key(|(dir, _)| dir.nr());
    wanted
        .into_iter()
        .filter_map(|(dir, index)| Hold::new(dir, index))
        .collect()
}

/// The answer of a change that needs no retry.
pub(crate) fn settled<T>(answer: DirResult<T>) -> Result<T> {
    answer.map_err(|error| match error {
        DirError::Fs(error) => error,
        DirError::NeedExclusive | DirError::Full => Error::NoSpace,
        DirError::Moved => Error::Busy,
    })
}
