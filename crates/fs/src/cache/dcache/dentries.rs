//! Per-directory dentry cache: name to inode number, positive entries only. A hit reads one cache
//! line and writes none.
//!
//! Layout: sets of four entries ([`dentry`](super::dentry)), one set per cache line. The
//! table grows by [`linear_hash`](super::linear_hash), in steps that move only the entries of their
//! new sets. Readers never wait; a writer waits for at most one step.
//! Invariants: an entry is put with the block of the name locked, at its place in a structure that
//! is not closed, and removed with that block locked before the name changes. So lookups are
//! linearizable. A writer checks after its change whether its set is being split; if so, it waits
//! for the step and repeats the change. A step announces itself before it reads entries, so one of
//! the two sees the other.
//! Locking: none to read or write entries. `Rank::CacheShard` to grow, and to wait for a step.

use super::dentry::{Dentry, Set, Words};
use super::dentry_memory::{DentryMemory, Share};
use super::hashed_name::Key;
use super::linear_hash::{LinearHash, PublishedHash, SETS_MAX, SETS_MIN, Step};
use uext4_device::prefetch;
use uext4_format::InodeNr;
use uext4_num::{u64_of, usize_of};
use uext4_sync::{Arc, Mutex, Rank, Segments};

/// Segments for the largest table, the first of `SETS_MIN` sets.
const SEGMENTS: usize = usize_of((SETS_MAX / SETS_MIN).ilog2()) + 1;
/// Sets sampled for the fill level of a table, and evictions per sample.
const SETS_COUNTED: u32 = 64;
const LOSSES_PER_COUNT: u32 = 8;

/// The dentry cache of a directory; see the module.
pub(super) struct Dentries {
    hash: PublishedHash,
    sets: Segments<[Set; usize_of(SETS_MIN)], SEGMENTS>,
    /// Memory of the sets; the lock is held during a step.
    shares: Mutex<Vec<Share>>,
}

impl Default for Dentries {
    fn default() -> Self {
        Self {
            hash: PublishedHash::default(),
            sets: Segments::default(),
            shares: Mutex::new(Rank::CacheShard, Vec::new()),
        }
    }
}

impl Dentries {
    fn set(&self, number: u32) -> Option<&Set> {
        let sets = self.sets.get(number / SETS_MIN)?;
        Some(&sets[usize_of(number % SETS_MIN)])
    }

    /// The set of a name in a table of this size, and its number.
    fn set_of(&self, hash: LinearHash, key: Key) -> Option<(u32, &Set)> {
        let number = hash.set_of(key.place)?;
        Some((number, self.set(number)?))
    }

    /// Prefetches the set of a name.
    pub(super) fn prefetch(&self, key: Key) {
        if let Some((_, set)) = self.set_of(self.hash.get(), key) {
            prefetch(std::ptr::from_ref(set).cast(), size_of::<Set>());
        }
    }

    /// The inode number of the name.
    pub(super) fn get(&self, key: Key) -> Option<InodeNr> {
        let (_, set) = self.set_of(self.hash.get(), key)?;
        set.0.iter().find_map(|entry| entry.get(key))
    }

    /// Stores the dentry for `nr`. False when the table should grow.
    pub(super) fn put(&self, key: Key, nr: InodeNr) -> bool {
        let mut is_lost = true;
        self.change(key, |set| {
            let entry = set.of_name(key).next().or_else(|| set.free());
            is_lost = entry.is_none();
            let lost = &set.0[usize_of(key.chance) % set.0.len()];
            entry.unwrap_or(lost).put(key, nr);
        });
        !(is_lost && self.is_crowded(key))
    }

    /// Removes the dentry of the name.
    pub(super) fn forget(&self, key: Key) {
        self.change(key, |set| set.forget(key));
    }

    /// Applies `change` to the set of a name, if there is one; repeats it after a split of the set.
    fn change(&self, key: Key, mut change: impl FnMut(&Set)) {
        while let Some((number, set)) = self.set_of(self.hash.get(), key) {
            change(set);
            let hash = self.hash.get();
            let splits = hash.splits(number);
            if !splits && hash.set_of(key.place) == Some(number) {
                return;
            }
            if splits {
                drop(self.shares.lock());
            }
            set.forget(key);
        }
    }

    /// After an eviction: whether at least half of the nearby entries are taken. Sampled, because a
    /// shared counter would be written by all threads.
    fn is_crowded(&self, key: Key) -> bool {
        let hash = self.hash.get();
        let Some((number, _)) = self.set_of(hash, key) else {
            return true;
        };
        if !(key.chance >> 2).is_multiple_of(LOSSES_PER_COUNT) {
            return false;
        }
        let first = number / SETS_COUNTED * SETS_COUNTED;
        let around = first..hash.sets().min(first + SETS_COUNTED);
        let sets = around.filter_map(|number| self.set(number));
        let (taken, all) = sets.fold((0, 0), |(taken, all), set| {
            (taken + set.taken().count(), all + set.0.len())
        });
        taken * 2 >= all
    }

