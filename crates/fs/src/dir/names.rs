//! What names of one directory mean, as far as they were made or looked up: one cache line tells,
//! however large the directory is, and nobody writes it to read it.
//!
//! Layout: sets of four entries ([`name_entry`](super::name_entry)), a set in a cache line.
//! A table that becomes larger moves by and by: its sets from the first on lie in new memory, the
//! rest still in the old, and those who put names in move some more. So nobody waits long.
//! Invariants: an entry is put in with the block of the name locked, at its place in a structure
//! that is not closed, and taken out with that block locked before the name means something else.
//! So who reads an entry knows what the name meant at that moment.
//! Locking: none to read or change entries; growing is up to who owns the table.

use super::name_entry::{Entry, Key, Set};
use super::name_memory::{NameMemory, Share};
use std::sync::Arc;
use uext4_device::prefetch;
use uext4_format::InodeNr;

/// Sets of the first table.
const SETS_MIN: usize = 8;
/// Sets whose entries are counted to see how full a table is, and the losses for one such count.
const SETS_COUNTED: usize = 64;
const LOSSES_PER_COUNT: u32 = 8;
/// Old sets that move at a time, and the puts for one such time: all have moved long before as many
/// names have come as there were.
const SETS_PER_MOVE: usize = 8192;
const PUTS_PER_MOVE: u32 = 2048;

/// See the module.
#[derive(Default)]
pub(super) struct Names {
    /// How many sets there are: none, or a power of two.
    len: usize,
    /// The first ones.
    sets: Vec<Set>,
    /// The table of half as many that the rest is in.
    old: Vec<Set>,
    share: Option<Share>,
    old_share: Option<Share>,
}

/// How far a table has grown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    len: usize,
    moved: usize,
}

impl Names {
    /// The number of the set for a place.
    fn number(&self, place: u64) -> usize {
        ((place as u128 * self.len as u128) >> 64) as usize
    }

