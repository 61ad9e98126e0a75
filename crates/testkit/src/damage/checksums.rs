//! Recomputes the checksum of a damaged structure.
//!
//! References: kernel documentation, "ext4 Data Structures and Algorithms", checksums; "Journal
//! (jbd2)" for the journal's superblock.

use anyhow::Result;

use super::image::{Image, u16_at, u32_at};
use super::layout::{Layout, SUPERBLOCK_OFFSET, Spot};
use super::target::Target;

/// Reflected polynomial of CRC-32C.
const POLYNOMIAL: u32 = 0x82F6_3B78;
const SUPERBLOCK_CHECKSUM: u64 = 0x3FC;
const DESCRIPTOR_CHECKSUM: u64 = 0x1E;
const JOURNAL_CHECKSUM: usize = 0xFC;
const JOURNAL_SUPERBLOCK_BYTES: usize = 1024;
/// Type byte of the pseudo-entry at the end of a directory block, which holds its checksum.
const TAIL_TYPE: u8 = 0xDE;
const TAIL_BYTES: usize = 12;

/// CRC-32C as ext4 chains it: no inversion at either end.
pub(super) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ POLYNOMIAL
            } else {
                crc >> 1
            }
        })
    })
}

pub(super) fn fix(image: &mut Image, layout: &Layout, spot: &Spot) -> Result<()> {
    if spot.target == Target::JournalSuperblock {
        return fix_journal(image, spot);
    }
    let Some(seed) = layout.checksum_seed else {
        return Ok(());
    };
    match spot.target {
        Target::Superblock => fix_superblock(image),
        Target::Descriptor => fix_descriptor(image, layout, seed, spot.group),
        Target::BlockBitmap | Target::InodeBitmap => fix_bitmap(image, layout, seed, spot),
        Target::Inode | Target::InodeExtents => fix_inode(image, layout, seed, spot.inode),
        Target::ExtentBlock => fix_extent_block(image, layout, seed, spot),
        Target::InlineEntries => fix_inode(image, layout, seed, spot.inode),
        Target::Directory | Target::IndexRoot => fix_directory(image, layout, seed, spot),
        Target::XattrBlock => fix_xattr_block(image, layout, seed, spot),
        Target::UnusedInode
        | Target::Symlink
        | Target::InodeXattr
        | Target::ValueInode
        | Target::ReservedInode => fix_inode(image, layout, seed, spot.inode),
        Target::QuotaNumbers => fix_superblock(image),
        Target::Mmp => super::rare::fix_mmp(image, seed, spot),
        Target::OrphanFile => {
            let seed = inode_seed(image, layout, seed, spot.inode)?;
            super::rare::fix_orphan_block(image, layout, seed, spot)
        }
        Target::JournalSuperblock
        | Target::JournalBlock
        | Target::Anywhere
        | Target::ValueData
        | Target::BlockTable
        | Target::BitmapPadding => Ok(()),
    }
}

fn fix_superblock(image: &mut Image) -> Result<()> {
    let bytes = image.read(SUPERBLOCK_OFFSET, SUPERBLOCK_CHECKSUM as usize)?;
    image.write(
        SUPERBLOCK_OFFSET + SUPERBLOCK_CHECKSUM,
        &crc32c(!0, &bytes).to_le_bytes(),
    )
}

fn fix_descriptor(image: &mut Image, layout: &Layout, seed: u32, group: u32) -> Result<()> {
    let offset = layout.descriptor_offset(group);
    let mut bytes = image.read(offset, layout.descriptor_bytes as usize)?;
    let at = DESCRIPTOR_CHECKSUM as usize;
    bytes[at..at + 2].fill(0);
    let crc = crc32c(crc32c(seed, &group.to_le_bytes()), &bytes) as u16;
    image.write(offset + DESCRIPTOR_CHECKSUM, &crc.to_le_bytes())
}

fn fix_bitmap(image: &mut Image, layout: &Layout, seed: u32, spot: &Spot) -> Result<()> {
    let crc = crc32c(
        seed,
        &image.read(spot.offset_bytes, spot.len_bytes as usize)?,
    )
    .to_le_bytes();
    let low = if spot.target == Target::BlockBitmap {
        0x18
    } else {
        0x1A
    };
    let descriptor = layout.descriptor_offset(spot.group);
    image.write(descriptor + low, &crc[..2])?;
    if layout.descriptor_bytes >= 64 {
        image.write(descriptor + low + 0x20, &crc[2..])?;
    }
    fix_descriptor(image, layout, seed, spot.group)
}

