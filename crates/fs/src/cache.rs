//! A sharded cache of reference-counted objects.
//!
//! An object is evicted only when nobody but the cache holds it: the running transaction keeps an
//! `Arc` of everything dirty, so what is evicted is clean. To see that and to end the object is one
//! step, because others may hold it weakly: an object that somebody got hold of again stays the one
//! that is cached. Eviction goes round the shard's own entries with a second chance.
//!
//! Locking: `Rank::CacheShard` per shard; nothing else is taken under it.

use std::hash::Hash;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Rank, RwLock, StretchMap, stretch_shard};

const CACHE_SHARDS: usize = 128;
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

struct Entry<V> {
    /// `None` only while [`end`] sees whether somebody else holds it.
    value: Option<Arc<V>>,
    referenced: AtomicBool,
}

impl<V: Cached> Entry<V> {
    /// Somebody used it since this was asked last.
    fn take_referenced(&self) -> bool {
        let used = self.value.as_ref().is_some_and(|value| value.take_used());
        self.referenced.swap(false, Ordering::Relaxed) || used
    }

    /// Nobody but the cache holds the object; a hint, for who holds it weakly may do more.
    fn is_idle(&self) -> bool {
        self.value
            .as_ref()
            .is_none_or(|value| Arc::strong_count(value) == 1)
    }
}

type Map<K, V> = StretchMap<K, Entry<V>, STRETCH_BITS>;

/// What a shard's lock protects. `limit` is raised above the share of the cache's maximum while
/// most entries are in use, so that a full shard is not scanned at every insert.
struct Entries<K, V> {
    map: Map<K, V>,
    limit: usize,
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

/// The cache.
pub(crate) struct Cache<K, V> {
    shards: Box<[Shard<K, V>]>,
    shard_max: usize,
}

impl<K: Key, V: Cached> Cache<K, V> {
    /// A cache that keeps about `max` objects that nobody uses.
    pub(crate) fn new(max: usize) -> Self {
        let shard_max = max.div_ceil(CACHE_SHARDS).max(8);
        let entries = || Entries {
            map: Map::default(),
            limit: shard_max,
        };
        let shard = |_| Shard {
            entries: RwLock::new(Rank::CacheShard, entries()),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        };
        Self {
            shards: (0..CACHE_SHARDS).map(shard).collect(),
            shard_max,
        }
    }

    /// The cached object.
    pub(crate) fn get(&self, key: K) -> Option<Arc<V>> {
        let shard = self.shard(key);
        let entries = shard.entries.read();
        let Some(entry) = entries.map.get(&key) else {
            shard.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        shard.hits.fetch_add(1, Ordering::Relaxed);
        if !entry.referenced.load(Ordering::Relaxed) {
            entry.referenced.store(true, Ordering::Relaxed);
        }
        entry.value.clone()
    }

    /// The cached object; when there is none, what `make` answers is cached. `make` takes no lock.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let shard = self.shard(key);
        let mut entries = shard.entries.write();
        if let Some(value) = entries.map.get(&key).and_then(|entry| entry.value.clone()) {
            return value;
        }
        if entries.map.len() >= entries.limit {
            let before = entries.map.len();
            evict(&mut entries, self.shard_max);
            let evicted = before - entries.map.len();
            shard.evictions.fetch_add(evicted as u64, Ordering::Relaxed);
        }
        let value = Arc::new(make());
        let entry = Entry {
            value: Some(value.clone()),
            referenced: AtomicBool::new(false),
        };
        entries.map.insert(key, entry);
        value
    }

    /// Takes the object out.
    pub(crate) fn remove(&self, key: K) -> Option<Arc<V>> {
        self.shard(key)
            .entries
            .write()
            .map
            .remove(&key)
            .and_then(|entry| entry.value)
    }

