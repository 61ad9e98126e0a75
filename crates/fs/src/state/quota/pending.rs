//! Charges of an owner that are not in its entry yet.
//!
//! An owner begins with one counter. One that several threads charge in turn gets a counter for
//! each thread shard, so that its charges share no cache line. Those take 8 KiB, or more on large
//! machines, so few owners have them at a time.

use super::Usage;
use uext4_sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use uext4_sync::{Arc, OnceLock, Sharded, shard_index};

/// Changes of the thread before an owner gets counters for the shards.
const TURNS_MAX: u32 = 64;
/// Most owners of one kind with counters for the shards.
const SPREAD_MAX: u32 = 256;

#[derive(Default)]
struct Charges {
    bytes: AtomicI64,
    inodes: AtomicI64,
}

/// How many more owners may have counters for the shards.
pub(super) struct Spare(AtomicU32);

impl Default for Spare {
    fn default() -> Self {
        Self(SPREAD_MAX.into())
    }
}

impl Spare {
    fn take(&self) -> bool {
        let order = Ordering::Relaxed;
        self.0
            .fetch_update(order, order, |spare| spare.checked_sub(1))
            .is_ok()
    }

    fn give(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) struct Pending {
    one: Charges,
    /// The shard that charged last, and how often that was another one.
    last: AtomicUsize,
    turns: AtomicU32,
    spread: OnceLock<Sharded<Charges>>,
    spare: Arc<Spare>,
}

impl Pending {
    pub(super) fn new(spare: &Arc<Spare>) -> Self {
        Self {
            one: Charges::default(),
            last: AtomicUsize::new(usize::MAX),
            turns: AtomicU32::new(0),
            spread: OnceLock::new(),
            spare: Arc::clone(spare),
        }
    }

    pub(super) fn add(&self, usage: Usage) {
        let charges = match self.spread() {
            Some(spread) => spread.local(),
            None => &self.one,
        };
        // A damaged `i_blocks` may have more than fits.
        let add = |counter: &AtomicI64, by: i64| {
            let _unless_zero = counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, |sum| {
                (by != 0).then(|| sum.saturating_add(by))
            });
        };
        add(&charges.bytes, usage.bytes);
        add(&charges.inodes, usage.inodes);
    }

    /// The counters of the shards, if the owner has them, or gets them now.
    fn spread(&self) -> Option<&Sharded<Charges>> {
        if let Some(spread) = self.spread.get() {
            return Some(spread);
        }
        let shard = shard_index();
        if self.last.swap(shard, Ordering::Relaxed) == shard
            || self.turns.fetch_add(1, Ordering::Relaxed) < TURNS_MAX
            || !self.spare.take()
        {
            return None;
        }
        if self
            .spread
            .set(Sharded::new(|_| Charges::default()))
            .is_err()
        {
            // Another thread was faster.
            self.spare.give();
        }
        self.spread.get()
    }

    /// Takes all charges, in bytes and in inodes.
    pub(super) fn take(&self) -> (i64, i64) {
        self.fold(|counter| counter.swap(0, Ordering::AcqRel))
    }

    /// The sum of all charges, in bytes and in inodes.
    pub(super) fn sum(&self) -> (i64, i64) {
        self.fold(|counter| counter.load(Ordering::Acquire))
    }

    fn fold(&self, value: impl Fn(&AtomicI64) -> i64) -> (i64, i64) {
        let spread = self.spread.get().into_iter().flat_map(Sharded::iter);
        let all = std::iter::once(&self.one).chain(spread);
        all.fold((0, 0), |(bytes, inodes): (i64, i64), charges| {
            (
                bytes.saturating_add(value(&charges.bytes)),
                inodes.saturating_add(value(&charges.inodes)),
            )
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.spread.get().is_some() {
            self.spare.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Usage = Usage {
        bytes: 4096,
        inodes: 1,
    };

    /// Charges by a thread that did not charge last.
    fn charge(pending: &Pending) {
        pending.last.store(usize::MAX, Ordering::Relaxed);
        pending.add(ONE);
    }

    #[test]
    fn a_few_busy_owners_get_counters_for_each_shard() {
        let spare = Arc::new(Spare(1.into()));
        let [first, second] = [(); 2].map(|()| Pending::new(&spare));
        for pending in [&first, &second] {
            (0..TURNS_MAX).for_each(|_| charge(pending));
            assert!(pending.spread.get().is_none());
            charge(pending);
        }
        assert!(first.spread.get().is_some());
        assert!(second.spread.get().is_none(), "one may have them");
        drop(first);
        charge(&second);
        assert!(second.spread.get().is_some());
        let count = i64::from(TURNS_MAX) + 2;
        assert_eq!(second.take(), (count * 4096, count));
        assert_eq!(second.sum(), (0, 0));
    }

    #[test]
    fn an_owner_of_one_thread_stays_small() {
        let pending = Pending::new(&Arc::default());
        (0..4 * TURNS_MAX).for_each(|_| pending.add(ONE));
        assert!(pending.spread.get().is_none());
    }
}
