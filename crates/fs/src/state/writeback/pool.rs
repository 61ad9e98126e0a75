//! Dirty inodes of a mount: total bytes, and inodes ordered by age.
//!
//! Layout: inodes are sharded by number, neighbours together, because one thread often uses them
//! together; each shard is ordered by age. The byte count is a total plus a part per thread shard;
//! large parts move to the total. A check of the limit is one load, and off by a sixteenth of the
//! limit at most.

use super::UnseenErrors;
use crate::state::inode::Inode;
use crate::types::memory::part_of_memory;
use std::collections::BTreeMap;
use std::time::Duration;
use uext4_format::InodeNr;
use uext4_num::{clamp_i64, u64_of};
use uext4_sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Arc, Mutex, Rank, Sharded, stripe_shard};

const LISTS: usize = 64;
/// Log2 of the consecutive inode numbers in one list.
const STRIPE_BITS: u32 = 6;
/// The default limit: the memory that this process may use, divided by this, ...
const MEMORY_PART: u64 = 16;
/// ... at most this many bytes.
const BYTES_MAX: u64 = 256 << 20;
/// Longest writeback age, in units of 10 ms. The kernel waits 30 s; here it is a commit interval,
/// because a killed server loses its dirty data.
const EXPIRE_CENTISECS: u32 = 500;

/// Age and number of an inode that waits for writeback.
type Ticket = (u64, InodeNr);

struct Waiting {
    inode: Arc<Inode>,
    /// A writer or the flusher is writing it out.
    busy: bool,
}

/// The inodes with delayed data.
pub(crate) struct Pool {
    lists: Box<[Mutex<BTreeMap<Ticket, Waiting>>]>,
    total_bytes: AtomicI64,
    parts_bytes: Sharded<AtomicI64>,
    /// Limit for delayed data (`delalloc_memory`).
    pub(crate) limit_bytes: AtomicU64,
    /// Longest age of delayed data (`delalloc_expire_centisecs`), in units of 10 ms.
    pub(crate) expire_centisecs: AtomicU32,
    /// Data losses not reported yet.
    pub(crate) unseen: UnseenErrors,
}

