//! Finds the structures of a sound image.

use anyhow::{Result, ensure};

use super::image::{Image, u16_at, u32_at};
use super::target::Target;
use crate::rng::Rng;

pub(super) const SUPERBLOCK_OFFSET: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const EXT4_MAGIC: u16 = 0xEF53;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_CSUM_SEED: u32 = 0x2000;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;
const EXTENTS_FLAG: u32 = 0x8_0000;
const INLINE_DATA_FLAG: u32 = 0x1000_0000;
const MODE_TYPE: u16 = 0xF000;
const MODE_DIRECTORY: u16 = 0x4000;
/// Flag of a group whose bitmap was never written.
const INODE_UNINIT: u16 = 1;
const BLOCK_UNINIT: u16 = 2;
const JOURNAL_INODE: u32 = 8;
const ROOT_INODE: u32 = 2;
/// Start of the block map in an inode.
pub(super) const I_BLOCK: u64 = 0x28;
/// Most used inodes inspected: enough choice in a test image.
const INODES_SEEN: usize = 4096;

pub(super) struct Layout {
    pub(super) block_bytes: u64,
    pub(super) blocks: u64,
    pub(super) inode_bytes: u64,
    pub(super) descriptor_bytes: u64,
    pub(super) blocks_per_group: u32,
    pub(super) inodes_per_group: u32,
    pub(super) groups: u32,
    first_data_block: u32,
    /// Seed of metadata checksums, `None` when the image has none.
    pub(super) checksum_seed: Option<u32>,
}

/// Location of a structure that can be damaged.
pub(super) struct Spot {
    pub(super) target: Target,
    pub(super) name: String,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
    /// Group of a descriptor or bitmap.
    pub(super) group: u32,
    /// Inode that owns it, 0 without an owner.
    pub(super) inode: u32,
}

impl Layout {
    pub(super) fn read(image: &Image) -> Result<Self> {
        let sb = image.read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?;
        ensure!(u16_at(&sb, 0x38) == EXT4_MAGIC, "no ext4 superblock");
        let incompat = u32_at(&sb, 0x60);
        ensure!(
            incompat & INCOMPAT_META_BG == 0,
            "images with meta_bg cannot be damaged yet"
        );
        let has_64bit = incompat & INCOMPAT_64BIT != 0;
        let high = if has_64bit {
            u64::from(u32_at(&sb, 0x150)) << 32
        } else {
            0
        };
        let blocks = u64::from(u32_at(&sb, 0x4)) | high;
        let blocks_per_group = u32_at(&sb, 0x20);
        let first_data_block = u32_at(&sb, 0x14);
        ensure!(
            blocks > first_data_block.into() && blocks_per_group > 0,
            "damaged counts of blocks"
        );
        let groups = (blocks - u64::from(first_data_block)).div_ceil(blocks_per_group.into());
        Ok(Self {
            block_bytes: 1024 << u32_at(&sb, 0x18),
            blocks,
            inode_bytes: u16_at(&sb, 0x58).into(),
            descriptor_bytes: if has_64bit {
                u16_at(&sb, 0xFE).into()
            } else {
                32
            },
            blocks_per_group,
            inodes_per_group: u32_at(&sb, 0x28),
            groups: groups as u32,
            first_data_block,
            checksum_seed: checksum_seed(&sb),
        })
    }

