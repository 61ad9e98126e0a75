//! Claim counter for free clusters, sharded per thread (as the kernel's `percpu_counter`).
//!
//! A claim precedes the search, so the sum of all claims never exceeds the free clusters less the
//! reserves. Far from the limit a claim touches the thread's own cache line only; near it claims
//! are serialised on the exact sum.
//!
//! Layout: `total + sum(locals)` is the number of unclaimed clusters. A local part moves to `total`
//! when it leaves `±chunk`, so `total` is written once per many small claims. `chunk` grows with
//! the initial free count. `total` and the lock have cache lines of their own, because every claim
//! reads the fields beside them.
//!
//! Invariants: a claim succeeds only if the exact sum stays at or above the claimant's floor. A
//! claim fails wrongly only while another claim is being undone.
//!
//! Locking: `Rank::Queue`, near the limit and once per many small claims.

use uext4_num::{clamp_i64, nonnegative};
use uext4_sync::atomic::{AtomicI64, AtomicU64, Ordering};
use uext4_sync::{CachePadded, Counter, Mutex, Rank, Sharded, shards};

/// Clusters that all shards may deviate by together before they update the total: minimum, and the
/// divisor of the free count. With the divisor, exact claims begin when a twentieth of the clusters
/// is left.
const CHUNKS_MIN: i64 = 4096;
const CHUNKS: i64 = 64;
/// Tries to move a part before its thread waits for the lock.
const TRIES: i64 = 8;
/// Clusters that a shard may deviate by at most, as a multiple of the shards: the more threads, the
/// more rarely each of them updates the total, which all of them read.
const CHUNK_MAX_PER_SHARD: i64 = 16;

/// Privilege of a claimant, which determines the reserves that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// May use neither the reserve of root nor that of metadata.
    User,
    /// Root or the reserve's owner: all but the reserve of metadata.
    Root,
    /// Metadata that must not fail: everything.
    Metadata,
}

/// Claim counter for clusters.
pub struct FreeCount {
    total: CachePadded<AtomicI64>,
    chunk: i64,
    /// Largest distance of the total from the sum.
    margin: i64,
    scarce_below: i64,
    locals: Sharded<AtomicI64>,
    exact: CachePadded<Mutex<()>>,
    /// Read by every claim; they change with the size of the file system only.
    root_reserve: AtomicU64,
    metadata_reserve: AtomicU64,
    delayed: Counter,
}

impl FreeCount {
    /// `free` clusters, all unclaimed. `root_reserve` is `s_r_blocks_count` in clusters,
    /// `metadata_reserve` is `reserved_clusters`.
    pub fn new(free: u64, root_reserve: u64, metadata_reserve: u64) -> Self {
        let count = shards();
        let shards = clamp_i64(count);
        let chunk = (signed(free) / CHUNKS).max(CHUNKS_MIN) / shards;
        let chunk = chunk.min(CHUNK_MAX_PER_SHARD * shards);
        // A shard waits for the lock at twice its chunk, and threads that share it may be between
        // their change and its move.
        let margin = 3 * shards * chunk;
        // Threads that run alike do not move their parts at the same time.
        let ahead = |shard: usize| clamp_i64(shard) * chunk / shards;
        let total = (0..count)
            .map(ahead)
            .fold(signed(free), i64::saturating_add);
        Self {
            total: AtomicI64::new(total).into(),
            chunk,
            margin,
            scarce_below: (signed(free) / 2).max(4 * margin),
            locals: Sharded::new(|shard| AtomicI64::new(-ahead(shard))),
            exact: Mutex::new(Rank::Queue, ()).into(),
            root_reserve: root_reserve.into(),
            metadata_reserve: metadata_reserve.into(),
            delayed: Counter::new(0),
        }
    }

    /// Continues with the reserves of a larger file system.
    pub fn set_reserves(&self, root_reserve: u64, metadata_reserve: u64) {
        self.root_reserve.store(root_reserve, Ordering::Relaxed);
        self.metadata_reserve
            .store(metadata_reserve, Ordering::Relaxed);
    }

