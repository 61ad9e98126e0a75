//! The area after the extra fields of an inode.
//!
//! Most inodes have no attributes there, and a cache holds many inodes: an area of zeroes takes no
//! memory, and reading it touches no memory of the inode.

use super::GOOD_OLD_INODE_BYTES;
use crate::bytes::upto;
use std::ops::{Deref, DerefMut};
use uext4_num::clamp_u16;

/// Bytes of the largest inode, which fills a block of the largest size.
const INODE_BYTES_MAX: usize = 1 << 16;
static ZEROES: [u8; INODE_BYTES_MAX - GOOD_OLD_INODE_BYTES] =
    [0; INODE_BYTES_MAX - GOOD_OLD_INODE_BYTES];

/// See the module; a slice of bytes of a fixed length.
#[derive(Clone, Debug)]
pub struct Tail(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Zeroes(u16),
    Any(Box<[u8]>),
}

impl Tail {
    /// This many zeroes: at most the size of the area.
    pub(super) fn zeroes(len: usize) -> Self {
        Self(Bytes::Zeroes(clamp_u16(len)))
    }
}

impl From<&[u8]> for Tail {
    fn from(bytes: &[u8]) -> Self {
        match ZEROES.get(..bytes.len()) {
            Some(zeroes) if bytes == zeroes => Self::zeroes(bytes.len()),
            _ => Self(Bytes::Any(bytes.into())),
        }
    }
}

impl Deref for Tail {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Zeroes(len) => upto(&ZEROES, usize::from(*len)),
            Bytes::Any(bytes) => bytes,
        }
    }
}

impl DerefMut for Tail {
    fn deref_mut(&mut self) -> &mut [u8] {
        if let Bytes::Zeroes(len) = self.0 {
            self.0 = Bytes::Any(vec![0; len.into()].into());
        }
        match &mut self.0 {
            Bytes::Any(bytes) => bytes,
            Bytes::Zeroes(_) => unreachable!("zeroes have just become bytes"),
        }
    }
}

impl PartialEq for Tail {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Tail {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_take_no_memory_until_they_are_changed() {
        assert_eq!(size_of::<Tail>(), size_of::<Box<[u8]>>());
        let mut tail = Tail::from(&[0; 96][..]);
        assert!(matches!(tail.0, Bytes::Zeroes(96)));
        assert_eq!(tail, Tail::zeroes(96));
        assert_eq!(*tail, [0; 96]);
        tail[95] = 7;
        assert_eq!((tail.len(), tail[94], tail[95]), (96, 0, 7));
        assert_ne!(tail, Tail::zeroes(96));
        assert_eq!(Tail::from(&*tail), tail);
    }

    #[test]
    fn zeroes_by_any_way_are_the_same() {
        let mut tail = Tail::zeroes(4);
        tail.fill(0);
        assert!(matches!(tail.0, Bytes::Any(_)));
        assert_eq!(tail, Tail::zeroes(4));
        assert_ne!(tail, Tail::zeroes(5));
        let longest = INODE_BYTES_MAX - GOOD_OLD_INODE_BYTES;
        assert_eq!(Tail::zeroes(longest).len(), longest);
        assert_eq!(Tail::from(&vec![0; longest + 1][..]).len(), longest + 1);
    }
}
