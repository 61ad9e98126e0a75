//! Group descriptors as they were on disk at mount.
//!
//! The descriptors are kept as bytes, and each is parsed on first use, so that a mount of half a
//! million groups costs one sequential read. Their block locations go into the zones at once.

use crate::Result;
use crate::zones::{self, Zones};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Checksums, Geometry, GroupDescriptor, GroupNr};
use uext4_num::{u64_of, usize_of};

/// The descriptors as read at mount.
pub struct DescriptorTable {
    bytes: Vec<u8>,
    desc_size: usize,
}

impl DescriptorTable {
    /// Reads the whole table, with one access for each run of its blocks.
    ///
    /// # Errors
    /// Those of the device.
    pub fn read(device: &dyn BlockDevice, geometry: &Geometry) -> Result<Self> {
        let block_size = usize_of(geometry.block_size());
        let blocks = geometry.descriptor_blocks_count();
        let mut bytes = vec![0; usize_of(blocks) * block_size];
        let mut first = 0;
        while first < blocks {
            let start = geometry.descriptor_block(first);
            let len = (1..blocks - first)
                .find(|&len| geometry.descriptor_block(first + len).0 != start.0 + u64::from(len))
                .unwrap_or(blocks - first);
            let from = usize_of(first) * block_size;
            let to = from + usize_of(len) * block_size;
            device.read_at(start.0 * u64_of(block_size), &mut bytes[from..to])?;
            first += len;
        }
        Ok(Self {
            bytes,
            desc_size: geometry.desc_size.into(),
        })
    }

    /// Whether the descriptor of an old group is another one than `before` had.
    pub fn differs(&self, before: &Self, nr: GroupNr) -> bool {
        self.slot(nr) != before.slot(nr)
    }

    fn slot(&self, nr: GroupNr) -> &[u8] {
        let at = usize_of(nr.0) * self.desc_size;
        self.bytes.get(at..at + self.desc_size).unwrap_or(&[])
    }

    /// The descriptor of a group.
    ///
    /// # Errors
    /// Damage.
    pub fn parse(
        &self,
        nr: GroupNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<GroupDescriptor> {
        let slot = self.slot(nr);
        Ok(GroupDescriptor::parse(slot, nr, geometry, checksums)?)
    }

    /// The descriptor of a group, whatever its checksum.
    pub fn unverified(&self, nr: GroupNr) -> GroupDescriptor {
        GroupDescriptor::parse_unverified(self.slot(nr))
    }

    /// The first block of the inode table of a group, whatever the checksum.
    pub fn inode_table(&self, nr: GroupNr) -> BlockNr {
        self.unverified(nr).inode_table
    }
}

/// Totals and metadata locations of all descriptors.
pub struct Survey {
    /// Free clusters, of each group at most those that it has.
    pub free_clusters: u64,
    /// Blocks that hold metadata and never data.
    pub zones: Zones,
}

impl Survey {
    /// Totals of a table, whose descriptors are taken without their checksums.
    pub fn of(raw: &DescriptorTable, geometry: &Geometry) -> Self {
        let mut free_clusters = 0;
        let mut ranges = Vec::with_capacity(usize_of(geometry.group_count) * 4);
        for nr in (0..geometry.group_count).map(GroupNr) {
            let descriptor = raw.unverified(nr);
            let clusters = descriptor.free_clusters.min(geometry.clusters_in_group(nr));
            free_clusters += u64::from(clusters);
            ranges.extend(zones::of_group(geometry, nr, &descriptor));
        }
        Self {
            free_clusters,
            zones: Zones::new(ranges),
        }
    }
}
