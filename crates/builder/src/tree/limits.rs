//! Space for extended attributes and contents in inodes, by the numbers of the file system.

use uext4_format::inline_data::max_file_bytes;
use uext4_format::xattr::entry_bytes;
use uext4_format::{Feature, Features, Geometry};
use uext4_num::{u64_of, usize_of};

/// Bytes of the name of the attribute of inline data, without prefix: `data`.
const DATA_NAME_BYTES: usize = 4;

/// Space for extended attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of an inode after its fields.
    pub(crate) tail_bytes: usize,
    pub(crate) block_bytes: usize,
    pub(crate) cluster_bytes: usize,
    /// What becomes of values that do not fit there.
    pub(crate) large: LargeValues,
    /// Whether small files go to the inode.
    pub(crate) inline: InlineData,
}

/// Whether the feature `inline_data` is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InlineData {
    Unused,
    Used,
}

/// Values that fit neither into the inode nor into the attribute block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargeValues {
    Refused,
    Inodes,
}

impl Limits {
    /// Those of a file system with these features.
    pub(crate) fn new(geometry: &Geometry, features: Features) -> Limits {
        let fields = usize_of(128 + u32::from(uext4_format::KNOWN_EXTRA_BYTES));
        Limits {
            tail_bytes: usize::from(geometry.inode_size).saturating_sub(fields),
            block_bytes: usize_of(geometry.block_size()),
            cluster_bytes: uext4_num::clamp_usize(geometry.cluster_size()),
            large: if features.has(Feature::EA_INODE) {
                LargeValues::Inodes
            } else {
                LargeValues::Refused
            },
            inline: if features.has(Feature::INLINE_DATA) {
                InlineData::Used
            } else {
                InlineData::Unused
            },
        }
    }
}

/// Most bytes of a file in an inode with this space for attributes; `None`: not even an empty one.
pub(crate) fn max_inline_bytes(free_bytes: usize) -> Option<u64> {
    let value = free_bytes.checked_sub(entry_bytes(DATA_NAME_BYTES))?;
    Some(u64_of(max_file_bytes(value & !3)))
}