    /// Default metadata reserve: 2 %, at most 4096 clusters.
    pub fn default_metadata_reserve(clusters: u64) -> u64 {
        (clusters / 50).min(4096)
    }

    fn floor(&self, privilege: Privilege) -> i64 {
        let reserve = |of: &AtomicU64| signed(of.load(Ordering::Relaxed));
        let metadata = reserve(&self.metadata_reserve);
        match privilege {
            Privilege::Metadata => 0,
            Privilege::Root => metadata,
            Privilege::User => metadata.saturating_add(reserve(&self.root_reserve)),
        }
    }

    /// Claims `n` clusters; false if that would touch a reserve.
    #[must_use]
    pub fn try_claim(&self, n: u64, privilege: Privilege) -> bool {
        let (n, floor) = (signed(n), self.floor(privilege));
        let limit = floor.saturating_add(self.margin).saturating_add(n);
        let far = if n < self.chunk {
            self.claim_small(n, limit)
        } else {
            self.claim_large(n, limit)
        };
        far || self.claim_exact(n, floor)
    }

    /// Whether less than half of the initial clusters is left, or claims will soon have to be
    /// exact. Costs one load.
    pub fn is_scarce(&self) -> bool {
        self.total.load(Ordering::Relaxed) < self.scarce_below
    }

    fn claim_small(&self, n: i64, limit: i64) -> bool {
        if self.total.load(Ordering::SeqCst) < limit {
            return false;
        }
        self.locals.local().fetch_sub(n, Ordering::SeqCst);
        // An exact claim lowers the total first: either it shows here, or this claim shows in its
        // sum.
        let far = self.total.load(Ordering::SeqCst) >= limit;
        if !far {
            self.locals.local().fetch_add(n, Ordering::SeqCst);
        }
        self.flush_local(n);
        far
    }

    fn claim_large(&self, n: i64, limit: i64) -> bool {
        self.total
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |total| {
                (total >= limit).then(|| total - n)
            })
            .is_ok()
    }

    fn claim_exact(&self, n: i64, floor: i64) -> bool {
        let _exact = self.exact.lock();
        self.total.fetch_sub(n, Ordering::SeqCst);
        let fits = self.sum() >= floor;
        if !fits {
            self.total.fetch_add(n, Ordering::SeqCst);
        }
        fits
    }

    /// Claims as many of `n` clusters as are available, by halving, at least `least`; returns the
    /// number, or `None`.
    pub fn claim_up_to(&self, n: u64, least: u64, privilege: Privilege) -> Option<u64> {
        let mut n = n;
        loop {
            if self.try_claim(n, privilege) {
                return Some(n);
            }
            if n <= least {
                return None;
            }
            n = (n / 2).max(least);
        }
    }

    /// Releases `n` claimed clusters, or adds clusters that became free.
    pub fn give(&self, n: u64) {
        let n = signed(n);
        if n == 0 {
            return;
        }
        if n < self.chunk {
            self.locals.local().fetch_add(n, Ordering::SeqCst);
            self.flush_local(n);
        } else {
            self.total.fetch_add(n, Ordering::SeqCst);
        }
    }

    /// Moves a large local part, which has changed by `n`, to the total. Under the lock, so that no
    /// exact sum sees the part twice or not at all; if the lock is taken, the next try is later.
    fn flush_local(&self, n: i64) {
        let local = self.locals.local();
        let size = local.load(Ordering::Relaxed).abs();
        if size < self.chunk {
            return;
        }
        let is_due = size % (self.chunk / TRIES).max(1) < n || size >= 2 * self.chunk;
        if !is_due {
            return;
        }
        let exact = if size < 2 * self.chunk {
            self.exact.try_lock()
        } else {
            Some(self.exact.lock())
        };
        if exact.is_some() {
            let moved = local.swap(0, Ordering::SeqCst);
            self.total.fetch_add(moved, Ordering::SeqCst);
        }
    }

    /// Takes `n` clusters away that cannot be allocated, claimed or not. If more were claimed than
    /// are left, no claim succeeds until the difference is released.
    pub fn withdraw(&self, n: u64) {
        self.total.fetch_sub(signed(n), Ordering::SeqCst);
    }

    fn sum(&self) -> i64 {
        let locals: i64 = self
            .locals
            .iter()
            .map(|local| local.load(Ordering::SeqCst))
            .sum();
        self.total.load(Ordering::SeqCst).saturating_add(locals)
    }

    /// Whether this privilege may claim `n` clusters now. Far from the limit it reads one word, and
    /// near it the words of all threads.
    pub fn has(&self, n: u64, privilege: Privilege) -> bool {
        let needed = self.floor(privilege).saturating_add(signed(n));
        let is_far = self.total.load(Ordering::Relaxed) >= needed.saturating_add(self.margin);
        is_far || self.sum() >= needed
    }

    /// Unclaimed clusters: exact while no thread claims or gives. Negative after an error took
    /// clusters away that are claimed.
    pub fn balance(&self) -> i64 {
        self.sum()
    }

    /// [`Self::balance`], at least 0.
    pub fn available(&self) -> u64 {
        nonnegative(self.sum())
    }

    /// Unclaimed clusters that this privilege may still claim (`f_bavail` for `User`).
    pub fn available_to(&self, privilege: Privilege) -> u64 {
        u64::try_from(self.sum().saturating_sub(self.floor(privilege))).unwrap_or(0)
    }

    /// Counts `n` of the claimed clusters as claims of delayed allocation.
    pub fn add_delayed(&self, n: u64) {
        self.delayed.add(signed(n));
    }
    /// Removes `n` delayed clusters that were allocated or given up.
    pub fn remove_delayed(&self, n: u64) {
        self.delayed.add(-signed(n));
    }
    /// Clusters claimed for delayed allocation (`delayed_allocation_blocks`).
    pub fn delayed(&self) -> u64 {
        nonnegative(self.delayed.sum())
    }
}

