//! Moves the journal, whose log is empty while a file system is at rest.
//!
//! ```text
//! a transaction of the old log   the inode has the new blocks behind its size
//! the log copied, flush          nothing refers to the copy
//! one sector of the inode        old and new blocks change places: from here on the log is new
//! a transaction of the new log   the old blocks are free
//! ```
//!
//! A crash in between leaves a journal inode with blocks behind its size, which the next shrinking
//! frees. The map is in the inode, so that one write of a sector changes it. The blocks behind the
//! size are unwritten: so e2fsck allows them, and a mount of Linux that replays the last
//! transaction does not keep them for the journal that it saw before.

use super::layout::Holder;
use super::maps::Map;
use super::moves::Mover;
use crate::mount::AtRest;
use crate::{Error, Result};
use std::ops::Range;
use uext4_format::bitmap::{clear_bits, set_bits};
use uext4_format::extent::{Extent, ExtentNode, ExtentState, ROOT_CAPACITY};
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, I_BLOCK_BYTES, Inode, InodeNr, LogicalBlock, Place,
};
use uext4_mkfs::journal_backup;
use uext4_num::{clamp_u16, clamp_u32};

/// Longest extent that keeps the next one on a cluster boundary.
const EXTENT_BLOCKS_MAX: u64 = 32768;

/// Whether the journal can move: its map is in the inode, and consists of whole clusters.
pub(super) fn is_movable(rest: &AtRest, map: &Map) -> bool {
    let ratio = u64::from(rest.geometry.blocks_per_cluster());
    let is_whole = len_blocks(&map.extents).is_multiple_of(ratio);
    is_whole && map.nodes.is_empty() && map.extents.len() < ROOT_CAPACITY.into()
}

/// Number of blocks that extents map.
pub(super) fn len_blocks(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.len)).sum()
}

/// The extents of runs of blocks, from `logical` on.
pub(super) fn extents_of(runs: &[Range<u64>], mut logical: u64, state: ExtentState) -> Vec<Extent> {
    let most = match state {
        ExtentState::Written => EXTENT_BLOCKS_MAX,
        ExtentState::Unwritten => EXTENT_BLOCKS_MAX / 2,
    };
    let mut extents = Vec::new();
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let len = (run.end - start).min(most);
            extents.push(Extent {
                logical: LogicalBlock(clamp_u32(logical)),
                start: BlockNr(start),
                len: clamp_u16(len),
                state,
            });
            (start, logical) = (start + len, logical + len);
        }
    }
    extents
}

/// The extents of a log, and of blocks behind it.
fn with_spare(log: &[Range<u64>], spare: &[Range<u64>]) -> Vec<Extent> {
    let mut extents = extents_of(log, 0, ExtentState::Written);
    let behind = extents_of(spare, len_blocks(&extents), ExtentState::Unwritten);
    extents.extend(behind);
    extents
}

/// Whether old and new places fit into the inode together.
pub(super) fn fits(old: &[Extent], runs: &[Range<u64>]) -> bool {
    let old = runs_of(old);
    let most = usize::from(ROOT_CAPACITY);
    with_spare(&old, runs).len() <= most && with_spare(runs, &old).len() <= most
}

fn runs_of(extents: &[Extent]) -> Vec<Range<u64>> {
    let run = |extent: &Extent| extent.start.0..extent.physical_end();
    extents.iter().map(run).collect()
}

/// Frees blocks of the journal inode that a crash left behind its log.
///
/// # Errors
/// Damage; those of the device.
pub(super) fn trim(rest: &mut AtRest) -> Result<()> {
    let nr = InodeNr(rest.superblock.journal_inum);
    let Some(len) = rest.log_blocks()?.filter(|_| nr.0 != 0) else {
        return Ok(());
    };
    let mut mover = Mover::new(rest)?;
    let inode = mover.inode(nr)?;
    let map = Map::read(mover.rest, nr, &inode)?;
    match is_in_inode(&map) && len_blocks(&map.extents) > u64::from(len) {
        true => mover.trim_journal(nr, u64::from(len)),
        false => Ok(()),
    }
}

fn is_in_inode(map: &Map) -> bool {
    map.nodes.is_empty() && map.extents.len() <= ROOT_CAPACITY.into()
}

impl Mover<'_> {
    /// Moves the journal to these runs of blocks.
    pub(super) fn move_journal(&mut self, holder: &Holder, runs: &[Range<u64>]) -> Result<()> {
        let (nr, old) = (holder.nr, runs_of(&holder.map.extents));
        let len = len_blocks(&holder.map.extents);
        for run in runs {
            self.mark(run.start, run.end - run.start, set_bits)?;
        }
        let mut inode = self.inode(nr)?;
        self.map_journal(nr, &mut inode, &old, runs)?;
        self.put_inode(nr, &inode)?;
        self.commit()?;
        self.copy_log(&old, runs)?;
        self.map_journal(nr, &mut inode, runs, &old)?;
        self.store_inode(nr, &inode)?;
        self.rest.find_log()?;
        self.trim_journal(nr, len)
    }

    /// Gives the inode a log, and blocks behind it.
    fn map_journal(
        &self,
        nr: InodeNr,
        inode: &mut Inode,
        log: &[Range<u64>],
        spare: &[Range<u64>],
    ) -> Result<()> {
        let extents = with_spare(log, spare);
        let mut i_block = [0; I_BLOCK_BYTES];
        let mut root = ExtentNode::init_root(&mut i_block[..], 0);
        for (at, extent) in extents.iter().enumerate() {
            root.insert_extent(at, *extent).map_err(|_| wrong(nr))?;
        }
        inode.i_block = i_block;
        let bits = self.rest.geometry.block_bits;
        let bytes = |extents: &[Extent]| len_blocks(extents) << bits;
        inode.size = bytes(&extents_of(log, 0, ExtentState::Written));
        let set = inode.set_sectors(bytes(&extents) / 512, &self.rest.geometry);
        set.map_err(|_| wrong(nr))
    }

    fn copy_log(&mut self, old: &[Range<u64>], new: &[Range<u64>]) -> Result<()> {
        let (mut from, mut to) = (old.to_vec(), new.to_vec());
        while let (Some(a), Some(b)) = (from.first_mut(), to.first_mut()) {
            let len = (a.end - a.start).min(b.end - b.start);
            self.copy_blocks(a.start, b.start, len)?;
            (a.start, b.start) = (a.start + len, b.start + len);
            from.retain(|run| !run.is_empty());
            to.retain(|run| !run.is_empty());
        }
        Ok(self.rest.device.flush()?)
    }

    /// Frees what the journal inode maps from block `len` on.
    fn trim_journal(&mut self, nr: InodeNr, len: u64) -> Result<()> {
        let mut inode = self.inode(nr)?;
        let map = Map::read(self.rest, nr, &inode)?;
        let (mut kept, mut at) = (Vec::new(), 0);
        for run in runs_of(&map.extents) {
            let middle = run.start + (len - at).min(run.end - run.start);
            kept.push(run.start..middle);
            self.mark(middle, run.end - middle, clear_bits)?;
            at += middle - run.start;
        }
        kept.retain(|run| !run.is_empty());
        self.map_journal(nr, &mut inode, &kept, &[])?;
        self.put_inode(nr, &inode)?;
        self.rest.superblock.jnl_blocks = journal_backup(&inode);
        self.commit()
    }
}

fn wrong(nr: InodeNr) -> Error {
    Corrupt::new(Place::Inode(nr), "journal inode", CorruptKind::SizeWrong).into()
}
