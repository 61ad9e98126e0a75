//! Free clusters for repairs.
//!
//! Invariant: a cluster is free if nothing has claimed it. While the map of some inode could not be
//! walked, that inode may have more. Then no damaged map must name the cluster, and a bitmap that
//! can be believed must have it free.

use super::maps::set_format;
use super::patch::Patch;
use crate::bits::Bits;
use crate::problems::{Area, Problem};
use crate::report::Finding;
use crate::state::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, GroupNr, InodeFlags, InodeNr, group_flag,
};
use uext4_num::usize_of;

/// Where a search over the whole file system goes on: for one that trusts bitmaps or not, and for a
/// table or a block.
pub(super) type Searched = BTreeMap<(bool, bool), u64>;

/// Clusters that a search passes between two checks of the time.
const STRIDE: u64 = 1 << 15;
/// Blocks of maps that a round may read more than once, in sizes of the file system.
const WALKS_MAX: u64 = 4;

/// What is known about free clusters.
#[derive(Default)]
pub(super) struct Space {
    /// Whether every cluster in use is claimed; unknown before the first allocation.
    all_claimed: Option<bool>,
    /// The bitmap that was read last; no bytes for one that cannot be believed.
    bitmap: Option<(GroupNr, Vec<u8>)>,
    /// Clusters that damaged maps name.
    spared: Option<Bits>,
    /// Whether the damaged maps were read.
    has_spared: bool,
    /// The clusters that the searches from its start on have passed: none is free.
    passed: Range<u64>,
    /// No cluster is free from this one on.
    full_from: Option<u64>,
    pub(super) is_full: bool,
    /// The groups of the clusters that were taken.
    pub(super) groups: BTreeSet<GroupNr>,
    /// Blocks of maps that may be read once more although another map has them.
    reads_left: u64,
    /// Where searches for places of metadata go on.
    pub(super) searched: Searched,
    /// Problems of what was read ahead of its pass.
    pub(super) surveyed: Vec<Finding>,
    /// Whether there are more such problems.
    pub(super) has_gaps: bool,
    /// Clusters that may be copied; unknown before the first copy.
    pub(super) copies_left: Option<u64>,
}

impl Space {
    pub(super) fn new(blocks_count: u64) -> Self {
        Self {
            reads_left: blocks_count.saturating_mul(WALKS_MAX),
            ..Self::default()
        }
    }

    /// Counts a block of a map that another map has; false if there were too many.
    pub(super) fn may_read_again(&mut self) -> bool {
        let is_allowed = self.reads_left > 0;
        self.reads_left = self.reads_left.saturating_sub(1);
        is_allowed
    }

    /// The clusters behind a goal where one may be free; those from the first on if there are
    /// none. A search goes on where the last one ended.
    fn range_behind(&mut self, goal: u64, all: u64) -> Range<u64> {
        let end = self.full_from.unwrap_or(all);
        let start = if goal < end { goal } else { 0 };
        if !(self.passed.start..=self.passed.end).contains(&start) {
            self.passed = start..start;
        }
        self.passed.end..end
    }
}

impl Patch<'_, '_> {
    /// Takes a free cluster, the first behind `goal`, and returns its first block; `None` if there
    /// is none. Bitmaps follow in a later round.
    pub(crate) fn allocate(&mut self, goal: BlockNr) -> Step<Option<BlockNr>> {
        if self.space.is_full {
            return Ok(None);
        }
        if !self.all_claimed() {
            self.spare_damaged()?;
        }
        let all = self.whole_clusters();
        let goal = self.check.clusters(goal.0..goal.0.saturating_add(1)).start;
        for goal in [goal, 0] {
            let range = self.space.range_behind(goal, all);
            if let Some(cluster) = self.find_free(range)? {
                self.space.passed.end = cluster + 1;
                self.check.claim(cluster..cluster + 1)?;
                let block = self.first_block(cluster);
                let (group, _) = self.check.geometry.split_block_to_cluster(block);
                self.space.groups.insert(group);
                return Ok(Some(block));
            }
            self.space.full_from = Some(self.space.passed.start);
        }
        self.space.is_full = true;
        Ok(None)
    }

    /// The first free cluster of a range.
    fn find_free(&mut self, mut range: Range<u64>) -> Step<Option<u64>> {
        while !range.is_empty() {
            self.check.tick()?;
            let end = range.end.min(range.start.saturating_add(STRIDE));
            match self.first_unnamed(range.start..end) {
                Some(cluster) if self.is_usable(cluster)? => return Ok(Some(cluster)),
                Some(cluster) => range.start = cluster + 1,
                None => range.start = end,
            }
        }
        Ok(None)
    }

    /// The first cluster that nothing claimed and no damaged map names.
    pub(super) fn first_unnamed(&self, mut range: Range<u64>) -> Option<u64> {
        while let Some(cluster) = self.check.claimed.first_missing(&range) {
            range.start = match &self.space.spared {
                Some(spared) => spared.first_missing(&(cluster..range.end))?,
                None => cluster,
            };
            if range.start == cluster {
                return Some(cluster);
            }
        }
        None
    }

