//! Changes of a file system that is not mounted: its size, the size of inodes and descriptors,
//! its checksums.
//!
//! Growth: bitmaps, inode tables and copies of the new groups lie behind the old end, where nothing
//! refers to them. They are written first. Then one transaction of the log changes the rest:
//! superblock, descriptors, the resize inode, the bitmap of the last old group and lazy bitmaps of
//! groups with copies. A crash leaves the old size or the new one. The backups in old groups
//! follow.
//!
//! More descriptors than have reserved blocks go to their groups (`meta_bg`), as in the kernel.
//! So the transaction has as many blocks as reserved and present descriptors, whatever the size.
//!
//! Shrinking: inodes and blocks behind the new end move in transactions that keep the size. Then
//! one transaction changes the size, as for growth.
//!
//! A mounted file system grows by [`grow_volume`] while it is at rest, and never shrinks.
//!
//! Layout: `target` numbers, `grow` the order of writes, `changes` the blocks of the transaction,
//! `descriptors` their table, `resize_inode` the reserved descriptor blocks, `bitmaps` those of
//! groups, `space` sets of clusters; `shrink`, and `renumber`, which gives inodes other numbers;
//! `inode_size`, which gives them more bytes; `descriptor_size`; `reserved_descriptors`, which
//! frees them; `reseal`, which changes checksums.
//! Not here: the recovery of a file system that was not unmounted. The engine recovers it before;
//! otherwise [`Volume::claim`](uext4_volume::Volume::claim) refuses it.
//! References: `resize2fs(8)`; kernel documentation, `filesystems/ext4/blockgroup.rst`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod bitmaps;
mod changes;
mod descriptor_size;
mod descriptors;
mod grow;
mod inode_size;
mod renumber;
mod reseal;
mod reserved_descriptors;
mod resize_inode;
mod shrink;
mod space;
mod target;

pub use descriptor_size::{DescriptorSize, set_descriptor_size};
pub use grow::{grow, grow_volume};
pub use inode_size::set_inode_size;
pub use reseal::{Presence, Reseal, fixed_uuid, reseal};
pub use reserved_descriptors::free_reserved_descriptors;
pub use shrink::{Least, plan_shrink, shrink};

use serde::{Deserialize, Serialize};
use uext4_format::{Feature, Geometry, Superblock};
use uext4_volume::Result;

/// What a change of size makes of a file system.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file system before the change.
    pub before: Geometry,
    /// The file system of the new size. It may be up to one group smaller than asked for, because
    /// a last group without room for data is left out.
    pub after: Geometry,
    /// Blocks kept for the superuser afterwards.
    pub reserved_blocks: u64,
}

impl Plan {
    /// Whether new descriptors have no reserved blocks left, so that `meta_bg` takes the place of
    /// `resize_inode`.
    pub fn turns_to_meta_bg(&self) -> bool {
        has_meta_bg(&self.after) && !has_meta_bg(&self.before)
    }
}

fn has_meta_bg(geometry: &Geometry) -> bool {
    geometry.features.has(Feature::META_BG)
}

/// A size of a file system in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The size of the file system, in bytes.
    pub size_bytes: u64,
    /// Length in blocks of the file system.
    pub blocks: u64,
    /// The number of block groups.
    pub groups: u32,
    /// The number of inodes, used and free.
    pub inodes: u32,
}

/// A [`Plan`] in numbers, for other programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeReport {
    /// The file system before the change.
    pub before: Size,
    /// The file system after the change.
    pub after: Size,
    /// Blocks kept for the superuser afterwards.
    pub reserved_blocks: u64,
    /// As [`Plan::turns_to_meta_bg`] returns it.
    pub turns_to_meta_bg: bool,
}

impl Size {
    fn of(geometry: &Geometry) -> Self {
        Self {
            size_bytes: geometry.size_bytes(),
            blocks: geometry.blocks_count,
            groups: geometry.group_count,
            inodes: geometry.inodes_count,
        }
    }
}

impl Plan {
    /// The numbers of this plan, for reports.
    pub fn report(&self) -> ResizeReport {
        ResizeReport {
            before: Size::of(&self.before),
            after: Size::of(&self.after),
            reserved_blocks: self.reserved_blocks,
            turns_to_meta_bg: self.turns_to_meta_bg(),
        }
    }
}

/// Plans a growth to `size_bytes`, rounded down to whole blocks (clusters with `bigalloc`).
///
/// # Errors
/// [`uext4_volume::Error::Resize`] with the reason if the file system cannot have this size.
pub fn plan(superblock: &Superblock, size_bytes: u64) -> Result<Plan> {
    let before = superblock.geometry()?;
    let after = target::of(superblock, size_bytes >> before.block_bits)?;
    Ok(Plan {
        before,
        after: after.geometry()?,
        reserved_blocks: after.r_blocks_count,
    })
}
