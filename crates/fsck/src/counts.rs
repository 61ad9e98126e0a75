//! Link counts of all inodes: a byte each, as long as the two numbers are small.

use super::paged::Paged;
use std::collections::BTreeMap;
use uext4_device::Scratch;
use uext4_format::{FileType, InodeNr};
use uext4_num::low_u8;
use uext4_sync::Arc;

/// Largest number that half a byte of counts has.
const NARROW_MAX: u16 = 14;

/// Memory for counts that do not fit into a byte.
const BYTES_PER_WIDE: u64 = 24;

/// The links that an inode says it has, and those found so far.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) wanted: u16,
    pub(crate) found: u16,
}

/// Whether an inode must have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nameless {
    Yes,
    No,
}

/// An inode in use.
#[derive(Clone, Copy)]
pub(crate) struct NewInode {
    pub(crate) nr: InodeNr,
    pub(crate) kind: FileType,
    pub(crate) links: u16,
    pub(crate) nameless: Nameless,
}

/// Counts of each inode: half a byte for each of the two, if both are small.
#[derive(Default)]
pub(crate) struct AllCounts {
    /// Of all ones for counts in `wide`.
    narrow: Paged<u8>,
    wide: BTreeMap<u32, Counts>,
}

impl AllCounts {
    const IS_WIDE: u8 = 0xFF;

    /// Of the inodes below `len`.
    pub(crate) fn new(len: u64) -> Self {
        Self {
            narrow: Paged::new(len),
            wide: BTreeMap::new(),
        }
    }

    /// Memory before the first inode, in bytes.
    pub(crate) fn empty_bytes(len: u64) -> u64 {
        Paged::<u8>::empty_bytes(len)
    }

    /// Memory that an inode takes which says that it has so many links, in bytes.
    pub(crate) fn more_bytes(&self, nr: u32, wanted: u16) -> u64 {
        let at = u64::from(nr);
        let wide = u64::from(wanted > NARROW_MAX) * BYTES_PER_WIDE;
        self.narrow.more_bytes(at..at + 1) + wide
    }

    /// As [`Paged::make_room`].
    pub(crate) fn make_room(&mut self, scratch: Option<&Arc<Scratch>>) -> u64 {
        self.narrow.make_room(scratch)
    }

    /// As [`Paged::prefetch`].
    pub(crate) fn prefetch(&self, nr: u32) {
        self.narrow.prefetch(nr.into());
    }

    pub(crate) fn get(&self, nr: u32) -> Counts {
        let byte = self.narrow.get(nr.into());
        let narrow = Counts {
            wanted: u16::from(byte & 0xF),
            found: u16::from(byte >> 4),
        };
        let wide = (byte == Self::IS_WIDE).then(|| self.wide.get(&nr).copied());
        wide.flatten().unwrap_or(narrow)
    }

    pub(crate) fn set(&mut self, nr: u32, counts: Counts) {
        let Counts { wanted, found } = counts;
        let is_narrow = wanted <= NARROW_MAX && found <= NARROW_MAX;
        let byte = if is_narrow {
            low_u8(wanted | found << 4)
        } else {
            Self::IS_WIDE
        };
        if self.narrow.set(nr.into(), byte) && !is_narrow {
            self.wide.insert(nr, counts);
        }
    }

    /// Memory that one more link of an inode takes, in bytes.
    pub(crate) fn link_bytes(&self, nr: u32) -> u64 {
        let Counts { wanted, found } = self.get(nr);
        let is_wide = wanted.max(found) <= NARROW_MAX && found == NARROW_MAX;
        let at = u64::from(nr);
        self.narrow.more_bytes(at..at + 1) + u64::from(is_wide) * BYTES_PER_WIDE
    }

    /// Counts a link that was found.
    pub(crate) fn count(&mut self, nr: u32) {
        let Counts { wanted, found } = self.get(nr);
        let found = found.saturating_add(1);
        self.set(nr, Counts { wanted, found });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_any_size_are_kept() {
        let mut counts = AllCounts::new(5000);
        for (nr, wanted) in [(12, 0), (13, 1), (14, 14), (15, 15), (16, 65_000)] {
            counts.set(nr, Counts { wanted, found: 0 });
            let mut bytes = 0;
            for found in 1..=100 {
                bytes += counts.link_bytes(nr);
                counts.count(nr);
                let is = counts.get(nr);
                assert_eq!((is.wanted, is.found), (wanted, found));
            }
            let is_narrow = wanted <= NARROW_MAX;
            assert_eq!(bytes, u64::from(is_narrow) * BYTES_PER_WIDE);
            assert_eq!(counts.more_bytes(nr, wanted) == 0, is_narrow);
        }
        assert_eq!(counts.get(17).found, 0);
    }
}
