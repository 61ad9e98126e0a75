//! The entries of one shard, and the clock that chooses which of them go.
//!
//! Layout: a map by key, and a ring of the same keys with a hand. The hand passes what somebody
//! holds, gives what was used since it came by last a second chance, and takes what is left.
//! Invariants: each key of the map stands in the ring once, where its entry says. What is evicted
//! nobody holds, and nobody gets hold of it any more, weakly held or not.
//! Locking: the caller has the shard's.

use super::{Cached, Key, STRETCH_BITS};
use std::sync::Arc;
use uext4_sync::StretchMap;
use uext4_sync::atomic::{AtomicBool, Ordering};

/// Entries that the hand passes at most to make room for one.
const LOOKS_MAX: usize = 32;
/// Entries that the hand passes for each that comes while it meets only what is held. What is held
/// for a while (until a commit) is what came last: a hand no faster than that stays in it for good.
const LOOKS_PER_ARRIVAL: usize = 4;

struct Entry<V> {
    /// `None` only while [`end`] sees whether somebody else holds it.
    value: Option<Arc<V>>,
    referenced: AtomicBool,
    /// Its place in the ring.
    at: usize,
}

/// What the hand does with an entry.
enum Verdict<V> {
    /// Somebody holds it.
    Held,
    /// It was used.
    Spared,
    Ended(V),
}

impl<V: Cached> Entry<V> {
    /// Nobody but the cache holds the object; a hint, for who holds it weakly may do more.
    fn is_idle(&self) -> bool {
        self.value
            .as_ref()
            .is_none_or(|value| Arc::strong_count(value) == 1)
    }

    /// Somebody used it since this was asked last.
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

/// Ends the object unless somebody else holds it.
fn end<V>(value: &mut Option<Arc<V>>) -> Option<V> {
    match Arc::try_unwrap(value.take()?) {
        Ok(ended) => Some(ended),
        Err(held) => {
            *value = Some(held);
            None
        }
    }
}

/// What a shard may keep, and what had to go for what came.
pub(super) struct Room<V> {
    /// About so many are kept that nobody holds.
    pub(super) max: usize,
    /// The caller drops it without the shard's lock.
    pub(super) gone: Vec<V>,
}

impl<V> Room<V> {
    pub(super) fn new(max: usize) -> Self {
        let gone = Vec::new();
        Self { max, gone }
    }
}

/// See the module.
pub(super) struct Entries<K, V> {
    map: StretchMap<K, Entry<V>, STRETCH_BITS>,
    ring: Vec<K>,
    hand: usize,
    /// The hand rests until there are so many: it met only what is held.
    rest_until: usize,
    departures: u64,
}

impl<K: Key, V: Cached> Entries<K, V> {
    pub(super) fn new() -> Self {
        Self {
            map: StretchMap::default(),
            ring: Vec::new(),
            hand: 0,
            rest_until: 0,
            departures: 0,
        }
    }

    /// How many entries went since the shard was made. What was read from the device is the present
    /// state of something that is not cached only while this stays: it may have come, changed, been
    /// written and gone meanwhile.
    pub(super) fn departures(&self) -> u64 {
        self.departures
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.map.contains_key(&key)
    }

    /// The object, which is noted as used.
    pub(super) fn get(&self, key: K) -> Option<Arc<V>> {
        let entry = self.map.get(&key)?;
        if !entry.referenced.load(Ordering::Relaxed) {
            entry.referenced.store(true, Ordering::Relaxed);
        }
        entry.value.clone()
    }

    /// The object that is there; else `value`, which is added. The caller drops its own hold on
    /// `value` without the shard's lock.
    pub(super) fn get_or_insert(&mut self, key: K, value: &Arc<V>, room: &mut Room<V>) -> Arc<V> {
        if let Some(there) = self.get(key) {
            return there;
        }
        self.make_room(room);
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

    /// Takes the object out.
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

    fn make_room(&mut self, room: &mut Room<V>) {
        let len = self.map.len();
        if len < room.max || len < self.rest_until {
            return;
        }
        let held = self.sweep(
            LOOKS_MAX,
            room.gone.len() + len + 1 - room.max,
            &mut room.gone,
        );
        self.rest_until = self.map.len() + held / LOOKS_PER_ARRIVAL;
    }

    /// Goes once round, until a quarter is gone.
    pub(super) fn shed_quarter(&mut self) -> Vec<V> {
        let mut gone = Vec::new();
        let wanted = self.map.len().div_ceil(4);
        self.sweep(self.map.len(), wanted, &mut gone);
        gone
    }

    /// Moves the hand past `looks` entries, or until `enough` are in `gone`. Answers how many it
    /// met that are held.
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

    /// Entries that nobody holds.
    pub(super) fn idle(&self) -> usize {
        self.map.values().filter(|entry| entry.is_idle()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who got hold of it after the hand looked keeps the one object there is.
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
            entries.get_or_insert(nr(i), &Arc::new(i), &mut Room::new(50));
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
            entries.get_or_insert(nr(i), &Arc::new(i), &mut Room::new(50))
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
            held.push_back(entries.get_or_insert(nr(i), &Arc::new(i), &mut Room::new(MAX)));
            entries.get(nr(i));
            if held.len() > HELD {
                held.pop_front();
            }
            assert!(entries.len() <= MAX + HELD, "{} at {i}", entries.len());
        }
    }
}
