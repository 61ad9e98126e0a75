//! The journal's on-disk format: superblock, descriptor, revoke and commit blocks.
//!
//! Layout: every journal block that is not an image starts with a 12-byte [`Header`]; everything
//! is big-endian. A descriptor block lists the images that follow it as tags; tags come in four
//! widths (see [`Layout::tag_bytes`]). An image whose first word equals [`MAGIC`] is stored with
//! that word zeroed and its tag marked escaped.
//! Not here: I/O, replay order, validity of blocks (crate `journal`).
//! References: kernel doc `filesystems/ext4/journal.rst`.

mod checksum;
mod commit;
mod descriptor;
mod layout;
mod revoke;
mod superblock;
mod users;

pub use checksum::TransactionChecksum;
pub use commit::CommitBlock;
pub use descriptor::{DescriptorWriter, Tag, Tags, escape, is_escaped_image, unescape};
pub use layout::{ChecksumKind, Layout};
pub use revoke::{RevokeWriter, Revoked};
pub use superblock::{
    COMPAT_CHECKSUM, INCOMPAT_64BIT, INCOMPAT_ASYNC_COMMIT, INCOMPAT_CSUM_V2, INCOMPAT_CSUM_V3,
    INCOMPAT_FAST_COMMIT, INCOMPAT_KNOWN, INCOMPAT_REVOKE, SUPERBLOCK_BYTES, Superblock,
};

use crate::Tid;
use crate::bytes::{get_u32_be, put_u32_be};

/// First word of every journal block that is not an image.
pub const MAGIC: u32 = 0xC03B_3998;

/// Bytes of the common header.
pub const HEADER_BYTES: usize = 12;

/// The type of a journal block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockType {
    /// Tags of the images that follow.
    Descriptor,
    /// Commit block: the transaction counts once this block is on disk.
    Commit,
    /// Superblock without feature words.
    SuperblockV1,
    /// Superblock with feature words.
    SuperblockV2,
    /// Blocks whose older images must not be replayed.
    Revoke,
}

impl BlockType {
    fn from_raw(raw: u32) -> Option<BlockType> {
        Some(match raw {
            1 => BlockType::Descriptor,
            2 => BlockType::Commit,
            3 => BlockType::SuperblockV1,
            4 => BlockType::SuperblockV2,
            5 => BlockType::Revoke,
            _ => return None,
        })
    }

    /// The number for `h_blocktype`, 1 to 5.
    pub const fn raw(self) -> u32 {
        match self {
            BlockType::Descriptor => 1,
            BlockType::Commit => 2,
            BlockType::SuperblockV1 => 3,
            BlockType::SuperblockV2 => 4,
            BlockType::Revoke => 5,
        }
    }
}

/// The header of a journal block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the rest of the block contains (`h_blocktype`).
    pub block_type: BlockType,
    /// The transaction it belongs to (0 in superblocks).
    pub sequence: Tid,
}

impl Header {
    /// The header of `block`, when it has the magic and a known type.
    pub fn parse(block: &[u8]) -> Option<Header> {
        if get_u32_be(block, 0) != MAGIC {
            return None;
        }
        let block_type = BlockType::from_raw(get_u32_be(block, 4))?;
        Some(Header {
            block_type,
            sequence: Tid(get_u32_be(block, 8)),
        })
    }

    /// Writes the header to the start of `block`.
    pub fn write(self, block: &mut [u8]) {
        put_u32_be(block, 0, MAGIC);
        put_u32_be(block, 4, self.block_type.raw());
        put_u32_be(block, 8, self.sequence.0);
    }
}

#[cfg(test)]
mod tests;
