//! Orphans: inodes without a name that still have blocks, and files in the middle of a truncate.
//!
//! Two ways on disk. The *orphan file* (feature `orphan_file`): slots taken by compare-and-swap in
//! the block that the thread hashes to. The *legacy list*: a chain through `i_dtime` that starts in
//! the superblock. A full orphan file falls back to the list.
//!
//! Invariants: an inode is tracked at most once (`Inode::orphan` says where); it is added in the
//! transaction that takes the last name or starts the truncate, and removed in the last one.
//! Locking: `Inode::orphan` changes with the inode's state locked, so that the look at it, at the
//! names and at the cut that goes on, and the change that follows are one step. Slots need no lock
//! besides. The list's mutex (`Rank::OrphanList`) comes before inode states: what belongs on the
//! list lets go of the state first and looks again.
//!
//! References: kernel documentation, `filesystems/ext4/orphan.rst`.

mod file;
mod list;
mod recover;
#[cfg(shuttle)]
pub(crate) mod schedules;

use crate::inode::{Inode, InodeState};
use crate::{BaseLines, Fs, Result};
use file::OrphanFile;
use list::OrphanList;
use std::sync::Arc;
use uext4_format::InodeNr;
use uext4_journal::Handle;
use uext4_sync::atomic::{AtomicBool, Ordering};

/// `Inode::orphan` of an inode on the legacy list.
const ON_LIST: u64 = u64::MAX;

/// All tracking of orphans.
pub(crate) struct Orphans {
    file: Option<OrphanFile>,
    list: OrphanList,
    base_lines: BaseLines,
    /// Recovery left some as they are.
    left: AtomicBool,
}

impl Orphans {
    /// No orphan tracked, and no orphan file yet.
    pub(crate) fn new(base_lines: BaseLines) -> Self {
        Self {
            file: None,
            list: OrphanList::default(),
            base_lines,
            left: AtomicBool::new(false),
        }
    }

    /// Loads the orphan file of this file system, if it has one.
    pub(crate) fn load(fs: &Fs) -> Result<Option<OrphanFile>> {
        OrphanFile::load(fs)
    }

    /// Whether the mount found orphans and left them to e2fsck, since errors are recorded.
    pub(crate) fn are_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Gives the orphan file to a file system that was put together without one.
    pub(crate) fn set_file(&mut self, file: Option<OrphanFile>) {
        self.file = file;
    }

    /// Tracks `inode` in the handle's transaction; nothing happens when it is tracked already.
    /// The caller holds no live object.
    pub(crate) fn add(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        if self.base_lines.untracked_orphans {
            return Ok(());
        }
        if let Some(file) = &self.file {
            // The inode itself must be in the transaction: recovery reads its size and links.
            let _state = handle.write(inode);
            if inode.is_orphan() {
                return Ok(());
            }
            if let Some(slot) = file.add(handle, inode.nr()) {
                inode.orphan.store(slot + 1, Ordering::Release);
                return Ok(());
            }
        }
        self.list.add(fs, handle, inode)
    }

    /// As [`Self::add`], on the legacy list in any case: the orphan file goes away.
    pub(crate) fn add_to_list(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
    ) -> Result<()> {
        self.list.add(fs, handle, inode)
    }

    /// Ends the tracking of `inode`, which is being freed, in the handle's transaction. The caller
    /// holds no live object.
    pub(crate) fn remove(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        self.remove_if(fs, handle, inode, |_| true)
    }

    /// Ends the tracking of `inode` in the handle's transaction unless it must be tracked for
    /// another reason: it has no name, or a cut of it goes on. The caller holds no live object.
    pub(crate) fn settle(&self, fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        self.remove_if(fs, handle, inode, |state| !inode.needs_tracking(state))
    }

    fn remove_if(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        is_due: impl Fn(&InodeState) -> bool,
    ) -> Result<()> {
        {
            let state = handle.write(inode);
            match inode.orphan.load(Ordering::Acquire) {
                0 => return Ok(()),
                ON_LIST => {}
                _ if !is_due(&state) => return Ok(()),
                slot => {
                    if let Some(file) = &self.file {
                        file.remove(handle, slot - 1);
                    }
                    inode.orphan.store(0, Ordering::Release);
                    return Ok(());
                }
            }
        }
        self.list.remove_if(fs, handle, inode, is_due)
    }

    /// What the orphan file names.
    pub(crate) fn in_file(&self) -> impl Iterator<Item = InodeNr> {
        let entries = self.file.iter().flat_map(OrphanFile::entries);
        entries.map(|(_slot, nr)| nr)
    }

    /// True when nothing is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.file.as_ref().is_none_or(OrphanFile::is_empty)
    }
}
