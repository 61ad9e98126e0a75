//! Allocation and freeing of blocks.

use super::Space;
use super::loaders::BitmapLoader;
use crate::state::base::Base;
use crate::types::error::{Error, Result};
use uext4_alloc::{ClusterNr, ClusterUse, Goal, Placement, Privilege, Request, Run};
use uext4_format::{
    BlockNr, BlockRun, Corrupt, CorruptKind, DamageLocation, Feature, GroupNr, InodeNr,
};
use uext4_journal::Handle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data of a small file: near the inode.
    Data,
    /// Data of a large file: near other streams.
    Stream,
    /// Tree nodes, attribute blocks.
    Metadata,
}

/// Whether an allocation may use the blocks reserved for the superuser, and whether quota limits
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The superuser: it may, and has no quota limits.
    MayUse,
    /// Named by `resuid` or `resgid`: it may, within its quota limits.
    Named,
    /// It may not, and has quota limits.
    Keep,
    /// The space was reserved when the write was accepted ([`Space::delay`]).
    Delayed,
}

impl Reserve {
    pub(super) fn privilege(self) -> Privilege {
        match self {
            Reserve::MayUse | Reserve::Named | Reserve::Delayed => Privilege::Root,
            Reserve::Keep => Privilege::User,
        }
    }

    /// Whether quota limits apply. For delayed data they applied when the data were accepted.
    pub(crate) fn is_limited(self) -> bool {
        match self {
            Reserve::Named | Reserve::Keep => true,
            Reserve::MayUse | Reserve::Delayed => false,
        }
    }
}

/// Exclusive upper bound of the blocks of metadata that is in no map. A file system without extents
/// has none behind 2^32.
pub(crate) fn metadata_end(base: &Base) -> Option<BlockNr> {
    (!base.features.has(Feature::EXTENTS)).then_some(BlockNr(1 << 32))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) goal: Option<BlockNr>,
    pub(crate) len_blocks: u32,
    /// Shortest useful length; at least 1.
    pub(crate) min_blocks: u32,
    pub(crate) inode: InodeNr,
    pub(crate) purpose: Purpose,
    pub(crate) reserve: Reserve,
    /// Exclusive upper bound of the block numbers that the file's map can store.
    pub(crate) end: Option<BlockNr>,
}

impl Space {
    /// Reserves blocks in memory only: uncommitted blocks are free again after a crash.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if no `min_blocks` contiguous blocks are free, [`Error::Corrupt`] if this
    /// search found a damaged bitmap and no other group has space; but not for delayed data.
    pub(crate) fn reserve(&self, base: &Base, want: &Want) -> Result<BlockRun> {
        let bits = self.geometry().cluster_bits;
        let min = want.min_blocks.div_ceil(1 << bits);
        let granted = self.claim(want)?;
        let taken = self.take(base, want, granted, min);
        let used = taken.as_ref().map_or(0, |run| run.len);
        self.unclaim(want, granted - used);
        Ok(self.to_blocks(taken?))
    }

    /// Claims clusters from the free count: as many as wanted, or as available.
    pub(super) fn claim(&self, want: &Want) -> Result<u32> {
        let bits = self.geometry().cluster_bits;
        let len = want.len_blocks.div_ceil(1 << bits);
        let min = want.min_blocks.div_ceil(1 << bits);
        if want.reserve == Reserve::Delayed {
            return Ok(len);
        }
        let privilege = match want.purpose {
            Purpose::Metadata => Privilege::Metadata,
            _ => want.reserve.privilege(),
        };
        self.claims.claim(len, min, privilege)
    }

    /// Returns the unused part of a claim. Delayed data keep their reservation.
    pub(super) fn unclaim(&self, want: &Want, clusters: u32) {
        if want.reserve != Reserve::Delayed {
            self.claims.give(clusters.into());
        }
    }

    /// Whether one more cluster is available to this request class.
    pub(crate) fn has_room(&self, reserve: Reserve) -> bool {
        self.claims.has(1, reserve.privilege())
    }

    /// As [`Self::has_room`].
    ///
    /// # Errors
    /// [`Error::NoSpace`] if not.
    pub(crate) fn check_room(&self, reserve: Reserve) -> Result<()> {
        if self.has_room(reserve) {
            Ok(())
        } else {
            Err(Error::NoSpace)
        }
    }

    /// Bytes available to this request class.
    pub(crate) fn room_bytes(&self, reserve: Reserve) -> u64 {
        let geometry = self.geometry();
        let clusters = self.claims.available_to(reserve.privilege());
        clusters.saturating_mul(u64::from(geometry.block_size()) << geometry.cluster_bits)
    }

    /// As [`Self::reserve`]; if there is no space but freed blocks wait for a commit, commits and
    /// retries. The caller holds no handle and no live object.
    pub(crate) fn reserve_or_commit(&self, base: &Base, want: &Want) -> Result<BlockRun> {
        self.with_commits(base, || self.reserve(base, want))
    }

    pub(super) fn take_once(&self, base: &Base, want: &Want, len: u32, min: u32) -> Result<Run> {
        let volume = self.engine.volume();
        let goal = want.goal.and_then(|block| volume.cluster_of(block));
        let kind = match want.purpose {
            Purpose::Data | Purpose::Stream => ClusterUse::Data,
            Purpose::Metadata => ClusterUse::Metadata,
        };
        let stream = want.purpose == Purpose::Stream;
        let request = Request {
            goal: goal.map_or_else(|| self.inode_goal(want.inode, kind), Goal::At),
            min_len: min,
            kind,
            placement: if stream {
                Placement::Stream
            } else {
                Placement::Local
            },
            end: want.end.and_then(|end| volume.cluster_of(end)),
            ..Request::new(len)
        };
        let loader = BitmapLoader {
            base,
            space: self,
            failed: Default::default(),
        };
        let taken = self
            .engine
            .allocate(&request, &loader)
            .map_err(|error| match error {
                // The loader recorded why; a group that cannot be used has no space.
                uext4_alloc::Error::NoSpace | uext4_alloc::Error::Unreadable(_) => Error::NoSpace,
            })?;
        match self.without_partial(taken, min) {
            Some(run) => Ok(run),
            // The engine keeps the partial last cluster reserved, so a retry does not get it.
            None => self.take_once(base, want, len, min),
        }
    }

