//! The change of the size: one transaction, when nothing that stays is behind the new end.

use super::apply::released;
use super::layout::Layout;
use super::plan::Step;
use super::space;
use crate::Result;
use crate::mount::AtRest;
use crate::resize::bitmaps::put_bitmap;
use crate::resize::changes::Changes;
use crate::resize::descriptors::Descriptors;
use crate::resize::grow::{settle_lazy_bitmaps, write_copies};
use crate::resize::resize_inode;
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::bitmap::{clear_bits, set_bits, uninit_block_bitmap};
use uext4_format::{BlockNr, GroupNr, Superblock, group_flag};
use uext4_num::clamp_u32;

/// Cuts the file system to the size of the step, and writes the backups of the groups that stay.
///
/// # Errors
/// As [`crate::resize::grow`].
pub(super) fn run(rest: &mut AtRest, layout: &Layout, step: &Step) -> Result<()> {
    let (old, new) = (rest.geometry, step.geometry);
    let checksums = rest.superblock.checksums();
    let mut groups = layout.groups.clone();
    for table in &step.tables {
        table.apply_to(&mut groups);
    }
    let freed = released(&old, &groups, &new);
    let mut wanted = step.wanted.clone();
    // The journal may have moved since the plan.
    wanted.jnl_blocks = rest.superblock.jnl_blocks;
    let now = u64::from(rest.superblock.overhead_clusters);
    // 0 is unknown.
    wanted.overhead_clusters = clamp_u32(now.saturating_sub(space::total(&freed)));
    let mut descriptors = Descriptors::read(rest)?;
    let mut changes = Changes::new(rest);
    resize_inode::update(&mut changes, &mut descriptors, &checksums, &old, &new)?;
    let freed = space::before(&freed, new.blocks_count >> new.cluster_bits);
    descriptors.shrink(&new)?;
    settle_lazy_bitmaps(&mut changes, &mut descriptors, &checksums, &new)?;
    let last = GroupNr(new.group_count - 1);
    let group_of = |cluster: u64| new.group_of_block(BlockNr(cluster << new.cluster_bits));
    let touched = freed.iter().flat_map(|run| {
        let (first, last) = (group_of(run.start), group_of(run.end - 1));
        (first.0..=last.0).map(GroupNr)
    });
    let touched: BTreeSet<GroupNr> = touched.chain([last]).collect();
    for group in touched {
        update_bitmap(rest, &mut changes, &mut descriptors, group, &freed)?;
    }
    count(&mut wanted, &descriptors)?;
    descriptors.put_primary(&mut changes)?;
    let blocks = changes.into_blocks();
    rest.change(blocks, wanted.clone())?;
    write_copies(rest, &descriptors, &wanted, 1..new.group_count)?;
    Ok(rest.device.flush()?)
}

/// Frees clusters in the bitmap of a group, and sets its bits behind the end.
fn update_bitmap(
    rest: &AtRest,
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    group: GroupNr,
    freed: &[Range<u64>],
) -> Result<()> {
    let geometry = descriptors.geometry();
    let descriptor = descriptors.get(group)?;
    let mut bitmap = match descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        true => uninit_block_bitmap(&geometry, group, &descriptor),
        false => changes.get(descriptor.block_bitmap)?,
    };
    if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        let checksums = rest.superblock.checksums();
        descriptor.verify_block_bitmap(&bitmap, group, &geometry, &checksums)?;
    }
    let len = geometry.clusters_in_group(group);
    let first = geometry.group_first_block(group).0 >> geometry.cluster_bits;
    let at = |cluster: u64| clamp_u32(cluster.saturating_sub(first)).min(len);
    for run in freed {
        clear_bits(&mut bitmap, at(run.start), at(run.end));
    }
    set_bits(&mut bitmap, len, u32::MAX);
    let nr = put_bitmap(descriptors, rest, group, &bitmap)?;
    changes.put(nr, bitmap)
}

/// Sets the counts of free space and inodes.
fn count(wanted: &mut Superblock, descriptors: &Descriptors) -> Result<()> {
    let geometry = descriptors.geometry();
    let (mut clusters, mut inodes) = (0, 0);
    for group in (0..geometry.group_count).map(GroupNr) {
        let descriptor = descriptors.get(group)?;
        clusters += u64::from(descriptor.free_clusters);
        inodes += descriptor.free_inodes;
    }
    wanted.free_blocks_count = clusters << geometry.cluster_bits;
    wanted.free_inodes_count = inodes;
    Ok(())
}
