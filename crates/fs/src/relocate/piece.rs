//! Moves one piece of a file: copies the data, then changes the map in one handle.

use super::layout::{has_blocks, whole_clusters};
use super::reserved::{Reserved, give_back};
use crate::parts::map::{self, ExtentState, Mapped};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::credits;
use crate::types::error::Result;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use uext4_device::write_sparse;
use uext4_format::{BlockNr, BlockRun};
use uext4_num::{clamp_u32, clamp_usize};
use uext4_sync::Arc;

/// Most bytes of a piece: the file is locked while they are copied.
const PIECE_BYTES: u64 = 4 << 20;
/// Most extents of a piece, unless they are in one cluster.
const EXTENTS_MAX: usize = 512;
/// Most groups from which one piece frees blocks, unless they are in one cluster.
const GROUPS_MAX: usize = 32;

/// What one step did.
pub(super) struct Step {
    /// Where the rest of the range begins.
    pub(super) end: u64,
    /// Number of blocks that moved.
    pub(super) moved_blocks: u64,
}

/// A piece of a file: whole clusters without a hole between them.
struct Piece {
    range: Range<u64>,
    extents: Vec<Mapped>,
    groups: BTreeSet<u32>,
}

/// Moves pieces one after the other through one buffer.
pub(super) struct Mover {
    buffer: Vec<u8>,
    blocks_max: u64,
    credits_max: u32,
}

impl Mover {
    pub(super) fn new(fs: &Fs) -> Self {
        let blocks = PIECE_BYTES >> fs.base.geometry.block_bits;
        Self {
            buffer: Vec::new(),
            blocks_max: whole_clusters(fs, 0..blocks.max(1)).end,
            credits_max: fs.base.journal.stats().transaction_limit_blocks / 4,
        }
    }

    /// Moves the first piece of `range` that is mapped to `reserved`, whose front is the new place
    /// of the range's start.
    ///
    /// # Errors
    /// Those of the device; [`crate::Error::NoSpace`] if the map needs a block. The piece stays.
    pub(super) fn step(
        &mut self,
        fs: &Fs,
        inode: &Arc<Inode>,
        range: Range<u64>,
        reserved: &mut Reserved<'_>,
    ) -> Result<Step> {
        let _alone = inode.io.write();
        fs.writable()?;
        let Some(piece) = self.first_movable(fs, &inode.read(), &range)? else {
            return Ok(Step {
                end: range.end,
                moved_blocks: 0,
            });
        };
        reserved.skip(clamp_u32(piece.range.start - range.start));
        let to = reserved.take(clamp_u32(piece.range.end - piece.range.start));
        let moved = self
            .copy(fs, inode, &piece, to)
            .inspect_err(|_| give_back(fs, to))
            .and_then(|()| self.switch(fs, inode, &piece, to));
        moved.map(|()| Step {
            end: piece.range.end,
            moved_blocks: piece
                .extents
                .iter()
                .map(|old| u64::from(old.len_blocks))
                .sum(),
        })
    }

    /// The first piece of `range` that one handle can move.
    fn first_movable(
        &self,
        fs: &Fs,
        state: &InodeState,
        range: &Range<u64>,
    ) -> Result<Option<Piece>> {
        let mut max_blocks = self.blocks_max;
        loop {
            let Some(piece) = find_movable(fs, state, range, max_blocks)? else {
                return Ok(None);
            };
            let len = piece.range.end - piece.range.start;
            let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
            if len <= ratio || self.credits(fs, state, &piece)? <= self.credits_max {
                return Ok(Some(piece));
            }
            max_blocks = (len / 2 / ratio * ratio).max(ratio);
        }
    }

    /// Bound on the blocks that the switch logs: the map, the groups of the old and of the new
    /// blocks, and revokes of journaled data.
    fn credits(&self, fs: &Fs, state: &InodeState, piece: &Piece) -> Result<u32> {
        let len = piece.range.end - piece.range.start;
        let new_groups = len / u64::from(fs.base.geometry.blocks_per_group) + 2;
        let revokes = len / (fs.block_bytes() / 16) + 1;
        let map = map::replace_cost(fs, state, piece.range.clone(), u32::MAX)?;
        let old_groups = clamp_u32(piece.groups.len());
        let others = clamp_u32(new_groups + revokes);
        Ok(credits::MAP + map + old_groups + others)
    }

