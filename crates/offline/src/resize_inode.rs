//! The resize inode of a file system that gets more groups, or descriptors of another size:
//! reserved blocks that become descriptors leave its map, and the copies in new groups enter it.

use super::changes::Changes;
use super::descriptors::Descriptors;
use uext4_format::bitmap::clear_bits;
use uext4_format::indirect::{DOUBLE_INDIRECT, pointer};
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, Feature, FileType, Geometry, Inode,
    InodeNr, block_bitmap_checksum, group_flag,
};
use uext4_mkfs::resize_map;
use uext4_num::usize_of;
use uext4_volume::{Error, Result};

const NR: InodeNr = InodeNr::RESIZE;

/// The inode, and where it is.
struct Found {
    inode: Inode,
    block: BlockNr,
    offset: usize,
    /// Number of the double indirect block.
    table: BlockNr,
}

/// Brings the inode from the geometry `old` to `new`; returns the clusters that became free, which
/// are those of the inode if `new` has none.
///
/// # Errors
/// Damage, if it is not what `old` says.
pub(super) fn update(
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    checksums: &Checksums,
    old: &Geometry,
    new: &Geometry,
) -> Result<u32> {
    let keeps = layout_of(old) == layout_of(new) && new.features.has(Feature::RESIZE_INODE);
    if !old.features.has(Feature::RESIZE_INODE) || keeps {
        return Ok(0);
    }
    let mut found = find(changes, descriptors, checksums, old)?;
    verify(changes, &found, old)?;
    if !new.features.has(Feature::RESIZE_INODE) {
        found.inode = Inode::new(new, 0);
        put_inode(changes, &found, checksums, new)?;
        free(changes, descriptors, checksums, old, found.table)?;
        return Ok(1);
    }
    let (before, after) = (resize_map(old), resize_map(new));
    for block in &after.reserved {
        if !before.reserved.contains(block) {
            changes.put(block.0, block.1.clone())?;
        }
    }
    if before.table != after.table {
        changes.put(found.table, after.table)?;
    }
    let set = found.inode.set_sectors(after.sectors, new);
    set.map_err(|_| damaged(CorruptKind::SizeWrong))?;
    put_inode(changes, &found, checksums, new)?;
    Ok(0)
}

fn layout_of(of: &Geometry) -> (u32, u32) {
    (of.group_count, of.descriptor_blocks_count())
}

fn find(
    changes: &Changes<'_>,
    descriptors: &Descriptors,
    checksums: &Checksums,
    geometry: &Geometry,
) -> Result<Found> {
    let place = geometry.split_inode(NR);
    let (group, index) = place.ok_or(damaged(CorruptKind::NotInUse))?;
    let table = descriptors.get(group)?.inode_table;
    let (block, offset) = geometry.inode_location(table, index);
    let bytes = changes.get(block)?;
    let inode = Inode::parse(&bytes[usize_of(offset)..], NR, geometry, checksums)?;
    if inode.file_type() != Some(FileType::Regular) || inode.links == 0 {
        return Err(damaged(CorruptKind::NotInUse));
    }
    let table = pointer(&inode.i_block, DOUBLE_INDIRECT);
    if !geometry.contains(table) {
        return Err(damaged(CorruptKind::BlockOutsideSystem));
    }
    Ok(Found {
        inode,
        block,
        offset: usize_of(offset),
        table,
    })
}

/// Refuses a map that is not what the geometry says: the blocks of it may be used for anything.
fn verify(changes: &Changes<'_>, found: &Found, geometry: &Geometry) -> Result<()> {
    let expected = resize_map(geometry);
    let is_table = changes.get(found.table)? == expected.table;
    let mut is_map = is_table;
    for (nr, bytes) in &expected.reserved {
        is_map = is_map && changes.get(*nr)? == *bytes;
    }
    if is_map {
        Ok(())
    } else {
        Err(damaged(CorruptKind::DescriptorPlace))
    }
}

fn put_inode(
    changes: &mut Changes<'_>,
    found: &Found,
    checksums: &Checksums,
    geometry: &Geometry,
) -> Result<()> {
    let mut bytes = changes.get(found.block)?;
    let out = &mut bytes[found.offset..];
    found.inode.write_to(out, NR, geometry, checksums);
    changes.put(found.block, bytes)
}

/// Frees the cluster of the block that held the table.
fn free(
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    checksums: &Checksums,
    geometry: &Geometry,
    table: BlockNr,
) -> Result<()> {
    let (group, cluster) = geometry.split_block_to_cluster(table);
    let mut descriptor = descriptors.get(group)?;
    if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        return Err(damaged(CorruptKind::TableNotOwn));
    }
    let mut bitmap = changes.get(descriptor.block_bitmap)?;
    descriptor.verify_block_bitmap(&bitmap, group, geometry, checksums)?;
    clear_bits(&mut bitmap, cluster, cluster + 1);
    if let Some(seed) = checksums.metadata {
        let checksum = block_bitmap_checksum(seed, &bitmap, geometry);
        descriptor.set_block_bitmap_checksum(checksum, geometry);
    }
    descriptor.free_clusters += 1;
    changes.put(descriptor.block_bitmap, bitmap)?;
    descriptors.set(group, &descriptor);
    Ok(())
}

fn damaged(problem: CorruptKind) -> Error {
    Corrupt::new(DamageLocation::Inode(NR), "resize inode", problem).into()
}
