//! Maps of files: extents, and the nodes of maps that do not fit into their inodes.

use std::collections::HashMap;

use uext4_format::extent::{Extent, ExtentState, ROOT_CAPACITY};
use uext4_format::{BlockNr, I_BLOCK_BYTES, LogicalBlock};
use uext4_mkfs::extent_tree;
use uext4_num::{clamp_u16, u64_of};

use crate::content::gather::Gather;
use crate::content::output::Output;
use crate::error::Result;
use crate::layout::block_allocator::BlockAllocator;
use crate::layout::identity::Identity;
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, File, MappedRun};
use crate::tree::keys::Purpose;
use crate::tree::order::Sorted;

/// Most blocks of an extent.
const EXTENT_BLOCKS_MAX: u32 = 32_768;

/// Roots of maps that are deeper than the inode.
#[derive(Default)]
pub(crate) struct DeepMaps {
    pub(crate) roots: HashMap<u32, ([u8; I_BLOCK_BYTES], u64)>,
}

impl DeepMaps {
    /// Writes the nodes of all maps that need any.
    pub(crate) fn write(
        tree: &Tree,
        sorted: &Sorted,
        identity: &Identity,
        allocator: &mut BlockAllocator,
        output: &mut Output,
    ) -> Result<DeepMaps> {
        let mut deep = DeepMaps::default();
        let mut gather = Gather::new(identity.geometry.block_bits);
        for id in &sorted.order {
            let file = tree.file(*id);
            let extents = extents(tree, file);
            if extents.len() <= usize::from(ROOT_CAPACITY) {
                continue;
            }
            let size = identity.geometry.block_size();
            let key = tree.keys.get(*id);
            let mut taken = 0;
            let map = extent_tree(&extents, size, identity.seed(file), &mut || {
                taken += 1;
                allocator.allocate_one(key.with(Purpose::Node, taken))
            })?;
            for (nr, bytes) in &map.nodes {
                gather.append(*nr, bytes, output)?;
            }
            let nodes = u64_of(map.nodes.len());
            deep.roots.insert(id.0, (map.i_block, nodes));
        }
        gather.finish(output)?;
        Ok(deep)
    }
}

/// Extents of a file in ascending order of its blocks.
pub(crate) fn extents(tree: &Tree, file: &File) -> Vec<Extent> {
    let one;
    let runs: &[MappedRun] = match file.location {
        DataLocation::One(run) => {
            one = [run];
            &one
        }
        _ => tree.runs_of(file),
    };
    let mut extents = Vec::new();
    for run in runs {
        let mut done = 0;
        while done < run.blocks {
            let len = (run.blocks - done).min(EXTENT_BLOCKS_MAX);
            extents.push(Extent {
                logical: LogicalBlock(run.logical + done),
                start: BlockNr(run.start.0 + u64::from(done)),
                len: clamp_u16(len),
                state: ExtentState::Written,
            });
            done += len;
        }
    }
    extents
}
