//! Placement of bitmaps and inode tables.
//!
//! With `flex_bg` the first group of a flexible group holds the block bitmaps of all its groups,
//! then the inode bitmaps, then the tables; the overflow goes to the next group. Without it, each
//! group holds its own.

use uext4_format::{BlockNr, Feature, GroupDescriptor, GroupNr};
use uext4_num::{clamp_u32, usize_of};

use crate::Error;
use crate::space::{Sharing, Space};

const PURPOSE: &str = "bitmaps and inode tables";

/// Allocates the blocks; answers descriptors with their locations, all else zero.
pub(super) fn place(space: &mut Space) -> Result<Vec<GroupDescriptor>, Error> {
    let count = space.geometry.group_count;
    let mut descriptors = vec![GroupDescriptor::default(); usize_of(count)];
    let flexible = space.geometry.features.has(Feature::FLEX_BG);
    let step = if flexible {
        space.geometry.groups_per_flex()
    } else {
        1
    };
    for (flex, members) in descriptors.chunks_mut(usize_of(step)).enumerate() {
        let group = GroupNr(clamp_u32(flex) * step);
        place_flex(space, group, members)?;
    }
    Ok(descriptors)
}

fn place_flex(
    space: &mut Space,
    first: GroupNr,
    members: &mut [GroupDescriptor],
) -> Result<(), Error> {
    let table_blocks = space.geometry.inode_table_blocks();
    let mut goal = space.geometry.group_first_block(first);
    let mut next = |len: u32| {
        let start = space.take_run(goal, len, Sharing::SharedClusters, PURPOSE)?;
        goal = BlockNr(start.0 + u64::from(len));
        Ok::<_, Error>(start)
    };
    for descriptor in members.iter_mut() {
        descriptor.block_bitmap = next(1)?;
    }
    for descriptor in members.iter_mut() {
        descriptor.inode_bitmap = next(1)?;
    }
    for descriptor in members.iter_mut() {
        descriptor.inode_table = next(table_blocks)?;
    }
    Ok(())
}