    fn inode_goal(&self, inode: InodeNr, kind: ClusterUse) -> Goal {
        match self.geometry().split_inode(inode) {
            Some((group, _)) => {
                Goal::Near(uext4_alloc::inode_goal(self.engine.volume(), group, kind))
            }
            None => Goal::Anywhere,
        }
    }

    /// Sets the bitmap bits of a reserved run under the handle.
    pub(crate) fn commit(&self, base: &Base, handle: &Handle<'_>, run: BlockRun) -> Result<()> {
        let run = self.to_run(run);
        for (nr, from, len) in self.engine.volume().split(run) {
            let group = self.group(nr)?;
            let mut half = handle.write(&group.blocks);
            self.load_blocks(base, nr, &mut half)?;
            half.take(from, len);
        }
        self.engine.mark_in_use(run);
        self.claims.committed(run.len.into());
        Ok(())
    }

    /// Returns a reserved run that was not committed.
    pub(crate) fn unreserve(&self, run: BlockRun) {
        let run = self.to_run(run);
        self.engine.release(run);
        self.claims.give(run.len.into());
    }

    /// As [`Self::unreserve`], for data that stay delayed: their reservation stays.
    pub(crate) fn unreserve_delayed(&self, run: BlockRun) {
        self.engine.release(self.to_run(run));
    }

    /// Allocates one metadata block before `end`: reserves and commits it.
    pub(crate) fn allocate_block(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        goal: Option<BlockNr>,
        inode: InodeNr,
        reserve: Reserve,
        end: Option<BlockNr>,
    ) -> Result<BlockNr> {
        let want = Want {
            goal,
            len_blocks: 1,
            min_blocks: 1,
            inode,
            purpose: Purpose::Metadata,
            reserve,
            end,
        };
        let run = self.reserve(base, &want)?;
        self.commit(base, handle, run)?;
        Ok(run.start)
    }

    /// Clears the bitmap bits of a run under the handle. The blocks are reusable after the commit
    /// of the handle's transaction. Metadata blocks are forgotten first (`Blocks::forget`).
    ///
    /// For example, thread A frees the blocks of a file; if thread B got them at once, it would
    /// write data there before any commit. A crash before A's commit would bring the file back,
    /// with B's data in it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a block of the run is metadata of the file system or is free already.
    pub(crate) fn free(&self, base: &Base, handle: &Handle<'_>, run: BlockRun) -> Result<()> {
        let run = BlockRun {
            len_blocks: self.clamp_to_end(run.start, run.len_blocks.into()).max(1),
            ..run
        };
        if !self.may_contain_run(run.start, run.len_blocks.into()) {
            let problem = CorruptKind::FreedMetadata;
            return Err(
                Corrupt::new(DamageLocation::Block(run.start), "block run", problem).into(),
            );
        }
        let run = self.to_run(run);
        for (nr, from, len) in self.engine.volume().split(run) {
            self.free_in_group(base, handle, nr, from, len)?;
        }
        self.request_early_commit(handle, run);
        Ok(())
    }

    fn free_in_group(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: GroupNr,
        from: u32,
        len: u32,
    ) -> Result<()> {
        let group = self.group(nr)?;
        let start = self.engine.volume().first_cluster(nr).0 + u64::from(from);
        let mut half = handle.write(&group.blocks);
        self.load_blocks(base, nr, &mut half)?;
        if !half
            .used
            .as_ref()
            .is_some_and(|used| used.is_set(from..from + len))
        {
            let block = self.engine.volume().block_of(ClusterNr(start));
            let problem = CorruptKind::FreedTwice;
            return Err(Corrupt::new(DamageLocation::Block(block), "block bitmap", problem).into());
        }
        // Pending first: a rebuild from the bitmap must not see the blocks as free.
        self.engine
            .defer_free(handle.tid(), Run::new(ClusterNr(start), len));
        half.give(from, len);
        self.claims.freed(len.into());
        Ok(())
    }

    pub(super) fn to_blocks(&self, run: Run) -> BlockRun {
        let bits = self.geometry().cluster_bits;
        let start = self.engine.volume().block_of(run.start);
        BlockRun {
            start,
            len_blocks: self.clamp_to_end(start, u64::from(run.len) << bits),
        }
    }

    pub(super) fn to_run(&self, run: BlockRun) -> Run {
        let bits = self.geometry().cluster_bits;
        let first = u64::from(self.geometry().first_data_block);
        let start = ClusterNr((run.start.0 - first) >> bits);
        Run::new(start, run.len_blocks.div_ceil(1 << bits))
    }

    /// Discards freed clusters on the device; errors are ignored, because discard is a hint.
    pub(super) fn discard_runs(&self, runs: &[Run]) {
        let block_size = u64::from(self.geometry().block_size());
        for run in runs.iter().map(|run| self.to_blocks(*run)) {
            let bytes = u64::from(run.len_blocks) * block_size;
            let _ = self.device.discard(run.start.0 * block_size, bytes);
        }
    }
}
