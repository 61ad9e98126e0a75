//! What names of one directory mean, as far as they were made or looked up: one cache line tells,
//! however large the directory is, and nobody writes it to read it.
//!
//! Layout: sets of four entries, a set in a cache line. An entry is the number of an inode and 96
//! bits of a keyed hash of the name (SipHash-1-3), in two words of which the first is kept xored
//! with the second: words of two entries make no third one. Names are not kept. That one is taken
//! for another has a chance of 2^-94 a look-up, and the key of each directory is random, so that
//! such names cannot be looked for.
//! Invariants: an entry is put in with the block of the name locked, at its place in a structure
//! that is not closed, and taken out with that block locked before the name means something else.
//! So who reads an entry knows what the name meant at that moment.
//! Locking: none to read or change entries; growing is up to who owns the table.
//! References: the two words are Hyatt and Mann, "A lockless transposition table" (2002).

use super::name_memory::{NameMemory, Share};
use siphasher::sip128::{Hash128, SipHasher13};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use uext4_device::prefetch;
use uext4_format::InodeNr;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sets of the first table.
const SETS_MIN: usize = 8;
/// Sets whose entries are counted to see how full a table is, and the losses for one such count.
const SETS_COUNTED: usize = 64;
const LOSSES_PER_COUNT: u32 = 8;

/// A name as a table knows it.
#[derive(Clone, Copy)]
pub(super) struct Key {
    place: u64,
    check: u32,
    /// Not kept in the entry.
    chance: u32,
}

/// Makes keys for one directory.
pub(super) struct Keys(SipHasher13);

impl Default for Keys {
    fn default() -> Self {
        let random = || RandomState::new().hash_one(());
        Self(SipHasher13::new_with_keys(random(), random()))
    }
}

impl Keys {
    pub(super) fn of(&self, name: &[u8]) -> Key {
        let Hash128 { h1, h2 } = self.0.hash(name);
        Key {
            place: h1,
            check: (h2 >> 32) as u32,
            chance: h2 as u32,
        }
    }
}

#[derive(Default)]
struct Entry {
    mark: AtomicU64,
    said: AtomicU64,
}

impl Entry {
    fn get(&self, key: Key) -> Option<InodeNr> {
        let said = self.said.load(Relaxed);
        let is_it = self.mark.load(Relaxed) ^ said == key.place && (said >> 32) as u32 == key.check;
        (is_it && said != 0).then_some(InodeNr(said as u32))
    }

    fn set(&self, place: u64, said: u64) {
        self.said.store(said, Relaxed);
        self.mark.store(place ^ said, Relaxed);
    }

