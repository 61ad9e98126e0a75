//! Sizes on the way to a large one, each by a transaction that fits in the log.

use super::target;
use crate::{ResizeError, Result};
use uext4_format::{Feature, Geometry, Superblock};
use uext4_num::u64_of;

/// Blocks besides descriptors and reserved blocks: superblock, two bitmaps, the resize inode and
/// its table.
const OTHERS: u64 = 5;

/// The superblock of the next step from `disk` to `blocks`: the largest size whose transaction has
/// up to `room` blocks.
///
/// # Errors
/// [`ResizeError::Journal`] if not even one group more fits.
pub(super) fn next(disk: &Superblock, blocks: u64, room: Option<u64>) -> Result<Superblock> {
    let old = disk.geometry()?;
    let whole = target::of(disk, blocks)?;
    let Some(room) = room else {
        return Ok(whole);
    };
    let last = whole.geometry()?;
    if changed(&old, &last) <= room {
        return Ok(whole);
    }
    let with = |groups| target::of(disk, target::whole_groups(&old, groups));
    let (mut fits, mut exceeds) = (old.group_count, last.group_count);
    while fits + 1 < exceeds {
        let middle = fits + (exceeds - fits) / 2;
        match changed(&old, &with(middle)?.geometry()?) <= room {
            true => fits = middle,
            false => exceeds = middle,
        }
    }
    if fits == old.group_count {
        return Err(ResizeError::Journal { room }.into());
    }
    // Whole flexible groups, if there is one.
    let whole_flex = fits - fits % old.groups_per_flex();
    with(if whole_flex > old.group_count {
        whole_flex
    } else {
        fits
    })
}

/// Upper bound of the blocks below the old end that a step changes.
fn changed(old: &Geometry, new: &Geometry) -> u64 {
    let first = (old.group_count - 1) / old.descriptors_per_block();
    let below = (first..new.descriptor_blocks_count())
        .take_while(|index| new.descriptor_block(*index).0 < old.blocks_count);
    let has_map = new.features.has(Feature::RESIZE_INODE) && new.group_count > old.group_count;
    let is_changed =
        has_map && new.reserved_gdt_copies().count() != old.reserved_gdt_copies().count();
    let reserved = if is_changed {
        new.reserved_gdt_blocks
    } else {
        0
    };
    // The freed block of a resize inode may have its descriptor in another block.
    OTHERS + u64_of(below.count()) + u64::from(reserved) + 1
}
