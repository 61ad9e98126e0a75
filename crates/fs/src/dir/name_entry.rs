//! A name as a table of names keeps it, and how it is asked for.
//!
//! Layout: an entry is the number of an inode and 96 bits of a keyed hash of the name
//! (SipHash-1-3), in two words of which the first is kept xored with the second: words of two
//! entries make no third one. Names are not kept. That one is taken for another has a chance of
//! 2^-94 a look-up, and the key of each directory is random, so that such names cannot be looked
//! for.
//! Locking: none. Changes of entries, looks at them and the growth of their table are in one order
//! for all threads.
//! References: the two words are Hyatt and Mann, "A lockless transposition table" (2002).

use siphasher::sip128::{Hash128, SipHasher13};
use std::hash::{BuildHasher, RandomState};
use uext4_format::InodeNr;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// A name as a table knows it.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) place: u64,
    check: u32,
    /// Not kept in the entry.
    pub(super) chance: u32,
}

/// Makes keys for one directory.
pub(super) struct Keys(SipHasher13);

impl Default for Keys {
    fn default() -> Self {
        let random = || RandomState::new().hash_one(());
        Self::of_seed(random(), random())
    }
}

impl Keys {
    pub(super) fn of_seed(one: u64, two: u64) -> Self {
        Self(SipHasher13::new_with_keys(one, two))
    }

    pub(super) fn of(&self, name: &[u8]) -> Key {
        let Hash128 { h1, h2 } = self.0.hash(name);
        Key {
            place: h1,
            check: (h2 >> 32) as u32,
            chance: h2 as u32,
        }
    }
}

/// What one name means.
#[derive(Default)]
pub(super) struct Entry {
    mark: AtomicU64,
    said: AtomicU64,
}

/// The words of an entry at a moment. They are of no name if somebody changed them meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Words {
    mark: u64,
    said: u64,
}

impl Words {
    /// `Key::place` of the name.
    pub(super) fn place(self) -> u64 {
        self.mark ^ self.said
    }
}

impl Entry {
    pub(super) fn get(&self, key: Key) -> Option<InodeNr> {
        let words = self.words()?;
        let is_it = words.place() == key.place && (words.said >> 32) as u32 == key.check;
        is_it.then_some(InodeNr(words.said as u32))
    }

    /// The name means `nr`.
    pub(super) fn put(&self, key: Key, nr: InodeNr) {
        let said = u64::from(key.check) << 32 | u64::from(nr.0);
        let mark = key.place ^ said;
        self.copy(Words { mark, said });
    }

    /// Becomes a copy of another entry.
    pub(super) fn copy(&self, words: Words) {
        self.mark.store(words.mark, Relaxed);
        self.said.store(words.said, SeqCst);
    }

    /// The words, unless the entry is free.
    pub(super) fn words(&self) -> Option<Words> {
        let said = self.said.load(SeqCst);
        let mark = self.mark.load(Relaxed);
        (said != 0).then_some(Words { mark, said })
    }

    pub(super) fn clear(&self) {
        self.said.store(0, SeqCst);
    }

    /// Clears the entry if it is still as it was.
    pub(super) fn clear_if(&self, words: Words) {
        let _changed = self.said.compare_exchange(words.said, 0, SeqCst, Relaxed);
    }
}

/// The entries of one cache line.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Set(pub(super) [Entry; 4]);

impl Set {
    pub(super) fn of_name(&self, key: Key) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.get(key).is_some())
    }

    pub(super) fn forget(&self, key: Key) {
        self.of_name(key).for_each(Entry::clear);
    }

    pub(super) fn free(&self) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.words().is_none())
    }

    pub(super) fn taken(&self) -> impl Iterator<Item = (&Entry, Words)> {
        let words = |entry: &'_ Entry| entry.words();
        self.0
            .iter()
            .filter_map(move |entry| Some((entry, words(entry)?)))
    }
}
