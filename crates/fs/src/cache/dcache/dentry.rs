//! Entry of the dentry cache.
//!
//! Layout: an entry is an inode number and 96 bits of a keyed hash of the name
//! ([`hashed_name`](super::hashed_name)), in two words. The first word is stored xored with the
//! second, so a torn read of two entries matches no key. Names are not stored: the false-match
//! probability is 2^-94 per lookup.
//! Locking: none. Accesses to entries and to the size of the table are `SeqCst`, in one order for
//! all threads.
//! References: Hyatt and Mann, "A lockless transposition table" (2002), for the xored words.

use super::hashed_name::Key;
use uext4_format::InodeNr;
use uext4_num::{high_u32, low_u32};
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// A dentry: the inode of one name.
#[derive(Default)]
pub(crate) struct Dentry {
    mark: AtomicU64,
    said: AtomicU64,
}

/// A snapshot of an entry's words. It matches no name if a write raced with it.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    mark: u64,
    said: u64,
}

impl Words {
    /// The slot hash, which `mark` and `said` store together.
    pub(crate) fn slot_hash(self) -> u64 {
        self.mark ^ self.said
    }
}

impl Dentry {
    pub(crate) fn get(&self, key: Key) -> Option<InodeNr> {
        let words = self.words()?;
        let is_it = words.slot_hash() == key.place && high_u32(words.said) == key.check;
        is_it.then_some(InodeNr(low_u32(words.said)))
    }

    /// Stores the dentry of a name for `nr`.
    pub(crate) fn put(&self, key: Key, nr: InodeNr) {
        let said = u64::from(key.check) << 32 | u64::from(nr.0);
        let mark = key.place ^ said;
        self.copy(Words { mark, said });
    }

    pub(crate) fn copy(&self, words: Words) {
        self.mark.store(words.mark, Relaxed);
        self.said.store(words.said, SeqCst);
    }

    /// A snapshot of the words, unless the entry is free.
    pub(crate) fn words(&self) -> Option<Words> {
        let said = self.said.load(SeqCst);
        let mark = self.mark.load(Relaxed);
        (said != 0).then_some(Words { mark, said })
    }

    pub(crate) fn clear(&self) {
        self.said.store(0, SeqCst);
    }

    /// Clears the entry if it still equals the snapshot.
    pub(crate) fn clear_if(&self, words: Words) {
        let _changed = self.said.compare_exchange(words.said, 0, SeqCst, Relaxed);
    }
}

/// The entries of one cache line.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Set(pub(crate) [Dentry; 4]);

impl Set {
    pub(crate) fn of_name(&self, key: Key) -> impl Iterator<Item = &Dentry> {
        self.0.iter().filter(move |entry| entry.get(key).is_some())
    }

    pub(crate) fn forget(&self, key: Key) {
        self.of_name(key).for_each(Dentry::clear);
    }

    pub(crate) fn free(&self) -> Option<&Dentry> {
        self.0.iter().find(|entry| entry.words().is_none())
    }

    pub(crate) fn taken(&self) -> impl Iterator<Item = (&Dentry, Words)> {
        self.0
            .iter()
            .filter_map(|entry| Some((entry, entry.words()?)))
    }
}
