//! Space: connects the allocator (memory), the bitmaps on disk and the journal.
//!
//! Blocks are allocated in two steps. [`Space::reserve`] takes them in memory only, so a crash
//! leaks nothing. After the data are written, [`Space::commit`] sets the bits under a handle. A
//! free clears the bits at once, and the run becomes reusable after the commit of its transaction.
//!
//! Locking: the group halves (GroupInodes, GroupBitmap) are live objects; the allocator's own locks
//! (GroupSpace, PendingFree) come after them. A bitmap is loaded with none of them held.

mod allocator;
mod bitmaps;
mod blocks;
mod claims;
mod delayed;
mod descriptors;
mod exact;
mod fragments;
mod group;
mod grow;
mod inodes;
mod layout;
mod learn;
mod load;
mod loaders;
mod partial;
mod preallocation;
mod racing_inodes;
mod retry;
mod shaping;
#[cfg(test)]
mod tests;
mod trim;
mod visit;

pub(crate) use blocks::{Purpose, Reserve, Want, metadata_end};
pub(crate) use exact::Was;
pub use fragments::{FreeExtents, FreeFragments};
pub(crate) use grow::BeforeGrowth;
pub(crate) use inodes::{LastFlex, Near};
pub(crate) use preallocation::FilePreallocation;
pub(crate) use shaping::{Shaping, Window};

use crate::state::base::Base;
use crate::state::incidents::Incidents;
use crate::types::attr::StatFs;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use claims::Claims;
use group::Group;
use layout::GroupLayout;
use preallocation::Preallocations;
use uext4_alloc::{Engine, InodePolicy, InodeRuns};
use uext4_device::BlockDevice;
use uext4_format::dirent::NAME_MAX;
use uext4_format::{BlockNr, Geometry, GroupNr, InodeNr, Tid, Uuid};
use uext4_journal::CommitObserver;
use uext4_num::{clamp_i64, clamp_u32, nonnegative, usize_of};
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, Latest, OnceLock, SequenceCount};
use uext4_volume::{DescriptorTable, Zones};

/// Tries to read counts between two commits.
const SAMPLES_MAX: usize = 8;

/// All space of a mounted file system.
pub(crate) struct Space {
    layout: Arc<GroupLayout>,
    device: Arc<dyn BlockDevice>,
    /// Descriptors as they were on disk at mount, or when it grew; each is parsed on first use.
    raw: Latest<DescriptorTable>,
    /// As many as it may grow to.
    groups: Box<[OnceLock<Group>]>,
    engine: Box<dyn Engine>,
    policy: InodePolicy,
    /// `None`: the baseline of measurements ([`racing_inodes`]).
    runs: Option<InodeRuns>,
    claims: Claims,
    preallocations: Preallocations,
    shaping: Shaping,
    zones: Latest<Zones>,
    journal_zones: OnceLock<Zones>,
    overhead_blocks: AtomicU64,
    discard: AtomicBool,
    /// Commits are returning freed runs while a change is in progress.
    returns: SequenceCount,
    early_commits: retry::EarlyCommits,
    learners: learn::Learners,
    incidents: OnceLock<Arc<Incidents>>,
}

impl Space {
    /// The group, parsed from its descriptor on first use.
    fn group(&self, nr: GroupNr) -> Result<&Group> {
        let cell = self
            .groups
            .get(usize_of(nr.0))
            .ok_or(Error::Invalid("group number"))?;
        if let Some(group) = cell.get() {
            return Ok(group);
        }
        if nr.0 >= self.geometry().group_count {
            return Err(Error::Invalid("group number"));
        }
        let descriptor = self
            .raw
            .parse(nr, &self.layout.geometry, &self.layout.checksums)?;
        Ok(cell.get_or_init(|| Group::new(nr, self.layout.clone(), descriptor)))
    }

    /// Sets the log for incidents of background threads.
    pub(crate) fn set_incidents(&self, incidents: &Arc<Incidents>) {
        // One mount has one log.
        let _ = self.incidents.set(incidents.clone());
    }

    fn met(&self, error: &Error) {
        if let Some(incidents) = self.incidents.get() {
            incidents.met(error);
        }
    }

    fn geometry(&self) -> &Geometry {
        &self.layout.geometry
    }

