//! Damage of pointers inside files and directories: index roots, block tables, inline entries.

use anyhow::Result;

use super::fields::Field;
use super::image::Image;
use super::layout::{I_BLOCK, Layout, Spot, Tree};
use super::target::Target;
use crate::rng::Rng;

const INDEX_FLAG: u32 = 0x1000;
const EXTENTS_FLAG: u32 = 0x8_0000;
const INLINE_FLAG: u32 = 0x1000_0000;
const MODE_TYPE: u16 = 0xF000;
const MODE_DIRECTORY: u16 = 0x4000;
const MODE_REGULAR: u16 = 0x8000;
/// Direct block pointers of an inode.
const DIRECT: u64 = 12;
const I_BLOCK_BYTES: u64 = 60;

/// Fields of the root of an index before its entries.
const ROOT: &[(&str, u64, usize)] = &[
    ("reserved_zero", 0x18, 4),
    ("hash_version", 0x1C, 1),
    ("info_length", 0x1D, 1),
    ("indirect_levels", 0x1E, 1),
    ("unused_flags", 0x1F, 1),
    ("limit", 0x20, 2),
    ("count", 0x22, 2),
    ("first block", 0x24, 4),
];
const ROOT_COUNT: u64 = 0x22;
/// Offset of the second entry of a root: the first has no hash.
const ROOT_ENTRIES: u64 = 0x28;

pub(super) fn spots(layout: &Layout, image: &Image, target: Target) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    for inode in layout.used_inodes(image)? {
        let offset = layout.inode_offset(image, inode)?;
        let (kind, flags) = (image.u16(offset)? & MODE_TYPE, image.u32(offset + 0x20)?);
        let is_directory = kind == MODE_DIRECTORY;
        let spot = |what: &str, offset_bytes, len_bytes| Spot {
            inode,
            name: format!("inode {inode}, {what}"),
            ..layout.plain(target, offset_bytes, len_bytes)
        };
        match target {
            Target::IndexRoot if is_directory && flags & INDEX_FLAG != 0 => {
                let block = first_block(layout, image, offset, flags)?;
                spots.push(spot(
                    "its index",
                    block * layout.block_bytes,
                    layout.block_bytes,
                ));
            }
            Target::BlockTable
                if flags & (EXTENTS_FLAG | INLINE_FLAG) == 0
                    && (is_directory || kind == MODE_REGULAR) =>
            {
                for level in 0..3 {
                    let word = offset + I_BLOCK + 4 * (DIRECT + level);
                    let table = u64::from(image.u32(word)?);
                    if table != 0 && table < layout.blocks {
                        spots.push(spot("its map", offset + I_BLOCK, I_BLOCK_BYTES));
                        let at = table * layout.block_bytes;
                        spots.push(spot("a table", at, layout.block_bytes));
                    }
                }
            }
            Target::InlineEntries if is_directory && flags & INLINE_FLAG != 0 => {
                spots.push(spot("its entries", offset + I_BLOCK, I_BLOCK_BYTES));
            }
            _ => {}
        }
    }
    Ok(spots)
}

fn first_block(layout: &Layout, image: &Image, inode_at: u64, flags: u32) -> Result<u64> {
    if flags & EXTENTS_FLAG == 0 {
        return Ok(image.u32(inode_at + I_BLOCK)?.into());
    }
    let mut tree = Tree::default();
    tree.walk(layout, image, inode_at + I_BLOCK, 0)?;
    Ok(tree.data.first().copied().unwrap_or(0))
}

pub(super) fn choose(image: &Image, spot: &Spot, rng: &mut Rng) -> Result<Field> {
    let (name, offset_bytes, len_bytes) = match spot.target {
        Target::IndexRoot if rng.chance(50) => {
            let count = u64::from(image.u16(spot.offset_bytes + ROOT_COUNT)?).max(2);
            let at = ROOT_ENTRIES + 4 * rng.below(2 * (count - 1));
            ("word of an entry", at, 4)
        }
        Target::IndexRoot => *rng.pick(ROOT),
        Target::BlockTable => {
            let word = 4 * rng.below(spot.len_bytes / 4);
            ("word", word, 4)
        }
        _ => {
            // In the parent number, or in the entries after it.
            let at = rng.below(spot.len_bytes);
            ("byte", at, 1)
        }
    };
    let name = format!("{name} at {offset_bytes}");
    Ok(Field {
        name,
        offset_bytes,
        len_bytes,
    })
}
