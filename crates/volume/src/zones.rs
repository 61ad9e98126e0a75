//! System zones: metadata blocks that no file may map (superblocks, descriptors, bitmaps, inode
//! tables and the journal).
//!
//! References: mount option `block_validity` of the kernel's ext4.

use crate::Result;
use crate::descriptors::{DescriptorTable, Survey};
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Checksums, Geometry, GroupDescriptor, GroupNr, InodeNr};

/// Sorted, disjoint ranges of blocks.
#[derive(Default)]
pub struct Zones {
    ranges: Vec<Range<u64>>,
}

impl Zones {
    /// Zones from ranges in any order; touching ranges are merged.
    pub fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self { ranges: joined }
    }

    /// True when no block of the run is metadata.
    pub fn is_clear(&self, start: BlockNr, len_blocks: u64) -> bool {
        let end = start.0.saturating_add(len_blocks);
        let after = self.ranges.partition_point(|range| range.end <= start.0);
        self.ranges
            .get(after)
            .is_none_or(|range| range.start >= end)
    }

    /// Number of blocks in all zones.
    pub fn total(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// The ranges that overlap `within`, clipped to it.
    pub fn inside(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .ranges
            .partition_point(|range| range.end <= within.start);
        let meets = self.ranges[first..].iter().take_while({
            let end = within.end;
            move |range| range.start < end
        });
        meets.map(move |range| range.start.max(within.start)..range.end.min(within.end))
    }
}

/// The metadata of one group, by its descriptor and position. What the descriptor says to be at
/// block 0 is nowhere, as in one that was written for another size of descriptors.
pub(crate) fn of_group(
    geometry: &Geometry,
    group: GroupNr,
    descriptor: &GroupDescriptor,
) -> [Range<u64>; 4] {
    let first = geometry.group_first_block(group).0;
    let run = |block: BlockNr, len: u64| match block.0 {
        0 => 0..0,
        start => start..start.saturating_add(len),
    };
    [
        first..first + u64::from(geometry.base_metadata_blocks(group)),
        run(descriptor.block_bitmap, 1),
        run(descriptor.inode_bitmap, 1),
        run(descriptor.inode_table, geometry.inode_table_blocks().into()),
    ]
}

/// The locations of descriptors, bitmaps, inode tables and superblocks, for use before the engine
/// exists.
///
/// # Errors
/// Those of the device.
pub fn metadata_zones(device: &dyn BlockDevice, geometry: &Geometry) -> Result<Zones> {
    let raw = DescriptorTable::read(device, geometry)?;
    Ok(Survey::of(&raw, geometry).zones)
}

/// The first byte of an inode on the device, by the descriptor of its group, for use before the
/// engine exists; `None` for a number outside the file system.
///
/// # Errors
/// Those of the device; [`crate::Error::Corrupt`] for a damaged descriptor.
pub fn inode_byte(
    device: &dyn BlockDevice,
    checksums: &Checksums,
    geometry: &Geometry,
    nr: InodeNr,
) -> Result<Option<u64>> {
    let Some((group, index)) = geometry.split_inode(nr) else {
        return Ok(None);
    };
    let (block, offset) = geometry.descriptor_location(group);
    let byte = |block: BlockNr, offset: u32| (block.0 << geometry.block_bits) + u64::from(offset);
    let mut bytes = vec![0; usize::from(geometry.desc_size)];
    device.read_at(byte(block, offset), &mut bytes)?;
    let descriptor = GroupDescriptor::parse(&bytes, group, geometry, checksums)?;
    let (block, offset) = geometry.inode_location(descriptor.inode_table, index);
    Ok(geometry.contains(block).then(|| byte(block, offset)))
}
