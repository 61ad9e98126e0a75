//! The change of the size: one transaction, when nothing that stays is behind the new end.

use super::apply::released;
use super::layout::Layout;
use super::plan::Step;
use crate::bitmaps::{groups_of, mark_clusters};
use crate::changes::Changes;
use crate::descriptors::Descriptors;
use crate::grow::{write_copies, write_lazy_bitmaps};
use crate::resize_inode;
use crate::space;
use uext4_format::GroupNr;
use uext4_num::clamp_u32;
use uext4_volume::Result;
use uext4_volume::Volume;

/// Cuts the file system to the size of the step, and writes the backups of the groups that stay.
///
/// # Errors
/// As [`crate::grow`].
pub(super) fn run(volume: &mut Volume, layout: &Layout, step: &Step) -> Result<()> {
    let (old, new) = (volume.geometry, step.geometry);
    let checksums = volume.superblock.checksums();
    let mut groups = layout.groups.clone();
    for table in &step.tables {
        table.apply_to(&mut groups);
    }
    let freed = released(&old, &groups, &new);
    let mut wanted = step.wanted.clone();
    // The journal may have moved since the plan.
    wanted.jnl_blocks = volume.superblock.jnl_blocks;
    let now = u64::from(volume.superblock.overhead_clusters);
    // 0 is unknown.
    wanted.overhead_clusters = clamp_u32(now.saturating_sub(space::total(&freed)));
    let mut descriptors = Descriptors::read(volume)?;
    let mut changes = Changes::new(volume);
    resize_inode::update(&mut changes, &mut descriptors, &checksums, &old, &new)?;
    let freed = space::before(&freed, new.blocks_count >> new.cluster_bits);
    descriptors.shrink(&new)?;
    write_lazy_bitmaps(&mut changes, &mut descriptors, &checksums, &new)?;
    let last = GroupNr(new.group_count - 1);
    let mut touched = groups_of(&new, &freed);
    // Its bits behind the end are set.
    touched.insert(last);
    for group in touched {
        mark_clusters(volume, &mut changes, &mut descriptors, group, &[], &freed)?;
    }
    descriptors.count(&mut wanted)?;
    descriptors.put_primary(&mut changes)?;
    let blocks = changes.into_blocks();
    volume.change(blocks, wanted.clone())?;
    write_copies(volume, &descriptors, &wanted, 1..new.group_count)?;
    Ok(volume.device.flush()?)
}
