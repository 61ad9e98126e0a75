//! Sharded object cache with CLOCK eviction.
//!
//! The cache evicts an object only if it holds the only `Arc`. The running transaction keeps an
//! `Arc` of every dirty object, so evicted objects are clean. The check and the end of the object
//! are one step (`Arc::try_unwrap`), because weak holders may upgrade at any time: an object that a
//! weak holder revived stays the cached one.
//!
//! Locking: `Rank::CacheShard` per shard; no other lock is taken under it. Objects are read, built
//! and dropped without it, because the holder of the lock may be preempted.

mod entries;

use entries::{Entries, Insertion};
use std::hash::Hash;
use uext4_num::u64_of;
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Rank, RwLock, shards, stripe_shard};

/// Shards of a cache for each shard of threads: two threads are rarely in one.
const SHARDS_PER_THREAD: usize = 2;
/// Objects that each shard keeps at least, whatever the allotment is.
const SHARD_MIN: usize = 8;
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

/// The counters share the lock's cache line, which a look-up writes anyway: they are in front of
/// it.
#[repr(C, align(128))]
struct Shard<K, V> {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    entries: RwLock<Entries<K, V>>,
}

/// Counters since the cache was made, and its current content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    /// Entries that only the cache holds.
    pub(crate) idle: u64,
    /// Sum of [`Cached::more_bytes`].
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
    /// No neighbours.
    pub(crate) fn alone(wanted: V) -> Self {
        let beside = Vec::new();
        Self { wanted, beside }
    }
}

impl<K, V> Shard<K, V> {
    fn note_evictions(&self, gone: &[V]) -> u64 {
        let evictions = u64_of(gone.len());
        if evictions > 0 {
            self.evictions.fetch_add(evictions, Ordering::Relaxed);
        }
        evictions
    }
}

/// See the module.
pub(crate) struct Cache<K, V> {
    shards: Box<[Shard<K, V>]>,
    allotment: Allotment,
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
    /// Objects that each of `shards` may keep.
    fn shard_max(&self, shards: usize) -> usize {
        let bytes = self.bytes.load(Ordering::Relaxed) / self.parts;
        let objects = bytes / self.object_bytes;
        usize::try_from(objects).map_or(usize::MAX, |objects| objects / shards + SHARD_MIN)
    }
}

impl<K: Key, V: Cached> Cache<K, V> {
    /// An empty cache that keeps `allotment`, and at least a few objects per shard.
    pub(crate) fn new(allotment: Allotment) -> Self {
        let shard = |_| Shard {
            entries: RwLock::new(Rank::CacheShard, Entries::new()),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        };
        Self {
            shards: (0..SHARDS_PER_THREAD * shards()).map(shard).collect(),
            allotment,
        }
    }

    /// The cached object.
    pub(crate) fn get(&self, key: K) -> Option<Arc<V>> {
        self.look(key).ok()
    }

