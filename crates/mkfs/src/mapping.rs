//! Maps of complete files: an extent tree or indirect blocks.

use uext4_format::extent::{
    Extent, ExtentIndex, ExtentNode, ExtentState, ROOT_CAPACITY, block_capacity,
};
use uext4_format::indirect::{DIRECT_BLOCKS, pointers_per_block, set_pointer};
use uext4_format::{BlockNr, BlockRun, Feature, I_BLOCK_BYTES, LogicalBlock, Seed};
use uext4_num::{clamp_u16, clamp_usize, usize_of};

use crate::Error;
use crate::space::{Sharing, Space};

/// A file's map: `i_block`, and the blocks below it.
pub struct FileMap {
    /// The root of the map, for the inode's `i_block`.
    pub i_block: [u8; I_BLOCK_BYTES],
    /// The nodes below the root, with the block of each.
    pub nodes: Vec<(BlockNr, Vec<u8>)>,
}

/// Maps the runs in this order, in the format of the features.
pub(super) fn map_runs(
    space: &mut Space,
    runs: &[BlockRun],
    seed: Option<Seed>,
) -> Result<FileMap, Error> {
    if space.geometry.features.has(Feature::EXTENTS) {
        map_extents(space, runs, seed)
    } else {
        map_indirect(space, runs)
    }
}

/// Longest extent that keeps the next one on a cluster boundary.
const EXTENT_BLOCKS_MAX: u32 = 32768;

fn extents_of(runs: &[BlockRun]) -> Vec<Extent> {
    let mut logical = 0;
    let mut extents = Vec::new();
    for run in runs {
        let mut done = 0;
        while done < run.len_blocks {
            let len = (run.len_blocks - done).min(EXTENT_BLOCKS_MAX);
            extents.push(Extent {
                logical: LogicalBlock(logical + done),
                start: BlockNr(run.start.0 + u64::from(done)),
                len: clamp_u16(len),
                state: ExtentState::Written,
            });
            done += len;
        }
        logical += run.len_blocks;
    }
    extents
}

fn map_extents(space: &mut Space, runs: &[BlockRun], seed: Option<Seed>) -> Result<FileMap, Error> {
    let goal = runs.first().map_or(BlockNr(0), |run| run.start);
    let block_size = space.geometry.block_size();
    extent_tree(&extents_of(runs), block_size, seed, &mut || {
        space.take_run(goal, 1, Sharing::OwnClusters, "extent tree")
    })
}

/// The extent tree of a file: full nodes, built from the leaves up. `take` allocates the block of a
/// node; `seed` is the inode's, if metadata have checksums.
///
/// # Errors
/// Those of `take`.
pub fn extent_tree<E>(
    extents: &[Extent],
    block_size: u32,
    seed: Option<Seed>,
    take: &mut dyn FnMut() -> Result<BlockNr, E>,
) -> Result<FileMap, E> {
    let block_size = usize_of(block_size);
    let mut nodes = Vec::new();
    let mut level: Vec<_> = extents.iter().map(|extent| Slot::Leaf(*extent)).collect();
    let mut depth = 0;
    while level.len() > usize::from(ROOT_CAPACITY) {
        let mut above = Vec::new();
        for children in level.chunks(block_capacity(block_size).into()) {
            let child = take()?;
            let mut bytes = vec![0; block_size];
            let mut node = ExtentNode::init_block(&mut bytes[..], depth);
            let logical = fill(&mut node, children);
            if let Some(seed) = seed {
                node.update_checksum(seed);
            }
            nodes.push((child, bytes));
            above.push(Slot::Index(ExtentIndex { logical, child }));
        }
        level = above;
        depth += 1;
    }
    let mut i_block = [0; I_BLOCK_BYTES];
    fill(&mut ExtentNode::init_root(&mut i_block[..], depth), &level);
    Ok(FileMap { i_block, nodes })
}

#[derive(Clone, Copy)]
enum Slot {
    Leaf(Extent),
    Index(ExtentIndex),
}

/// Appends entries to an empty node; returns the first logical block.
fn fill(node: &mut ExtentNode<&mut [u8]>, slots: &[Slot]) -> LogicalBlock {
    for (at, slot) in slots.iter().enumerate() {
        let inserted = match slot {
            Slot::Leaf(extent) => node.insert_extent(at, *extent),
            Slot::Index(index) => node.insert_index(at, *index),
        };
        inserted.expect("node capacities were respected");
    }
    node.key(0).unwrap_or(LogicalBlock(0))
}

fn map_indirect(space: &mut Space, runs: &[BlockRun]) -> Result<FileMap, Error> {
    let blocks: Vec<u64> = runs
        .iter()
        .flat_map(|run| run.start.0..run.start.0 + u64::from(run.len_blocks))
        .collect();
    let mut i_block = [0; I_BLOCK_BYTES];
    let mut nodes = Vec::new();
    let (direct, mut rest) = blocks.split_at(blocks.len().min(usize_of(DIRECT_BLOCKS)));
    for (at, block) in direct.iter().enumerate() {
        set_pointer(&mut i_block, at, BlockNr(*block));
    }
    let per_block = clamp_usize(pointers_per_block(usize_of(space.geometry.block_size())));
    for level in 1..=3u32 {
        if rest.is_empty() {
            break;
        }
        let reach = per_block.saturating_pow(level).min(rest.len());
        let (here, after) = rest.split_at(reach);
        let node = indirect_node(space, here, level, &mut nodes)?;
        set_pointer(&mut i_block, usize_of(DIRECT_BLOCKS + level - 1), node);
        rest = after;
    }
    if rest.is_empty() {
        Ok(FileMap { i_block, nodes })
    } else {
        Err(Error::NoSpace("a map"))
    }
}

fn indirect_node(
    space: &mut Space,
    blocks: &[u64],
    level: u32,
    nodes: &mut Vec<(BlockNr, Vec<u8>)>,
) -> Result<BlockNr, Error> {
    let block_size = usize_of(space.geometry.block_size());
    let goal = BlockNr(blocks.first().copied().unwrap_or(0));
    let nr = space.take_run(goal, 1, Sharing::OwnClusters, "indirect blocks")?;
    let mut bytes = vec![0; block_size];
    let reach = clamp_usize(pointers_per_block(block_size)).pow(level - 1);
    for (at, part) in blocks.chunks(reach).enumerate() {
        let child = match part {
            [block] if level == 1 => BlockNr(*block),
            part => indirect_node(space, part, level - 1, nodes)?,
        };
        set_pointer(&mut bytes, at, child);
    }
    nodes.push((nr, bytes));
    Ok(nr)
}
