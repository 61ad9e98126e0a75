//! `uext4 info --groups`: the descriptors of the block groups.

use crate::failure::Result;
use serde::Serialize;
use std::io::Write;
use uext4::device::BlockDevice;
use uext4::format::{Geometry, GroupDescriptor, GroupNr, Superblock, group_flag};

#[derive(Serialize)]
pub(crate) struct Group {
    number: u32,
    first_block: u64,
    blocks: u32,
    clusters_free: u32,
    inodes_free: u32,
    directories: u32,
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    has_superblock: bool,
    flags: Vec<&'static str>,
}

/// Reads all descriptors from the device.
pub(super) fn read(device: &dyn BlockDevice, disk: &Superblock) -> uext4::Result<Vec<Group>> {
    let (geometry, checksums) = (disk.geometry()?, disk.checksums());
    let mut groups = Vec::new();
    let mut bytes = vec![0; usize::from(geometry.desc_size)];
    for number in (0..geometry.group_count).map(GroupNr) {
        let (block, offset) = geometry.descriptor_location(number);
        let at = block.0.saturating_mul(u64::from(geometry.block_size())) + u64::from(offset);
        device.read_at(at, &mut bytes)?;
        let descriptor = GroupDescriptor::parse(&bytes, number, &geometry, &checksums)?;
        groups.push(Group::new(number, &descriptor, &geometry));
    }
    Ok(groups)
}

impl Group {
    fn new(number: GroupNr, descriptor: &GroupDescriptor, geometry: &Geometry) -> Self {
        let flags = [
            (group_flag::INODE_UNINIT, "inode_uninit"),
            (group_flag::BLOCK_UNINIT, "block_uninit"),
            (group_flag::INODE_ZEROED, "itable_zeroed"),
        ];
        Self {
            number: number.0,
            first_block: geometry.group_first_block(number).0,
            blocks: geometry.blocks_in_group(number),
            clusters_free: descriptor.free_clusters,
            inodes_free: descriptor.free_inodes,
            directories: descriptor.used_dirs,
            block_bitmap: descriptor.block_bitmap.0,
            inode_bitmap: descriptor.inode_bitmap.0,
            inode_table: descriptor.inode_table.0,
            has_superblock: geometry.has_super(number),
            flags: flags
                .iter()
                .filter(|(bit, _)| descriptor.has_flag(*bit))
                .map(|f| f.1)
                .collect(),
        }
    }
}

pub(super) fn print(out: &mut dyn Write, groups: &[Group]) -> Result<()> {
    writeln!(
        out,
        "\n{:>6} {:>12} {:>8} {:>9} {:>9} {:>6} {:>12} {:>12} {:>12}  flags",
        "group",
        "first block",
        "blocks",
        "free",
        "inodes",
        "dirs",
        "bitmap",
        "inode bitmap",
        "inode table"
    )?;
    for group in groups {
        let copy = if group.has_superblock {
            "superblock "
        } else {
            ""
        };
        writeln!(
            out,
            "{:>6} {:>12} {:>8} {:>9} {:>9} {:>6} {:>12} {:>12} {:>12}  {copy}{}",
            group.number,
            group.first_block,
            group.blocks,
            group.clusters_free,
            group.inodes_free,
            group.directories,
            group.block_bitmap,
            group.inode_bitmap,
            group.inode_table,
            group.flags.join(" ")
        )?;
    }
    Ok(())
}
