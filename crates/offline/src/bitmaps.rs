//! Bitmaps of groups at rest, and what they say.

use super::changes::Changes;
use super::descriptors::Descriptors;
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::bitmap::{clear_bits, set_bits, uninit_block_bitmap, uninit_inode_bitmap};
use uext4_format::{
    BlockNr, Feature, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, block_bitmap_checksum,
    group_flag,
};
use uext4_num::{clamp_u32, usize_of};
use uext4_volume::Result;
use uext4_volume::Volume;

/// The block bitmap of a group, also of one that has none on the device yet.
pub(super) fn block_bitmap(
    volume: &Volume,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<Vec<u8>> {
    let geometry = &volume.geometry;
    if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        return Ok(uninit_block_bitmap(geometry, group, descriptor));
    }
    let bitmap = volume.read(descriptor.block_bitmap)?;
    let checksums = volume.superblock.checksums();
    descriptor.verify_block_bitmap(&bitmap, group, geometry, &checksums)?;
    Ok(bitmap)
}

/// The free clusters of a group.
pub(super) fn free_clusters(
    volume: &Volume,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<impl Iterator<Item = Range<u64>>> {
    let bitmap = block_bitmap(volume, descriptor, group)?;
    let first = first_cluster(&volume.geometry, group);
    let runs = free_runs(&bitmap, volume.geometry.clusters_in_group(group));
    Ok(runs
        .into_iter()
        .map(move |run| first + u64::from(run.start)..first + u64::from(run.end)))
}

fn first_cluster(geometry: &Geometry, group: GroupNr) -> u64 {
    geometry.group_first_block(group).0 >> geometry.cluster_bits
}

/// The groups of these clusters.
pub(super) fn groups_of(geometry: &Geometry, runs: &[Range<u64>]) -> BTreeSet<GroupNr> {
    let group = |cluster: u64| geometry.group_of_block(BlockNr(cluster << geometry.cluster_bits));
    runs.iter()
        .flat_map(|run| (group(run.start).0..=group(run.end - 1).0).map(GroupNr))
        .collect()
}

/// Marks clusters of a group in its bitmap, `taken` ones and then `freed` ones; those behind its
/// end as well, which no program may use.
pub(super) fn mark_clusters(
    volume: &Volume,
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    group: GroupNr,
    taken: &[Range<u64>],
    freed: &[Range<u64>],
) -> Result<()> {
    let geometry = descriptors.geometry();
    let descriptor = descriptors.get(group)?;
    let mut bitmap = if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        uninit_block_bitmap(&geometry, group, &descriptor)
    } else {
        changes.get(descriptor.block_bitmap)?
    };
    if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        let checksums = volume.superblock.checksums();
        descriptor.verify_block_bitmap(&bitmap, group, &geometry, &checksums)?;
    }
    let len = geometry.clusters_in_group(group);
    let first = first_cluster(&geometry, group);
    let at = |cluster: u64| clamp_u32(cluster.saturating_sub(first)).min(len);
    for run in taken {
        set_bits(&mut bitmap, at(run.start), at(run.end));
    }
    for run in freed {
        clear_bits(&mut bitmap, at(run.start), at(run.end));
    }
    set_bits(&mut bitmap, len, u32::MAX);
    let nr = put_bitmap(descriptors, volume, group, &bitmap)?;
    changes.put(nr, bitmap)
}

/// The inode bitmap of a group, also of one that has none on the device yet.
pub(super) fn inode_bitmap(
    volume: &Volume,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<Vec<u8>> {
    let geometry = &volume.geometry;
    if descriptor.has_flag(group_flag::INODE_UNINIT) {
        return Ok(uninit_inode_bitmap(geometry));
    }
    let bitmap = volume.read(descriptor.inode_bitmap)?;
    let checksums = volume.superblock.checksums();
    descriptor.verify_inode_bitmap(&bitmap, group, geometry, &checksums)?;
    Ok(bitmap)
}

/// How many inodes of a group were ever written.
pub(crate) fn written_inodes(geometry: &Geometry, descriptor: &GroupDescriptor) -> u32 {
    let has = |feature| geometry.features.has(feature);
    let tracks_unused = has(Feature::METADATA_CSUM) || has(Feature::UNINIT_BG);
    let all = geometry.inodes_per_group;
    if !tracks_unused {
        all
    } else if descriptor.has_flag(group_flag::INODE_UNINIT) {
        0
    } else {
        all.saturating_sub(descriptor.itable_unused)
    }
}

/// Calls `visit` with each inode of a group that is in use.
pub(super) fn for_each_inode(
    volume: &Volume,
    descriptor: &GroupDescriptor,
    group: GroupNr,
    visit: &mut dyn FnMut(InodeNr, &Inode) -> Result<()>,
) -> Result<()> {
    let geometry = &volume.geometry;
    let bitmap = inode_bitmap(volume, descriptor, group)?;
    let checksums = volume.superblock.checksums();
    let mut there = (BlockNr(0), Vec::new());
    for index in (0..geometry.inodes_per_group).filter(|index| bit(&bitmap, *index)) {
        let (block, offset) = geometry.inode_location(descriptor.inode_table, index);
        if there.0 != block {
            there = (block, volume.read(block)?);
        }
        let nr = geometry.inode_at(group, index);
        let bytes = &there.1[usize_of(offset)..];
        visit(nr, &Inode::parse(bytes, nr, geometry, &checksums)?)?;
    }
    Ok(())
}

/// Updates the descriptor of a group with this block bitmap; returns where the bitmap is.
pub(super) fn put_bitmap(
    descriptors: &mut Descriptors,
    volume: &Volume,
    group: GroupNr,
    bitmap: &[u8],
) -> Result<BlockNr> {
    let geometry = descriptors.geometry();
    let mut descriptor = descriptors.get(group)?;
    let free = (0..geometry.clusters_in_group(group))
        .filter(|at| !bit(bitmap, *at))
        .count();
    descriptor.free_clusters = clamp_u32(free);
    descriptor.flags &= !group_flag::BLOCK_UNINIT;
    if let Some(seed) = volume.superblock.checksums().metadata {
        let checksum = block_bitmap_checksum(seed, bitmap, &geometry);
        descriptor.set_block_bitmap_checksum(checksum, &geometry);
    }
    descriptors.set(group, &descriptor);
    Ok(descriptor.block_bitmap)
}

/// The runs of clear bits among the first `count` of a bitmap.
pub(super) fn free_runs(bitmap: &[u8], count: u32) -> Vec<Range<u32>> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(start) = (at..count).find(|at| !bit(bitmap, *at)) {
        at = (start..count).find(|at| bit(bitmap, *at)).unwrap_or(count);
        runs.push(start..at);
    }
    runs
}

/// Bit `at` of a bitmap.
pub(super) fn bit(bitmap: &[u8], at: u32) -> bool {
    bitmap[usize_of(at / 8)] >> (at % 8) & 1 != 0
}
