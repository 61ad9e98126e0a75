//! The kind of a directory block, and its checksum.
//!
//! A caller that writes or verifies a block does not always know its kind; the first records tell.
//! Without checksums a leaf with a single free record looks like a node, which is harmless: neither
//! shows an entry.

use super::{LeafTail, decode_rec_len, tail};
use crate::bytes::{get_u8, get_u16, get_u32};
use crate::htree::{DxNode, has_info};
use crate::{Corrupt, DamageLocation, InodeNr, Seed};

/// The kind of a directory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Directory entries from the first byte on.
    Leaf,
    /// The root of an index, after "." and "..".
    Root,
    /// A node of an index, after one free record.
    Node,
}

impl BlockKind {
    /// The kind by the first records.
    pub fn of(block: &[u8]) -> BlockKind {
        let first = decode_rec_len(get_u16(block, 4), block.len());
        if first == block.len() && get_u32(block, 0) == 0 && get_u8(block, 6) == 0 {
            return BlockKind::Node;
        }
        let second = decode_rec_len(get_u16(block, 16), block.len());
        if first == 12 && second == block.len().wrapping_sub(12) && has_info(block) {
            return BlockKind::Root;
        }
        BlockKind::Leaf
    }
}

/// Writes the checksum of any block of a directory. Only with the feature `metadata_csum`, with
/// which every block has space for it; `seed` is the inode's.
pub fn seal_block(block: &mut [u8], seed: Seed) {
    match BlockKind::of(block) {
        BlockKind::Leaf => tail::update(block, seed),
        BlockKind::Root => DxNode::root(block).update_checksum(seed),
        BlockKind::Node => DxNode::node(block).update_checksum(seed),
    }
}

/// Whether [`seal_block`] writes into a checksum and not into an entry: a leaf has one in its tail.
pub fn has_seal(block: &[u8]) -> bool {
    match BlockKind::of(block) {
        BlockKind::Leaf => tail::has_tail(block),
        BlockKind::Root | BlockKind::Node => true,
    }
}

/// Compares the checksum of any block of a directory; `seed` is the inode's.
pub fn verify_block(block: &[u8], seed: Seed, place: DamageLocation) -> Result<(), Corrupt> {
    let tail = LeafTail::Checksum;
    match BlockKind::of(block) {
        BlockKind::Leaf => tail::verify(block, seed, place),
        BlockKind::Root => DxNode::root(block).verify_checksum(seed, tail, place),
        BlockKind::Node => DxNode::node(block).verify_checksum(seed, tail, place),
    }
}

/// Whether a block begins with the entry "." of this directory, whatever its type and length.
pub fn begins_directory(block: &[u8], nr: InodeNr) -> bool {
    get_u32(block, 0) == nr.0 && get_u8(block, 6) == 1 && get_u8(block, 8) == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirent::{DirEntryType, init_first_block};
    use crate::hash::HashVersion;
    use crate::htree::init_root;
    use crate::{InodeNr, LogicalBlock};

    const SEED: Seed = Seed(0x1234_5678);
    const PLACE: DamageLocation = DamageLocation::Superblock;

    fn leaf(tail: LeafTail) -> Vec<u8> {
        let mut block = vec![0; 1024];
        init_first_block(
            &mut block,
            tail,
            InodeNr(12),
            InodeNr(2),
            DirEntryType::Directory,
        );
        block
    }

    fn root() -> Vec<u8> {
        let mut block = leaf(LeafTail::Checksum);
        init_root(
            &mut block,
            HashVersion::HalfMd4,
            LeafTail::Checksum,
            LogicalBlock(1),
        );
        block
    }

    fn node() -> Vec<u8> {
        let mut block = vec![0; 1024];
        DxNode::init_node(&mut block[..], LeafTail::Checksum, LogicalBlock(1));
        block
    }

    #[test]
    fn kinds_are_told_apart() {
        for tail in [LeafTail::None, LeafTail::Checksum] {
            assert_eq!(BlockKind::of(&leaf(tail)), BlockKind::Leaf);
        }
        assert_eq!(BlockKind::of(&root()), BlockKind::Root);
        assert_eq!(BlockKind::of(&node()), BlockKind::Node);
    }

    #[test]
    fn sealed_blocks_verify_and_changed_ones_do_not() {
        for mut block in [leaf(LeafTail::Checksum), root(), node()] {
            seal_block(&mut block, SEED);
            assert!(verify_block(&block, SEED, PLACE).is_ok());
            assert!(verify_block(&block, Seed(1), PLACE).is_err());
            block[9] ^= 1;
            assert!(verify_block(&block, SEED, PLACE).is_err());
        }
    }

    #[test]
    fn no_bytes_are_no_reason_to_panic() {
        for len in [0, 3, 12, 16, 40, 1024] {
            assert!(verify_block(&vec![0; len], SEED, PLACE).is_err());
        }
    }
}
