//! Freeing inodes that have no name and no user any more, and space held for files without users.
//!
//! The last [`super::InodeRef`] of such an inode puts it on the [`Reclaim`] queue when it is
//! dropped (a drop must not start a handle: locks may be held). Every operation of the public API
//! empties the queue when it ends.
//!
//! Crash safety: an inode without a name is tracked as an orphan from the transaction that took
//! the last name until the one that frees it, so truncating in several transactions is safe.

use super::Inode;
use crate::credits;
use crate::quota::Usage;
use crate::{Fs, Result, file, xattr};
use std::sync::Arc;
use uext4_format::{FileType, InodeFlags};
use uext4_journal::Handle;
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank};

/// Inodes whose last user went away, and which are unlinked or hold space in advance.
pub(crate) struct Reclaim {
    waiting: AtomicUsize,
    queue: Mutex<Vec<Arc<Inode>>>,
}

impl Default for Reclaim {
    fn default() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(Rank::Queue, Vec::new()),
        }
    }
}

impl Reclaim {
    pub(super) fn push(&self, inode: Arc<Inode>) {
        self.queue.lock().push(inode);
        self.waiting.fetch_add(1, Ordering::Release);
    }

    /// Whether somebody waits to be freed.
    pub(crate) fn has_work(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    fn take(&self) -> Vec<Arc<Inode>> {
        if !self.has_work() {
            return Vec::new();
        }
        let mut queue = self.queue.lock();
        self.waiting.store(0, Ordering::Relaxed);
        std::mem::take(&mut *queue)
    }
}

impl Fs {
    /// Frees the unlinked inodes whose last user is gone. No lock may be held.
    pub(crate) fn reap(&self) -> Result<()> {
        // Freeing one may leave others without a user: the values of its attributes.
        loop {
            let unused = self.inodes.reclaim.take();
            if unused.is_empty() {
                return Ok(());
            }
            for inode in &unused {
                self.discard_unused(inode);
                self.evict(inode)?;
            }
        }
    }

    /// Gives back what the inode holds in advance, unless somebody uses it again.
    pub(crate) fn discard_unused(&self, inode: &Inode) {
        if inode.is_unused() {
            self.discard_preallocation(inode);
        }
    }

    /// Gives back the space that is held for what is written to the inode next.
    pub(crate) fn discard_preallocation(&self, inode: &Inode) {
        if let Some(held) = inode.preallocation().filter(|held| !held.is_empty()) {
            self.space.discard_preallocation(held);
        }
    }

    /// Frees every inode without names, whoever still holds it: the file system goes away.
    pub(crate) fn reap_all(&self) -> Result<()> {
        self.reap()?;
        self.space.discard_preallocations();
        for inode in self.inodes.snapshot() {
            if inode.claim_free(u32::MAX) {
                self.free_claimed(&inode)?;
            }
        }
        Ok(())
    }

    /// Frees an inode without names: data, attributes, number. May take several transactions.
    pub(crate) fn evict(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.writable().is_err() || !inode.claim_free(0) {
            return Ok(());
        }
        self.free_claimed(inode)
    }

    fn free_claimed(&self, inode: &Arc<Inode>) -> Result<()> {
        self.discard_preallocation(inode);
        file::discard_delayed(self, inode, &mut inode.io.write());
        let mut handle = self.start(credits::TRUNCATE)?;
        if has_blocks(self, inode) {
            file::free_all_blocks(self, &mut handle, inode)?;
        }
        self.finish_evict(&handle, inode)
    }

    /// Frees the number of an inode whose blocks are gone, in the handle's transaction.
    pub(crate) fn finish_evict(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        xattr::free_all(self, handle, inode)?;
        self.orphans.remove(self, handle, inode)?;
        let kind = {
            let mut state = handle.write(inode);
            self.quota.charge(handle, &state, Usage::INODE.less());
            let kind = state.disk.file_type();
            state.disk.dtime = self.now().seconds as u32;
            state.disk.size = 0;
            state.disksize = None;
            kind
        };
        self.space.free_inode(self, handle, inode.nr(), kind)
    }
}

/// True when the inode may map blocks of its own. `i_blocks` counts those of attributes, too.
pub(crate) fn has_blocks(fs: &Fs, inode: &Inode) -> bool {
    let state = inode.read();
    let inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    let may = match state.disk.file_type() {
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => !file::is_fast_link(fs, &state),
        _ => false,
    };
    may && !inline && state.disk.blocks_raw != 0
}