    fn set(&self, place: u64) -> Option<&Set> {
        let number = self.number(place);
        let moved = self.sets.get(number);
        moved.or_else(|| self.old.get(number / 2))
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

    /// The name means `nr`. False when the table should grow.
    pub(super) fn put(&self, key: Key, nr: InodeNr) -> bool {
        let Some(set) = self.set(key.place) else {
            return false;
        };
        let entry = set.of_name(key).next().or_else(|| set.free());
        let lost = &set.0[key.chance as usize % set.0.len()];
        entry.unwrap_or(lost).put(key, nr);
        match self.is_moving() {
            true => !(key.chance >> 2).is_multiple_of(PUTS_PER_MOVE),
            false => entry.is_some() || !self.is_crowded(key),
        }
    }

    fn is_moving(&self) -> bool {
        self.sets.len() < self.len
    }

    /// Asked where an entry was lost: whether half of the entries around it are taken. A count of
    /// all would be one that all write.
    fn is_crowded(&self, key: Key) -> bool {
        if !(key.chance >> 2).is_multiple_of(LOSSES_PER_COUNT) {
            return false;
        }
        let first = self.number(key.place) / SETS_COUNTED * SETS_COUNTED;
        let around = self.sets.iter().skip(first).take(SETS_COUNTED);
        let (taken, all) = around.fold((0, 0), |(taken, all), set| {
            (taken + set.taken().count(), all + set.0.len())
        });
        taken * 2 >= all
    }

    /// Nothing is said of the name any more.
    pub(super) fn forget(&self, key: Key) {
        let of_name = self.set(key.place).map(|set| set.of_name(key));
        of_name.into_iter().flatten().for_each(Entry::clear);
    }

    /// Sets and bytes of a larger table.
    fn next(&self) -> (usize, u64) {
        let len = (self.len * 2).max(SETS_MIN);
        (len, (len * size_of::<Set>()) as u64)
    }

    /// Whether [`Self::grow`] has something to do.
    pub(super) fn may_grow(&self, memory: &NameMemory) -> bool {
        self.is_moving() || memory.has(self.next().1, self.share.as_ref())
    }

    pub(super) fn size(&self) -> Size {
        Size {
            len: self.len,
            moved: self.sets.len(),
        }
    }

    /// Goes a step on the way to a table of twice the size, if there is memory for it. Answers what
    /// is not needed any more, to be dropped where nobody waits.
    pub(super) fn grow(&mut self, memory: &Arc<NameMemory>) -> Vec<Set> {
        if !self.is_moving() {
            let (len, bytes) = self.next();
            let Some(share) = memory.take(bytes, self.share.as_ref()) else {
                return Vec::new();
            };
            self.old_share = self.share.replace(share);
            self.old = std::mem::replace(&mut self.sets, Vec::with_capacity(len));
            self.len = len;
        }
        self.move_some();
        if self.is_moving() {
            return Vec::new();
        }
        self.old_share = None;
        std::mem::take(&mut self.old)
    }

    fn move_some(&mut self) {
        let first = self.sets.len();
        let end = self.len.min(first + 2 * SETS_PER_MOVE);
        self.sets.resize_with(end, Set::default);
        let moved = self.old.iter().take(end / 2).skip(first / 2);
        for entry in moved.flat_map(Set::taken) {
            let set = self.sets.get(self.number(entry.place()));
            if let Some(free) = set.and_then(Set::free) {
                free.copy(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::name_entry::Keys;
    use super::super::name_memory::MEMORY_PARTS;
    use super::*;
    use uext4_sync::atomic::AtomicU64;

    fn bytes(names: &Names) -> u64 {
        ((names.len + names.old.len()) * size_of::<Set>()) as u64
    }

    fn memory(bytes: u64) -> Arc<NameMemory> {
        NameMemory::new(&Arc::new(AtomicU64::new(bytes * MEMORY_PARTS)))
    }

    /// The same in each run: how much is known is a matter of luck.
    fn fixed_keys() -> Keys {
        Keys::of_seed(1, 2)
    }

    fn name(nr: u32) -> Vec<u8> {
        format!("name {nr}").into_bytes()
    }

    fn put(names: &mut Names, key: Key, nr: u32, memory: &Arc<NameMemory>) {
        if !names.put(key, InodeNr(nr)) {
            drop(names.grow(memory));
            names.put(key, InodeNr(nr));
        }
    }

    #[test]
    fn most_names_are_known_and_mean_what_was_said() {
        let (keys, memory, mut names) = (fixed_keys(), memory(1 << 30), Names::default());
        let (mut made, mut moving) = (0, 0);
        for count in (1..=200).map(|part| part * 1000) {
            for nr in made + 1..=count {
                put(&mut names, keys.of(&name(nr)), nr, &memory);
            }
            made = count;
            moving += u32::from(names.is_moving());
            let known = |nr: &u32| names.get(keys.of(&name(*nr))) == Some(InodeNr(*nr));
            let known = (1..=count).step_by(10).filter(known).count();
            assert!(
                known * 100 >= count as usize * 85 / 10,
                "{known} of {count} / 10"
            );
            let wrong = |nr: &u32| names.get(keys.of(&name(*nr))).is_some();
            assert_eq!((count + 1..count * 2).step_by(10).filter(wrong).count(), 0);
            assert_eq!(memory.used_bytes(), bytes(&names));
            assert!(bytes(&names) <= u64::from(count) * 192, "{count}");
        }
        assert!(moving > 10, "{moving}");
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
        assert_eq!((names.len, memory.used_bytes()), (32, 2048));
        let known = |nr: &u32| names.get(keys.of(&name(*nr))) == Some(InodeNr(*nr));
        assert!((1..5_000).filter(known).count() > 100);
    }

    /// Writers of one set at a time: whatever becomes of the entries, none says what nobody said.
    #[test]
    fn words_of_two_entries_make_no_third() {
        let (keys, memory, mut names) = (fixed_keys(), memory(512), Names::default());
        drop(names.grow(&memory));
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