    /// Whether a file or directory may own this block.
    pub(crate) fn may_contain_data(&self, nr: BlockNr) -> bool {
        self.may_contain_run(nr, 1)
    }

    /// Whether a file may own all blocks of the run.
    pub(crate) fn may_contain_run(&self, start: BlockNr, len_blocks: u64) -> bool {
        self.is_beside_metadata(start, len_blocks)
            && self
                .journal_zones
                .get()
                .is_none_or(|z| z.is_clear(start, len_blocks))
    }

    /// Whether a file or the log may own all blocks of the run.
    pub(crate) fn is_beside_metadata(&self, start: BlockNr, len_blocks: u64) -> bool {
        let inside = self.geometry().contains_run(start, len_blocks);
        inside && self.zones.is_clear(start, len_blocks)
    }

    /// Keeps files from mapping blocks of the journal.
    pub(crate) fn protect_journal(&self, runs: Vec<std::ops::Range<u64>>) {
        let _ = self.journal_zones.set(Zones::new(runs));
    }

    /// Block and byte offset of an inode's slot in its table.
    pub(crate) fn inode_location(&self, nr: InodeNr) -> Result<Option<(BlockNr, usize)>> {
        let Some((group, index)) = self.geometry().split_inode(nr) else {
            return Ok(None);
        };
        let table = self.raw.inode_table(group);
        self.group(group)?;
        let (block, offset) = self.geometry().inode_location(table, index);
        Ok(Some((block, usize_of(offset))))
    }

    /// Free blocks and inodes by the descriptors, for the superblock.
    pub(crate) fn free_on_disk(&self) -> (u64, u32) {
        let clusters = self.claims.free_on_disk();
        let blocks = clusters << self.geometry().cluster_bits;
        (
            blocks,
            u32::try_from(self.policy.counts().free_on_disk()).unwrap_or(u32::MAX),
        )
    }

    /// Totals of the whole file system.
    pub(crate) fn statfs(&self, base: &Base) -> StatFs {
        let geometry = self.geometry();
        let state = base.superblock.read();
        let overhead = if base.settings.has(Switch::MinixDf) {
            0
        } else {
            self.overhead_blocks.load(Ordering::Relaxed)
        };
        let blocks_free = nonnegative(self.free_and_pending()) << geometry.cluster_bits;
        let reserved = state
            .disk
            .r_blocks_count
            .saturating_add(self.claims.held_back_blocks());
        StatFs {
            block_size: geometry.block_size(),
            blocks: geometry.blocks_count.saturating_sub(overhead),
            blocks_free,
            blocks_available: blocks_free.saturating_sub(reserved),
            inodes: geometry.inodes_count.into(),
            inodes_free: self.policy.counts().free_inodes(),
            name_max: clamp_u32(NAME_MAX),
            id: Uuid(&state.disk.uuid).folded(),
        }
    }

    /// Clusters that no write has claimed.
    pub(crate) fn unclaimed_clusters(&self) -> u64 {
        nonnegative(self.claims.balance())
    }

    /// Clusters that are free now, or after the next commit: programs delete files until enough is
    /// free. A commit in progress moves clusters from one count to the other. See
    /// [`Claims::balance`].
    fn free_and_pending(&self) -> i64 {
        let mut sum = 0;
        for _ in 0..SAMPLES_MAX {
            let before = self.returns.sample();
            let pending = clamp_i64(self.engine.pending().clusters());
            sum = self.claims.balance().saturating_add(pending);
            if !before.is_changing() && self.returns.sample() == before {
                break;
            }
        }
        sum
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }
}

impl CommitObserver for Space {
    /// Makes the runs that the transaction freed reusable.
    fn committed(&self, tid: Tid) {
        self.returns.begin(); // commits are serialized
        let runs = self.engine.start_return(tid);
        if self.discard.load(Ordering::Relaxed) {
            self.discard_runs(&runs);
        }
        let usable = self.engine.finish_return(&runs);
        self.claims.give(usable);
        self.returns.end();
    }

    fn unwritten(&self, cause: &uext4_journal::Error) {
        self.met(&cause.clone().into());
    }

    fn aborted(&self, cause: &uext4_journal::Error) {
        if let Some(incidents) = self.incidents.get() {
            incidents.stopped(&cause.clone().into());
        }
    }
}