    /// Runs one step towards twice the size, if memory allows and no other thread does.
    pub(super) fn grow(&self, memory: &Arc<DentryMemory>) {
        let hash = self.hash.get();
        let Some(step) = hash.step() else { return };
        let bytes = u64::from(hash.wanted()) * u64_of(size_of::<Set>());
        if !memory.has(bytes) {
            return;
        }
        let Some(mut shares) = self.shares.try_lock() else {
            return;
        };
        if self.hash.get() != hash {
            return;
        }
        if bytes > 0 {
            let Some(share) = memory.take(bytes) else {
                return;
            };
            shares.push(share);
            self.sets.get_or_make(hash.sets() / SETS_MIN);
        }
        self.hash.set(hash.splitting());
        self.each_moving(&step, |_, words, new| {
            if let Some(free) = new.free() {
                free.copy(words);
            }
        });
        self.hash.set(step.next);
        self.each_moving(&step, |old, words, _| old.clear_if(words));
    }

    /// Calls `act` for each entry that the step moves, with its new set.
    fn each_moving(&self, step: &Step, act: impl Fn(&Dentry, Words, &Set)) {
        for number in step.split.clone() {
            let to = number + step.distance;
            let (Some(old), Some(new)) = (self.set(number), self.set(to)) else {
                continue;
            };
            for (entry, words) in old.taken() {
                if step.next.set_of(words.slot_hash()) == Some(to) {
                    act(entry, words, new);
                }
            }
        }
    }

    /// Removes all dentries. No other thread uses the table meanwhile.
    pub(super) fn clear(&self) {
        let sets = self.sets.iter().flatten();
        sets.for_each(|set| set.taken().for_each(|(entry, _)| entry.clear()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::dentry_memory::MEMORY_PARTS;
    use super::super::hashed_name::NameHasher;
    use super::*;
    use uext4_sync::atomic::AtomicU64;

    fn bytes(names: &Dentries) -> u64 {
        (names.sets.iter().flatten().count() * size_of::<Set>()) as u64
    }

    fn memory(bytes: u64) -> Arc<DentryMemory> {
        DentryMemory::new(&Arc::new(AtomicU64::new(bytes * MEMORY_PARTS)))
    }

    /// Fixed keys: the fill level depends on the keys.
    fn fixed_keys() -> NameHasher {
        NameHasher::of_seed(1, 2)
    }

    fn name(nr: u32) -> Vec<u8> {
        format!("name {nr}").into_bytes()
    }

    fn put(names: &Dentries, key: Key, nr: u32, memory: &Arc<DentryMemory>) {
        if !names.put(key, InodeNr(nr)) {
            names.grow(memory);
            names.put(key, InodeNr(nr));
        }
    }

    #[test]
    fn most_names_are_known_and_mean_what_was_said() {
        let (keys, memory, names) = (fixed_keys(), memory(1 << 30), Dentries::default());
        let (mut made, mut between) = (0, 0);
        for count in (1..=200).map(|part| part * 1000) {
            for nr in made + 1..=count {
                put(&names, keys.key(&name(nr)), nr, &memory);
            }
            made = count;
            between += u32::from(!names.hash.get().sets().is_power_of_two());
            let known = |nr: &u32| names.get(keys.key(&name(*nr))) == Some(InodeNr(*nr));
            let known = (1..=count).step_by(10).filter(known).count();
            assert!(
                known * 100 >= count as usize * 85 / 10,
                "{known} of {count} / 10"
            );
            let wrong = |nr: &u32| names.get(keys.key(&name(*nr))).is_some();
            assert_eq!((count + 1..count * 2).step_by(10).filter(wrong).count(), 0);
            assert_eq!(memory.used_bytes(), bytes(&names));
            assert!(bytes(&names) <= u64::from(count) * 192, "{count}");
        }
        assert!(between > 10, "{between}");
        drop(names);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn what_is_forgotten_is_not_known_and_the_last_word_counts() {
        let (keys, memory, names) = (fixed_keys(), memory(1 << 20), Dentries::default());
        let key = keys.key(b"name");
        names.forget(key);
        put(&names, key, 7, &memory);
        put(&names, key, 8, &memory);
        assert_eq!(names.get(key), Some(InodeNr(8)));
        names.forget(key);
        assert_eq!(names.get(key), None);
        put(&names, key, 9, &memory);
        assert_eq!(names.get(key), Some(InodeNr(9)));
    }

    #[test]
    fn a_table_keeps_to_its_memory() {
        let (keys, memory, names) = (fixed_keys(), memory(2048), Dentries::default());
        for nr in 1..5_000 {
            put(&names, keys.key(&name(nr)), nr, &memory);
        }
        assert_eq!((names.hash.get().sets(), memory.used_bytes()), (32, 2048));
        let known = |nr: &u32| names.get(keys.key(&name(*nr))) == Some(InodeNr(*nr));
        assert!((1..5_000).filter(known).count() > 100);
    }

    /// Concurrent writers of one set: a lookup never returns a combination that was not written.
    #[test]
    fn words_of_two_entries_make_no_third() {
        let (keys, memory, names) = (fixed_keys(), memory(512), Dentries::default());
        names.grow(&memory);
        let all: Vec<Key> = (0..400).map(|nr| keys.key(&name(nr))).collect();
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