    /// Keeps allocations off what the maps with damage name.
    pub(super) fn spare_damaged(&mut self) -> Step {
        if std::mem::replace(&mut self.space.has_spared, true) {
            return Ok(());
        }
        let findings = self.check.report.findings.iter();
        let findings = findings.chain(&self.space.surveyed);
        let damaged = findings.filter_map(|finding| damaged_map(&finding.corrupt));
        let damaged: BTreeSet<u32> = damaged.map(|nr| nr.0).collect();
        for nr in damaged.into_iter().map(InodeNr) {
            if self.space.reads_left == 0 {
                break;
            }
            let Some(mut inode) = self.inode(nr)? else {
                continue;
            };
            set_format(&mut inode);
            if inode.flags.contains(InodeFlags::EXTENTS) || !self.is_fast_link(&inode) {
                let read = self.spare_map(nr, &inode)?;
                self.space.reads_left = self.space.reads_left.saturating_sub(read);
            }
        }
        Ok(())
    }

    /// Whether allocations are kept off one of these clusters.
    pub(super) fn is_spared(&self, clusters: &Range<u64>) -> bool {
        let spared = self.space.spared.as_ref();
        spared.is_some_and(|spared| !spared.has_none(clusters))
    }

    /// Keeps allocations off these blocks.
    pub(super) fn spare(&mut self, blocks: Range<u64>) -> Step {
        let clusters = self.check.clusters(blocks);
        let all = self.check.geometry.clusters_count();
        if self.space.spared.is_none() {
            self.check.take(Bits::empty_bytes(all))?;
        }
        let spared = self.space.spared.get_or_insert_with(|| Bits::new(all));
        self.check.take(spared.more_bytes(&clusters))?;
        spared.put_all(clusters);
        Ok(())
    }

    /// Whether a cluster that nothing claimed is free.
    fn is_usable(&mut self, cluster: u64) -> Step<bool> {
        Ok(self.all_claimed() || !self.is_marked(self.first_block(cluster))?)
    }

    pub(super) fn first_block(&self, cluster: u64) -> BlockNr {
        let geometry = &self.check.geometry;
        BlockNr(u64::from(geometry.first_data_block) + (cluster << geometry.cluster_bits))
    }

    /// The number of clusters whose blocks are all inside. A partial last one is of no use: copies
    /// would end behind the file system.
    pub(super) fn whole_clusters(&self) -> u64 {
        let geometry = &self.check.geometry;
        let first = u64::from(geometry.first_data_block);
        geometry.blocks_count.saturating_sub(first) >> geometry.cluster_bits
    }

    /// Whether the pass over the inodes has claimed all clusters in use.
    fn all_claimed(&mut self) -> bool {
        if let Some(known) = self.space.all_claimed {
            return known;
        }
        let report = &self.check.report;
        let mut problems = report.findings.iter().map(|finding| &finding.corrupt);
        let known = report.n_inodes > 0
            && report.n_more == 0
            && problems.all(|corrupt| {
                let area = Problem::of(corrupt).map(|problem| problem.area);
                let walked = matches!(
                    corrupt.problem,
                    CorruptKind::DataShared | CorruptKind::Misaligned | CorruptKind::NeverWritten
                );
                walked || area.is_some_and(|area| area > Area::Map)
            });
        self.space.all_claimed = Some(known);
        known
    }

    /// Whether the bitmap has the cluster of a block in use, or cannot be believed.
    pub(super) fn is_marked(&mut self, block: BlockNr) -> Step<bool> {
        Ok(self.mark_of(block)?.unwrap_or(true))
    }

    /// Whether the bitmap has the cluster of a block in use; `None` if it cannot be believed.
    pub(super) fn mark_of(&mut self, block: BlockNr) -> Step<Option<bool>> {
        let (group, bit) = self.check.geometry.split_block_to_cluster(block);
        let known = self.space.bitmap.take();
        let bytes = match known.filter(|(read, _)| *read == group) {
            Some((_, bytes)) => bytes,
            None => self.believable_bitmap(group)?,
        };
        let byte = bytes.get(usize_of(bit / 8));
        let mark = byte.map(|byte| byte & 1 << (bit % 8) != 0);
        self.space.bitmap = Some((group, bytes));
        Ok(mark)
    }

    /// The bitmap of a group, without damage; no bytes if it or its descriptor has some, or if it
    /// was never written.
    fn believable_bitmap(&mut self, group: GroupNr) -> Step<Vec<u8>> {
        let descriptor = self.check.descriptors.get(usize_of(group.0));
        let Some(descriptor) = descriptor.cloned().flatten() else {
            return Ok(Vec::new());
        };
        if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            return Ok(Vec::new());
        }
        let bytes = self.read(descriptor.block_bitmap)?;
        let (geometry, checksums) = (&self.check.geometry, &self.check.checksums);
        let verified = descriptor.verify_block_bitmap(&bytes, group, geometry, checksums);
        Ok(verified.map(|()| bytes).unwrap_or_default())
    }
}

/// The inode of a problem of an inode or of its map.
fn damaged_map(corrupt: &Corrupt) -> Option<InodeNr> {
    let area = Problem::of(corrupt)?.area;
    match corrupt.place {
        DamageLocation::Inode(nr) | DamageLocation::InodeBlock(nr, _) => {
            matches!(area, Area::Inode | Area::Map).then_some(nr)
        }
        _ => None,
    }
}
