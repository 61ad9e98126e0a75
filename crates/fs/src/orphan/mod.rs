//! Orphans: inodes without a name that still have blocks, and files in the middle of a truncate.
//!
//! Two ways on disk. The *orphan file* (feature `orphan_file`): slots taken by compare-and-swap in
//! the block that the thread hashes to. The *legacy list*: a chain through `i_dtime` that starts in
//! the superblock. A full orphan file falls back to the list.
//!
//! Invariants: an inode is tracked at most once (`Inode::orphan` says where); it is added in the
//! transaction that takes the last name or starts the truncate, and removed in the last one.
//! Locking: the list's mutex (`Rank::OrphanList`) comes before inode states and is held for the
//! splice only. Slots need no lock.
//!
//! References: kernel documentation, `filesystems/ext4/orphan.rst`.

mod file;
mod list;
mod recover;
#[cfg(shuttle)]
pub(crate) mod schedules;

use crate::inode::Inode;
use crate::{BaseLines, Fs, Result};
use file::OrphanFile;
use list::OrphanList;
use std::sync::Arc;
use uext4_journal::Handle;
use uext4_sync::atomic::Ordering;

/// `Inode::orphan` of an inode on the legacy list.
const ON_LIST: u64 = u64::MAX;

/// All tracking of orphans.
pub(crate) struct Orphans {
    file: Option<OrphanFile>,
    list: OrphanList,
    base_lines: BaseLines,
}

impl Orphans {
    /// No orphan tracked, and no orphan file yet.
    pub(crate) fn new(base_lines: BaseLines) -> Self {
        Self {
            file: None,
            list: OrphanList::default(),
            base_lines,
        }
    }

    /// Loads the orphan file of this file system, if it has one.
    pub(crate) fn load(fs: &Fs) -> Result<Option<OrphanFile>> {
        OrphanFile::load(fs)
    }

    /// Gives the orphan file to a file system that was put together without one.
    pub(crate) fn set_file(&mut self, file: Option<OrphanFile>) {
        self.file = file;
    }

    /// Tracks `inode` in the handle's transaction; nothing happens when it is tracked already.
    /// The caller holds no live object.
    pub(crate) fn add(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let is_tracked = inode.orphan.load(Ordering::Acquire) != 0;
        if is_tracked || self.base_lines.untracked_orphans {
            return Ok(());
        }
        // The inode itself must be in the transaction: recovery reads its size and links.
        handle.touch(inode);
        let slot = self
            .file
            .as_ref()
            .and_then(|file| file.add(handle, inode.nr()));
        match slot {
            Some(slot) => inode.orphan.store(slot + 1, Ordering::Release),
            None => {
                self.list.add(fs, handle, inode)?;
                inode.orphan.store(ON_LIST, Ordering::Release);
            }
        }
        Ok(())
    }

    /// As [`Self::add`], on the legacy list in any case: the orphan file goes away.
    pub(crate) fn add_to_list(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
    ) -> Result<()> {
        self.list.add(fs, handle, inode)?;
        inode.orphan.store(ON_LIST, Ordering::Release);
        Ok(())
    }

    /// Ends the tracking of `inode` in the handle's transaction.
    pub(crate) fn remove(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        match inode.orphan.swap(0, Ordering::AcqRel) {
            0 => Ok(()),
            ON_LIST => self.list.remove(fs, handle, inode),
            slot => {
                if let Some(file) = &self.file {
                    file.remove(handle, slot - 1);
                }
                Ok(())
            }
        }
    }

    /// True when nothing is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.file.as_ref().is_none_or(OrphanFile::is_empty)
    }
}
