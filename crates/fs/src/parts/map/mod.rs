//! The block map of a file: from logical blocks to device blocks.
//!
//! Two on-disk formats, selected by the inode's flag EXTENTS: a tree of extents ([`extents`]), and
//! the indirect blocks of ext2 and ext3 ([`indirect`]). All access to both goes through this
//! module.
//!
//! Layout, from below: [`root`] is what the inode tells, [`tree_blocks`] and [`usage`] account for
//! space, the two formats unmap without freeing data; [`lookup`] and [`runs`] read either format;
//! [`clusters`] looks up what else a cluster maps; [`change`] and [`remove`] change the map.
//!
//! Invariants: a change leaves a valid tree at every step, also when it fails for lack of space.
//! `i_blocks` counts data and tree blocks, in whole clusters.
//! Locking: the inode's state lock guards the whole walk or change. Callers pass the state they
//! locked; tree nodes are locked one at a time.
//! Not here: data I/O and zeroing (`file`), choice of blocks (`space`), inline data.

mod change;
mod clusters;
mod extents;
mod growth;
mod indirect;
mod init;
mod limits;
mod lookup;
mod mapped;
mod remove;
mod root;
mod runs;
mod status;
#[cfg(test)]
mod tests;
mod tree_blocks;
mod usage;
mod use_extents;

pub(crate) use crate::cache::extent_status::Mapping;
pub(crate) use change::{
    insert, insert_block, mark_unwritten, mark_written, mark_written_around, replace, replace_cost,
    shift_left, shift_right,
};
pub(crate) use clusters::{cluster_mate, free_moved};
pub(crate) use extents::{join_at, mapped_end, shift_cost, split_at};
pub(crate) use growth::{tree_growth, tree_growth_max};
pub(crate) use init::init;
pub(crate) use limits::{block_end, insert_max_blocks, size_end_bytes};
pub(crate) use lookup::{block_of, blocks_of, goal, lookup};
pub(crate) use mapped::Mapped;
pub(crate) use remove::{Progress, remove};
pub(crate) use root::{extents_in_inode, has_extents, is_in_inode};
pub(crate) use runs::{extent_around, for_each};
pub(crate) use uext4_format::extent::{ExtentState, LOGICAL_BLOCKS as LOGICAL_END};
pub(crate) use use_extents::{BlockMap, use_extents};
