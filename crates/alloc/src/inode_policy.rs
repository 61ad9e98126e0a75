//! Choice of the group for a new inode (Orlov).
//!
//! Directories are spread. Those in the root, or in a directory flagged as a top, go to the
//! flexible group with the fewest directories among those with at least average free inodes and
//! clusters. Others stay near their parent until that is too full. Files stay in their parent's
//! flexible group.
//!
//! Threads start at different groups inside a flexible group, so that creators in one directory
//! rarely contend.
//!
//! Not here: the list of groups to try ([`crate::Candidates`]), bits, the recently deleted rule,
//! descriptors. References: kernel documentation `filesystems/ext4/allocators`.

use crate::inode_counts::{InodeCounts, InodeSummary};
use crate::{Affinity, Engine, Volume};
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::usize_of;
use uext4_sync::Latest;

/// Flexible groups examined for a top-level directory; bounds the walk on huge volumes.
const TOP_SCAN_MAX: u32 = 1024;

/// The directory that the new inode is created in.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// Group of its inode.
    pub group: GroupNr,
    /// A group of the flexible group in which the last inode of the directory was created.
    pub last_flex: Option<GroupNr>,
    /// `Some(hash of the new name)` for a new directory in the root or in one that is flagged as
    /// top of hierarchies.
    pub top: Option<u32>,
}

/// The placement policy, by the free counts of inodes and blocks.
pub struct InodePolicy {
    pub(crate) volume: Latest<Volume>,
    inodes_per_group: u32,
    pub(crate) affinity: Affinity,
    counts: InodeCounts,
}

impl InodePolicy {
    /// A policy with the counts that `summary` reads from the descriptor of each group.
    pub fn new(
        volume: Volume,
        inodes_per_group: u32,
        affinity: Affinity,
        summary: &dyn Fn(GroupNr) -> InodeSummary,
    ) -> Self {
        let counts = InodeCounts::new(&volume, inodes_per_group, summary);
        Self {
            volume: Latest::new(volume),
            inodes_per_group,
            affinity,
            counts,
        }
    }

    /// Continues with a larger `volume`, as [`Engine::grow`]: the inodes of new groups are as
    /// `summary` says.
    pub fn grow(&self, volume: Volume, summary: &dyn Fn(GroupNr) -> InodeSummary) {
        self.counts.grow(self.volume.groups..volume.groups, summary);
        self.volume.replace(volume);
    }

    /// The counts that it uses; the caller updates them.
    pub fn counts(&self) -> &InodeCounts {
        &self.counts
    }

    /// Free inodes of a group on average, at least one.
    pub(crate) fn average_free(&self) -> u32 {
        let average = self.counts.free_inodes() / u64::from(self.volume.groups);
        u32::try_from(average).unwrap_or(u32::MAX).max(1)
    }

    /// The groups of a flexible group.
    pub(crate) fn groups_of(&self, flex: u32) -> Range<u32> {
        let size = self.volume.groups_per_flex.max(1);
        let first = flex * size;
        first..self.volume.groups.min(first + size)
    }

    pub(crate) fn flex_of(&self, group: GroupNr) -> u32 {
        // A hint from a directory may be stale after a shrink.
        group.0.min(self.volume.groups - 1) / self.volume.groups_per_flex.max(1)
    }

    fn totals(&self, flex: u32, space: &dyn Engine) -> Totals {
        let mut totals = Totals::default();
        for nr in self.groups_of(flex) {
            let inodes = self.counts.summary(GroupNr(nr));
            totals.inodes += u64::from(inodes.free_inodes);
            totals.dirs += u64::from(inodes.used_dirs);
            totals.clusters += u64::from(space.group_free(GroupNr(nr)));
        }
        totals
    }

    /// The flexible group for a directory, if one qualifies.
    pub(crate) fn spread(
        &self,
        parent: Parent,
        space: &dyn Engine,
        free_clusters: u64,
    ) -> Option<u32> {
        let flexes = self.volume.flex_groups();
        let per_flex = |total: u64| total / u64::from(flexes);
        let average = Totals {
            inodes: per_flex(self.counts.free_inodes()),
            dirs: per_flex(self.counts.used_dirs()),
            clusters: per_flex(free_clusters),
        };
        let walk = |start: u32| (0..flexes).map(move |at| (start % flexes + at) % flexes);
        if let Some(hash) = parent.top {
            let good = walk(hash).take(usize_of(TOP_SCAN_MAX)).filter_map(|flex| {
                let totals = self.totals(flex, space);
                let full = totals.inodes == 0
                    || totals.inodes < average.inodes
                    || totals.clusters < average.clusters;
                (!full).then_some((totals.dirs, flex))
            });
            if let Some((_, flex)) = good.min_by_key(|(dirs, _)| *dirs) {
                return Some(flex);
            }
        }
        let size = u64::from(self.volume.groups_per_flex.max(1));
        let inodes = u64::from(self.inodes_per_group) * size;
        let clusters = u64::from(self.volume.clusters_per_group) * size;
        let dirs_max = average.dirs + inodes / 16;
        let inodes_min = average.inodes.saturating_sub(inodes / 4).max(1);
        let clusters_min = average.clusters.saturating_sub(clusters / 4);
        walk(self.flex_of(parent.last_flex.unwrap_or(parent.group))).find(|&flex| {
            let totals = self.totals(flex, space);
            totals.dirs < dirs_max && totals.inodes >= inodes_min && totals.clusters >= clusters_min
        })
    }
}

#[derive(Default)]
struct Totals {
    inodes: u64,
    dirs: u64,
    clusters: u64,
}
