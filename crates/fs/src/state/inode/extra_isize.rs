//! Sizes of the extra fields of inodes.
//!
//! References: `s_want_extra_isize`, `s_min_extra_isize`.

use uext4_format::{Feature, GOOD_OLD_INODE_BYTES, Geometry, KNOWN_EXTRA_BYTES, Superblock};
use uext4_num::clamp_u16;

/// Sizes of the extra fields in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtraIsize {
    /// For new inodes, and for old ones where possible.
    pub(crate) want: u16,
    /// For old inodes where more is not possible.
    pub(crate) min: u16,
}

impl ExtraIsize {
    /// All fields that Linux knows, and more if the superblock asks for it.
    pub(crate) fn of(superblock: &Superblock, geometry: &Geometry) -> Self {
        let room = geometry.inode_size - clamp_u16(GOOD_OLD_INODE_BYTES);
        let asked = superblock.features().has(Feature::EXTRA_ISIZE);
        let asked = |bytes: u16| if asked { bytes & !3 } else { 0 };
        let min = asked(superblock.min_extra_isize);
        let want = KNOWN_EXTRA_BYTES.max(asked(superblock.want_extra_isize));
        Self {
            want: want.max(min).min(room),
            min: min.min(room),
        }
    }
}
