//! Freeing inodes that have no name and no user any more, and space held for files without users.
//!
//! The last [`super::InodeRef`] of such an inode puts it on the [`Reclaim`] queue when it is
//! dropped (a drop must not start a handle: locks may be held). There is one for each thread, which
//! every operation of the public API empties when it ends, and all of them now and then, or when
//! space runs short, is counted, or everything is to be durable.
//!
//! Crash safety: an inode without a name is tracked as an orphan from the transaction that took
//! the last name until the one that frees it, so truncating in several transactions is safe.

use super::Inode;
use crate::credits;
use crate::quota::Usage;
use crate::{Fs, Result, file, xattr};
use std::sync::Arc;
use uext4_format::InodeFlags;
use uext4_journal::Handle;
use uext4_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank, Sharded};

/// Ends of operations of a shard's threads after which they look at the queues of all threads.
const ENDS_PER_SWEEP: u32 = 256;

/// Inodes whose last user went away, and which are unlinked or hold space in advance: in the shard
/// of the thread that had them in use, whose cache they are in.
pub(crate) struct Reclaim {
    queues: Sharded<Queue>,
    /// Held by who empties all of them: what it took out still takes space.
    sweep: Mutex<()>,
}

struct Queue {
    waiting: AtomicUsize,
    inodes: Mutex<Vec<Arc<Inode>>>,
    /// Operations that ended since all queues were looked at.
    ends: AtomicU32,
}

impl Default for Reclaim {
    fn default() -> Self {
        let queue = |_| Queue {
            waiting: AtomicUsize::new(0),
            inodes: Mutex::new(Rank::Queue, Vec::new()),
            ends: AtomicU32::new(0),
        };
        Self {
            queues: Sharded::new(queue),
            sweep: Mutex::new(Rank::Sweep, ()),
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    fn push(&self, inode: Arc<Inode>) {
        let mut inodes = self.inodes.lock();
        inodes.push(inode);
        self.waiting.store(inodes.len(), Ordering::Release);
    }

    fn pop(&self) -> Option<Arc<Inode>> {
        if self.is_empty() {
            return None;
        }
        let mut inodes = self.inodes.lock();
        let inode = inodes.pop();
        self.waiting.store(inodes.len(), Ordering::Release);
        inode
    }

    /// Whether it is time to look at the queues of all threads. Threads that share the queue may
    /// lose a count to each other.
    fn is_sweep_due(&self) -> bool {
        let ends = self.ends.load(Ordering::Relaxed) + 1;
        self.ends.store(ends % ENDS_PER_SWEEP, Ordering::Relaxed);
        ends == ENDS_PER_SWEEP
    }
}

impl Reclaim {
    pub(super) fn push(&self, inode: Arc<Inode>) {
        self.queues.local().push(inode);
    }

    /// Whether somebody of the calling thread waits to be freed.
    pub(crate) fn has_own_work(&self) -> bool {
        !self.queues.local().is_empty()
    }

    /// Whether somebody waits to be freed, or is being freed by who sweeps.
    pub(crate) fn has_work(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty()) || self.sweep.try_lock().is_none()
    }
}

impl Fs {
    /// Frees the unlinked inodes whose last user is gone. When somebody else does so, they are free
    /// when that is done. No lock may be held, but `Rank::Rename`.
    pub(crate) fn reap(&self) -> Result<()> {
        let _alone = self.inodes.reclaim.sweep.lock();
        self.sweep()
    }

    /// [`Self::reap`], by who holds `Rank::Sweep`.
    fn sweep(&self) -> Result<()> {
        let queues = &self.inodes.reclaim.queues;
        let reaped = queues.iter().map(|queue| self.reap_from(queue));
        let reaped = reaped.fold(Ok(()), Result::and);
        // Freeing one may leave others without a user: the values of its attributes.
        reaped.and(self.reap_from(queues.local()))
    }

    /// As [`Self::reap`], unless changes are stopped. The file system keeps an error.
    pub(crate) fn reap_by_the_way(&self) {
        if self.inodes.reclaim.has_work()
            && let Some(_pass) = self.changes.try_enter()
        {
            let _noted = self.note(self.reap());
        }
    }

    /// As [`Self::reap`], of the calling thread's, and now and then of those whose threads do not
    /// come back. An operation has ended.
    pub(crate) fn reap_own(&self) -> Result<()> {
        let Reclaim { queues, sweep } = &*self.inodes.reclaim;
        let own = queues.local();
        let alone = own.is_sweep_due().then(|| sweep.try_lock()).flatten();
        match alone {
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
    ///
    /// # Errors
    /// The first; the other inodes are freed all the same.
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
    file::can_be_cut(fs, &state) && !inline && state.disk.blocks_raw != 0
}
