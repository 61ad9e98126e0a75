//! Directory entries and the blocks that hold them.
//!
//! Layout of an entry: inode (4 bytes, 0 is "free"), record length (2), name length (1), file type
//! (1, 0 without the feature `filetype`), name. Records fill a block without gaps; a free record or
//! the slack behind a name is where new entries go. With checksums the last 12 bytes are a tail
//! that looks like a free record of type 0xDE.
//! Invariants: a record is a multiple of 4, at least 12, holds its name, ends in the block.
//! Layout of the module: [`DirLeaf`] walks records; [`LeafTable`] indexes a frequently used leaf.
//! Not here: hash tree blocks (`htree`), inline directories (`inline_data`), case folding.
//! References: kernel documentation, "directory" (linear directories).

mod block;
mod edit;
mod iter;
mod renumber;
mod rows;
mod search;
mod table;
mod tail;
#[cfg(test)]
mod tests;

use uext4_num::{clamp_u8, low_u16, u64_of};

use crate::InodeNr;
use crate::bytes::{put_slice, put_u8, put_u16, put_u32, rest_mut};

pub use crate::file_type::DirEntryType;
pub use block::{BlockKind, begins_directory, has_seal, seal_block, verify_block};
pub use edit::{DirLeaf, Fit, Gap, Insertion, LeafSpace, Location, init_first_block};
pub use iter::{DirEntries, DirEntry, RecordHeader};
pub use renumber::renumber;
pub use table::{KnownLeaf, KnownLeafMut, LeafTable};
pub use tail::{LeafTail, TAIL_BYTES, has_tail};

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// Bytes before the name.
pub(crate) const FIXED_BYTES: usize = 8;
/// Bytes of the shortest record.
pub const MIN_RECORD_BYTES: usize = 12;

/// Bytes that an entry with a name of `name_len` bytes needs.
pub const fn space_needed(name_len: usize) -> usize {
    name_len.saturating_add(FIXED_BYTES + 3) & !3
}

/// Contents of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// The inode of the entry; never 0.
    pub inode: InodeNr,
    /// Its name: 1 to 255 bytes.
    pub name: &'a [u8],
    /// Its type; [`DirEntryType::Unknown`] without the feature `filetype`.
    pub kind: DirEntryType,
}

impl NewEntry<'_> {
    /// Bytes that it needs in a leaf.
    pub fn space_needed(&self) -> usize {
        space_needed(self.name.len())
    }

    /// Writes the record at byte `at` of a block of `block_size` bytes.
    pub(crate) fn write(&self, bytes: &mut [u8], at: usize, rec_len: usize, block_size: usize) {
        debug_assert!((1..=NAME_MAX).contains(&self.name.len()));
        debug_assert!(rec_len >= self.space_needed());
        let record = rest_mut(bytes, at);
        put_u32(record, 0, self.inode.0);
        put_u16(record, 4, encode_rec_len(rec_len, block_size));
        put_u8(record, 6, clamp_u8(self.name.len()));
        put_u8(record, 7, self.kind.code());
        put_slice(record, FIXED_BYTES, self.name);
    }
}

/// Decodes a stored record length, in bytes. Blocks of 64 KiB need 17 bits: 0 and 65535 mean the
/// whole block, and the two lowest bits (always clear in a length) are bits 16 and 17.
#[inline]
pub fn decode_rec_len(stored: u16, block_size: usize) -> usize {
    if block_size < 65_536 {
        return usize::from(stored);
    }
    match stored {
        0 | 65_535 => block_size,
        _ => usize::from(stored & !3) | usize::from(stored & 3) << 16,
    }
}

/// Encodes a record length of `bytes`: see [`decode_rec_len`].
pub fn encode_rec_len(bytes: usize, block_size: usize) -> u16 {
    match u16::try_from(bytes) {
        Ok(bytes) => bytes,
        Err(_) if bytes == 65_536 && block_size == 65_536 => 65_535,
        Err(_) if bytes == block_size => 0,
        Err(_) => low_u16(u64_of(bytes & 0xFFFC | bytes >> 16 & 3)),
    }
}
