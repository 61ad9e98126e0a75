//! Maps of complete files: an extent tree or indirect blocks.

use std::iter::Peekable;
use uext4_format::extent::{
    Extent, ExtentIndex, ExtentNode, ExtentState, ROOT_CAPACITY, block_capacity,
};
use uext4_format::indirect::{DIRECT_BLOCKS, ROOT_POINTERS, pointers_per_block, set_pointer};
use uext4_format::{BlockNr, BlockRun, Feature, I_BLOCK_BYTES, LogicalBlock, Seed};
use uext4_num::{clamp_u16, clamp_u32, u64_of, usize_of};

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
    let block_size = space.geometry.block_size();
    let map = block_tables(&extents_of(runs), block_size, &mut |goal| {
        space.take_run(goal, 1, Sharing::OwnClusters, "indirect blocks")
    })?;
    map.ok_or(Error::NoSpace("a map"))
}

/// The tables of a file, without any for holes alone; `None` if they do not reach the last block,
/// or a block number does not fit into 32 bits. Extents ascend. `take` allocates the block of a
/// table near the first block that it maps; its number has 32 bits.
///
/// # Errors
/// Those of `take`.
pub fn block_tables<E>(
    extents: &[Extent],
    block_size: u32,
    take: &mut dyn FnMut(BlockNr) -> Result<BlockNr, E>,
) -> Result<Option<FileMap>, E> {
    let mut ends = extents.iter().map(Extent::physical_end);
    if ends.any(|end| end > BLOCK_NUMBERS) {
        return Ok(None);
    }
    let blocks = extents.iter().flat_map(|extent| {
        let logical = u64::from(extent.logical.0)..extent.logical_end();
        logical.zip((extent.start.0..).map(BlockNr))
    });
    let mut tables = Tables {
        blocks: blocks.peekable(),
        block_size: usize_of(block_size),
        take,
        nodes: Vec::new(),
    };
    let mut i_block = [0; I_BLOCK_BYTES];
    let mut first = 0;
    for at in 0..ROOT_POINTERS {
        let level = clamp_u32(at + 1).saturating_sub(DIRECT_BLOCKS);
        let child = tables.pointer(first, level)?;
        set_pointer(&mut i_block, at, child);
        first += tables.reach(level);
    }
    let is_complete = tables.blocks.peek().is_none();
    let nodes = tables.nodes;
    Ok(is_complete.then_some(FileMap { i_block, nodes }))
}

/// Block numbers that a table can hold.
const BLOCK_NUMBERS: u64 = 1 << 32;

/// Tables in the making.
struct Tables<'a, I: Iterator<Item = (u64, BlockNr)>, E> {
    /// Blocks that no table maps yet, ascending, with their numbers in the file.
    blocks: Peekable<I>,
    block_size: usize,
    take: &'a mut dyn FnMut(BlockNr) -> Result<BlockNr, E>,
    nodes: Vec<(BlockNr, Vec<u8>)>,
}

impl<I: Iterator<Item = (u64, BlockNr)>, E> Tables<'_, I, E> {
    /// Blocks below a pointer of this level: 0 for one to data.
    fn reach(&self, level: u32) -> u64 {
        pointers_per_block(self.block_size).saturating_pow(level)
    }

    /// The pointer for the blocks of the file from `first` on; 0 if all of them are holes.
    fn pointer(&mut self, first: u64, level: u32) -> Result<BlockNr, E> {
        let end = first + self.reach(level);
        let next = self.blocks.peek().copied();
        let Some((_, block)) = next.filter(|(logical, _)| *logical < end) else {
            return Ok(BlockNr(0));
        };
        if level == 0 {
            self.blocks.next();
            return Ok(block);
        }
        let table = (self.take)(block)?;
        let mut bytes = vec![0; self.block_size];
        let step = self.reach(level - 1);
        for at in 0..bytes.len() / 4 {
            let child = self.pointer(first + u64_of(at) * step, level - 1)?;
            set_pointer(&mut bytes, at, child);
        }
        self.nodes.push((table, bytes));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_SIZE: u32 = 1024;

    fn extent(logical: u32, start: u64, len: u16) -> Extent {
        Extent {
            logical: LogicalBlock(logical),
            start: BlockNr(start),
            len,
            state: ExtentState::Written,
        }
    }

    fn tables(extents: &[Extent]) -> Option<FileMap> {
        let mut next = 5000;
        let mut take = |_| {
            next += 1;
            Ok::<_, ()>(BlockNr(next))
        };
        block_tables(extents, BLOCK_SIZE, &mut take).expect("there is space")
    }

    /// The mapped blocks of tables, by a walk down from each pointer.
    fn mapped(map: &FileMap) -> Vec<(u64, u64)> {
        fn below(map: &FileMap, first: u64, level: u32, block: u64, out: &mut Vec<(u64, u64)>) {
            if block == 0 {
                return;
            }
            if level == 0 {
                out.push((first, block));
                return;
            }
            let (_, bytes) = map.nodes.iter().find(|(nr, _)| nr.0 == block).unwrap();
            for at in 0..256 {
                let child = uext4_format::indirect::pointer(bytes, at).0;
                below(
                    map,
                    first + at as u64 * 256_u64.pow(level - 1),
                    level - 1,
                    child,
                    out,
                );
            }
        }
        let (mut out, mut first) = (Vec::new(), 0);
        for at in 0..15 {
            let level = (at as u32 + 1).saturating_sub(12);
            let block = uext4_format::indirect::pointer(&map.i_block, at).0;
            below(map, first, level, block, &mut out);
            first += 256_u64.pow(level);
        }
        out
    }

    #[test]
    fn tables_map_what_extents_do_and_leave_holes() {
        let extents = [
            extent(3, 100, 2),
            extent(11, 200, 3),
            extent(12 + 256 + 300, 300, 4),
            extent(12 + 256 + 65_536 + 7, 400, 1),
        ];
        let map = tables(&extents).expect("tables reach it");
        let wanted: Vec<_> = extents
            .iter()
            .flat_map(|extent| {
                (0..u64::from(extent.len))
                    .map(|at| (u64::from(extent.logical.0) + at, extent.start.0 + at))
            })
            .collect();
        assert_eq!(mapped(&map), wanted);
        // One of one level, two of two levels, three of three levels.
        assert_eq!(map.nodes.len(), 6);
        assert!(tables(&[]).is_some_and(|map| map.i_block == [0; 60] && map.nodes.is_empty()));
    }

    #[test]
    fn blocks_out_of_reach_have_no_tables() {
        let last = 12 + 256 + 256 * 256 + 256 * 256 * 256 - 1;
        assert!(tables(&[extent(last, 9, 1)]).is_some());
        assert!(tables(&[extent(last + 1, 9, 1)]).is_none());
        assert!(tables(&[extent(0, u64::from(u32::MAX), 1)]).is_some());
        assert!(tables(&[extent(0, u64::from(u32::MAX), 2)]).is_none());
    }
}