    /// A structure of the wanted kind, `None` when the image has none.
    pub(super) fn spot(
        &self,
        image: &Image,
        target: Target,
        rng: &mut Rng,
    ) -> Result<Option<Spot>> {
        let group = rng.below(self.groups.into()) as u32;
        match target {
            Target::Superblock => Ok(Some(self.plain(target, SUPERBLOCK_OFFSET, 1024))),
            Target::Anywhere => {
                let at = rng.below(image.len_bytes()? / 16) * 16;
                Ok(Some(self.plain(target, at, 16)))
            }
            Target::Descriptor => {
                let len = self.descriptor_bytes;
                let spot = self.plain(target, self.descriptor_offset(group), len);
                Ok(Some(Spot {
                    group,
                    name: format!("group {group}"),
                    ..spot
                }))
            }
            Target::BlockBitmap => self.bitmap(image, target, group, self.blocks_per_group),
            Target::InodeBitmap => self.bitmap(image, target, group, self.inodes_per_group),
            rare if Target::RARE.contains(&rare) => {
                let mut spots = super::rare::spots(self, image, rare)?;
                Ok(match spots.len() {
                    0 => None,
                    len => Some(spots.swap_remove(rng.below(len as u64) as usize)),
                })
            }
            inner if Target::INNER.contains(&inner) => {
                let mut spots = super::inner::spots(self, image, inner)?;
                Ok(match spots.len() {
                    0 => None,
                    len => Some(spots.swap_remove(rng.below(len as u64) as usize)),
                })
            }
            _ => self.inode_spot(image, target, rng),
        }
    }

    fn inode_spot(&self, image: &Image, target: Target, rng: &mut Rng) -> Result<Option<Spot>> {
        let mut spots = Vec::new();
        for inode in self.used_inodes(image)? {
            self.spots_of(image, target, inode, &mut spots)?;
        }
        if spots.is_empty() {
            return Ok(None);
        }
        let choice = rng.below(spots.len() as u64) as usize;
        Ok(Some(spots.swap_remove(choice)))
    }

    fn spots_of(
        &self,
        image: &Image,
        target: Target,
        inode: u32,
        spots: &mut Vec<Spot>,
    ) -> Result<()> {
        let offset = self.inode_offset(image, inode)?;
        let own = |name: &str, offset_bytes: u64, len_bytes: u64| Spot {
            target,
            name: format!("inode {inode}{name}"),
            offset_bytes,
            len_bytes,
            group: 0,
            inode,
        };
        let flags = image.u32(offset + 0x20)?;
        let has_extents = flags & EXTENTS_FLAG != 0 && flags & INLINE_DATA_FLAG == 0;
        let is_directory = image.u16(offset)? & MODE_TYPE == MODE_DIRECTORY;
        let mut tree = Tree::default();
        if has_extents {
            tree.walk(self, image, offset + I_BLOCK, 0)?;
        }
        let blocks = match target {
            Target::Inode => {
                spots.push(own("", offset, self.inode_bytes));
                return Ok(());
            }
            Target::InodeExtents if has_extents => {
                spots.push(own(", its extents", offset + I_BLOCK, 60));
                return Ok(());
            }
            Target::ExtentBlock => tree.nodes,
            Target::Directory if is_directory => tree.data,
            Target::XattrBlock => vec![image.u32(offset + 0x68)?.into()],
            Target::JournalSuperblock if inode == JOURNAL_INODE => {
                tree.data.iter().take(1).copied().collect()
            }
            Target::JournalBlock if inode == JOURNAL_INODE => {
                tree.data.iter().skip(1).copied().collect()
            }
            _ => Vec::new(),
        };
        for block in blocks
            .into_iter()
            .filter(|block| *block != 0 && *block < self.blocks)
        {
            let name = format!(", block {block}");
            spots.push(own(&name, block * self.block_bytes, self.block_bytes));
        }
        Ok(())
    }

    fn bitmap(&self, image: &Image, target: Target, group: u32, bits: u32) -> Result<Option<Spot>> {
        let (field, uninit) = match target {
            Target::BlockBitmap => (0, BLOCK_UNINIT),
            _ => (4, INODE_UNINIT),
        };
        let group = self.initialised_group(image, group, uninit)?;
        let block = self.descriptor_block(image, group, field)?;
        let spot = self.plain(target, block * self.block_bytes, u64::from(bits / 8));
        Ok(Some(Spot {
            group,
            name: format!("bitmap of group {group}"),
            ..spot
        }))
    }

    /// `group` or the next group with an initialized bitmap; group 0 always has one.
    fn initialised_group(&self, image: &Image, group: u32, uninit: u16) -> Result<u32> {
        for group in group..self.groups {
            if image.u16(self.descriptor_offset(group) + 0x12)? & uninit == 0 {
                return Ok(group);
            }
        }
        Ok(0)
    }