    /// As [`Self::get`], without counting a miss: the caller loads the object then.
    pub(crate) fn hit(&self, key: K) -> Option<Arc<V>> {
        let shard = self.shard(key);
        let found = shard.entries.read().get(key)?;
        shard.hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// The cached object; on a miss, the shard's [`Entries::departures`] counter.
    fn look(&self, key: K) -> Result<Arc<V>, u64> {
        let shard = self.shard(key);
        let entries = shard.entries.read();
        let found = entries.get(key).ok_or_else(|| entries.departures());
        let counter = match found {
            Ok(_) => &shard.hits,
            Err(_) => &shard.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether the object is cached. Does not mark it used.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.shard(key).entries.read().contains(key)
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
            let departures = match self.look(key) {
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
        let near = |(other, _): &(K, V)| std::ptr::eq(self.shard(*other), shard);
        let beside = found.beside.into_iter().filter(near);
        let beside: Vec<(K, Arc<V>)> = beside.map(|(key, value)| (key, Arc::new(value))).collect();
        let mut entries = shard.entries.write();
        if entries.departures() != departures {
            return None;
        }
        let mut insertion = self.insertion();
        for (other, value) in &beside {
            entries.get_or_insert(*other, value, &mut insertion);
        }
        let admitted = entries.get_or_insert(key, &value, &mut insertion);
        drop(entries);
        shard.note_evictions(&insertion.gone);
        Some(admitted)
    }

    /// The cached object; `value` when there is none.
    pub(crate) fn get_or_insert(&self, key: K, value: V) -> Arc<V> {
        let shard = self.shard(key);
        let (value, mut insertion) = (Arc::new(value), self.insertion());
        let cached = shard
            .entries
            .write()
            .get_or_insert(key, &value, &mut insertion);
        shard.note_evictions(&insertion.gone);
        cached
    }

    /// Replaces the cached object by `value`; answers the new object and the old one.
    pub(crate) fn replace(&self, key: K, value: V) -> (Arc<V>, Option<Arc<V>>) {
        let shard = self.shard(key);
        let (value, mut insertion) = (Arc::new(value), self.insertion());
        let before = {
            let mut entries = shard.entries.write();
            let before = entries.remove(key);
            entries.get_or_insert(key, &value, &mut insertion);
            before
        };
        shard.note_evictions(&insertion.gone);
        (value, before)
    }

    fn insertion(&self) -> Insertion<V> {
        Insertion::new(self.allotment.shard_max(self.shards.len()))
    }

    /// Removes the object.
    pub(crate) fn remove(&self, key: K) -> Option<Arc<V>> {
        self.shard(key).entries.write().remove(key)
    }

    /// Totals of all shards.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in &self.shards {
            let entries = shard.entries.read();
            sum.entries += u64_of(entries.len());
            sum.idle += u64_of(entries.idle());
            sum.more_bytes += entries
                .values()
                .map(|value| u64_of(value.more_bytes()))
                .sum::<u64>();
            sum.hits += shard.hits.load(Ordering::Relaxed);
            sum.misses += shard.misses.load(Ordering::Relaxed);
            sum.evictions += shard.evictions.load(Ordering::Relaxed);
        }
        sum
    }

    /// Evicts about a quarter of the objects: idle ones that were not looked up recently. Answers
    /// how many.
    pub(crate) fn shed(&self) -> u64 {
        let shed = |shard: &Shard<K, V>| {
            let gone = shard.entries.write().shed_quarter();
            shard.note_evictions(&gone)
        };
        self.shards.iter().map(shed).sum()
    }

    /// All objects, for unmount checks and statistics.
    pub(crate) fn snapshot(&self) -> Vec<Arc<V>> {
        let all = |shard: &Shard<K, V>| -> Vec<Arc<V>> {
            let entries = shard.entries.read();
            entries.values().cloned().collect()
        };
        self.shards.iter().flat_map(all).collect()
    }

    fn shard(&self, key: K) -> &Shard<K, V> {
        &self.shards[stripe_shard::<STRIPE_BITS>(key.number(), self.shards.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::BlockNr;
    use uext4_sync::atomic::AtomicBool;

    impl Cached for u64 {}

    fn cache<V: Cached>() -> Cache<BlockNr, V> {
        Cache::new(Allotment {
            bytes: Arc::new(AtomicU64::new(1 << 30)),
            parts: 1,
            object_bytes: 1 << 10,
        })
    }

    #[test]
    fn what_is_used_or_was_looked_up_stays_when_some_is_dropped() {
        let cache = cache::<u64>();
        let nr = BlockNr;
        let used: Vec<_> = (0..100).map(|i| cache.get_or_insert(nr(i), i)).collect();
        (100..1000).for_each(|i| _ = cache.get_or_insert(nr(i), i));
        (100..200).for_each(|i| _ = cache.get(nr(i)));
        let dropped = cache.shed();
        assert!((200..=300).contains(&dropped), "{dropped}");
        assert_eq!(cache.counts().entries, 1000 - dropped);
        let is_there = |i| cache.get(nr(i)).is_some_and(|found| *found == i);
        assert!((0..200).all(is_there));
        drop(used);
    }

    struct Known(AtomicBool);

    impl Cached for Known {
        fn take_used(&self) -> bool {
            self.0.swap(false, Ordering::Relaxed)
        }
    }

    #[test]
    fn what_was_used_without_asking_has_a_second_chance() {
        let cache = cache::<Known>();
        let nr = BlockNr;
        let known = |i| Known(AtomicBool::new(i < 10));
        (0..100).for_each(|i| _ = cache.get_or_insert(nr(i), known(i)));
        assert_eq!(cache.shed(), 25);
        assert!((0..10).all(|i| cache.get(nr(i)).is_some()));
    }

    /// While one thread reads, another one loads and changes the object, and it is written and
    /// evicted: the first read is stale.
    #[test]
    fn what_was_read_before_the_present_state_left_is_read_again() {
        let cache = cache::<u64>();
        let mut device = [1, 2].into_iter();
        let found = cache.load(BlockNr(7), || {
            let read = device.next().expect("read twice");
            if read == 1 {
                drop(cache.get_or_insert(BlockNr(7), 2));
                assert_eq!(cache.shed(), 1);
            }
            Ok::<_, ()>(Found::alone(read))
        });
        assert_eq!(*found.expect("no errors"), 2);
    }

    #[test]
    fn what_is_replaced_is_found_no_more() {
        let cache = cache::<u64>();
        let (new, before) = cache.replace(BlockNr(7), 1);
        assert_eq!((*new, before.map(|before| *before)), (1, None));
        let (new, before) = cache.replace(BlockNr(7), 2);
        assert_eq!((*new, before.map(|before| *before)), (2, Some(1)));
        let found = cache.get(BlockNr(7)).expect("it is there");
        assert!(Arc::ptr_eq(&found, &new));
        assert_eq!(cache.counts().entries, 1);
    }

    #[test]
    fn what_is_found_beside_it_is_cached_unless_it_is_there() {
        let cache = cache::<u64>();
        cache.get_or_insert(BlockNr(11), 0);
        let beside = |i| (BlockNr(i), i);
        let found = || {
            let (wanted, beside) = (10, (11..300).map(beside).collect());
            Ok::<_, ()>(Found { wanted, beside })
        };
        assert_eq!(cache.load(BlockNr(10), found).map(|found| *found), Ok(10));
        let there = |i: u64| cache.get(BlockNr(i)).map(|found| *found);
        assert_eq!(
            (there(11), there(12), there(255)),
            (Some(0), Some(12), Some(255))
        );
        assert_eq!(there(256), None, "of other blocks");
    }
}
