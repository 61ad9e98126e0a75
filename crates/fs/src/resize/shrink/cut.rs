//! The change of the size: one transaction, when nothing that stays is behind the new end.

use super::apply::released;
use super::layout::Layout;
use super::plan::Step;
use crate::Result;
use crate::mount::AtRest;
use crate::resize::bitmaps::{groups_of, mark_clusters};
use crate::resize::changes::Changes;
use crate::resize::descriptors::Descriptors;
use crate::resize::grow::{settle_lazy_bitmaps, write_copies};
use crate::resize::resize_inode;
use crate::resize::space;
use uext4_format::GroupNr;
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
    let mut touched = groups_of(&new, &freed);
    // Its bits behind the end are set.
    touched.insert(last);
    for group in touched {
        mark_clusters(rest, &mut changes, &mut descriptors, group, &[], &freed)?;
    }
    descriptors.count(&mut wanted)?;
    descriptors.put_primary(&mut changes)?;
    let blocks = changes.into_blocks();
    rest.change(blocks, wanted.clone())?;
    write_copies(rest, &descriptors, &wanted, 1..new.group_count)?;
    Ok(rest.device.flush()?)
}
