//! Bounds on the growth of a map: map blocks to reserve before data are accepted.

use super::root::has_extents;
use super::{extents, indirect};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::LogicalBlock;
use uext4_format::extent::{ENTRY_BYTES, ExtentNode, ROOT_CAPACITY};
use uext4_format::indirect::{DIRECT_BLOCKS, pointers_per_block};
use uext4_num::u64_of;

/// Maximum depth of a tree.
const LEVELS_MAX: u64 = 6;
/// Entries that the header and the checksum of a node take together at most.
const HEADER_ENTRIES: u64 = 2;

/// Worst case of new map blocks when `blocks` more blocks are mapped, in `runs` runs of the file,
/// all before block `end`: each block may become an extent, and every node on the path may be full.
pub(crate) fn tree_growth_max(
    fs: &Fs,
    state: &InodeState,
    runs: u64,
    blocks: u64,
    end: u64,
) -> u64 {
    if blocks == 0 {
        return 0;
    }
    if !has_extents(state) {
        return tables_max(fs, runs, blocks, end);
    }
    let root = ExtentNode::new(&state.disk.i_block[..]);
    let depth = u64::from(root.depth());
    if depth == 0 && u64_of(root.count()) + blocks <= u64::from(ROOT_CAPACITY) {
        return 0;
    }
    // A node that splits keeps at least half of its entries.
    let half = (entries_max(fs) - HEADER_ENTRIES) / 2;
    nodes_max(depth, runs, blocks, half)
}

/// Map blocks that one more run at `at` takes now: none while the nodes on the path have free
/// slots.
pub(crate) fn tree_growth(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<u64> {
    if has_extents(state) {
        extents::growth(fs, state, at)
    } else {
        indirect::growth(fs, state, at)
    }
}

/// Worst case of tree blocks for `entries` extents that are inserted in their order: a node that is
/// full keeps all of its entries but one.
pub(super) fn tree_in_order_max(fs: &Fs, entries: u64) -> u64 {
    if entries <= u64::from(ROOT_CAPACITY) {
        0
    } else {
        nodes_max(0, 1, entries, entries_max(fs) - HEADER_ENTRIES - 1)
    }
}

/// Entries that fill a block.
fn entries_max(fs: &Fs) -> u64 {
    fs.block_bytes() / u64_of(ENTRY_BYTES)
}

fn nodes_max(depth: u64, runs: u64, blocks: u64, half: u64) -> u64 {
    let (mut entries, mut nodes) = (blocks, 0);
    for level in 0..LEVELS_MAX {
        let groups = if level < depth { runs.min(entries) } else { 1 };
        entries = groups + entries / half;
        nodes += entries;
        if level >= depth && entries <= u64::from(ROOT_CAPACITY) {
            break;
        }
    }
    nodes
}

fn tables_max(fs: &Fs, runs: u64, blocks: u64, end: u64) -> u64 {
    if end <= u64::from(DIRECT_BLOCKS) {
        return 0;
    }
    let pointers = pointers_per_block(fs.block_size());
    let first = runs.min(blocks) + blocks / pointers + 1;
    let second = runs.min(first) + first / pointers + 1;
    first + second + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_growth_is_cheap_and_large_growth_is_enough() {
        assert_eq!(nodes_max(0, 1, 5, 170), 1, "one leaf below the root");
        assert_eq!(nodes_max(0, 1, 300, 170), 2);
        assert_eq!(nodes_max(1, 40, 40, 170), 40 + 1, "every leaf may be full");
        // 100,000 extents in half-full leaves, and the nodes above them.
        assert!(nodes_max(0, 1, 100_000, 170) >= 100_000 / 170 + 3);
    }
}
