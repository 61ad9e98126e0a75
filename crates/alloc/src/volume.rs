//! Geometry: clusters, runs of clusters, groups and flexible groups.
//!
//! A cluster number counts allocation units from the first block of group 0, so group and offset
//! come from one division. Without bigalloc a cluster is one block.

use uext4_format::{BlockNr, GroupNr};
use uext4_num::clamp_u32;

/// Cluster of the file system, counted from the first cluster of group 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterNr(pub u64);

/// Contiguous clusters. An engine never returns a run that crosses a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first cluster of the run.
    pub start: ClusterNr,
    /// Length in clusters; at least 1.
    pub len: u32,
}

impl Run {
    /// The run of `len` clusters from `start`.
    pub fn new(start: ClusterNr, len: u32) -> Self {
        Self { start, len }
    }
    /// The cluster after the last one.
    pub fn end(self) -> ClusterNr {
        ClusterNr(self.start.0 + u64::from(self.len))
    }
}

/// Geometry of the file system, as far as allocation needs it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Number of block groups; at least 1.
    pub groups: u32,
    /// Number of block groups up to which it may grow while it is in use; memory is kept for them.
    pub groups_max: u32,
    /// Clusters in each group but the last.
    pub clusters_per_group: u32,
    /// Clusters in the last group; at least 1.
    pub clusters_in_last_group: u32,
    /// First block of group 0 (`s_first_data_block`).
    pub first_block: BlockNr,
    /// log2 of blocks per cluster.
    pub cluster_bits: u32,
    /// Groups per flexible group; 1 without flex_bg.
    pub groups_per_flex: u32,
}

impl Volume {
    /// Clusters of all groups.
    pub fn clusters(&self) -> u64 {
        u64::from(self.groups - 1) * u64::from(self.clusters_per_group)
            + u64::from(self.clusters_in_last_group)
    }
    /// Clusters of one group.
    pub fn clusters_in(&self, group: GroupNr) -> u32 {
        if group.0 + 1 == self.groups {
            self.clusters_in_last_group
        } else {
            self.clusters_per_group
        }
    }
    /// First cluster of a group.
    pub fn first_cluster(&self, group: GroupNr) -> ClusterNr {
        ClusterNr(u64::from(group.0) * u64::from(self.clusters_per_group))
    }
    /// The group of a cluster and the cluster's offset in it; `None` past the end.
    pub fn locate(&self, cluster: ClusterNr) -> Option<(GroupNr, u32)> {
        if cluster.0 >= self.clusters() {
            return None;
        }
        let per_group = u64::from(self.clusters_per_group);
        // Both fit: the cluster lies inside the volume, whose group count is a u32.
        Some((
            GroupNr(clamp_u32(cluster.0 / per_group)),
            clamp_u32(cluster.0 % per_group),
        ))
    }
    /// The cluster that holds a block; `None` before the first data block or past the end.
    pub fn cluster_of(&self, block: BlockNr) -> Option<ClusterNr> {
        let cluster = block.0.checked_sub(self.first_block.0)? >> self.cluster_bits;
        (cluster < self.clusters()).then_some(ClusterNr(cluster))
    }
    /// First block of a cluster.
    pub fn block_of(&self, cluster: ClusterNr) -> BlockNr {
        BlockNr(self.first_block.0 + (cluster.0 << self.cluster_bits))
    }
    /// First group of the flexible group that `group` belongs to.
    pub fn flex_start(&self, group: GroupNr) -> GroupNr {
        GroupNr(group.0 - group.0 % self.groups_per_flex.max(1))
    }
    /// Number of flexible groups (the last may be short).
    pub fn flex_groups(&self) -> u32 {
        self.groups.div_ceil(self.groups_per_flex.max(1))
    }
    /// Cuts a run at group borders: `(group, offset in the group, length)`, ascending.
    pub fn split(&self, run: Run) -> impl Iterator<Item = (GroupNr, u32, u32)> + '_ {
        let (mut at, end) = (run.start.0, run.end().0);
        std::iter::from_fn(move || {
            let (group, offset) = (at < end).then(|| self.locate(ClusterNr(at)))??;
            let room = u64::from(self.clusters_in(group) - offset);
            let len = clamp_u32(room.min(end - at)); // at most the clusters of one group
            at += u64::from(len);
            Some((group, offset, len))
        })
    }
}
