//! One shard of a cache: its entries, their lock, and counters.
//!
//! Invariants: `len` is the number of entries whenever the lock is free.
//! Locking: `Rank::CacheShard`; no other lock is taken under it.

use super::entries::Entries;
use super::{Cached, Counts, Key};
use uext4_num::u64_of;
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use uext4_sync::{Arc, Rank, RwLock, RwLockReadGuard};

/// The counters share the lock's cache line, which a look-up writes anyway: they are in front of
/// it.
#[repr(C, align(128))]
pub(super) struct Shard<K, V> {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    len: AtomicUsize,
    /// Entries to add until the cache is to be kept within its limit.
    until_due: AtomicUsize,
    entries: RwLock<Entries<K, V>>,
}

impl<K: Key, V: Cached> Shard<K, V> {
    pub(super) fn new() -> Self {
        Self {
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            until_due: AtomicUsize::new(0),
            entries: RwLock::new(Rank::CacheShard, Entries::new()),
        }
    }

    /// Number of entries, a moment ago.
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Entries<K, V>> {
        self.entries.read()
    }

    /// The object; on a miss, the [`Entries::departures`] counter.
    pub(super) fn lookup(&self, key: K) -> Result<Arc<V>, u64> {
        let entries = self.entries.read();
        let found = entries.get(key).ok_or_else(|| entries.departures());
        let counter = match found {
            Ok(_) => &self.hits,
            Err(_) => &self.misses,
        };
        counter.fetch_add(1, Relaxed);
        found
    }

    /// The object, without counting a miss.
    pub(super) fn hit(&self, key: K) -> Option<Arc<V>> {
        let found = self.entries.read().get(key)?;
        self.hits.fetch_add(1, Relaxed);
        Some(found)
    }

    /// Adds this shard to the totals.
    pub(super) fn add_to(&self, sum: &mut Counts) {
        let entries = self.entries.read();
        sum.entries += u64_of(entries.len());
        sum.idle += u64_of(entries.idle());
        let more_bytes = entries.values().map(|value| u64_of(value.more_bytes()));
        sum.more_bytes += more_bytes.sum::<u64>();
        sum.hits += self.hits.load(Relaxed);
        sum.misses += self.misses.load(Relaxed);
        sum.evictions += self.evictions.load(Relaxed);
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Entries<K, V>) -> T) -> T {
        let mut entries = self.entries.write();
        let answer = change(&mut entries);
        self.len.store(entries.len(), Relaxed);
        answer
    }

    /// Adds entries; returns also whether the cache is to be kept within its limit now, which
    /// [`Self::put_off`] delays. Never while the shard has less than `share` entries.
    pub(super) fn add<T>(
        &self,
        share: usize,
        add: impl FnOnce(&mut Entries<K, V>) -> T,
    ) -> (T, bool) {
        self.change(|entries| {
            let before = entries.len();
            let answer = add(entries);
            let added = entries.len().saturating_sub(before);
            if added == 0 || entries.len() < share {
                return (answer, false);
            }
            let until_due = self.until_due.load(Relaxed).saturating_sub(added);
            self.until_due.store(until_due, Relaxed);
            (answer, until_due == 0)
        })
    }

    /// Nothing is due until this many entries were added.
    pub(super) fn put_off(&self, entries: usize) {
        self.until_due.store(entries, Relaxed);
    }

    /// Moves the hand past `looks` entries, or until `wanted` were evicted; returns how many were.
    pub(super) fn sweep(&self, looks: usize, wanted: usize) -> usize {
        let gone = self.change(|entries| entries.sweep(looks, wanted));
        if !gone.is_empty() {
            self.evictions.fetch_add(u64_of(gone.len()), Relaxed);
        }
        gone.len()
    }
}
