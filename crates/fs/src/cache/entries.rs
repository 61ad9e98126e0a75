//! Entries of one cache shard, with CLOCK eviction.
//!
//! Layout: a map by key, and a ring of the same keys with a hand. The hand skips held entries,
//! clears the reference bit of used ones (second chance), and evicts the rest.
//! Invariants: each key of the map is in the ring once, at its entry's index. An evicted object has
//! no holder, and weak references to it no longer upgrade.
//! Locking: the caller holds the shard's lock.

use super::{Cached, Key, STRIPE_BITS};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, StripeMap, shared_count};

/// Most entries that the hand passes per insertion.
const LOOKS_MAX: usize = 32;
/// Entries that the hand passes per insertion while it meets only held entries. Recent entries are
/// held for a while (until a commit); a slower hand would stay among them forever.
const LOOKS_PER_ARRIVAL: usize = 4;

struct Entry<V> {
    /// `None` only while [`end`] checks for other holders.
    value: Option<Arc<V>>,
    referenced: AtomicBool,
    /// Its index in the ring.
    at: usize,
}

/// Decision of the hand.
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

/// The shard's limit, and the objects evicted by an insertion.
pub(super) struct Insertion<V> {
    /// Target number of entries that only the cache holds.
    pub(super) max: usize,
    /// Evicted objects; the caller drops them without the shard's lock.
    pub(super) gone: Vec<V>,
}

impl<V> Insertion<V> {
    pub(super) fn new(max: usize) -> Self {
        let gone = Vec::new();
        Self { max, gone }
    }
}

/// See the module.
pub(super) struct Entries<K, V> {
    map: StripeMap<K, Entry<V>, STRIPE_BITS>,
    ring: Vec<K>,
    hand: usize,
    /// CLOCK is paused until the shard has this many entries: the last pass met only held entries.
    rest_until: usize,
    departures: u64,
}

impl<K: Key, V: Cached> Entries<K, V> {
    pub(super) fn new() -> Self {
        Self {
            map: StripeMap::default(),
            ring: Vec::new(),
            hand: 0,
            rest_until: 0,
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
    pub(super) fn get_or_insert(
        &mut self,
        key: K,
        value: &Arc<V>,
        insertion: &mut Insertion<V>,
    ) -> Arc<V> {
        if let Some(there) = self.get(key) {
            return there;
        }
        self.evict(insertion);
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

    /// Removes the object.
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

    fn evict(&mut self, insertion: &mut Insertion<V>) {
        let len = self.map.len();
        if len < insertion.max || len < self.rest_until {
            return;
        }
        let held = self.sweep(
            LOOKS_MAX,
            insertion.gone.len() + len + 1 - insertion.max,
            &mut insertion.gone,
        );
        self.rest_until = self.map.len() + held / LOOKS_PER_ARRIVAL;
    }

    /// One round of the hand, until a quarter is evicted.
    pub(super) fn shed_quarter(&mut self) -> Vec<V> {
        let mut gone = Vec::new();
        let wanted = self.map.len().div_ceil(4);
        self.sweep(self.map.len(), wanted, &mut gone);
        gone
    }

    /// Moves the hand past `looks` entries, or until `gone` has `enough`. Answers how many entries
    /// were held.
    fn sweep(&mut self, looks: usize, enough: usize, gone: &mut Vec<V>) -> usize {
        let mut held = 0;
        for _ in 0..looks {
            if gone.len() >= enough || self.ring.is_empty() {
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
                Verdict::Held => {
                    self.hand += 1;
                    held += 1;
                }
                Verdict::Spared => self.hand += 1,
            }
        }
        held
    }

    /// All objects.
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
            entries.get_or_insert(nr(i), &Arc::new(i), &mut Insertion::new(50));
            if i % 3 == 0 {
                entries.remove(nr(i / 2));
            }
            let places = entries.ring.iter().enumerate();
            let stands = |(at, key)| entries.map.get(key).is_some_and(|entry| entry.at == at);
            assert!(entries.ring.len() == entries.len() && places.into_iter().all(stands));
            assert!(entries.len() <= 50);
        }
    }

    #[test]
    fn what_is_held_lets_others_in_and_goes_later() {
        let nr = uext4_format::BlockNr;
        let mut entries: Entries<_, u64> = Entries::new();
        let add = |entries: &mut Entries<_, u64>, i| {
            entries.get_or_insert(nr(i), &Arc::new(i), &mut Insertion::new(50))
        };
        let held: Vec<_> = (0..500).map(|i| add(&mut entries, i)).collect();
        assert_eq!(entries.len(), 500);
        drop(held);
        (500..1500).for_each(|i| drop(add(&mut entries, i)));
        assert!(entries.len() <= 50, "{}", entries.len());
    }

    #[test]
    fn what_is_held_for_a_while_does_not_keep_the_hand() {
        const MAX: usize = 1000;
        const HELD: usize = 700;
        let nr = uext4_format::BlockNr;
        let mut entries: Entries<_, u64> = Entries::new();
        let mut held = std::collections::VecDeque::new();
        for i in 0..30_000 {
            held.push_back(entries.get_or_insert(nr(i), &Arc::new(i), &mut Insertion::new(MAX)));
            entries.get(nr(i));
            if held.len() > HELD {
                held.pop_front();
            }
            assert!(entries.len() <= MAX + HELD, "{} at {i}", entries.len());
        }
    }
}