    /// Numbers of all shards.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in &self.shards {
            let entries = shard.entries.read();
            let idle = |entry: &&Entry<V>| entry.is_idle();
            sum.entries += entries.map.len() as u64;
            sum.idle += entries.map.values().filter(idle).count() as u64;
            let values = entries
                .map
                .values()
                .filter_map(|entry| entry.value.as_ref());
            sum.more_bytes += values.map(|value| value.more_bytes() as u64).sum::<u64>();
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
            let entries = &mut *shard.entries.write();
            let wanted = entries.map.len().div_ceil(4);
            let dropped = drop_idle(&mut entries.map, wanted) as u64;
            shard.evictions.fetch_add(dropped, Ordering::Relaxed);
            dropped
        };
        self.shards.iter().map(shed).sum()
    }

    /// All objects, for unmount checks and statistics.
    pub(crate) fn snapshot(&self) -> Vec<Arc<V>> {
        let all = |shard: &Shard<K, V>| -> Vec<Arc<V>> {
            shard
                .entries
                .read()
                .map
                .values()
                .filter_map(|entry| entry.value.clone())
                .collect()
        };
        self.shards.iter().flat_map(all).collect()
    }

    fn shard(&self, key: K) -> &Shard<K, V> {
        &self.shards[stretch_shard::<STRETCH_BITS>(key.number(), CACHE_SHARDS)]
    }
}

/// Drops a quarter of the shard: entries nobody uses and nobody looked up since the last round.
fn evict<K: Key, V: Cached>(entries: &mut Entries<K, V>, shard_max: usize) {
    let wanted = entries.map.len().saturating_sub(shard_max) + shard_max / 4 + 1;
    drop_idle(&mut entries.map, wanted);
    entries.limit = shard_max.max(entries.map.len() + entries.map.len() / 4);
}

/// Drops up to `wanted` entries; answers how many.
fn drop_idle<K: Key, V: Cached>(map: &mut Map<K, V>, wanted: usize) -> usize {
    let mut to_drop = wanted;
    map.retain(|_, entry| {
        let idle = to_drop > 0 && entry.is_idle();
        let drop = idle && !entry.take_referenced() && end(entry);
        to_drop -= usize::from(drop);
        !drop
    });
    wanted - to_drop
}

/// Ends the object unless somebody else holds it.
fn end<V>(entry: &mut Entry<V>) -> bool {
    let alone = entry.value.take().map(Arc::try_unwrap);
    entry.value = alone.and_then(Result::err);
    entry.value.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Cached for u64 {}

    /// Who got hold of it after [`evict`] looked keeps the one object there is.
    #[test]
    fn an_object_that_is_held_again_stays_cached() {
        let held = Arc::new(1);
        let mut entry = Entry {
            value: Some(held.clone()),
            referenced: AtomicBool::new(false),
        };
        assert!(!end(&mut entry));
        assert!(Arc::ptr_eq(&held, entry.value.as_ref().expect("stays")));
        let weak = Arc::downgrade(&held);
        drop(held);
        assert!(end(&mut entry) && weak.upgrade().is_none());
    }
    #[test]
    fn what_is_used_or_was_looked_up_stays_when_some_is_dropped() {
        let cache: Cache<uext4_format::BlockNr, u64> = Cache::new(1 << 20);
        let nr = uext4_format::BlockNr;
        let used: Vec<_> = (0..100)
            .map(|i| cache.get_or_insert_with(nr(i), || i))
            .collect();
        (100..1000).for_each(|i| _ = cache.get_or_insert_with(nr(i), || i));
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
        let cache: Cache<uext4_format::BlockNr, Known> = Cache::new(1 << 20);
        let nr = uext4_format::BlockNr;
        let known = |i| Known(AtomicBool::new(i < 10));
        (0..100).for_each(|i| _ = cache.get_or_insert_with(nr(i), || known(i)));
        assert_eq!(cache.shed(), 25);
        assert!((0..10).all(|i| cache.get(nr(i)).is_some()));
    }
}
