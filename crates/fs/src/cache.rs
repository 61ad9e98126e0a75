//! A sharded cache of reference-counted objects.
//!
//! An object is evicted only when nobody but the cache holds it: the running transaction keeps an
//! `Arc` of everything dirty, so what is evicted is clean. To see that and to end the object is one
//! step, because others may hold it weakly: an object that somebody got hold of again stays the one
//! that is cached. Eviction goes round the shard's own entries with a second chance.
//!
//! Locking: `Rank::CacheShard` per shard; nothing else is taken under it. Nothing is read, built or
//! dropped under it either: who holds it may lose its core.

mod entries;

use entries::{Entries, Room};
use std::hash::Hash;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Rank, RwLock, stretch_shard};

const CACHE_SHARDS: usize = 128;
/// Kept in each whatever the allotment is.
const SHARD_MIN: usize = 8;
/// What a cached object takes besides itself: its entry, with what the table keeps free, and what
/// the allocator adds.
pub(crate) const ENTRY_BYTES: u64 = 96;
/// Numbers in a row that share a shard: a thread that works through its own files or directory
/// stays with the same few locks and lines, which nobody else writes meanwhile.
const STRETCH_BITS: u32 = 8;

/// A key that spreads over shards by itself.
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

/// What a cache holds.
pub(crate) trait Cached {
    /// True when somebody who has it at hand used it without asking the cache since this was asked
    /// last.
    fn take_used(&self) -> bool {
        false
    }

    /// Memory behind the object that not every object has, in bytes. Waits for nothing.
    fn more_bytes(&self) -> usize {
        0
    }
}

/// The counters stand beside the lock, whose line a look-up changes anyway.
#[repr(align(128))]
struct Shard<K, V> {
    entries: RwLock<Entries<K, V>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

/// What a cache did since it was made, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    /// Entries that nobody uses.
    pub(crate) idle: u64,
    /// [`Cached::more_bytes`] of all.
    pub(crate) more_bytes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
}

/// Something that was read because it was not cached, and what was found beside it.
pub(crate) struct Found<K, V> {
    pub(crate) wanted: V,
    /// Of the same stretch of numbers; others are left out.
    pub(crate) beside: Vec<(K, V)>,
}

impl<K, V> Found<K, V> {
    /// Nothing beside it.
    pub(crate) fn alone(wanted: V) -> Self {
        let beside = Vec::new();
        Self { wanted, beside }
    }
}

impl<K, V> Shard<K, V> {
    fn note_evictions(&self, gone: &[V]) -> u64 {
        let evictions = gone.len() as u64;
        if evictions > 0 {
            self.evictions.fetch_add(evictions, Ordering::Relaxed);
        }
        evictions
    }
}

/// The cache.
pub(crate) struct Cache<K, V> {
    shards: Box<[Shard<K, V>]>,
    allotment: Allotment,
}

/// The memory for what nobody uses.
pub(crate) struct Allotment {
    /// Of several caches; may change at any time, and holds for what comes from then on.
    pub(crate) bytes: Arc<AtomicU64>,
    /// One part of so many is for this cache.
    pub(crate) parts: u64,
    /// What one object takes.
    pub(crate) object_bytes: u64,
}

impl Allotment {
    /// How many objects a shard may keep.
    fn shard_max(&self) -> usize {
        let bytes = self.bytes.load(Ordering::Relaxed) / self.parts;
        let objects = bytes / self.object_bytes;
        usize::try_from(objects).map_or(usize::MAX, |objects| objects / CACHE_SHARDS + SHARD_MIN)
    }
}

impl<K: Key, V: Cached> Cache<K, V> {
    /// An empty cache that keeps to `allotment`, and a few objects.
    pub(crate) fn new(allotment: Allotment) -> Self {
        let shard = |_| Shard {
            entries: RwLock::new(Rank::CacheShard, Entries::new()),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        };
        Self {
            shards: (0..CACHE_SHARDS).map(shard).collect(),
            allotment,
        }
    }

    /// The cached object.
    pub(crate) fn get(&self, key: K) -> Option<Arc<V>> {
        self.look(key).ok()
    }

    /// The cached object, or what [`Entries::departures`] said when it was not there.
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

    /// True when the object is cached; it does not count as used.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.shard(key).entries.read().contains(key)
    }

    /// The cached object; when there is none, what `read` finds where such objects lie is cached.
    /// `read` is asked again when something left the shard meanwhile: what it found may be older
    /// than what was cached, changed, written and evicted in the time.
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
        let mut room = self.room();
        for (other, value) in &beside {
            entries.get_or_insert(*other, value, &mut room);
        }
        let admitted = entries.get_or_insert(key, &value, &mut room);
        drop(entries);
        shard.note_evictions(&room.gone);
        Some(admitted)
    }

    /// The cached object; `value` when there is none.
    pub(crate) fn get_or_insert(&self, key: K, value: V) -> Arc<V> {
        let shard = self.shard(key);
        let (value, mut room) = (Arc::new(value), self.room());
        let cached = shard.entries.write().get_or_insert(key, &value, &mut room);
        shard.note_evictions(&room.gone);
        cached
    }

    /// Puts `value` in the place of what is cached; answers it, and what was there.
    pub(crate) fn replace(&self, key: K, value: V) -> (Arc<V>, Option<Arc<V>>) {
        let shard = self.shard(key);
        let (value, mut room) = (Arc::new(value), self.room());
        let before = {
            let mut entries = shard.entries.write();
            let before = entries.remove(key);
            entries.get_or_insert(key, &value, &mut room);
            before
        };
        shard.note_evictions(&room.gone);
        (value, before)
    }

    fn room(&self) -> Room<V> {
        Room::new(self.allotment.shard_max())
    }

    /// Takes the object out.
    pub(crate) fn remove(&self, key: K) -> Option<Arc<V>> {
        self.shard(key).entries.write().remove(key)
    }

    /// Numbers of all shards.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in &self.shards {
            let entries = shard.entries.read();
            sum.entries += entries.len() as u64;
            sum.idle += entries.idle() as u64;
            sum.more_bytes += entries
                .values()
                .map(|value| value.more_bytes() as u64)
                .sum::<u64>();
            sum.hits += shard.hits.load(Ordering::Relaxed);
            sum.misses += shard.misses.load(Ordering::Relaxed);
            sum.evictions += shard.evictions.load(Ordering::Relaxed);
        }
        sum
    }

    /// Drops about a quarter of the objects: of those that nobody uses, the ones not looked up
    /// lately. Answers how many.
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
        &self.shards[stretch_shard::<STRETCH_BITS>(key.number(), CACHE_SHARDS)]
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

    /// While somebody reads it, another loads it, changes it, and it is written and evicted: what
    /// was read is old.
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
        assert_eq!(there(256), None, "of another stretch");
    }
}
