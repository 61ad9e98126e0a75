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
pub(super) struct FileMap {
    pub(super) i_block: [u8; I_BLOCK_BYTES],
    pub(super) nodes: Vec<(BlockNr, Vec<u8>)>,
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
    const FULL: &str = "node capacities were respected";
    let extents = extents_of(runs);
    let mut i_block = [0; I_BLOCK_BYTES];
    let mut nodes = Vec::new();
    if extents.len() <= usize::from(ROOT_CAPACITY) {
        let mut root = ExtentNode::init_root(&mut i_block, 0);
        for (at, extent) in extents.into_iter().enumerate() {
            root.insert_extent(at, extent).expect(FULL);
        }
        return Ok(FileMap { i_block, nodes });
    }
    let block_size = usize_of(space.geometry.block_size());
    let leaves = extents.chunks(usize::from(block_capacity(block_size)));
    if leaves.len() > usize::from(ROOT_CAPACITY) {
        return Err(Error::NoSpace("a map of so many pieces"));
    }
    let mut root = ExtentNode::init_root(&mut i_block, 1);
    for (at, leaf) in leaves.enumerate() {
        let goal = runs.first().map_or(BlockNr(0), |run| run.start);
        let child = space.take_run(goal, 1, Sharing::OwnClusters, "extent tree")?;
        let mut bytes = vec![0; block_size];
        let mut node = ExtentNode::init_block(&mut bytes, 0);
        for (at, extent) in leaf.iter().enumerate() {
            node.insert_extent(at, *extent).expect(FULL);
        }
        if let Some(seed) = seed {
            node.update_checksum(seed);
        }
        let logical = leaf
            .first()
            .map_or(LogicalBlock(0), |extent| extent.logical);
        root.insert_index(at, ExtentIndex { logical, child })
            .expect(FULL);
        nodes.push((child, bytes));
    }
    Ok(FileMap { i_block, nodes })
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