    pub(super) fn plain(&self, target: Target, offset_bytes: u64, len_bytes: u64) -> Spot {
        let name = format!("{target:?} at byte {offset_bytes}");
        Spot {
            target,
            name,
            offset_bytes,
            len_bytes,
            group: 0,
            inode: 0,
        }
    }

    pub(super) fn descriptor_offset(&self, group: u32) -> u64 {
        let table = u64::from(self.first_data_block) + 1;
        table * self.block_bytes + u64::from(group) * self.descriptor_bytes
    }

    /// A block number of a descriptor: low half at `field`, high half 32 bytes later.
    pub(super) fn descriptor_block(&self, image: &Image, group: u32, field: u64) -> Result<u64> {
        let at = self.descriptor_offset(group) + field;
        let high = if self.descriptor_bytes >= 64 {
            image.u32(at + 32)?
        } else {
            0
        };
        Ok(u64::from(image.u32(at)?) | u64::from(high) << 32)
    }

    pub(super) fn inode_offset(&self, image: &Image, inode: u32) -> Result<u64> {
        let (group, index) = (
            (inode - 1) / self.inodes_per_group,
            (inode - 1) % self.inodes_per_group,
        );
        let table = self.descriptor_block(image, group, 8)?;
        Ok(table * self.block_bytes + u64::from(index) * self.inode_bytes)
    }

    pub(super) fn used_inodes(&self, image: &Image) -> Result<Vec<u32>> {
        let mut used = Vec::new();
        for group in 0..self.groups {
            let bitmap = self.descriptor_block(image, group, 4)? * self.block_bytes;
            let bits = image.read(bitmap, self.inodes_per_group as usize / 8)?;
            for index in (0..self.inodes_per_group).filter(|index| bit(&bits, *index)) {
                let inode = group * self.inodes_per_group + index + 1;
                let is_plain = inode >= 11 || [ROOT_INODE, JOURNAL_INODE].contains(&inode);
                let offset = self.inode_offset(image, inode)?;
                if is_plain && image.u16(offset + 0x1A)? != 0 {
                    used.push(inode);
                }
                if used.len() == INODES_SEEN {
                    return Ok(used);
                }
            }
        }
        Ok(used)
    }
}

fn checksum_seed(sb: &[u8]) -> Option<u32> {
    if u32_at(sb, 0x64) & RO_COMPAT_METADATA_CSUM == 0 {
        return None;
    }
    if u32_at(sb, 0x60) & INCOMPAT_CSUM_SEED != 0 {
        Some(u32_at(sb, 0x270))
    } else {
        Some(super::checksums::crc32c(!0, &sb[0x68..0x78]))
    }
}

fn bit(bits: &[u8], index: u32) -> bool {
    bits[index as usize / 8] & (1 << (index % 8)) != 0
}

/// Blocks of one extent tree.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<u64>,
    pub(super) data: Vec<u64>,
}

impl Tree {
    pub(super) fn walk(
        &mut self,
        layout: &Layout,
        image: &Image,
        node: u64,
        level: u32,
    ) -> Result<()> {
        ensure!(level <= 5, "an extent tree is too deep");
        let (entries, depth) = (image.u16(node + 2)?, image.u16(node + 6)?);
        for index in 0..u64::from(entries) {
            let at = node + 12 + 12 * index;
            if depth == 0 {
                let start = u64::from(image.u32(at + 8)?) | u64::from(image.u16(at + 6)?) << 32;
                let len = u64::from(image.u16(at + 4)? & 0x7FFF);
                self.data.extend(start..start + len.max(1));
            } else {
                let child = u64::from(image.u32(at + 4)?) | u64::from(image.u16(at + 8)?) << 32;
                self.nodes.push(child);
                self.walk(layout, image, child * layout.block_bytes, level + 1)?;
            }
        }
        Ok(())
    }
}
