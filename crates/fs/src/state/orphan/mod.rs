//! Orphan tracking: inodes without a name that still have blocks, and unfinished truncates.
//!
//! Two on-disk formats. The *orphan file* (feature `orphan_file`): slots taken by compare-and-swap
//! in the block that the thread hashes to. The *legacy list*: a chain through `i_dtime` that starts
//! in the superblock. A full orphan file falls back to the list.
//!
//! Invariants: an inode is tracked at most once (`Inode::orphan` has its place). It is added in the
//! transaction that removes the last name or starts the truncate, and removed in the last one.
//!
//! Locking: `Inode::orphan` changes with the inode's state locked, so that the checks of it, of the
//! names and of an unfinished truncate are atomic with the change. Slots need no other lock. The
//! list's mutex (`Rank::OrphanList`) comes before inode states: for the list, the state is unlocked
//! first and checked again. An inode that is tracked already, or not tracked, needs no list.
//!
//! References: kernel documentation, `filesystems/ext4/orphan.rst`.

mod file;
mod list;
#[cfg(shuttle)]
pub(crate) mod schedules;

use crate::state::base::Base;
use crate::state::inode::{Inode, InodeState};
use crate::types::base_lines::BaseLines;
use crate::types::error::Result;
pub(crate) use file::OrphanFile;
use list::OrphanList;
use uext4_format::InodeNr;
use uext4_journal::Handle;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicBool, Ordering};

/// The value of `Inode::orphan` for an inode on the legacy list.
const ON_LIST: u64 = u64::MAX;

/// Orphan tracking of a mount.
pub(crate) struct Orphans {
    file: Option<OrphanFile>,
    list: OrphanList,
    base_lines: BaseLines,
    /// Recovery left orphans in place.
    left: AtomicBool,
}

impl Orphans {
    /// Without orphans, and without an orphan file yet.
    pub(crate) fn new(base_lines: BaseLines) -> Self {
        Self {
            file: None,
            list: OrphanList::default(),
            base_lines,
            left: AtomicBool::new(false),
        }
    }

    /// Whether the mount left orphans to e2fsck, because errors are recorded.
    pub(crate) fn are_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Sets the orphan file of a file system that was assembled without one.
    pub(crate) fn set_file(&mut self, file: Option<OrphanFile>) {
        self.file = file;
    }

    /// Tracks `inode` in the handle's transaction, unless it is tracked already. The caller holds
    /// no live object.
    pub(crate) fn add(&self, base: &Base, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        if self.base_lines.untracked_orphans {
            return Ok(());
        }
        if !self.base_lines.locked_orphans {
            // The inode itself must be in the transaction: recovery reads its size and links.
            let _state = handle.write(inode);
            if inode.is_orphan() {
                return Ok(());
            }
            let slot = self
                .file
                .as_ref()
                .and_then(|file| file.add(handle, inode.nr()));
            if let Some(slot) = slot {
                inode.orphan.store(slot + 1, Ordering::Release);
                return Ok(());
            }
        }
        self.list.add(base, handle, inode)
    }

    /// Whether every truncate tracks its inode, also one that frees few blocks: the baseline.
    pub(crate) fn track_each_truncate(&self) -> bool {
        self.base_lines.locked_orphans
    }

    /// As [`Self::add`], always on the legacy list, because the orphan file is being removed.
    pub(crate) fn add_to_list(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
    ) -> Result<()> {
        self.list.add(base, handle, inode)
    }

    /// Ends the tracking of a freed `inode` in the handle's transaction. The caller holds no live
    /// object.
    pub(crate) fn remove(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
    ) -> Result<()> {
        self.remove_if(base, handle, inode, |_| true)
    }

    /// Ends the tracking of `inode` in the handle's transaction, unless another reason remains: it
    /// has no name, or a truncate is unfinished. The caller holds no live object.
    pub(crate) fn remove_unless_needed(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
    ) -> Result<()> {
        self.remove_if(base, handle, inode, |state| !inode.needs_tracking(state))
    }

    fn remove_if(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        is_due: impl Fn(&InodeState) -> bool,
    ) -> Result<()> {
        {
            let state = handle.write(inode);
            match inode.orphan.load(Ordering::Acquire) {
                0 if !self.base_lines.locked_orphans => return Ok(()),
                0 | ON_LIST => {}
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
        self.list.remove_if(base, handle, inode, is_due)
    }

    /// Records that recovery leaves the orphans to e2fsck.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// The orphan file, if there is one.
    pub(crate) fn file(&self) -> Option<&OrphanFile> {
        self.file.as_ref()
    }

    /// Tracks the inodes of the on-disk list, newest first.
    pub(crate) fn adopt_list(&self, inodes: &[Arc<Inode>]) {
        self.list.adopt(inodes);
        for inode in inodes {
            inode.orphan.store(ON_LIST, Ordering::Release);
        }
    }

    /// The inodes in the orphan file.
    pub(crate) fn in_file(&self) -> impl Iterator<Item = InodeNr> {
        let entries = self.file.iter().flat_map(OrphanFile::entries);
        entries.map(|(_slot, nr)| nr)
    }

    /// True when no inode is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.file.as_ref().is_none_or(OrphanFile::is_empty)
    }
}
