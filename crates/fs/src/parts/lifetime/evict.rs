//! Frees orphaned inodes and the preallocated space of unused files.
//!
//! They wait in [`EvictQueues`]. Each operation of the public API empties its thread's queue when
//! it ends. All queues are emptied periodically, when space is short or counted, and before
//! everything is made durable.
//!
//! Crash safety: an inode without a name is tracked as an orphan from the transaction that removed
//! the last name until the one that frees it, so truncating in several transactions is safe.

use crate::parts::{file, xattr};
use crate::state::engine::Fs;
use crate::state::inode::{EvictQueues, Inode, Queue};
use crate::state::quota::Usage;
use crate::types::credits;
use crate::types::error::Result;
use uext4_format::InodeFlags;
use uext4_journal::Handle;
use uext4_num::low_u32;
use uext4_sync::Arc;

impl Fs {
    /// Frees the unused orphans of all queues. If another thread is sweeping, waits for it. The
    /// caller holds no lock.
    pub(crate) fn reap(&self) -> Result<()> {
        let _alone = self.inodes.evictions.sweep.lock();
        self.sweep()
    }

    /// [`Self::reap`], for callers that hold `Rank::Sweep`.
    fn sweep(&self) -> Result<()> {
        let queues = &self.inodes.evictions.queues;
        let reaped = queues.iter().map(|queue| self.reap_from(queue));
        let reaped = reaped.fold(Ok(()), Result::and);
        // Freeing an inode may leave others unused: the value inodes of its attributes.
        reaped.and(self.reap_from(queues.local()))
    }

    /// As [`Self::reap`], unless the freeze barrier is closed. An error is recorded in the file
    /// system.
    pub(crate) fn try_reap(&self) {
        if self.inodes.evictions.has_work()
            && let Some(_pass) = self.base.changes.try_enter()
        {
            let _noted = self.base.record_result(self.reap());
        }
    }

    /// Called at the end of an operation: as [`Self::reap`] for the calling thread's queue, and
    /// periodically for all queues, because idle threads do not empty theirs.
    pub(crate) fn reap_own(&self) -> Result<()> {
        let EvictQueues { queues, sweep } = &*self.inodes.evictions;
        let own = queues.local();
        let is_due = own.is_sweep_due(queues.count());
        match is_due.then(|| sweep.try_lock()).flatten() {
            Some(_alone) => self.sweep(),
            None => self.reap_from(own),
        }
    }

    fn reap_from(&self, queue: &Queue) -> Result<()> {
        let mut reaped = Ok(());
        while let Some(inode) = queue.pop() {
            self.discard_unused(&inode);
            reaped = reaped.and(self.evict(&inode));
        }
        reaped
    }

    /// Frees every inode without names, even if it is still held: for the unmount.
    ///
    /// # Errors
    /// The first; the other inodes are freed nevertheless.
    pub(crate) fn reap_all(&self) -> Result<()> {
        let mut reaped = self.reap();
        self.space.discard_preallocations();
        for inode in self.inodes.snapshot() {
            if inode.claim_free(u32::MAX) {
                reaped = reaped.and(self.free_claimed(&inode));
            }
        }
        reaped
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
        self.promise_if_gone(&handle, inode.nr());
        if has_blocks(self, inode) {
            file::free_all_blocks(self, &mut handle, inode)?;
        }
        self.finish_evict(&handle, inode)
    }

    /// Frees the number of an inode without blocks, in the handle's transaction.
    pub(crate) fn finish_evict(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        xattr::free_all(self, handle, inode)?;
        self.orphans.remove(&self.base, handle, inode)?;
        let kind = {
            let mut state = handle.write(inode);
            let charged = (inode.nr(), &state.disk);
            self.quota.charge(handle, charged, Usage::INODE.less());
            let kind = state.disk.file_type();
            state.disk.dtime = low_u32(self.now().seconds.cast_unsigned());
            state.disk.size = 0;
            state.disksize = u64::MAX;
            kind
        };
        self.space.free_inode(&self.base, handle, inode.nr(), kind)
    }
}

/// Whether the inode may map data blocks. `i_blocks` includes blocks of attributes.
pub(crate) fn has_blocks(fs: &Fs, inode: &Inode) -> bool {
    let state = inode.read();
    let inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    file::can_be_cut(fs, &state) && !inline && state.disk.blocks_raw != 0
}
