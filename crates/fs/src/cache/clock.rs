//! Sharded object cache with CLOCK eviction.
//!
//! The cache evicts an object only if it holds the only `Arc`. The running transaction keeps an
//! `Arc` of every dirty object, so evicted objects are clean. The check and the end of the object
//! are one step (`Arc::try_unwrap`), because weak holders may upgrade at any time: an object that a
//! weak holder revived stays the cached one.
//!
//! One limit is for all shards, because a hot run of numbers is in one of them. A shard that grows
//! reads the lengths of all from time to time; if they exceed the limit, a hand moves over shards,
//! and the hand of each over a part of its entries.
//!
//! Locking: `Rank::CacheShard` per shard; no other lock is taken under it. Objects are read, built
//! and dropped without it, because the holder of the lock may be preempted.

mod entries;
mod shard;

use entries::Entries;
use shard::Shard;
use std::hash::Hash;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use uext4_sync::{Arc, shards, stripe_shard};

/// Shards of a cache for each shard of threads: two threads are rarely in one.
const SHARDS_PER_THREAD: usize = 2;
/// Lengths that a shard reads per entry that it adds to a full cache; at least one to another,
/// because the limit may become lower.
const LENGTHS_PER_ENTRY: usize = 8;
/// Entries that the hands pass at most per added entry. Recent entries are held for a while (until
/// a commit), and used ones have a second chance.
const LOOKS_PER_ENTRY: usize = 8;
/// Part of a shard that its hand passes at once, and the most entries of it.
const SWEEP_PART: usize = 8;
const SWEEP_MAX: usize = 64;
/// Memory of a cached object besides itself, in bytes: its entry, the spare capacity of the table,
/// and the allocator's overhead.
pub(crate) const ENTRY_BYTES: u64 = 96;
/// Log2 of the consecutive numbers that share a shard. A thread that works through its own files or
/// directory stays on few locks, and other threads rarely write their cache lines.
const STRIPE_BITS: u32 = 8;

/// A key with a number that selects its shard.
pub(crate) trait Key: Copy + Eq + Hash {
    /// A number that differs between keys.
    fn number(self) -> u64;
}

impl Key for uext4_format::BlockNr {
    fn number(self) -> u64 {
        self.0
    }
}

impl Key for uext4_format::InodeNr {
    fn number(self) -> u64 {
        u64::from(self.0)
    }
}

/// An object that a cache holds.
pub(crate) trait Cached {
    /// Takes and clears the used mark, which holders set when they use the object without a cache
    /// look-up.
    fn take_used(&self) -> bool {
        false
    }

    /// Heap memory of the object that not every object has, in bytes. Does not block.
    fn more_bytes(&self) -> usize {
        0
    }
}

/// Counters since the cache was made, and its current content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    /// Entries that only the cache holds.
    pub(crate) idle: u64,
    /// Sum of [`Cached::more_bytes`] over the entries.
    pub(crate) more_bytes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
}

/// The result of a read after a miss: the wanted object, and its neighbours that the same read
/// found.
pub(crate) struct Found<K, V> {
    pub(crate) wanted: V,
    /// Neighbours of the same run of numbers; others are left out.
    pub(crate) beside: Vec<(K, V)>,
}

impl<K, V> Found<K, V> {
    pub(crate) fn alone(wanted: V) -> Self {
        let beside = Vec::new();
        Self { wanted, beside }
    }
}

pub(crate) struct Cache<K, V> {
    shards: Box<[Shard<K, V>]>,
    allotment: Allotment,
    /// The shard that the hand is at, modulo their number.
    hand: AtomicUsize,
}

/// Memory for objects that only the cache holds.
pub(crate) struct Allotment {
    /// Shared by several caches. May change at any time; later insertions use the new value.
    pub(crate) bytes: Arc<AtomicU64>,
    /// This cache takes one part of this many.
    pub(crate) parts: u64,
    /// Memory of one object, in bytes.
    pub(crate) object_bytes: u64,
}

impl Allotment {
    /// Objects of this memory.
    fn objects(&self) -> usize {
        let bytes = self.bytes.load(Ordering::Relaxed) / self.parts;
        clamp_usize(bytes / self.object_bytes)
    }
}

impl<K: Key, V: Cached> Cache<K, V> {
    /// An empty cache that keeps `allotment`.
    pub(crate) fn new(allotment: Allotment) -> Self {
        let shards = SHARDS_PER_THREAD * shards();
        Self {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            allotment,
            hand: AtomicUsize::new(0),
        }
    }

    pub(crate) fn get(&self, key: K) -> Option<Arc<V>> {
        self.shard(key).lookup(key).ok()
    }

