//! Fields of each structure that are worth a wrong value.

use anyhow::Result;

use super::image::Image;
use super::layout::{Layout, Spot};
use super::target::Target;
use crate::rng::Rng;

/// A field of a structure, by its offset in the structure.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: usize,
}

type Table = &'static [(&'static str, u64, usize)];

const SUPERBLOCK: Table = &[
    ("inodes_count", 0x00, 4),
    ("blocks_count_lo", 0x04, 4),
    ("free_blocks_count_lo", 0x0C, 4),
    ("free_inodes_count", 0x10, 4),
    ("first_data_block", 0x14, 4),
    ("log_block_size", 0x18, 4),
    ("log_cluster_size", 0x1C, 4),
    ("blocks_per_group", 0x20, 4),
    ("clusters_per_group", 0x24, 4),
    ("inodes_per_group", 0x28, 4),
    ("magic", 0x38, 2),
    ("state", 0x3A, 2),
    ("rev_level", 0x4C, 4),
    ("first_ino", 0x54, 4),
    ("inode_size", 0x58, 2),
    ("feature_compat", 0x5C, 4),
    ("feature_incompat", 0x60, 4),
    ("feature_ro_compat", 0x64, 4),
    ("reserved_gdt_blocks", 0xCE, 2),
    ("journal_inum", 0xE0, 4),
    ("last_orphan", 0xE8, 4),
    ("def_hash_version", 0xFC, 1),
    ("desc_size", 0xFE, 2),
    ("first_meta_bg", 0x104, 4),
    ("blocks_count_hi", 0x150, 4),
    ("min_extra_isize", 0x15C, 2),
    ("log_groups_per_flex", 0x174, 1),
    ("checksum_type", 0x175, 1),
    ("checksum_seed", 0x270, 4),
    ("orphan_file_inum", 0x280, 4),
];
const DESCRIPTOR: Table = &[
    ("block_bitmap_lo", 0x00, 4),
    ("inode_bitmap_lo", 0x04, 4),
    ("inode_table_lo", 0x08, 4),
    ("free_blocks_count_lo", 0x0C, 2),
    ("free_inodes_count_lo", 0x0E, 2),
    ("used_dirs_count_lo", 0x10, 2),
    ("flags", 0x12, 2),
    ("itable_unused_lo", 0x1C, 2),
];
const INODE: Table = &[
    ("mode", 0x00, 2),
    ("size_lo", 0x04, 4),
    ("dtime", 0x14, 4),
    ("links_count", 0x1A, 2),
    ("blocks_lo", 0x1C, 4),
    ("flags", 0x20, 4),
    ("block map", 0x28, 60),
    ("generation", 0x64, 4),
    ("file_acl_lo", 0x68, 4),
    ("size_high", 0x6C, 4),
    ("file_acl_high", 0x76, 2),
    ("extra_isize", 0x80, 2),
    ("first words after the fixed part", 0xA0, 16),
];
const EXTENT_HEADER: Table = &[
    ("eh_magic", 0, 2),
    ("eh_entries", 2, 2),
    ("eh_max", 4, 2),
    ("eh_depth", 6, 2),
];
/// Fields of one entry. An index entry has other fields; a wrong value hits those as well.
const EXTENT: Table = &[
    ("ee_block", 0, 4),
    ("ee_len", 4, 2),
    ("start_hi", 6, 2),
    ("start_lo", 8, 4),
];
const DIRECTORY_ENTRY: Table = &[
    ("inode", 0, 4),
    ("rec_len", 4, 2),
    ("name_len", 6, 1),
    ("file_type", 7, 1),
    ("name", 8, 1),
];
const XATTR: Table = &[
    ("h_magic", 0, 4),
    ("h_refcount", 4, 4),
    ("h_blocks", 8, 4),
    ("h_hash", 12, 4),
    ("e_name_len", 32, 1),
    ("e_name_index", 33, 1),
    ("e_value_offs", 34, 2),
    ("e_value_inum", 36, 4),
    ("e_value_size", 40, 4),
    ("e_hash", 44, 4),
];
const JOURNAL_SUPERBLOCK: Table = &[
    ("h_magic", 0, 4),
    ("h_blocktype", 4, 4),
    ("s_blocksize", 0x0C, 4),
    ("s_maxlen", 0x10, 4),
    ("s_first", 0x14, 4),
    ("s_sequence", 0x18, 4),
    ("s_start", 0x1C, 4),
    ("s_errno", 0x20, 4),
    ("s_feature_incompat", 0x28, 4),
    ("s_checksum_type", 0x50, 1),
];

pub(super) fn choose(image: &Image, layout: &Layout, spot: &Spot, rng: &mut Rng) -> Result<Field> {
    match spot.target {
        Target::Superblock => Ok(from(SUPERBLOCK, 0, rng)),
        Target::Descriptor => Ok(from(DESCRIPTOR, 0, rng)),
        Target::Inode => {
            let fitting = if layout.inode_bytes > 128 {
                INODE
            } else {
                &INODE[..11]
            };
            Ok(from(fitting, 0, rng))
        }
        Target::InodeExtents | Target::ExtentBlock => extent(image, spot, rng),
        Target::Directory => directory(image, spot, rng),
        Target::XattrBlock => Ok(from(XATTR, 0, rng)),
        Target::JournalSuperblock => Ok(from(JOURNAL_SUPERBLOCK, 0, rng)),
        target if Target::INNER.contains(&target) => super::inner::choose(image, spot, rng),
        target if Target::RARE.contains(&target) => Ok(super::rare::choose(spot, rng)),
        _ => {
            let offset_bytes = rng.below(spot.len_bytes);
            Ok(Field {
                name: format!("byte {offset_bytes}"),
                offset_bytes,
                len_bytes: 1,
            })
        }
    }
}

fn from(table: Table, base_bytes: u64, rng: &mut Rng) -> Field {
    let (name, offset, len_bytes) = *rng.pick(table);
    let name = if base_bytes == 0 {
        name.into()
    } else {
        format!("{name} at {base_bytes}")
    };
    Field {
        name,
        offset_bytes: base_bytes + offset,
        len_bytes,
    }
}

fn extent(image: &Image, spot: &Spot, rng: &mut Rng) -> Result<Field> {
    let entries = u64::from(image.u16(spot.offset_bytes + 2)?);
    if entries == 0 || rng.chance(40) {
        Ok(from(EXTENT_HEADER, 0, rng))
    } else {
        let base = 12 + 12 * rng.below(entries);
        Ok(from(EXTENT, base, rng))
    }
}

/// A field of one of the entries, including `.` and `..`, but not of the checksum tail.
fn directory(image: &Image, spot: &Spot, rng: &mut Rng) -> Result<Field> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at + 12 < spot.len_bytes {
        starts.push(at);
        let record = u64::from(image.u16(spot.offset_bytes + at + 4)?);
        if record < 12 {
            break;
        }
        at += record;
    }
    let base = *rng.pick(&starts);
    Ok(from(DIRECTORY_ENTRY, base, rng))
}
