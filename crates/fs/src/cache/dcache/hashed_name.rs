//! Name with its hashes (as `qstr`), each computed at most once per operation.
//!
//! One keyed hash (SipHash-1-3, 128 bits) gives the dentry key and the fingerprint in the table of
//! a leaf. Its key is random per mount, so collisions cannot be constructed. The hash of the format
//! decides the place in an indexed directory. Its seed is on the disk, so an image can have
//! collisions; no table in memory depends on it.

use siphasher::sip128::{Hash128, SipHasher13};
use std::cell::Cell;
use uext4_format::hash::{DirHasher, HashVersion};
use uext4_num::{high_u16, high_u32, low_u32};

/// Dentry key of a name.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) place: u64,
    pub(crate) check: u32,
    /// Random bits of the hash that the dentry does not store.
    pub(crate) chance: u32,
}

impl Key {
    /// The fingerprint of the name in the table of a leaf. Its bits are not those that choose the
    /// victim of an eviction.
    pub(crate) fn print(self) -> u16 {
        high_u16(self.chance)
    }
}

/// Keyed hash of the names of one mount.
pub(crate) struct NameHasher(SipHasher13);

impl Default for NameHasher {
    fn default() -> Self {
        Self::of_seed(uext4_sync::entropy(), uext4_sync::entropy())
    }
}

impl NameHasher {
    pub(crate) fn of_seed(one: u64, two: u64) -> Self {
        Self(SipHasher13::new_with_keys(one, two))
    }

    pub(crate) fn key(&self, name: &[u8]) -> Key {
        let Hash128 { h1, h2 } = self.0.hash(name);
        Key {
            place: h1,
            check: high_u32(h2),
            chance: low_u32(h2),
        }
    }

    /// The name with its hashes.
    pub(crate) fn hashed<'a>(&self, name: &'a [u8]) -> HashedName<'a> {
        HashedName {
            bytes: name,
            key: self.key(name),
            major: Cell::new(None),
        }
    }
}

pub(crate) struct HashedName<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) key: Key,
    /// The last hash of the format, and its function.
    major: Cell<Option<(HashVersion, u32)>>,
}

impl HashedName<'_> {
    /// The major hash in an index of this hasher, which differs from others of the mount in its
    /// function only.
    pub(crate) fn major(&self, hasher: &DirHasher) -> u32 {
        match self.major.get() {
            Some((version, major)) if version == hasher.version => major,
            _ => {
                let major = hasher.hash(self.bytes).major;
                self.major.set(Some((hasher.version, major)));
                major
            }
        }
    }

    /// The major hash, if an index was searched for the name.
    pub(crate) fn known_major(&self) -> Option<u32> {
        self.major.get().map(|(_, major)| major)
    }

    /// Fingerprint of the name; see [`Key::print`].
    pub(crate) fn print(&self) -> u16 {
        self.key.print()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::hash::CharSign;

    #[test]
    fn a_function_of_the_format_hashes_a_name_once() {
        let hasher = |version, seed| DirHasher {
            version,
            sign: CharSign::Signed,
            seed: [seed; 4],
        };
        let [first, other] = [1, 2].map(|seed| hasher(HashVersion::HalfMd4, seed));
        let majors = [first, other].map(|hasher| hasher.hash(b"name").major);
        assert_ne!(majors[0], majors[1]);
        let name = NameHasher::of_seed(1, 2).hashed(b"name");
        assert_eq!(name.major(&first), majors[0]);
        // A mount has one seed: the same function gives the hash that is there already.
        assert_eq!(name.major(&other), majors[0]);
        let tea = hasher(HashVersion::Tea, 1);
        assert_eq!(name.major(&tea), tea.hash(b"name").major);
    }
}