    /// As [`Self::get`], without counting a miss: the caller loads the object then.
    pub(crate) fn hit(&self, key: K) -> Option<Arc<V>> {
        self.shard(key).hit(key)
    }

    /// Whether the object is cached. Does not mark it used.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.shard(key).read().contains(key)
    }

    /// The cached object; on a miss, caches what `read` finds. If an object left the shard
    /// meanwhile, `read` runs again: its result may be older than an object that was cached,
    /// changed, written and evicted in between.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn load<E>(
        &self,
        key: K,
        mut read: impl FnMut() -> Result<Found<K, V>, E>,
    ) -> Result<Arc<V>, E> {
        loop {
            let departures = match self.shard(key).lookup(key) {
                Ok(value) => return Ok(value),
                Err(departures) => departures,
            };
            let found = read()?;
            if let Some(value) = self.admit(key, found, departures) {
                return Ok(value);
            }
        }
    }

    fn admit(&self, key: K, found: Found<K, V>, departures: u64) -> Option<Arc<V>> {
        let shard = self.shard(key);
        let value = Arc::new(found.wanted);
        let beside = found
            .beside
            .into_iter()
            .filter(|(other, _)| std::ptr::eq(self.shard(*other), shard));
        let beside: Vec<(K, Arc<V>)> = beside.map(|(key, value)| (key, Arc::new(value))).collect();
        self.add(shard, |entries| {
            if entries.departures() != departures {
                return None;
            }
            for (other, value) in &beside {
                entries.get_or_insert(*other, value);
            }
            Some(entries.get_or_insert(key, &value))
        })
    }

    /// The cached object; `value` when there is none.
    pub(crate) fn get_or_insert(&self, key: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.add(self.shard(key), |entries| {
            entries.get_or_insert(key, &value)
        })
    }

    /// Replaces the cached object by `value`; returns the new object and the old one.
    pub(crate) fn replace(&self, key: K, value: V) -> (Arc<V>, Option<Arc<V>>) {
        let value = Arc::new(value);
        let before = self.add(self.shard(key), |entries| {
            let before = entries.remove(key);
            entries.get_or_insert(key, &value);
            before
        });
        (value, before)
    }

    /// Adds entries to a shard, and evicts others if there are too many.
    fn add<T>(&self, shard: &Shard<K, V>, add: impl FnOnce(&mut Entries<K, V>) -> T) -> T {
        // As long as every shard has less than half of an even share, so has the cache.
        let share = self.allotment.objects() / self.shards.len() / 2;
        let (answer, is_due) = shard.add(share, add);
        if is_due {
            shard.put_off(self.keep_limit());
        }
        answer
    }

    /// Evicts what exceeds the limit, with bounded work; returns the number of entries that a shard
    /// may add before the next call.
    fn keep_limit(&self) -> usize {
        let shards = self.shards.len();
        let interval = shards.div_ceil(LENGTHS_PER_ENTRY);
        let present: usize = self.shards.iter().map(Shard::len).sum();
        let limit = self.allotment.objects();
        let mut excess = present.saturating_sub(limit);
        let mut looks = interval * LOOKS_PER_ENTRY;
        while excess > 0 && looks > 0 {
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % shards;
            let shard = &self.shards[at];
            let part = shard.len().div_ceil(SWEEP_PART).min(SWEEP_MAX);
            if part > 0 {
                excess -= shard.sweep(part, excess);
            }
            looks = looks.saturating_sub(part.max(1));
        }
        (limit.saturating_sub(present) / shards).clamp(interval, shards)
    }

    pub(crate) fn remove(&self, key: K) -> Option<Arc<V>> {
        self.shard(key).change(|entries| entries.remove(key))
    }

    /// Totals of all shards.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.shards.iter().for_each(|shard| shard.add_to(&mut sum));
        sum
    }

    /// Evicts about a quarter of the objects: idle ones that were not looked up recently. Returns
    /// how many.
    pub(crate) fn shed(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| {
                let entries = shard.len();
                u64_of(shard.sweep(entries, entries.div_ceil(4)))
            })
            .sum()
    }

    /// All objects, for unmount checks and statistics.
    pub(crate) fn snapshot(&self) -> Vec<Arc<V>> {
        self.shards
            .iter()
            .flat_map(|shard| -> Vec<Arc<V>> {
                let entries = shard.read();
                entries.values().cloned().collect()
            })
            .collect()
    }

    fn shard(&self, key: K) -> &Shard<K, V> {
        &self.shards[stripe_shard::<STRIPE_BITS>(key.number(), self.shards.len())]
    }
}

#[cfg(test)]
mod tests;
