//! Bitmaps of groups at rest, and what they say.

use super::descriptors::Descriptors;
use crate::Result;
use crate::mount::AtRest;
use std::ops::Range;
use uext4_format::bitmap::{uninit_block_bitmap, uninit_inode_bitmap};
use uext4_format::{
    BlockNr, GroupDescriptor, GroupNr, Inode, InodeNr, block_bitmap_checksum, group_flag,
};
use uext4_num::{clamp_u32, usize_of};

/// The block bitmap of a group, also of one that has none on the device yet.
pub(super) fn block_bitmap(
    rest: &AtRest,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<Vec<u8>> {
    let geometry = &rest.geometry;
    if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        return Ok(uninit_block_bitmap(geometry, group, descriptor));
    }
    let bitmap = rest.read(descriptor.block_bitmap)?;
    let checksums = rest.superblock.checksums();
    descriptor.verify_block_bitmap(&bitmap, group, geometry, &checksums)?;
    Ok(bitmap)
}

/// The inode bitmap of a group, also of one that has none on the device yet.
pub(super) fn inode_bitmap(
    rest: &AtRest,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<Vec<u8>> {
    let geometry = &rest.geometry;
    if descriptor.has_flag(group_flag::INODE_UNINIT) {
        return Ok(uninit_inode_bitmap(geometry));
    }
    let bitmap = rest.read(descriptor.inode_bitmap)?;
    let checksums = rest.superblock.checksums();
    descriptor.verify_inode_bitmap(&bitmap, group, geometry, &checksums)?;
    Ok(bitmap)
}

/// Calls `visit` with each inode of a group that is in use.
pub(super) fn for_each_inode(
    rest: &AtRest,
    descriptor: &GroupDescriptor,
    group: GroupNr,
    visit: &mut dyn FnMut(InodeNr, &Inode) -> Result<()>,
) -> Result<()> {
    let geometry = &rest.geometry;
    let bitmap = inode_bitmap(rest, descriptor, group)?;
    let checksums = rest.superblock.checksums();
    let mut there = (BlockNr(0), Vec::new());
    for index in (0..geometry.inodes_per_group).filter(|index| bit(&bitmap, *index)) {
        let (block, offset) = geometry.inode_location(descriptor.inode_table, index);
        if there.0 != block {
            there = (block, rest.read(block)?);
        }
        let nr = geometry.inode_at(group, index);
        let bytes = &there.1[usize_of(offset)..];
        visit(nr, &Inode::parse(bytes, nr, geometry, &checksums)?)?;
    }
    Ok(())
}

/// Updates the descriptor of a group with this block bitmap; answers where the bitmap is.
pub(super) fn put_bitmap(
    descriptors: &mut Descriptors,
    rest: &AtRest,
    group: GroupNr,
    bitmap: &[u8],
) -> Result<BlockNr> {
    let geometry = descriptors.geometry();
    let mut descriptor = descriptors.get(group)?;
    let used = |at: &u32| !bit(bitmap, *at);
    let free = (0..geometry.clusters_in_group(group)).filter(used).count();
    descriptor.free_clusters = clamp_u32(free);
    descriptor.flags &= !group_flag::BLOCK_UNINIT;
    if let Some(seed) = rest.superblock.checksums().metadata {
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
