//! Structures that not every image has: unused inode slots, symlink targets, attributes and values
//! in inodes, the MMP block, padding of inode bitmaps, quota inode numbers, reserved inodes, the
//! orphan file.

use anyhow::Result;

use super::checksums::crc32c;
use super::fields::Field;
use super::image::Image;
use super::layout::{I_BLOCK, Layout, SUPERBLOCK_OFFSET, Spot, Tree};
use super::target::Target;
use crate::rng::Rng;

const INCOMPAT_MMP: u32 = 0x100;
const COMPAT_ORPHAN_FILE: u32 = 0x1000;
const EXTENTS_FLAG: u32 = 0x8_0000;
const VALUE_FLAG: u32 = 0x20_0000;
const MODE_TYPE: u16 = 0xF000;
const MODE_SYMLINK: u16 = 0xA000;
const INODE_UNINIT: u16 = 1;
const OLD_INODE_BYTES: u64 = 128;
const XATTR_MAGIC: u32 = 0xEA02_0000;
const I_BLOCK_BYTES: u64 = 60;
const MMP_BYTES: u64 = 1024;
const MMP_CHECKSUM: usize = 0x3FC;
/// Most slots of one group inspected.
const SLOTS_SEEN: u32 = 64;

const QUOTA_NUMBERS: &[(&str, u64, usize)] = &[
    ("usr_quota_inum", 0x240, 4),
    ("grp_quota_inum", 0x244, 4),
    ("prj_quota_inum", 0x26C, 4),
];
const MMP: &[(&str, u64, usize)] = &[
    ("mmp_magic", 0, 4),
    ("mmp_seq", 4, 4),
    ("mmp_time", 8, 8),
    ("mmp_nodename", 16, 8),
    ("mmp_check_interval", 112, 2),
    ("mmp_checksum", 0x3FC, 4),
];
const XATTR_ENTRY: &[(&str, u64, usize)] = &[
    ("e_name_len", 4, 1),
    ("e_name_index", 5, 1),
    ("e_value_offs", 6, 2),
    ("e_value_inum", 8, 4),
    ("e_value_size", 12, 4),
    ("e_hash", 16, 4),
    ("name", 20, 1),
];
const VALUE_INODE: &[(&str, u64, usize)] = &[
    ("mode", 0x00, 2),
    ("size_lo", 0x04, 4),
    ("hash of the value", 0x08, 4),
    ("references, high", 0x0C, 4),
    ("mtime", 0x10, 4),
    ("links_count", 0x1A, 2),
    ("blocks_lo", 0x1C, 4),
    ("flags", 0x20, 4),
    ("references, low", 0x24, 4),
    ("file_acl_lo", 0x68, 4),
];

/// Locations of the structures of a kind.
pub(super) fn spots(layout: &Layout, image: &Image, target: Target) -> Result<Vec<Spot>> {
    match target {
        Target::Mmp => mmp(layout, image),
        Target::QuotaNumbers => Ok(vec![layout.plain(target, SUPERBLOCK_OFFSET, 1024)]),
        Target::BitmapPadding => padding(layout, image),
        Target::UnusedInode => unused(layout, image),
        Target::ReservedInode => {
            let reserved = (1..=10).filter(|nr| *nr != 2);
            reserved.map(|nr| slot(layout, image, target, nr)).collect()
        }
        Target::OrphanFile => orphan_file(layout, image),
        _ => of_used(layout, image, target),
    }
}

fn slot(layout: &Layout, image: &Image, target: Target, inode: u32) -> Result<Spot> {
    let offset = layout.inode_offset(image, inode)?;
    let spot = layout.plain(target, offset, layout.inode_bytes);
    let name = format!("inode {inode}");
    Ok(Spot {
        inode,
        name,
        ..spot
    })
}

fn mmp(layout: &Layout, image: &Image) -> Result<Vec<Spot>> {
    let block = u64::from(image.u32(SUPERBLOCK_OFFSET + 0x168)?);
    let is_there = image.u32(SUPERBLOCK_OFFSET + 0x60)? & INCOMPAT_MMP != 0 && block != 0;
    Ok(is_there
        .then(|| layout.plain(Target::Mmp, block * layout.block_bytes, MMP_BYTES))
        .into_iter()
        .collect())
}

fn padding(layout: &Layout, image: &Image) -> Result<Vec<Spot>> {
    let used = u64::from(layout.inodes_per_group / 8);
    let mut spots = Vec::new();
    for group in 0..layout.groups {
        let flags = image.u16(layout.descriptor_offset(group) + 0x12)?;
        if flags & INODE_UNINIT != 0 || used == layout.block_bytes {
            continue;
        }
        let at = layout.descriptor_block(image, group, 4)? * layout.block_bytes;
        let rest = layout.block_bytes - used;
        let name = format!("end of the inode bitmap of group {group}");
        let spot = layout.plain(Target::BitmapPadding, at + used, rest);
        spots.push(Spot {
            name,
            group,
            ..spot
        });
    }
    Ok(spots)
}

