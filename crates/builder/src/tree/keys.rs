//! Keys of paths: numbers from which places of inodes and blocks follow.
//!
//! A key is a keyed hash of the key of the directory and the name, so it depends on nothing but the
//! path. Keys may be equal: two files then have the same first choice of a place.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use uext4_num::usize_of;

use crate::tree::ids::FileId;

/// A keyed hash of a path, or of what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

/// What a key that follows from another one is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One more choice of a place for a part of a file.
    Choice,
    /// A node of a file's extent tree or block map.
    Node,
    /// A copy of an attribute block.
    Copy,
}

impl Key {
    /// The key of the root directory.
    pub(crate) const ROOT: Key = Key(0);

    /// The key of a name below.
    pub(crate) fn child(self, name: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.0, 0);
        hasher.write(name);
        Key(hasher.finish())
    }

    /// The key of a path below the root.
    pub(crate) fn of_path(path: &[u8]) -> Key {
        let names = path.split(|byte| *byte == b'/');
        names.fold(Key::ROOT, Key::child)
    }

    /// The key of something that the file has besides its contents.
    pub(crate) fn with(self, purpose: Purpose, number: u64) -> Key {
        let purpose = match purpose {
            Purpose::Choice => 1,
            Purpose::Node => 2,
            Purpose::Copy => 3,
        };
        let mut hasher = SipHasher13::new_with_keys(self.0, purpose);
        hasher.write_u64(number);
        Key(hasher.finish())
    }

    /// One of this many numbers, from 0 on. `count` is not 0.
    pub(crate) fn below(self, count: u64) -> u64 {
        self.0 % count
    }
}

/// Keys of the files of a tree.
pub(crate) struct Keys {
    /// By index; [`Key::ROOT`] for those that are not known yet. `None`: no place follows from
    /// them.
    keys: Option<Vec<Key>>,
}

impl Keys {
    pub(crate) fn unused() -> Keys {
        Keys { keys: None }
    }

    pub(crate) fn used() -> Keys {
        Keys {
            keys: Some(Vec::new()),
        }
    }

    /// Sets the key of a file, which keeps the first one.
    pub(crate) fn set(&mut self, file: FileId, key: impl FnOnce() -> Key) {
        let Some(keys) = &mut self.keys else {
            return;
        };
        let at = usize_of(file.0);
        if keys.len() <= at {
            keys.resize(at + 1, Key::ROOT);
        }
        if keys[at] == Key::ROOT {
            keys[at] = key();
        }
    }

    /// Key of a file; [`Key::ROOT`] if it has none.
    pub(crate) fn get(&self, file: FileId) -> Key {
        let keys = self.keys.as_ref();
        let key = keys.and_then(|keys| keys.get(usize_of(file.0)));
        key.copied().unwrap_or(Key::ROOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_names_one_by_one() {
        let path = Key::of_path(b"a/bc");
        assert_eq!(path, Key::ROOT.child(b"a").child(b"bc"));
        for other in [&b"a/bd"[..], b"ab/c", b"a/b/c", b"abc"] {
            assert_ne!(Key::of_path(other), path);
        }
        assert_ne!(path.with(Purpose::Node, 0), path.with(Purpose::Copy, 0));
        assert!(path.below(7) < 7);
    }
}
