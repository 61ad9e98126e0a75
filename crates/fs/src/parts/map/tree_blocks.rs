//! Blocks of the map itself: nodes of extents and tables. Each takes a whole cluster.

use super::limits::block_end;
use super::usage::{charge, discharge};
use crate::cache::meta::Seal;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::space::Reserve;
use crate::types::error::Result;
use uext4_format::{BlockNr, BlockRun};
use uext4_journal::Handle;

/// The cluster of the device that contains a block.
pub(super) fn cluster_around(fs: &Fs, block: BlockNr) -> BlockRun {
    let len_blocks = fs.base.geometry.blocks_per_cluster();
    BlockRun {
        start: BlockNr(block.0 & !(u64::from(len_blocks) - 1)),
        len_blocks,
    }
}

/// Allocates a block for the tree, with a number that the tree can store.
pub(super) fn new_tree_block(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    goal: Option<BlockNr>,
) -> Result<BlockNr> {
    let reserve = match state.tree_claims {
        0 => Reserve::MayUse,
        _ => Reserve::Delayed,
    };
    let (nr, end) = (state.nr(), block_end(state));
    let block = fs
        .space
        .allocate_block(&fs.base, handle, goal, nr, reserve, end)?;
    if reserve == Reserve::Delayed {
        state.tree_claims -= 1;
        fs.space.use_delayed(0, 1);
    }
    let cluster = cluster_around(fs, block);
    if let Err(error) = charge(fs, handle, state, cluster.len_blocks.into()) {
        fs.space.free(&fs.base, handle, cluster)?;
        return Err(error);
    }
    Ok(block)
}

/// Frees a block of the tree.
pub(super) fn free_tree_block(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    block: BlockNr,
    seal: Seal,
) -> Result<()> {
    fs.check_block(block, seal.name())?;
    fs.blocks.forget(handle, block);
    let cluster = cluster_around(fs, block);
    fs.space.free(&fs.base, handle, cluster)?;
    discharge(fs, handle, state, cluster.len_blocks.into());
    Ok(())
}
