//! Execution of a rename: the locks, then entries, `..`, link counts and times under one handle.

use super::{Rename, RenameFlags};
use crate::ops::{Hold, check_alive, lock_all, touch_dir};
use crate::parts::dir::{self, DirResult, LockMode};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, NewInode};
use crate::state::quota::Claim;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::FileType;
use uext4_journal::Handle;
use uext4_sync::Arc;

impl Rename<'_> {
    pub(super) fn carry_out(&self, fs: &Fs, index: LockMode) -> DirResult<()> {
        let _locks = self.lock(index);
        for dir in [self.from.dir, self.to.dir] {
            check_alive(dir)?;
        }
        if self.flags == RenameFlags::Exchange {
            return self.exchange(fs, index);
        }
        if let Some(target) = self.target.as_ref().filter(|target| target.is_dir())
            && !dir::is_empty(fs, target.arc())?
        {
            return Err(Error::NotEmpty.into());
        }
        let _claim = match self.target {
            Some(_) => Claim::default(),
            None => {
                let (dir, name) = (self.to.dir, &self.to.name);
                let way = dir::can_insert(fs, dir, name, index, fs.reserve_of(self.to.caller))?;
                fs.reserve_growth_quota(dir, way.blocks(), self.to.caller)?
            }
        };
        self.replace(fs, index)
    }

    /// Locks the parents in the given mode, a renamed directory shared, a removed one exclusively.
    fn lock(&self, index: LockMode) -> Vec<Hold<'_>> {
        let parents = [self.from.dir, self.to.dir].map(|dir| (&**dir, index));
        let of_target = match self.flags {
            RenameFlags::Exchange => LockMode::Shared,
            _ => LockMode::Exclusive,
        };
        let children = [
            (Some(&self.source), LockMode::Shared),
            (self.target.as_ref(), of_target),
        ];
        let held = children
            .into_iter()
            .filter_map(|(child, index)| Some((&**child?, index)))
            .filter(|(child, _)| child.is_dir());
        lock_all(parents.into_iter().chain(held).collect())
    }

    fn replace(&self, fs: &Fs, index: LockMode) -> DirResult<()> {
        let handle = fs.start(credits::RENAME + index.growth_credits())?;
        self.promise(fs, &handle);
        self.with_links(fs, &handle, || self.replace_entry(fs, &handle, index))?;
        Ok(self.finish(fs, &handle)?)
    }

    /// Promises records of the removal of the target, the new name and the removal of the old one.
    fn promise(&self, fs: &Fs, handle: &Handle<'_>) {
        let is_file = |inode: &InodeRef| !inode.is_dir();
        let is_plain = !self.flags.leaves_whiteout() && is_file(&self.source);
        if is_plain && self.target.iter().all(is_file) {
            fs.promise_names(handle, self.from.dir);
            fs.promise_names(handle, self.to.dir);
        }
    }

    fn replace_entry(&self, fs: &Fs, handle: &Handle<'_>, index: LockMode) -> DirResult<()> {
        let whiteout = self.whiteout(fs, handle)?;
        let step = dir::Move {
            from_dir: self.from.dir,
            from_name: &self.from.name,
            to_dir: self.to.dir,
            to_name: &self.to.name,
            child: self.source.nr(),
            kind: self.source.kind(),
            victim: self.target.as_ref().map(|target| target.nr()),
            whiteout: whiteout.as_ref().map(|whiteout| whiteout.nr()),
        };
        let moved = dir::rename(fs, handle, &step, index);
        if let (Err(_), Some(whiteout)) = (&moved, &whiteout) {
            fs.drop_last_link(handle, whiteout.arc(), fs.now())?;
        }
        moved
    }

    /// Changes entries and the link counts of their parents. The new link comes first, because only
    /// it may be refused.
    fn with_links(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        change: impl FnOnce() -> DirResult<()>,
    ) -> DirResult<()> {
        let (gains, loses) = self.parents_that_gain_and_lose();
        if let Some(dir) = gains {
            fs.add_dir_link(handle, dir)?;
        }
        let changed = change();
        let fewer = if changed.is_ok() { loses } else { gains };
        if let Some(dir) = fewer {
            fs.drop_dir_link(handle, dir);
        }
        changed
    }

    /// The parent that gains a subdirectory, and the one that loses one.
    fn parents_that_gain_and_lose(&self) -> (Option<&Arc<Inode>>, Option<&Arc<Inode>>) {
        let (from, to) = (Some(self.from.dir), Some(self.to.dir));
        let exchange = self.flags == RenameFlags::Exchange;
        let target = self.target.as_ref().is_some_and(|target| target.is_dir());
        match (self.source.is_dir(), target) {
            (true, true) if !exchange => (None, from),
            (true, false) if self.moves() => (to, from),
            (false, true) if self.moves() => (from, to),
            _ => (None, None),
        }
    }

    fn whiteout(&self, fs: &Fs, handle: &Handle<'_>) -> Result<Option<InodeRef>> {
        if !self.flags.leaves_whiteout() {
            return Ok(None);
        }
        let new = NewInode::new(FileType::CharDevice, 0);
        let draft = fs.draft_inode(self.from.dir, &new, self.to.caller)?;
        let inode = fs.new_inode(handle, self.from.dir, &draft)?;
        Ok(Some(inode))
    }

    /// Updates `..`, the target's link count and the times after the change of entries.
    fn finish(&self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        let now = fs.now();
        handle.write(self.source.arc()).disk.set_ctime(now);
        if self.source.is_dir() && self.moves() {
            dir::set_parent(fs, handle, self.source.arc(), self.to.dir.nr())?;
        }
        for dir in [self.from.dir, self.to.dir] {
            touch_dir(handle, dir, now);
        }
        match &self.target {
            Some(target) if target.is_dir() => fs.drop_last_link(handle, target.arc(), now),
            Some(target) => fs.drop_link(handle, target.arc(), now),
            None => Ok(()),
        }
    }

    fn exchange(&self, fs: &Fs, index: LockMode) -> DirResult<()> {
        let target = self.target.as_ref().ok_or(Error::NotFound)?;
        let handle = fs.start(credits::RENAME)?;
        let step = dir::Exchange {
            one: (
                self.from.dir,
                &self.from.name,
                self.source.nr(),
                self.source.kind(),
            ),
            two: (self.to.dir, &self.to.name, target.nr(), target.kind()),
        };
        self.with_links(fs, &handle, || dir::exchange(fs, &handle, &step, index))?;
        let now = fs.now();
        if self.moves() {
            self.exchange_parents(fs, &handle, target)?;
        }
        for inode in [self.source.arc(), target.arc()] {
            handle.write(inode).disk.set_ctime(now);
        }
        for dir in [self.from.dir, self.to.dir] {
            touch_dir(&handle, dir, now);
        }
        Ok(())
    }

    fn exchange_parents(&self, fs: &Fs, handle: &Handle<'_>, target: &InodeRef) -> Result<()> {
        if self.source.is_dir() {
            dir::set_parent(fs, handle, self.source.arc(), self.to.dir.nr())?;
        }
        if target.is_dir() {
            dir::set_parent(fs, handle, target.arc(), self.from.dir.nr())?;
        }
        Ok(())
    }
}
