//! Placement of bitmaps and inode tables.
//!
//! With `flex_bg` the first group of a flexible group holds the block bitmaps of all its groups,
//! then the inode bitmaps, then the tables; the overflow goes to the next group. Without it, each
//! group holds its own. Packed, all are in the first free blocks, in the same order.
//!
//! Invariant: what is packed takes the first blocks that are free and many enough, whatever the
//! size of the file system. So the end of the last one is the smallest size that has them all.

use uext4_format::{BlockNr, Feature, GroupDescriptor, GroupNr};
use uext4_num::usize_of;

use crate::space::{Sharing, Space};
use crate::{Error, Placement};

const PURPOSE: &str = "bitmaps and inode tables";

/// Allocates the blocks of all groups from `first` on; returns descriptors with their locations,
/// all else zero. A flexible group that `first` cuts has what belongs to its later part there.
pub(super) fn allocate(
    space: &mut Space,
    placement: Placement,
    first: GroupNr,
) -> Result<Vec<GroupDescriptor>, Error> {
    let count = space.geometry.group_count;
    let flexible = space.geometry.features.has(Feature::FLEX_BG);
    let step = if flexible {
        space.geometry.groups_per_flex()
    } else {
        1
    };
    let mut descriptors = Vec::with_capacity(usize_of(count - first.0));
    let mut group = first;
    while group.0 < count {
        let members = (step - group.0 % step).min(count - group.0);
        let goal = match placement {
            Placement::Spread => group,
            Placement::Packed => GroupNr(0),
        };
        descriptors.extend(allocate_flex(space, placement, goal, members)?);
        group.0 += members;
    }
    Ok(descriptors)
}

fn allocate_flex(
    space: &mut Space,
    placement: Placement,
    first: GroupNr,
    count: u32,
) -> Result<Vec<GroupDescriptor>, Error> {
    let mut members = vec![GroupDescriptor::default(); usize_of(count)];
    let table_blocks = space.geometry.inode_table_blocks();
    let mut goal = space.geometry.group_first_block(first);
    let mut next = |len: u32| {
        let start = space.take_run(goal, len, Sharing::SharedClusters, PURPOSE)?;
        if placement == Placement::Spread {
            goal = BlockNr(start.0 + u64::from(len));
        }
        Ok::<_, Error>(start)
    };
    for descriptor in &mut members {
        descriptor.block_bitmap = next(1)?;
    }
    for descriptor in &mut members {
        descriptor.inode_bitmap = next(1)?;
    }
    for descriptor in &mut members {
        descriptor.inode_table = next(table_blocks)?;
    }
    Ok(members)
}
