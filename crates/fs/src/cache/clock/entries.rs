//! Entries of one cache shard, with CLOCK eviction.
//!
//! Layout: a map by key, and a ring of the same keys with a hand. The hand skips held entries,
//! clears the reference bit of used ones (second chance), and evicts the rest.
//! Not here: when to evict ([`super::Cache`]).
//! Invariants: each key of the map is in the ring once, at its entry's index. An evicted object has
//! no holder, and weak references to it no longer upgrade.
//! Locking: the caller holds the shard's lock.

use super::{Cached, Key, STRIPE_BITS};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, StripeMap, shared_count};

struct Entry<V> {
    /// `None` only while [`end`] checks for other holders.
    value: Option<Arc<V>>,
    referenced: AtomicBool,
    /// Its index in the ring.
    at: usize,
}

enum Verdict<V> {
    /// The object has other holders.
    Held,
    /// The object was used recently.
    Spared,
    Ended(V),
}

impl<V: Cached> Entry<V> {
    /// Whether only the cache holds the object; a hint, because weak references may upgrade.
    fn is_idle(&self) -> bool {
        self.value
            .as_ref()
            .is_none_or(|value| Arc::strong_count(value) == 1)
    }

    /// Takes and clears the used marks.
    fn take_referenced(&self) -> bool {
        let used = self.value.as_ref().is_some_and(|value| value.take_used());
        self.referenced.swap(false, Ordering::Relaxed) || used
    }

    fn judge(&mut self) -> Verdict<V> {
        if !self.is_idle() {
            return Verdict::Held;
        }
        if self.take_referenced() {
            return Verdict::Spared;
        }
        end(&mut self.value).map_or(Verdict::Held, Verdict::Ended)
    }
}

/// Ends the object unless it has other holders.
fn end<V>(value: &mut Option<Arc<V>>) -> Option<V> {
    match Arc::try_unwrap(value.take()?) {
        Ok(ended) => Some(ended),
        Err(held) => {
            *value = Some(held);
            None
        }
    }
}

pub(super) struct Entries<K, V> {
    map: StripeMap<K, Entry<V>, STRIPE_BITS>,
    ring: Vec<K>,
    hand: usize,
    departures: u64,
}

impl<K: Key, V: Cached> Entries<K, V> {
    pub(super) fn new() -> Self {
        Self {
            map: StripeMap::default(),
            ring: Vec::new(),
            hand: 0,
            departures: 0,
        }
    }

    /// Number of entries that left since the shard was made. A result read from the device is
    /// current only while this stays the same: the object may have been cached, changed, written
    /// and evicted in between.
    pub(super) fn departures(&self) -> u64 {
        self.departures
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.map.contains_key(&key)
    }

    /// The object; marks it used.
    pub(super) fn get(&self, key: K) -> Option<Arc<V>> {
        let entry = self.map.get(&key)?;
        if !entry.referenced.load(Ordering::Relaxed) {
            entry.referenced.store(true, Ordering::Relaxed);
        }
        let value = entry.value.clone()?;
        shared_count(&value);
        Some(value)
    }

    /// The cached object; else inserts `value`. The caller drops its own reference to `value`
    /// without the shard's lock.
    pub(super) fn get_or_insert(&mut self, key: K, value: &Arc<V>) -> Arc<V> {
        if let Some(there) = self.get(key) {
            return there;
        }
        self.insert(key, Arc::clone(value));
        Arc::clone(value)
    }

    fn insert(&mut self, key: K, value: Arc<V>) {
        let entry = Entry {
            value: Some(value),
            referenced: AtomicBool::new(false),
            at: self.ring.len(),
        };
        let before = self.map.insert(key, entry);
        debug_assert!(before.is_none());
        self.ring.push(key);
    }

    pub(super) fn remove(&mut self, key: K) -> Option<Arc<V>> {
        let entry = self.map.remove(&key)?;
        self.departures += 1;
        self.ring.swap_remove(entry.at);
        if let Some(moved) = self.ring.get(entry.at) {
            self.map
                .get_mut(moved)
                .expect("every key of the ring has an entry")
                .at = entry.at;
        }
        entry.value
    }

    /// Moves the hand past `looks` entries, or until it has evicted `wanted`. Returns the evicted
    /// objects, which the caller drops without the shard's lock.
    pub(super) fn sweep(&mut self, looks: usize, wanted: usize) -> Vec<V> {
        let mut gone = Vec::new();
        for _ in 0..looks {
            if gone.len() >= wanted || self.ring.is_empty() {
                break;
            }
            self.hand %= self.ring.len();
            let key = self.ring[self.hand];
            let entry = self.map.get_mut(&key);
            match entry.expect("every key of the ring has an entry").judge() {
                Verdict::Ended(value) => {
                    self.remove(key);
                    gone.push(value);
                }
                Verdict::Held | Verdict::Spared => self.hand += 1,
            }
        }
        gone
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.map.values().filter_map(|entry| entry.value.as_ref())
    }

    /// Number of entries that only the cache holds.
    pub(super) fn idle(&self) -> usize {
        self.map.values().filter(|entry| entry.is_idle()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holder that appears after the hand's check keeps the object cached.
    #[test]
    fn an_object_that_is_held_again_stays_cached() {
        let held = Arc::new(1);
        let mut value = Some(held.clone());
        assert_eq!(end(&mut value), None);
        assert!(Arc::ptr_eq(&held, value.as_ref().expect("stays")));
        let weak = Arc::downgrade(&held);
        drop(held);
        assert!(end(&mut value).is_some() && value.is_none());
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn the_ring_follows_what_goes_and_comes() {
        let nr = uext4_format::BlockNr;
        let mut entries: Entries<_, u64> = Entries::new();
        for i in 0..1000 {
            entries.get_or_insert(nr(i), &Arc::new(i));
            if i % 3 == 0 {
                entries.remove(nr(i / 2));
            }
            let places = entries.ring.iter().enumerate();
            let stands = |(at, key)| entries.map.get(key).is_some_and(|entry| entry.at == at);
            assert!(entries.ring.len() == entries.len() && places.into_iter().all(stands));
            entries.sweep(usize::MAX, entries.len().saturating_sub(50));
            assert!(entries.len() <= 50);
        }
    }
}
