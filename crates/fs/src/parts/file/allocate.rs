//! Block allocation for files: reserve in memory first, then commit and map under a handle.

use super::window;
use crate::parts::map::{self, ExtentState};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::quota::{Claim, Owners};
use crate::state::space::{Purpose, Reserve, Want};
use crate::types::error::{Error, Result};
use uext4_format::{BlockNr, BlockRun, Feature, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;
use uext4_sync::Arc;
use uext4_sync::atomic::Ordering;

/// Groups that one run may touch: the rest of `credits::MAP` is for the map's tree.
const RUN_GROUPS: u32 = 6;

/// Blocks for a hole. The reservation is released if it is dropped before [`Self::map`].
pub(super) struct NewBlocks<'a> {
    fs: &'a Fs,
    at: LogicalBlock,
    run: BlockRun,
    /// The reserved run; `None` if the cluster belongs to the file already.
    reserved: Option<BlockRun>,
    /// Quota reservations for the map blocks and for the run.
    _claims: [Claim; 2],
    /// The run with its bitmap bits set.
    committed: Option<BlockRun>,
    /// Which part of the free space it may use.
    reserve: Reserve,
}

impl<'a> NewBlocks<'a> {
    /// Reserves up to `len_blocks` blocks for the hole at `at`, which is at least that long.
    pub(super) fn reserve(
        fs: &'a Fs,
        inode: &Inode,
        at: LogicalBlock,
        len_blocks: u32,
        shape: Shape,
        reserve: Reserve,
    ) -> Result<Self> {
        let mut plan = {
            let state = inode.read();
            let groups_max = fs.base.geometry.blocks_per_group.saturating_mul(RUN_GROUPS);
            let len_blocks = len_blocks
                .min(map::insert_max_blocks(fs, &state))
                .min(groups_max);
            Plan::new(fs, inode, &state, at, len_blocks, shape)?
        };
        let new = |run, reserved, claims| Self {
            fs,
            at,
            run,
            reserved,
            _claims: claims,
            committed: None,
            reserve,
        };
        let ratio = fs.base.geometry.blocks_per_cluster();
        let offset = at.0 % ratio;
        if let Some(start) = plan.mate {
            let len_blocks = len_blocks.min(ratio - offset);
            let run = BlockRun {
                start,
                len_blocks: fs.space.clamp_to_end(start, len_blocks.into()),
            };
            if run.len_blocks == 0 {
                return Err(Error::NoSpace);
            }
            return Ok(new(run, None, Default::default()));
        }
        plan.want.reserve = reserve;
        let tree = claim_tree(fs, inode, at, reserve)?;
        let claims = [tree, claim(fs, inode, &mut plan.want)?];
        let got = fs
            .space
            .with_commits(&fs.base, || plan.reserve(fs, inode))?;
        let start = BlockNr(got.start.0 + u64::from(offset));
        let len = got.len_blocks.min(plan.want.len_blocks) - offset;
        let run = BlockRun {
            start,
            len_blocks: len.min(len_blocks),
        };
        inode
            .last_block
            .store(start.0 + u64::from(run.len_blocks), Ordering::Relaxed);
        Ok(new(run, Some(got), claims))
    }

    /// Reserves the first block of a file without a map. May run under a handle, so it does not
    /// wait until freed blocks are committed.
    pub(super) fn reserve_first(fs: &'a Fs, inode: &Inode, reserve: Reserve) -> Result<Self> {
        let mut want = Want {
            reserve,
            ..base_want(fs, inode)
        };
        let claim = claim(fs, inode, &mut want)?;
        let got = fs.space.reserve(&fs.base, &want)?;
        let run = BlockRun {
            len_blocks: 1,
            ..got
        };
        Ok(Self {
            fs,
            at: LogicalBlock(0),
            run,
            reserved: Some(got),
            _claims: [Claim::default(), claim],
            committed: None,
            reserve,
        })
    }

    /// The reserved blocks; they are not mapped yet.
    pub(super) fn run(&self) -> BlockRun {
        self.run
    }

    /// Gives the blocks to the file: bitmap bits, map, and `update` of the inode, all in the
    /// handle's transaction.
    pub(super) fn map(
        mut self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        written: ExtentState,
        update: impl FnOnce(&mut InodeState),
    ) -> Result<()> {
        self.commit(handle)?;
        let mut state = handle.write(inode);
        self.insert(handle, &mut state, written)?;
        update(&mut state);
        Ok(())
    }

    /// First half of [`Self::map`]: sets the bits, which uses the reservation up.
    pub(super) fn commit(&mut self, handle: &Handle<'_>) -> Result<()> {
        if let Some(reserved) = self.reserved {
            self.fs.space.commit(&self.fs.base, handle, reserved)?;
            self.reserved = None;
            self.committed = Some(reserved);
        }
        Ok(())
    }

    /// Whether it took clusters from the free space, and not only blocks of one that the file has.
    pub(super) fn has_clusters(&self) -> bool {
        self.committed.is_some()
    }

    /// Second half: inserts the run into the map.
    ///
    /// # Errors
    /// As `map::insert`; the blocks are freed again.
    pub(super) fn insert(
        &mut self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        written: ExtentState,
    ) -> Result<()> {
        let mapped = map::insert(self.fs, handle, state, self.at, self.run, written);
        if let (Err(_), Some(committed)) = (&mapped, self.committed) {
            self.fs.space.free(&self.fs.base, handle, committed)?;
        }
        mapped
    }
}

impl Drop for NewBlocks<'_> {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            match self.reserve {
                Reserve::Delayed => self.fs.space.unreserve_delayed(reserved),
                _ => self.fs.space.unreserve(reserved),
            }
        }
    }
}

