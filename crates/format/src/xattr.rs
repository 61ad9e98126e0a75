//! Extended attributes: in the inode after its extra fields, in one shared block, and in separate
//! inodes for large values.
//!
//! Layout: entries (16 bytes and the name, rounded to 4) grow from the start and end with 4 zero
//! bytes; values grow down from the end of the area. The block has a header of 32 bytes and sorted
//! entries, and value offsets count from the block's start. In the inode a magic of 4 bytes comes
//! first and offsets count from after it.
//!
//! An [`XattrSet`] holds all attributes of one area; decode, change, encode. Entries with unknown
//! name prefixes are preserved.
//! Not here: the choice of the area, and block sharing (`uext4`).
//! References: kernel documentation, "attributes" (extended attributes).

mod area;
mod block;
mod ea_inode;
mod hash;
mod name;
mod rehash;
mod renumber;
mod salvage;
mod set;
mod stored_hash;
#[cfg(test)]
mod tests;

pub use area::{
    IBODY_MAGIC, decode_ibody, encode_ibody, has_ibody_magic, ibody_capacity_bytes, set_ibody_magic,
};
pub use block::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, REFCOUNT_MAX, XattrBlock, block_capacity_bytes, decode_block,
    encode_block,
};
pub use ea_inode::{EaInodeFields, value_hash};
pub use hash::{block_hash, entry_hash, entry_hash_of_inode, signed_entry_hash_of_inode};
pub use name::{NameIndex, XattrName};
pub use rehash::rehash_values;
pub use renumber::renumber_values;
pub use salvage::salvage;
pub use set::{Xattr, XattrSet, XattrValue};
pub use stored_hash::{Area, hashes_match, offsets_fit};

/// Bytes of an entry before its name.
pub(crate) const ENTRY_BYTES: usize = 16;
/// The longest value, in bytes (larger than a block only with the feature `ea_inode`).
pub const VALUE_MAX_BYTES: usize = 1 << 24;

/// Bytes that an entry with a name (without prefix) of `name_len` bytes takes.
pub const fn entry_bytes(name_len: usize) -> usize {
    name_len.saturating_add(ENTRY_BYTES + 3) & !3
}

/// Bytes that a value takes in an area.
pub const fn value_bytes(len: usize) -> usize {
    len.saturating_add(3) & !3
}