impl Pool {
    /// An empty pool; `None` takes the default limit.
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self {
            lists: (0..LISTS)
                .map(|_| Mutex::new(Rank::Queue, BTreeMap::new()))
                .collect(),
            total_bytes: AtomicI64::new(0),
            parts_bytes: Sharded::new(|_| AtomicI64::new(0)),
            limit_bytes: AtomicU64::new(limit_or_default(limit_bytes)),
            expire_centisecs: AtomicU32::new(EXPIRE_CENTISECS),
            unseen: UnseenErrors::default(),
        }
    }

    /// Sets the limit, for later writes.
    pub(crate) fn set_limit(&self, limit_bytes: Option<u64>) {
        let limit = limit_or_default(limit_bytes);
        self.limit_bytes.store(limit, Ordering::Relaxed);
    }

    fn list(&self, nr: InodeNr) -> &Mutex<BTreeMap<Ticket, Waiting>> {
        &self.lists[stripe_shard::<STRIPE_BITS>(nr.0.into(), LISTS)]
    }

    /// Lists an inode that is dirty since `since_ns`.
    pub(crate) fn enter(&self, inode: &Arc<Inode>, since_ns: u64) {
        let waiting = Waiting {
            inode: inode.clone(),
            busy: false,
        };
        let ticket = (since_ns, inode.nr());
        self.list(inode.nr()).lock().insert(ticket, waiting);
    }

    /// Removes an inode without delayed data.
    pub(crate) fn leave(&self, nr: InodeNr, since_ns: u64) {
        self.list(nr).lock().remove(&(since_ns, nr));
    }

    /// Counts bytes that entered or left a buffer.
    pub(crate) fn count(&self, delta_bytes: i64) {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let chunk = clamp_i64(limit / (16 * u64_of(self.parts_bytes.count())));
        let part = self.parts_bytes.local();
        let here = part.fetch_add(delta_bytes, Ordering::Relaxed) + delta_bytes;
        if here.abs() >= chunk {
            let moved = part.swap(0, Ordering::Relaxed);
            self.total_bytes.fetch_add(moved, Ordering::Relaxed);
        }
    }

    /// Bytes in all buffers; exact while no thread writes.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.parts_bytes.iter();
        let parts: i64 = parts.map(|part| part.load(Ordering::Relaxed)).sum();
        let sum = self.total_bytes.load(Ordering::Relaxed) + parts;
        u64::try_from(sum).unwrap_or(0)
    }

    /// Whether writers must write out data.
    pub(crate) fn is_over(&self) -> bool {
        let limit = self.limit();
        self.is_beyond(limit - limit / 16)
    }

    /// True if the total surely exceeds `bytes`; it may miss a sixteenth of the limit.
    fn is_beyond(&self, bytes: u64) -> bool {
        u64::try_from(self.total_bytes.load(Ordering::Relaxed)).unwrap_or(0) > bytes
    }

    fn limit(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Whether the flusher should write out the oldest data.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_beyond(self.crowded_bytes())
    }

    /// Dirty bytes from which the flusher writes out the oldest data.
    pub(crate) fn crowded_bytes(&self) -> u64 {
        self.limit() / 2
    }

    /// Claims the oldest unclaimed inode for writeback; the caller releases it with [`Self::done`].
    pub(crate) fn claim_oldest(&self) -> Option<(u64, Arc<Inode>)> {
        let oldest = self.lists.iter().filter_map(|list| {
            let list = list.lock();
            let mut idle = list.iter().filter(|(_, waiting)| !waiting.busy);
            idle.next().map(|(ticket, _)| *ticket)
        });
        let ticket = oldest.min()?;
        let mut list = self.list(ticket.1).lock();
        let waiting = list.get_mut(&ticket)?;
        waiting.busy = true;
        Some((ticket.0, waiting.inode.clone()))
    }

    /// Releases a claim of [`Self::claim_oldest`].
    pub(crate) fn done(&self, nr: InodeNr, since_ns: u64) {
        if let Some(waiting) = self.list(nr).lock().get_mut(&(since_ns, nr)) {
            waiting.busy = false;
        }
    }

    /// Inodes that are dirty since before `before_ns`, oldest first in each list.
    pub(crate) fn older_than(&self, before_ns: u64) -> Vec<Arc<Inode>> {
        self.lists
            .iter()
            .flat_map(|list| -> Vec<Arc<Inode>> {
                let list = list.lock();
                let older = list.range(..(before_ns, InodeNr(0)));
                older.map(|(_, waiting)| waiting.inode.clone()).collect()
            })
            .collect()
    }

    /// Every inode with delayed data.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.older_than(u64::MAX)
    }

    /// True when no inode is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.iter().all(|list| list.lock().is_empty())
    }

    /// Longest writeback age of delayed data.
    pub(crate) fn expire(&self) -> Duration {
        Duration::from_millis(u64::from(self.expire_centisecs.load(Ordering::Relaxed)) * 10)
    }
}

fn limit_or_default(limit_bytes: Option<u64>) -> u64 {
    limit_bytes.unwrap_or_else(|| part_of_memory(MEMORY_PART, BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_seen_by_all_threads() {
        let pool = Pool::new(Some(1 << 20));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..17).for_each(|_| pool.count(4096)));
            }
        });
        assert_eq!(pool.bytes(), 16 * 17 * 4096);
        assert!(pool.is_over());
        pool.count(-(16 * 8 * 4096));
        assert!(!pool.is_over());
        assert_eq!(
            Pool::new(Some(0)).claim_oldest().map(|(since, _)| since),
            None
        );
    }

    #[test]
    fn without_a_wish_the_machine_says_how_much() {
        let limit = Pool::new(None).limit_bytes.into_inner();
        assert!((1 << 20..=BYTES_MAX).contains(&limit), "{limit}");
    }
}