    /// Copies the data, zeroes as holes; unwritten extents have none.
    fn copy(&mut self, fs: &Fs, inode: &Inode, piece: &Piece, to: BlockRun) -> Result<()> {
        let bits = fs.base.geometry.block_bits;
        fs.begin_unflushed(inode);
        for row in piece
            .extents
            .chunk_by(|a, b| a.end() == u64::from(b.logical.0) && a.state == b.state)
        {
            if row[0].state == ExtentState::Unwritten {
                continue;
            }
            let blocks: u64 = row.iter().map(|old| u64::from(old.len_blocks)).sum();
            self.buffer.resize(clamp_usize(blocks << bits), 0);
            let mut rest = &mut self.buffer[..];
            for old in row {
                let len = clamp_usize(u64::from(old.len_blocks) << bits);
                let (part, behind) = rest.split_at_mut(len);
                fs.base.device.read_at(old.start.0 << bits, part)?;
                rest = behind;
            }
            let skip = u64::from(row[0].logical.0) - piece.range.start;
            let at = (to.start.0 + skip) << bits;
            write_sparse(&*fs.base.device, at, &self.buffer, fs.block_size())?;
        }
        Ok(())
    }

    /// Gives the new blocks to the file and frees the old ones.
    fn switch(&self, fs: &Fs, inode: &Arc<Inode>, piece: &Piece, to: BlockRun) -> Result<()> {
        let credits = self.credits(fs, &inode.read(), piece);
        let handle = credits.and_then(|credits| fs.start(credits));
        let handle = handle.inspect_err(|_| give_back(fs, to))?;
        let committed = fs.space.commit(&fs.base, &handle, to);
        committed.inspect_err(|_| give_back(fs, to))?;
        let mut state = handle.write(inode);
        let replaced = map::replace(fs, &handle, &mut state, piece.range.clone(), to.start);
        if let Err(error) = replaced {
            fs.space.free(&fs.base, &handle, to)?;
            return Err(error);
        }
        map::free_moved(fs, &handle, &state, &piece.extents)
    }
}

/// The first piece of `range` of at most `max_blocks` blocks, and within the limits of a piece.
fn find_movable(
    fs: &Fs,
    state: &InodeState,
    range: &Range<u64>,
    max_blocks: u64,
) -> Result<Option<Piece>> {
    let mut found: Option<Piece> = None;
    if !has_blocks(state) {
        return Ok(found);
    }
    map::for_each(fs, state, range.clone(), |extent| {
        let clusters = whole_clusters(fs, extent.logical.0.into()..extent.end());
        let piece = found.get_or_insert_with(|| Piece {
            range: clusters.start..clusters.start,
            extents: Vec::new(),
            groups: BTreeSet::new(),
        });
        let limit = piece.range.start + max_blocks;
        let is_far = clusters.start > piece.range.end || clusters.start >= limit;
        let is_much = clusters.start >= piece.range.end
            && (piece.extents.len() >= EXTENTS_MAX || piece.groups.len() >= GROUPS_MAX);
        if !piece.extents.is_empty() && (is_far || is_much) {
            return ControlFlow::Break(());
        }
        let extent = clip(extent, limit);
        piece.range.end = whole_clusters(fs, 0..extent.end()).end.max(piece.range.end);
        piece.add(fs, extent);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

impl Piece {
    fn add(&mut self, fs: &Fs, extent: Mapped) {
        let last = BlockNr(extent.start.0 + u64::from(extent.len_blocks) - 1);
        let group = |block| fs.base.geometry.group_of_block(block).0;
        self.groups.extend(group(extent.start)..=group(last));
        self.extents.push(extent);
    }
}

/// The part of an extent before a block of the file.
fn clip(extent: Mapped, end: u64) -> Mapped {
    let len = end.min(extent.end()) - u64::from(extent.logical.0);
    Mapped {
        len_blocks: clamp_u32(len),
        ..extent
    }
}
