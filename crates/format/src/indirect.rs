//! The block map of ext2 and ext3: 12 direct blocks, then trees of one, two and three levels.
//!
//! Layout: `i_block` holds 15 little-endian 32-bit block numbers; an indirect block holds
//! `block_size / 4` of them. 0 is a hole.
//! References: kernel documentation, "ifork" (direct/indirect block addressing).

use crate::bytes::{get_u32, put_u32};
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use std::ops::Range;
use uext4_num::{clamp_u32, low_u32, u64_of, usize_of};

/// Direct blocks in `i_block`.
pub const DIRECT_BLOCKS: u32 = 12;
/// Index in `i_block` of the pointer to the tables of two levels; the only pointer of the resize
/// inode.
pub const DOUBLE_INDIRECT: usize = 13;
/// Pointers in `i_block`: 12 direct ones and three to indirect blocks.
pub const ROOT_POINTERS: usize = 15;
const POINTER_BYTES: usize = 4;

/// The path to a block: positions in `i_block` and in each indirect block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectPath {
    offsets: [u32; 4],
    levels: usize,
    run_blocks: u32,
}

impl IndirectPath {
    /// The path to `logical` with blocks of `block_size` bytes; `None` if the map cannot reach it.
    pub fn new(logical: LogicalBlock, block_size: usize) -> Option<Self> {
        let pointers = pointers_per_block(block_size);
        let mut left = u64::from(logical.0);
        if left < u64::from(DIRECT_BLOCKS) {
            let run_blocks = DIRECT_BLOCKS.saturating_sub(logical.0);
            return Some(Self {
                offsets: [logical.0, 0, 0, 0],
                levels: 1,
                run_blocks,
            });
        }
        left = left.saturating_sub(u64::from(DIRECT_BLOCKS));
        for (depth, root) in (1..=3).zip(DIRECT_BLOCKS..) {
            let span = pointers.checked_pow(depth)?;
            if left < span {
                return Self::through(left, root, usize_of(depth), pointers);
            }
            left = left.saturating_sub(span);
        }
        None
    }

    /// The path from pointer `root` of `i_block` down `depth` levels; `None` without pointers.
    fn through(mut left: u64, root: u32, depth: usize, pointers: u64) -> Option<Self> {
        let mut offsets = [root, 0, 0, 0];
        let mut run_blocks = 0;
        for (level, offset) in offsets.iter_mut().skip(1).take(depth).rev().enumerate() {
            let at = left.checked_rem(pointers)?;
            left = left.checked_div(pointers)?;
            *offset = clamp_u32(at);
            if level == 0 {
                run_blocks = clamp_u32(pointers.saturating_sub(at));
            }
        }
        Some(Self {
            offsets,
            levels: depth.saturating_add(1),
            run_blocks,
        })
    }

    /// Positions: the first in `i_block`, the following in the indirect blocks, top down.
    pub fn offsets(&self) -> &[u32] {
        self.offsets.get(..self.levels).unwrap_or_default()
    }

    /// Indirect blocks on the path: 0 to 3.
    pub fn indirect_levels(&self) -> usize {
        self.levels.saturating_sub(1)
    }

    /// Pointers from the last position to the end of its node, this one included.
    pub fn run_blocks(&self) -> u32 {
        self.run_blocks
    }
}

/// Pointers in an indirect block.
pub const fn pointers_per_block(block_size: usize) -> u64 {
    u64_of(block_size / POINTER_BYTES)
}

/// Number of logical blocks that the map reaches (at most 2^32).
pub fn max_blocks(block_size: usize) -> u64 {
    let pointers = pointers_per_block(block_size);
    let all = (1..=3).fold(u64::from(DIRECT_BLOCKS), |sum, level| {
        sum.saturating_add(pointers.saturating_pow(level))
    });
    all.min(1 << 32)
}

/// Pointer `at` of a node (`i_block` or an indirect block); 0 is a hole, and past the end too.
pub fn pointer(node: &[u8], at: usize) -> BlockNr {
    BlockNr(u64::from(get_u32(node, at.saturating_mul(POINTER_BYTES))))
}

/// Writes pointer `at` of a node. The map holds block numbers of 32 bits only.
pub fn set_pointer(node: &mut [u8], at: usize, block: BlockNr) {
    debug_assert!(block.0 <= u64::from(u32::MAX));
    put_u32(node, at.saturating_mul(POINTER_BYTES), low_u32(block.0));
}

/// Checks that all pointers of a node are holes or blocks in `blocks`.
pub fn validate(node: &[u8], blocks: &Range<u64>, place: DamageLocation) -> Result<(), Corrupt> {
    for at in 0..node.len() / POINTER_BYTES {
        let block = pointer(node, at).0;
        if block != 0 && !blocks.contains(&block) {
            let problem = CorruptKind::PointerOutside { block };
            return Err(Corrupt::new(place, "indirect block", problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(logical: u32) -> Vec<u32> {
        IndirectPath::new(LogicalBlock(logical), 1024)
            .unwrap()
            .offsets()
            .to_vec()
    }

    #[test]
    fn borders_of_the_levels() {
        assert_eq!(offsets(0), [0]);
        assert_eq!(offsets(11), [11]);
        assert_eq!(offsets(12), [12, 0]);
        assert_eq!(offsets(12 + 255), [12, 255]);
        assert_eq!(offsets(12 + 256), [13, 0, 0]);
        assert_eq!(offsets(12 + 256 + 65_536), [14, 0, 0, 0]);
        let last = max_blocks(1024) - 1;
        assert_eq!(offsets(last as u32), [14, 255, 255, 255]);
        assert_eq!(IndirectPath::new(LogicalBlock(last as u32 + 1), 1024), None);
    }

    #[test]
    fn large_blocks_reach_everything() {
        assert_eq!(max_blocks(65_536), 1 << 32);
        let path = IndirectPath::new(LogicalBlock(u32::MAX), 65_536).unwrap();
        assert_eq!(path.indirect_levels(), 3);
    }

    #[test]
    fn a_run_ends_with_its_node() {
        let run = |logical| {
            IndirectPath::new(LogicalBlock(logical), 1024)
                .unwrap()
                .run_blocks()
        };
        assert_eq!((run(0), run(11), run(12), run(13)), (12, 1, 256, 255));
    }

    #[test]
    fn pointers_are_read_back_and_checked() {
        let mut node = [0; 60];
        set_pointer(&mut node, 14, BlockNr(0xFFFF_FFFF));
        assert_eq!(pointer(&node, 14), BlockNr(0xFFFF_FFFF));
        assert_eq!(pointer(&node, usize::MAX), BlockNr(0));
        assert!(validate(&node, &(1..1 << 32), DamageLocation::Superblock).is_ok());
        assert!(validate(&node, &(1..100), DamageLocation::Superblock).is_err());
    }
}
