//! Queues of unused inodes that are unlinked or have preallocated space.
//!
//! When the last [`super::InodeRef`] of such an inode is dropped, it is queued: a drop must not
//! start a handle, because locks may be held.

use super::Inode;
use uext4_num::clamp_u32;
use uext4_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use uext4_sync::{Arc, CachePadded, Mutex, Rank, Sharded};

/// Operations that end in a shard before its thread sweeps the queues of all shards, for each of
/// them: a sweep looks at a queue for a fixed number of operations, however many there are.
const ENDS_PER_QUEUE: u32 = 4;

/// Per-shard queues of unused inodes that are unlinked or have preallocated space. An inode is
/// queued in the shard of its last user, because it is in that thread's CPU cache.
pub(crate) struct EvictQueues {
    pub(crate) queues: Sharded<Queue>,
    /// Held while all queues are emptied: inodes taken out still occupy space.
    pub(crate) sweep: Mutex<()>,
}

/// The queue of one shard.
pub(crate) struct Queue {
    waiting: AtomicUsize,
    inodes: Mutex<Vec<Arc<Inode>>>,
    /// Operations that ended since the last sweep. Padded: all sweeps read the other fields.
    ends: CachePadded<AtomicU32>,
}

impl Default for EvictQueues {
    fn default() -> Self {
        Self {
            queues: Sharded::new(|_| Queue {
                waiting: AtomicUsize::new(0),
                inodes: Mutex::new(Rank::Queue, Vec::new()),
                ends: AtomicU32::new(0).into(),
            }),
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

    pub(crate) fn pop(&self) -> Option<Arc<Inode>> {
        if self.is_empty() {
            return None;
        }
        let mut inodes = self.inodes.lock();
        let inode = inodes.pop();
        self.waiting.store(inodes.len(), Ordering::Release);
        inode
    }

    /// Whether a sweep of all `queues` is due, after an operation. Threads that share the queue may
    /// lose a count to each other.
    pub(crate) fn is_sweep_due(&self, queues: usize) -> bool {
        let ends = self.ends.load(Ordering::Relaxed) + 1;
        let is_due = ends >= ENDS_PER_QUEUE * clamp_u32(queues);
        let left = if is_due { 0 } else { ends };
        self.ends.store(left, Ordering::Relaxed);
        is_due
    }
}

impl EvictQueues {
    pub(super) fn push(&self, inode: Arc<Inode>) {
        self.queues.local().push(inode);
    }

    /// Whether the queue of the calling thread has inodes to free.
    pub(crate) fn has_own_work(&self) -> bool {
        !self.queues.local().is_empty()
    }

    /// Whether any inode waits to be freed, or a sweep is running.
    pub(crate) fn has_work(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty()) || self.sweep.try_lock().is_none()
    }
}
