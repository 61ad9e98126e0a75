//! Gives a file with block tables a tree of extents that maps the same blocks.
//!
//! The map is read as a whole, so that the change is one handle: an empty root takes the place of
//! the tables, all runs are inserted in order, and the tables are freed. A crash leaves the tables
//! or the tree.
//!
//! Invariants: no block of data moves; if a tree block cannot be allocated, the tables stay.

use super::growth::tree_in_order_max;
use super::mapped::Mapped;
use super::runs::for_each;
use super::tree_blocks::free_tree_block;
use super::{extents, indirect, status};
use crate::cache::meta::Seal;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::credits;
use crate::types::error::Result;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use uext4_format::extent::{Extent, ExtentNode, ExtentState, LOGICAL_BLOCKS};
use uext4_format::{BlockNr, BlockRun, I_BLOCK_BYTES, InodeFlags};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Least bytes of an entry in a node and of a revoke in the log; they bound lists by credits.
const ENTRY_BYTES: usize = 8;

/// All that a file without extents maps.
pub(crate) struct BlockMap {
    /// Runs of data, as long as they can be, in order.
    runs: Vec<Mapped>,
    /// Indirect blocks, to be freed.
    tables: Vec<BlockNr>,
    credits: u32,
}

impl BlockMap {
    /// Reads the map; `None` if no handle of `credits_max` can change it.
    pub(crate) fn read(fs: &Fs, state: &InodeState, credits_max: u32) -> Result<Option<Self>> {
        let most = usize_of(credits_max).saturating_mul(fs.block_size() / ENTRY_BYTES);
        let Some(tables) = indirect::tables(fs, state, most)? else {
            return Ok(None);
        };
        let mut runs: Vec<Mapped> = Vec::new();
        for_each(fs, state, 0..LOGICAL_BLOCKS, |mapped| {
            match runs.last_mut() {
                Some(last) if last.is_followed_by(&mapped) => last.len_blocks += mapped.len_blocks,
                _ => runs.push(mapped),
            }
            if runs.len() > most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let credits = cost(fs, &runs, &tables);
        let map = Self {
            runs,
            tables,
            credits,
        };
        Ok(Some(map).filter(|map| map.credits <= credits_max))
    }

    /// Credits that [`use_extents`] takes for this file.
    pub(crate) fn credits(&self) -> u32 {
        self.credits
    }

    /// Number of blocks that the tables take.
    pub(crate) fn table_blocks(&self) -> u64 {
        u64_of(self.tables.len())
    }
}

/// Bound on the blocks that the change logs: tree blocks, bitmaps and descriptors of all groups
/// that lose or get one, and revokes of the tables, and of the tree if it fails.
fn cost(fs: &Fs, runs: &[Mapped], tables: &[BlockNr]) -> u32 {
    let max = u64::from(Extent::max_len_blocks(ExtentState::Written));
    let extents = runs
        .iter()
        .map(|run| u64::from(run.len_blocks).div_ceil(max));
    let nodes = tree_in_order_max(fs, extents.sum());
    let groups = tables
        .iter()
        .map(|&table| fs.base.geometry.group_of_block(table));
    let old_groups = u64_of(groups.collect::<BTreeSet<_>>().len());
    let new_groups = nodes.min(fs.base.geometry.group_count.into());
    let revokes = (nodes + u64_of(tables.len())) / (fs.block_bytes() / 16) + 2;
    clamp_u32(u64::from(credits::MAP) + nodes + 2 * (old_groups + new_groups) + revokes)
}

/// Replaces the tables that `old` was read from by a tree, and frees them.
///
/// # Errors
/// [`crate::Error::NoSpace`] when a tree block cannot be allocated; the tables stay.
pub(crate) fn use_extents(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    old: &BlockMap,
) -> Result<()> {
    status::changing(state, 0..LOGICAL_BLOCKS, |state| {
        let pointers = std::mem::replace(&mut state.disk.i_block, [0; I_BLOCK_BYTES]);
        state.disk.flags.insert(InodeFlags::EXTENTS);
        ExtentNode::init_root(&mut state.disk.i_block[..], 0);
        if let Err(error) = insert_all(fs, handle, state, &old.runs) {
            extents::unmap(fs, handle, state, 0..LOGICAL_BLOCKS)?;
            state.disk.flags.remove(InodeFlags::EXTENTS);
            state.disk.i_block = pointers;
            return Err(error);
        }
        let mut tables = old.tables.iter();
        tables.try_for_each(|table| free_tree_block(fs, handle, state, *table, Seal::Indirect))
    })
}

fn insert_all(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, runs: &[Mapped]) -> Result<()> {
    runs.iter().try_for_each(|mapped| {
        let run = BlockRun {
            start: mapped.start,
            len_blocks: mapped.len_blocks,
        };
        extents::insert(fs, handle, state, mapped.logical, run, mapped.state)
    })
}