fn unused(layout: &Layout, image: &Image) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    for group in 0..layout.groups {
        let at = layout.descriptor_offset(group);
        if image.u16(at + 0x12)? & INODE_UNINIT != 0 {
            continue;
        }
        let unwritten = u32::from(image.u16(at + 0x1C)?);
        let written = layout.inodes_per_group.saturating_sub(unwritten);
        let bitmap = layout.descriptor_block(image, group, 4)? * layout.block_bytes;
        let bits = image.read(bitmap, layout.inodes_per_group as usize / 8)?;
        for index in (0..written)
            .filter(|index| bits[*index as usize / 8] & 1 << (index % 8) == 0)
            .take(SLOTS_SEEN as usize)
        {
            let inode = group * layout.inodes_per_group + index + 1;
            spots.push(slot(layout, image, Target::UnusedInode, inode)?);
        }
    }
    Ok(spots)
}

fn orphan_file(layout: &Layout, image: &Image) -> Result<Vec<Spot>> {
    let inode = image.u32(SUPERBLOCK_OFFSET + 0x280)?;
    if image.u32(SUPERBLOCK_OFFSET + 0x5C)? & COMPAT_ORPHAN_FILE == 0 || inode == 0 {
        return Ok(Vec::new());
    }
    blocks(layout, image, Target::OrphanFile, inode)
}

/// The blocks of a file with extents.
fn blocks(layout: &Layout, image: &Image, target: Target, inode: u32) -> Result<Vec<Spot>> {
    let offset = layout.inode_offset(image, inode)?;
    let mut tree = Tree::default();
    if image.u32(offset + 0x20)? & EXTENTS_FLAG != 0 {
        tree.walk(layout, image, offset + I_BLOCK, 0)?;
    }
    Ok(tree
        .data
        .into_iter()
        .map(|block| Spot {
            inode,
            name: format!("inode {inode}, block {block}"),
            ..layout.plain(target, block * layout.block_bytes, layout.block_bytes)
        })
        .collect())
}

fn of_used(layout: &Layout, image: &Image, target: Target) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    for inode in layout.used_inodes(image)? {
        let offset = layout.inode_offset(image, inode)?;
        let (mode, flags) = (image.u16(offset)?, image.u32(offset + 0x20)?);
        let size = u64::from(image.u32(offset + 4)?);
        let whole = slot(layout, image, target, inode)?;
        match target {
            Target::ValueInode if flags & VALUE_FLAG != 0 => spots.push(whole),
            Target::ValueData if flags & VALUE_FLAG != 0 => {
                spots.extend(blocks(layout, image, target, inode)?);
            }
            Target::Symlink if mode & MODE_TYPE == MODE_SYMLINK && size > 0 => {
                let in_extent = blocks(layout, image, target, inode)?.pop();
                let offset_bytes = match in_extent {
                    Some(spot) => spot.offset_bytes,
                    None if size < I_BLOCK_BYTES => offset + I_BLOCK,
                    None => u64::from(image.u32(offset + I_BLOCK)?) * layout.block_bytes,
                };
                let len_bytes = size;
                spots.push(Spot {
                    offset_bytes,
                    len_bytes,
                    ..whole
                });
            }
            Target::InodeXattr if layout.inode_bytes > OLD_INODE_BYTES => {
                let extra = u64::from(image.u16(offset + 0x80)?);
                let area = offset + OLD_INODE_BYTES + extra;
                let len_bytes = layout.inode_bytes.saturating_sub(OLD_INODE_BYTES + extra);
                if len_bytes > 24 && image.u32(area)? == XATTR_MAGIC {
                    let offset_bytes = area;
                    spots.push(Spot {
                        offset_bytes,
                        len_bytes,
                        ..whole
                    });
                }
            }
            _ => {}
        }
    }
    Ok(spots)
}

/// Picks a field of the structure at `spot`.
pub(super) fn choose(spot: &Spot, rng: &mut Rng) -> Field {
    let named = match spot.target {
        Target::Mmp => Some(*rng.pick(MMP)),
        Target::QuotaNumbers => Some(*rng.pick(QUOTA_NUMBERS)),
        Target::ValueInode => Some(*rng.pick(VALUE_INODE)),
        Target::InodeXattr if rng.chance(70) => Some(*rng.pick(XATTR_ENTRY)),
        _ => None,
    };
    match named {
        Some((name, offset_bytes, len_bytes)) => Field {
            name: name.into(),
            offset_bytes,
            len_bytes,
        },
        None => {
            let offset_bytes = rng.below(spot.len_bytes);
            Field {
                name: format!("byte {offset_bytes}"),
                offset_bytes,
                len_bytes: 1,
            }
        }
    }
}

/// Recomputes the checksum of the MMP block.
pub(super) fn fix_mmp(image: &mut Image, seed: u32, spot: &Spot) -> Result<()> {
    let bytes = image.read(spot.offset_bytes, MMP_CHECKSUM)?;
    let at = spot.offset_bytes + MMP_CHECKSUM as u64;
    image.write(at, &crc32c(seed, &bytes).to_le_bytes())
}

/// Recomputes the checksum of an orphan file block over inode, generation, block number, slots.
pub(super) fn fix_orphan_block(
    image: &mut Image,
    layout: &Layout,
    seed: u32,
    spot: &Spot,
) -> Result<()> {
    let bytes = image.read(spot.offset_bytes, spot.len_bytes as usize)?;
    let tail = bytes.len() - 8;
    let block = spot.offset_bytes / layout.block_bytes;
    let crc = crc32c(crc32c(seed, &block.to_le_bytes()), &bytes[..tail]);
    image.write(spot.offset_bytes + tail as u64 + 4, &crc.to_le_bytes())
}