    fn is_free(&self) -> bool {
        self.said.load(Relaxed) == 0
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Set([Entry; 4]);

/// See the module.
#[derive(Default)]
pub(super) struct Names {
    /// None, or a power of two.
    sets: Box<[Set]>,
    share: Option<Share>,
}

impl Names {
    /// The number of the set for a place.
    fn number(&self, place: u64) -> usize {
        ((place as u128 * self.sets.len() as u128) >> 64) as usize
    }

    fn set(&self, place: u64) -> Option<&Set> {
        self.sets.get(self.number(place))
    }

    /// Asks for the cache line of a name that will be asked for.
    pub(super) fn prefetch(&self, key: Key) {
        if let Some(set) = self.set(key.place) {
            prefetch(std::ptr::from_ref(set).cast(), size_of::<Set>());
        }
    }

    /// What the name means.
    pub(super) fn get(&self, key: Key) -> Option<InodeNr> {
        let entries = &self.set(key.place)?.0;
        entries.iter().find_map(|entry| entry.get(key))
    }

    /// The name means `nr`. False when the table should grow first.
    pub(super) fn put(&self, key: Key, nr: InodeNr) -> bool {
        let Some(Set(entries)) = self.set(key.place) else {
            return false;
        };
        let there = entries.iter().find(|entry| entry.get(key).is_some());
        let free = || entries.iter().find(|entry| entry.is_free());
        let lost = &entries[key.chance as usize % entries.len()];
        let (entry, has_room) = match there.or_else(free) {
            Some(entry) => (entry, true),
            None => (lost, false),
        };
        entry.set(key.place, u64::from(key.check) << 32 | u64::from(nr.0));
        has_room || !self.is_crowded(key)
    }

    /// Asked where an entry was lost: whether half of the entries around it are taken. A count of
    /// all would be one that all write.
    fn is_crowded(&self, key: Key) -> bool {
        if !(key.chance >> 2).is_multiple_of(LOSSES_PER_COUNT) {
            return false;
        }
        let first = self.number(key.place) / SETS_COUNTED * SETS_COUNTED;
        let around = self.sets.iter().skip(first).take(SETS_COUNTED);
        let entries = around.flat_map(|set| &set.0);
        let (taken, all) = entries.fold((0, 0), |(taken, all), entry| {
            (taken + usize::from(!entry.is_free()), all + 1)
        });
        taken * 2 >= all
    }

    /// Nothing is said of the name any more.
    pub(super) fn forget(&self, key: Key) {
        let entries = self.set(key.place).map_or(&[][..], |set| &set.0);
        let of_name = entries.iter().filter(|entry| entry.get(key).is_some());
        of_name.for_each(|entry| entry.set(0, 0));
    }

    /// Sets and bytes of a larger table.
    fn next(&self) -> (usize, u64) {
        let len = (self.sets.len() * 2).max(SETS_MIN);
        (len, (len * size_of::<Set>()) as u64)
    }

    /// Whether there is memory for a larger table.
    pub(super) fn may_grow(&self, memory: &NameMemory) -> bool {
        memory.has(self.next().1, self.share.as_ref())
    }

    /// How large the table is, in no unit.
    pub(super) fn size(&self) -> usize {
        self.sets.len()
    }

    /// Makes the table twice as large, if there is memory for it.
    pub(super) fn grow(&mut self, memory: &Arc<NameMemory>) {
        let (len, bytes) = self.next();
        let Some(share) = memory.take(bytes, self.share.as_ref()) else {
            return;
        };
        let old = std::mem::replace(&mut self.sets, (0..len).map(|_| Set::default()).collect());
        self.share = Some(share);
        for Entry { mark, said } in old.into_iter().flat_map(|set| set.0) {
            let (mark, said) = (mark.into_inner(), said.into_inner());
            let set = self.set(mark ^ said).map_or(&[][..], |set| &set.0);
            if let Some(free) = set.iter().find(|entry| entry.is_free()) {
                free.set(mark ^ said, said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: u64) -> Arc<NameMemory> {
        NameMemory::new(&Arc::new(AtomicU64::new(bytes * 16)))
    }

    /// The same in each run: how much is known is a matter of luck.
    fn fixed_keys() -> Keys {
        Keys(SipHasher13::new_with_keys(1, 2))
    }

    fn name(nr: u32) -> Vec<u8> {
        format!("name {nr}").into_bytes()
    }

    fn put(names: &mut Names, key: Key, nr: u32, memory: &Arc<NameMemory>) {
        if !names.put(key, InodeNr(nr)) {
            names.grow(memory);
            names.put(key, InodeNr(nr));
        }
    }

    #[test]
    fn most_names_are_known_and_mean_what_was_said() {
        let (keys, memory, mut names) = (fixed_keys(), memory(1 << 30), Names::default());
        for nr in 1..=20_000 {
            put(&mut names, keys.of(&name(nr)), nr, &memory);
        }
        let known = |nr: &u32| names.get(keys.of(&name(*nr))) == Some(InodeNr(*nr));
        let known = (1..=20_000).filter(known).count();
        assert!(known > 18_500, "{known}");
        let wrong = |nr: &u32| names.get(keys.of(&name(*nr))).is_some();
        assert_eq!((20_001..40_000).filter(wrong).count(), 0);
        let taken = memory.used_bytes();
        assert_eq!(taken, (names.sets.len() * 64) as u64);
        assert!(taken <= 20_000 * 128, "{taken}");
        drop(names);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn what_is_forgotten_is_not_known_and_the_last_word_counts() {
        let (keys, memory, mut names) = (fixed_keys(), memory(1 << 20), Names::default());
        let key = keys.of(b"name");
        names.forget(key);
        put(&mut names, key, 7, &memory);
        put(&mut names, key, 8, &memory);
        assert_eq!(names.get(key), Some(InodeNr(8)));
        names.forget(key);
        assert_eq!(names.get(key), None);
        put(&mut names, key, 9, &memory);
        assert_eq!(names.get(key), Some(InodeNr(9)));
    }

    #[test]
    fn a_table_keeps_to_its_memory() {
        let (keys, memory, mut names) = (fixed_keys(), memory(2048), Names::default());
        for nr in 1..5_000 {
            put(&mut names, keys.of(&name(nr)), nr, &memory);
        }
        assert_eq!((names.sets.len(), memory.used_bytes()), (32, 2048));
        let known = |nr: &u32| names.get(keys.of(&name(*nr))) == Some(InodeNr(*nr));
        assert!((1..5_000).filter(known).count() > 100);
    }

    /// Writers of one set at a time: whatever becomes of the entries, none says what nobody said.
    #[test]
    fn words_of_two_entries_make_no_third() {
        let (keys, memory, mut names) = (fixed_keys(), memory(512), Names::default());
        names.grow(&memory);
        let all: Vec<Key> = (0..400).map(|nr| keys.of(&name(nr))).collect();
        let say = |nr: u32| InodeNr(nr + 1);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (names, all) = (&names, &all);
                scope.spawn(move || {
                    for step in 0..40_000u32 {
                        let nr = step.wrapping_mul(2_654_435_761).wrapping_add(worker * 97) % 400;
                        let key = all[nr as usize];
                        match step % 3 {
                            0 => names.forget(key),
                            _ => _ = names.put(key, say(nr)),
                        }
                        let other = (nr * 7 + 1) % 400;
                        let found = names.get(all[other as usize]);
                        assert!(found.is_none_or(|found| found == say(other)));
                    }
                });
            }
        });
    }
}