/// Reserves quota for map blocks of another run at `at`. Delayed data have reservations already.
fn claim_tree(fs: &Fs, inode: &Inode, at: LogicalBlock, reserve: Reserve) -> Result<Claim> {
    fs.quota.claim_blocks(&fs.base, reserve, || {
        let state = inode.read();
        let blocks = map::tree_growth(fs, &state, at)?;
        Ok((Owners::of(&state.disk), blocks))
    })
}

/// Reserves quota for the space; it may grant less than `want`.
fn claim(fs: &Fs, inode: &Inode, want: &mut Want) -> Result<Claim> {
    if !fs.quota.is_on() {
        return Ok(Claim::default());
    }
    let owners = Owners::of(&inode.read().disk);
    let bits = fs.base.geometry.block_bits;
    let wanted = u64::from(want.len_blocks) << bits;
    let unit = fs.base.geometry.cluster_size();
    let asked = (wanted, unit);
    let (granted, claim) = fs
        .quota
        .claim_space(&fs.base, owners, asked, want.reserve)?;
    want.len_blocks = clamp_u32(granted >> bits);
    Ok(claim)
}

/// Whether the reservation may exceed the request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// No more blocks than the request.
    AsAsked,
    /// Data: reserves contiguous space for later writes behind it.
    Data,
}

/// Source of blocks that the file has not preallocated.
enum Source {
    AsAsked,
    /// The locality group for small files: the first blocks of a file.
    Local,
    /// A window around the request: a file that is large, or grows behind its first blocks.
    Window,
}

/// Plan of an allocation for a hole.
struct Plan {
    want: Want,
    /// The block, if its cluster belongs to the file already.
    mate: Option<BlockNr>,
    at: LogicalBlock,
    len_blocks: u32,
    source: Source,
}

impl Plan {
    fn new(
        fs: &Fs,
        inode: &Inode,
        state: &InodeState,
        at: LogicalBlock,
        len_blocks: u32,
        shape: Shape,
    ) -> Result<Self> {
        let ratio = fs.base.geometry.blocks_per_cluster();
        let mate = map::cluster_mate(fs, state, at)?;
        let len_blocks = clip_to_mates(fs, state, at, len_blocks)?;
        let len_blocks = clip_to_held(fs, inode, at, len_blocks);
        let mapped = map::goal(fs, state, at)?;
        let goal = mapped.or_else(|| inode.goal_hint());
        let size = window::size_blocks(fs, state, at, len_blocks);
        let stream_req = fs.space.shaping().stream_req_blocks.load(Ordering::Relaxed);
        let stream = size > u64::from(stream_req);
        let source = match shape {
            Shape::AsAsked => Source::AsAsked,
            Shape::Data if !stream && mapped.is_none() => Source::Local,
            Shape::Data => Source::Window,
        };
        let want = Want {
            goal: goal.map(|goal| BlockNr(goal.0 - goal.0 % u64::from(ratio))),
            len_blocks: (at.0 % ratio + len_blocks).next_multiple_of(ratio),
            purpose: if stream {
                Purpose::Stream
            } else {
                Purpose::Data
            },
            end: map::block_end(state),
            ..base_want(fs, inode)
        };
        Ok(Self {
            want,
            mate,
            at,
            len_blocks,
            source,
        })
    }

    /// Takes preallocated blocks, or reserves new ones.
    fn reserve(&self, fs: &Fs, inode: &Inode) -> Result<BlockRun> {
        let want = &self.want;
        let at_cluster = self.at.0 / fs.base.geometry.blocks_per_cluster();
        if let Some(held) = inode.preallocation()
            && let Some(run) = fs.space.reserve_held(want, held, at_cluster)?
        {
            return Ok(run);
        }
        match &self.source {
            Source::AsAsked => fs.space.reserve(&fs.base, want),
            Source::Local => fs.space.reserve_local(&fs.base, want),
            Source::Window => {
                let window = window::around(fs, inode, self.at, self.len_blocks)?;
                let keep = inode.preallocation_or_new();
                fs.space.reserve_window(&fs.base, want, &window, keep)
            }
        }
    }
}

/// Ends the run before a last cluster that the file has already.
fn clip_to_mates(fs: &Fs, state: &InodeState, at: LogicalBlock, len_blocks: u32) -> Result<u32> {
    let last = at.0.saturating_add(len_blocks).saturating_sub(1);
    let last_cluster = last - last % fs.base.geometry.blocks_per_cluster();
    let ends_before =
        last_cluster > at.0 && map::cluster_mate(fs, state, LogicalBlock(last_cluster))?.is_some();
    Ok(if ends_before {
        last_cluster - at.0
    } else {
        len_blocks
    })
}

/// Ends the run where the file's preallocated space begins.
fn clip_to_held(fs: &Fs, inode: &Inode, at: LogicalBlock, len_blocks: u32) -> u32 {
    let ratio = fs.base.geometry.blocks_per_cluster();
    let Some(held) = inode.preallocation() else {
        return len_blocks;
    };
    let gap_end = fs
        .space
        .gap_around(held, at.0 / ratio)
        .end
        .saturating_mul(ratio.into());
    let room = gap_end.saturating_sub(at.0.into());
    // The gap is empty if the preallocated space covers `at` itself, and limits the run.
    if room == 0 {
        return len_blocks;
    }
    clamp_u32(room).min(len_blocks)
}

/// A request for one cluster of data near the inode.
fn base_want(fs: &Fs, inode: &Inode) -> Want {
    let ratio = fs.base.geometry.blocks_per_cluster();
    let extents = fs.base.features.has(Feature::EXTENTS);
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