fn signed(clusters: u64) -> i64 {
    i64::try_from(clusters).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn floors_hold() {
        let count = FreeCount::new(100, 20, 10);
        assert!(count.try_claim(70, Privilege::User));
        assert!(!count.try_claim(1, Privilege::User));
        assert!(count.try_claim(20, Privilege::Root));
        assert!(!count.try_claim(1, Privilege::Root));
        assert_eq!(count.claim_up_to(64, 1, Privilege::Metadata), Some(8));
        assert!(count.try_claim(2, Privilege::Metadata));
        assert!(!count.try_claim(1, Privilege::Metadata));
        count.give(31);
        assert!(count.has(31, Privilege::Metadata) && !count.has(32, Privilege::Metadata));
        assert!(count.has(1, Privilege::User) && !count.has(2, Privilege::User));
        assert_eq!(count.available(), 31);
        assert_eq!(count.available_to(Privilege::User), 1);
        count.withdraw(40);
        assert_eq!(count.balance(), -9);
        assert_eq!(count.available(), 0);
        count.give(10);
        assert!(count.try_claim(1, Privilege::Metadata));
        assert!(!count.try_claim(1, Privilege::Metadata));
    }

    #[test]
    fn threads_claim_every_cluster_once() {
        for free in [0u64, 1, 1000, 20_000, 600_000] {
            let count = FreeCount::new(free, 0, 0);
            let claimed = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let (count, claimed) = (&count, &claimed);
                    scope.spawn(move || {
                        for step in 0u64.. {
                            let n = 1 + (step * 7 + thread) % 50;
                            if count.try_claim(n, Privilege::User) {
                                claimed.fetch_add(n, Ordering::Relaxed);
                            } else if n == 1 && step > 2000 {
                                break;
                            }
                            if step % 5 == 0 && count.try_claim(3, Privilege::User) {
                                count.give(3);
                            }
                        }
                    });
                }
            });
            assert!(claimed.into_inner() <= free);
            while count.try_claim(1, Privilege::User) {}
            assert_eq!(count.available(), 0);
        }
    }
}
