//! New blocks for a file: reserved in memory first, then committed and mapped under a handle.

use crate::inode::{Inode, InodeState};
use crate::map::{self, ExtentState};
use crate::space::{Purpose, Reserve, Want};
use crate::{Fs, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uext4_format::{BlockNr, BlockRun, Feature, LogicalBlock};
use uext4_journal::Handle;

/// A file of this size is a stream (the kernel's `mb_stream_req`, 16 blocks of 4 KiB).
const STREAM_BYTES: u64 = 64 << 10;

/// Groups whose bitmaps one run may touch: the rest of `credits::MAP` is for the tree.
const RUN_GROUPS: u32 = 6;

/// Blocks for a hole. Given back when dropped before [`Self::map`].
pub(super) struct NewBlocks<'a> {
    fs: &'a Fs,
    at: LogicalBlock,
    run: BlockRun,
    /// What was reserved for it: nothing when the cluster belongs to the file already.
    reserved: Option<BlockRun>,
}

impl<'a> NewBlocks<'a> {
    /// Reserves up to `len_blocks` blocks for the hole at `at`, which is at least that long.
    pub(super) fn reserve(
        fs: &'a Fs,
        inode: &Inode,
        at: LogicalBlock,
        len_blocks: u32,
        reserve: Reserve,
    ) -> Result<Self> {
        let (want, mate) = {
            let state = inode.read();
            let groups_max = fs.geometry.blocks_per_group.saturating_mul(RUN_GROUPS);
            let len_blocks = len_blocks
                .min(map::insert_max_blocks(fs, &state))
                .min(groups_max);
            plan(fs, inode, &state, at, len_blocks)?
        };
        let ratio = fs.geometry.blocks_per_cluster();
        let offset = at.0 % ratio;
        if let Some(start) = mate {
            let run = BlockRun {
                start,
                len_blocks: len_blocks.min(ratio - offset),
            };
            return Ok(Self {
                fs,
                at,
                run,
                reserved: None,
            });
        }
        let got = fs.space.reserve_or_commit(fs, &Want { reserve, ..want })?;
        let start = BlockNr(got.start.0 + u64::from(offset));
        let len = got.len_blocks.min(want.len_blocks) - offset;
        let run = BlockRun {
            start,
            len_blocks: len.min(len_blocks),
        };
        inode
            .last_block
            .store(start.0 + u64::from(run.len_blocks), Ordering::Relaxed);
        Ok(Self {
            fs,
            at,
            run,
            reserved: Some(got),
        })
    }

    /// Reserves the first block of a file whose inode maps nothing yet: there is no map to look at.
    /// May be called under a handle, so it does not wait for frees to be committed.
    pub(super) fn reserve_first(fs: &'a Fs, inode: &Inode, reserve: Reserve) -> Result<Self> {
        let got = fs.space.reserve(fs, &Want { reserve, ..base_want(fs, inode) })?;
        let run = BlockRun {
            len_blocks: 1,
            ..got
        };
        Ok(Self {
            fs,
            at: LogicalBlock(0),
            run,
            reserved: Some(got),
        })
    }

    /// The blocks.
    pub(super) fn run(&self) -> BlockRun {
        self.run
    }

    /// Makes the blocks the file's: bits on disk, map, and `update` of the inode, all in the
    /// handle's transaction.
    pub(super) fn map(
        mut self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        written: ExtentState,
        update: impl FnOnce(&mut InodeState),
    ) -> Result<()> {
        if let Some(reserved) = self.reserved {
            self.fs.space.commit(self.fs, handle, reserved)?;
            self.reserved = None;
            let mapped = self.insert(handle, inode, written, update);
            if mapped.is_err() {
                self.fs.space.free(self.fs, handle, reserved)?;
            }
            return mapped;
        }
        self.insert(handle, inode, written, update)
    }

    fn insert(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        written: ExtentState,
        update: impl FnOnce(&mut InodeState),
    ) -> Result<()> {
        let mut state = handle.write(inode);
        map::insert(self.fs, handle, &mut state, self.at, self.run, written)?;
        update(&mut state);
        Ok(())
    }
}

impl Drop for NewBlocks<'_> {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.fs.space.unreserve(reserved);
        }
    }
}

/// What to ask for; or the block for `at` when its cluster belongs to the file already.
fn plan(
    fs: &Fs,
    inode: &Inode,
    state: &InodeState,
    at: LogicalBlock,
    len_blocks: u32,
) -> Result<(Want, Option<BlockNr>)> {
    let ratio = fs.geometry.blocks_per_cluster();
    let offset = at.0 % ratio;
    let mate = map::cluster_mate(fs, state, at)?;
    let mut len_blocks = len_blocks;
    let last = (u64::from(at.0) + u64::from(len_blocks) - 1) as u32;
    let last_cluster = last - last % ratio;
    if last_cluster > at.0 && map::cluster_mate(fs, state, LogicalBlock(last_cluster))?.is_some() {
        len_blocks = last_cluster - at.0;
    }
    let goal = map::goal(fs, state, at)?.or_else(|| inode.goal_hint());
    let want = Want {
        goal: goal.map(|goal| BlockNr(goal.0 - goal.0 % u64::from(ratio))),
        len_blocks: (offset + len_blocks).next_multiple_of(ratio),
        purpose: purpose(fs, at),
        end: map::block_end(state),
        ..base_want(fs, inode)
    };
    Ok((want, mate))
}

/// Large files go where other streams go, small ones stay near their inode.
fn purpose(fs: &Fs, at: LogicalBlock) -> Purpose {
    let offset_bytes = u64::from(at.0) << fs.geometry.block_bits;
    if offset_bytes >= STREAM_BYTES {
        Purpose::Stream
    } else {
        Purpose::Data
    }
}

/// A wish for one cluster of data near the inode.
fn base_want(fs: &Fs, inode: &Inode) -> Want {
    let ratio = fs.geometry.blocks_per_cluster();
    let extents = fs.features.has(Feature::EXTENTS);
    Want {
        goal: None,
        len_blocks: ratio,
        min_blocks: ratio,
        inode: inode.nr(),
        purpose: Purpose::Data,
        reserve: Reserve::Keep,
        end: (!extents).then_some(BlockNr(1 << 32)),
    }
}