/// Checksum seed of all structures of one inode.
fn inode_seed(image: &Image, layout: &Layout, seed: u32, inode: u32) -> Result<u32> {
    let generation = image.read(layout.inode_offset(image, inode)? + 0x64, 4)?;
    Ok(crc32c(crc32c(seed, &inode.to_le_bytes()), &generation))
}

fn fix_inode(image: &mut Image, layout: &Layout, seed: u32, inode: u32) -> Result<()> {
    let offset = layout.inode_offset(image, inode)?;
    let mut bytes = image.read(offset, layout.inode_bytes as usize)?;
    let has_high = layout.inode_bytes > 128 && u16_at(&bytes, 0x80) >= 4;
    bytes[0x7C..0x7E].fill(0);
    if has_high {
        bytes[0x82..0x84].fill(0);
    }
    let crc = crc32c(inode_seed(image, layout, seed, inode)?, &bytes).to_le_bytes();
    image.write(offset + 0x7C, &crc[..2])?;
    if has_high {
        image.write(offset + 0x82, &crc[2..])?;
    }
    Ok(())
}

fn fix_extent_block(image: &mut Image, layout: &Layout, seed: u32, spot: &Spot) -> Result<()> {
    // The tail is after the space for all entries; a wrong `eh_max` moves it out of the block.
    let len = 12 + 12 * usize::from(image.u16(spot.offset_bytes + 4)?);
    if len + 4 > spot.len_bytes as usize {
        return Ok(());
    }
    let bytes = image.read(spot.offset_bytes, len)?;
    let crc = crc32c(inode_seed(image, layout, seed, spot.inode)?, &bytes);
    image.write(spot.offset_bytes + len as u64, &crc.to_le_bytes())
}

fn fix_directory(image: &mut Image, layout: &Layout, seed: u32, spot: &Spot) -> Result<()> {
    let bytes = image.read(spot.offset_bytes, spot.len_bytes as usize)?;
    let seed = inode_seed(image, layout, seed, spot.inode)?;
    let tail = bytes.len() - TAIL_BYTES;
    if u32_at(&bytes, tail) == 0 && bytes[tail + 7] == TAIL_TYPE {
        let crc = crc32c(seed, &bytes[..tail]);
        return image.write(spot.offset_bytes + tail as u64 + 8, &crc.to_le_bytes());
    }
    fix_hash_tree(image, spot, &bytes, seed)
}

/// An index block: count and limit follow the pseudo-entries, the checksum follows all entries.
fn fix_hash_tree(image: &mut Image, spot: &Spot, bytes: &[u8], seed: u32) -> Result<()> {
    let first_record = u16_at(bytes, 4);
    let countlimit = if usize::from(first_record) == bytes.len() {
        8
    } else {
        0x20
    };
    let limit = usize::from(u16_at(bytes, countlimit));
    let count = usize::from(u16_at(bytes, countlimit + 2));
    let tail = countlimit + 8 * limit;
    if count > limit || tail + 8 > bytes.len() {
        return Ok(());
    }
    let crc = crc32c(seed, &bytes[..countlimit + 8 * count]);
    let crc = crc32c(crc32c(crc, &bytes[tail..tail + 4]), &[0; 4]);
    image.write(spot.offset_bytes + tail as u64 + 4, &crc.to_le_bytes())
}

fn fix_xattr_block(image: &mut Image, layout: &Layout, seed: u32, spot: &Spot) -> Result<()> {
    let mut bytes = image.read(spot.offset_bytes, spot.len_bytes as usize)?;
    bytes[16..20].fill(0);
    let block = spot.offset_bytes / layout.block_bytes;
    let crc = crc32c(crc32c(seed, &block.to_le_bytes()), &bytes);
    image.write(spot.offset_bytes + 16, &crc.to_le_bytes())
}

/// Big-endian, as all of jbd2; a journal without checksum version 2 or 3 has no checksum.
fn fix_journal(image: &mut Image, spot: &Spot) -> Result<()> {
    let mut bytes = image.read(spot.offset_bytes, JOURNAL_SUPERBLOCK_BYTES)?;
    let incompat = u32_at(&bytes, 0x28).swap_bytes();
    if incompat & 0x18 == 0 {
        return Ok(());
    }
    bytes[JOURNAL_CHECKSUM..JOURNAL_CHECKSUM + 4].fill(0);
    let crc = crc32c(!0, &bytes);
    image.write(
        spot.offset_bytes + JOURNAL_CHECKSUM as u64,
        &crc.to_be_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_has_its_check_value() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
    }
}
