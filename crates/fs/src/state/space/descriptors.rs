//! Counts of groups as their descriptors had them at the mount.

use uext4_alloc::{InodeSummary, Summary};
use uext4_format::{Geometry, GroupNr, group_flag};
use uext4_volume::DescriptorTable;

pub(super) fn summary(raw: &DescriptorTable, geometry: &Geometry, nr: GroupNr) -> Summary {
    let descriptor = raw.unverified(nr);
    Summary {
        free_clusters: descriptor.free_clusters.min(geometry.clusters_in_group(nr)),
        uninit: descriptor.has_flag(group_flag::BLOCK_UNINIT),
    }
}

pub(super) fn inode_summary(
    raw: &DescriptorTable,
    geometry: &Geometry,
    nr: GroupNr,
) -> InodeSummary {
    let descriptor = raw.unverified(nr);
    InodeSummary {
        free_inodes: descriptor.free_inodes.min(geometry.inodes_per_group),
        used_dirs: descriptor.used_dirs.min(geometry.inodes_per_group),
    }
}
