//! Set of the names of a directory, to find names that are there twice.
//!
//! With an index, equal names have equal hashes, so they are in the same leaf, or in two leaves
//! that share the hash between them. Only names of such hashes, and those of a directory without an
//! index, are compared beyond their leaf.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use uext4_num::u64_of;

/// Memory for each name that is compared beyond its leaf, in bytes.
pub(crate) const BYTES_PER_NAME: u64 = 24;

/// Names that a set of the last directory has space for, at most.
const KEPT_MAX: usize = 1 << 12;

type Hashes = HashSet<u64, BuildHasherDefault<Same>>;

/// See the module.
#[derive(Default)]
pub(crate) struct NameSet {
    /// The same in all threads.
    pub(crate) hasher: RandomState,
    leaf: Hashes,
    all: Hashes,
}

/// Where else a name may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Leaf,
    Directory,
}

impl NameSet {
    /// Empties the set; returns how much memory it gives back.
    pub(crate) fn clear(&mut self) -> u64 {
        let bytes = u64_of(self.all.len()) * BYTES_PER_NAME;
        self.all.clear();
        self.all.shrink_to(KEPT_MAX);
        bytes
    }

    pub(crate) fn begin_leaf(&mut self) {
        self.leaf.clear();
    }

    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Adds the hash of a name of this leaf; false if it is there already.
    pub(crate) fn put_in_leaf(&mut self, hash: u64) -> bool {
        self.leaf.insert(hash)
    }

    /// Adds the hash of a name that is compared beyond its leaf; false if it is there already.
    pub(crate) fn put(&mut self, hash: u64) -> bool {
        self.all.insert(hash)
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        self.all.contains(&hash)
    }

    /// The hashes of names that are compared beyond their leaf.
    pub(crate) fn beyond_leaf(&self) -> impl Iterator<Item = u64> {
        self.all.iter().copied()
    }
}

/// Hash of a number that is a hash.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let number = bytes.first_chunk().copied().unwrap_or_default();
        self.0 = u64::from_ne_bytes(number);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
