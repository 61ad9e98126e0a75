//! Repairs of inodes: each damaged image is sound afterwards, and keeps its other files.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use uext4_format::{Feature, FileType, InodeFlags, InodeNr, group_flag};

const PLAIN: &str = "^has_journal";
const UNSEALED: &str = "^has_journal,^metadata_csum";

fn file(features: &str) -> Image {
    let image = Image::new(features);
    image.add_file(FIRST, 3);
    image
}

fn assert_kept(image: &Image, what: &str) {
    assert_eq!(image.read(FIRST), contents(FIRST, 3), "{what}");
}

/// Damage of one field leaves the rest; the checksum is computed anew.
#[test]
fn one_wrong_byte_does_not_cost_an_inode() {
    for (at, bytes) in [
        (0x7C, &[0x55][..]),
        (0x82, &[0x55]),
        (0x1A, &[9]),
        (0x14, &[0, 0, 0, 0x60]),
        (0x70, &[5]),
        (0x80, &[0x21]),
        (0x80, &[0xFF, 0x40]),
        (0x6F, &[0x80]),
        (0x6D, &[0x7F]),
        (0x1C, &[0x99]),
        (0x74, &[0x77]),
        (0x68, &[0xFF, 0xFF, 0xFF, 0x7F]),
    ] {
        let image = file(PLAIN);
        image.put_in_inode(FIRST, at, bytes);
        assert!(!image.codes().is_empty());
        if at != 0x1A {
            image.repair();
        }
        if at == 0x6D {
            // Only the number of blocks bounds the size then.
            assert_eq!(image.inode(FIRST).size, 3 * BLOCK);
        } else {
            assert_kept(&image, &format!("{at:#x}"));
        }
    }
}

#[test]
fn garbage_is_cleared() {
    let image = file(PLAIN);
    image.add_file(SECOND, 3);
    let mut garbage = [0x5A; 256];
    garbage[0x80..0x82].copy_from_slice(&[32, 0]);
    image.edit(|patch| patch.write_inode_bytes(SECOND, &garbage));
    assert!(image.codes().contains(&"inode.checksum".to_string()));
    image.edit(|patch| {
        let finding = crate::Finding {
            corrupt: uext4_format::Corrupt::new(
                uext4_format::DamageLocation::Inode(SECOND),
                "inode",
                uext4_format::CorruptKind::checksum(0, 1),
            ),
            detail: None,
            byte: None,
        };
        patch.repair_inode(SECOND, &[finding]).map(|_| ())
    });
    assert!(!image.codes().contains(&"inode.checksum".to_string()));
    assert_eq!(image.inode(SECOND).mode, 0);
    assert_kept(&image, "the other file");
}

/// Each change, with the code of its problem.
#[test]
fn fields_without_sense_are_cleared() {
    type Change = fn(&mut uext4_format::Inode);
    let cases: [(Change, &str); 9] = [
        (|inode| inode.dtime = 0x6000_0000, "inode.in-use-deleted"),
        (|inode| inode.dtime = 5, "inode.orphan-gone"),
        (|inode| inode.flags.insert(InodeFlags::INDEX), "inode.flag"),
        (
            |inode| inode.flags.insert(InodeFlags::CASEFOLD),
            "inode.flag",
        ),
        (|inode| inode.flags.insert(InodeFlags::VERITY), "inode.flag"),
        (
            |inode| inode.flags.remove(InodeFlags::EXTENTS),
            "inode.flag",
        ),
        (
            |inode| inode.flags.insert(InodeFlags::INLINE_DATA),
            "inode.flag",
        ),
        (|inode| inode.size = 0, "inode.size-wrong"),
        (|inode| inode.blocks_raw += 2, "inode.blocks-wrong"),
    ];
    for (change, code) in cases {
        let image = file(PLAIN);
        image.edit_inode(FIRST, change);
        image.repair_of(code);
        let inode = image.inode(FIRST);
        assert_eq!(inode.flags, InodeFlags::EXTENTS, "{code}");
        assert_eq!(inode.dtime, 0, "{code}");
        let mut bytes = image.read(FIRST);
        bytes.truncate(contents(FIRST, 3).len());
        assert_eq!(bytes, contents(FIRST, 3), "{code}");
    }
}

/// A block of a directory that is mapped elsewhere is moved back.
#[test]
fn directories_have_no_size_without_blocks() {
    for at in [12 + 1, 12 + 3] {
        let image = file(PLAIN);
        let lost_found = InodeNr(11);
        let before = image.inode(lost_found);
        image.edit_inode(lost_found, |inode| inode.i_block[at] = 0x70);
        image.repair_of("inode.size-wrong");
        assert_eq!(image.inode(lost_found), before, "{at}");
        image.edit_inode(lost_found, |inode| inode.size -= 7);
        image.repair_of("inode.size-wrong");
        assert_eq!(image.inode(lost_found), before, "{at}");
    }
}

/// So is a file that has as many blocks as its size needs; another one gets a size that covers all.
#[test]
fn misplaced_blocks_of_a_whole_file_move_back() {
    let image = file(PLAIN);
    image.edit_inode(FIRST, |inode| {
        for at in 0..3 {
            inode.i_block[12 + 12 * at + 1] = 0x70;
        }
    });
    image.repair_of("inode.size-wrong");
    assert_kept(&image, "the file");
    image.edit_inode(FIRST, |inode| inode.size = BLOCK);
    image.repair_of("inode.size-wrong");
    assert_eq!(image.inode(FIRST).size, 3 * BLOCK);
}

/// Feature and flag come back together, because the hash tree is behind the end.
#[test]
fn a_feature_that_a_file_proves_comes_back() {
    let image = file(PLAIN);
    image.edit_inode(FIRST, |inode| {
        inode.size = BLOCK;
        inode.flags.insert(InodeFlags::VERITY);
    });
    image.repair_of("inode.flag");
    assert!(image.superblock().features().has(Feature::VERITY));
    assert_eq!(image.inode(FIRST).size, BLOCK);
}

#[test]
fn a_type_follows_from_the_content() {
    let image = file(PLAIN);
    image.add(SECOND, FileType::Symlink, &[b't'; 100]);
    for nr in [FIRST, InodeNr::ROOT] {
        let before = image.inode(nr);
        image.edit_inode(nr, |inode| inode.mode &= 0o7777);
        image.repair_of("inode.no-file-type");
        assert_eq!(image.inode(nr), before);
    }
    assert_kept(&image, "the file");
}

#[test]
fn blocks_are_counted_in_the_unit_of_the_inode() {
    let image = file(PLAIN);
    let sectors = image.inode(FIRST).blocks_raw;
    image.edit_inode(FIRST, |inode| inode.flags.insert(InodeFlags::HUGE_FILE));
    image.repair_of("inode.blocks-wrong");
    let inode = image.inode(FIRST);
    assert!(inode.flags.contains(InodeFlags::HUGE_FILE));
    assert_eq!(inode.blocks_raw * 2, sectors);
}

/// A slot of zeroes is free, whatever the bitmap says.
#[test]
fn an_empty_slot_is_marked_free() {
    let image = file(PLAIN);
    image.edit(|patch| {
        let descriptor = patch.descriptor(uext4_format::GroupNr(0))?;
        let mut bitmap = patch.read(descriptor.inode_bitmap)?;
        bitmap[1] |= 1 << 7;
        patch.write(descriptor.inode_bitmap, bitmap)
    });
    image.repair_of("inode-bitmap.deleted-marked");
    assert_kept(&image, "the file");
}

#[test]
fn features_of_files_come_back() {
    let image = file(PLAIN);
    let mut superblock = image.superblock();
    let mut features = superblock.features();
    features.remove(Feature::EXTENTS);
    superblock.set_features(features);
    uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
    image.repair_of("inode.extents-without-feature");
    assert!(image.superblock().features().has(Feature::EXTENTS));
    assert_kept(&image, "the file");
}

#[test]
fn deleted_inodes_get_a_time() {
    let image = file(UNSEALED);
    image.edit_inode(SECOND, |inode| inode.mode = 0o100_644);
    image.repair_of("inode.never-deleted");
    assert!(image.inode(SECOND).dtime > 8192);
    image.edit_inode(SECOND, |inode| inode.dtime = 5);
    image.repair_of("inode.orphan-gone");
    assert!(image.inode(SECOND).dtime > 8192);
}

#[test]
fn a_file_that_lost_its_links_has_one_again() {
    let image = file(PLAIN);
    image.edit_inode(FIRST, |inode| inode.links = 0);
    image.repair_of("inode-bitmap.deleted-marked");
    assert_eq!(image.inode(FIRST).links, 1);
    assert_kept(&image, "the file");
}

/// The table counts as written up to the last inode in use.
#[test]
fn inodes_in_use_are_in_the_written_part() {
    let image = file(PLAIN);
    image.edit(|patch| {
        let group = uext4_format::GroupNr(0);
        let mut descriptor = patch.descriptor(group)?;
        descriptor.itable_unused = patch.check.geometry.inodes_per_group - 11;
        assert!(!descriptor.has_flag(group_flag::INODE_UNINIT));
        patch.write_descriptor(group, &descriptor)
    });
    image.repair_of("inode-bitmap.in-use-unwritten");
    assert_kept(&image, "the file");
    image.edit(|patch| {
        let group = uext4_format::GroupNr(0);
        let descriptor = patch.descriptor(group)?;
        let mut bitmap = patch.read(descriptor.inode_bitmap)?;
        bitmap[30] |= 1;
        patch.write(descriptor.inode_bitmap, bitmap)
    });
    image.repair_of("inode-bitmap.in-use-unwritten");
    assert_kept(&image, "the file");
}

/// A flag costs no inodes while bitmap and counts say that there are some.
#[test]
fn a_table_that_is_in_use_was_written() {
    for features in [PLAIN, "^has_journal,^metadata_csum,uninit_bg"] {
        let image = file(features);
        image.edit(|patch| {
            let group = uext4_format::GroupNr(0);
            let mut descriptor = patch.descriptor(group)?;
            descriptor.flags |= group_flag::INODE_UNINIT;
            patch.write_descriptor(group, &descriptor)
        });
        image.repair_of("root-directory.inode-free");
        assert_kept(&image, "the file");
    }
    let image = file(PLAIN);
    image.edit(|patch| {
        let group = uext4_format::GroupNr(0);
        let mut descriptor = patch.descriptor(group)?;
        descriptor.flags |= group_flag::INODE_UNINIT;
        assert!(!patch.write_table_in_use(group)?, "it is written");
        patch.write_descriptor(group, &descriptor)?;
        assert!(patch.write_table_in_use(group)?);
        descriptor.free_inodes += 1;
        patch.write_descriptor(group, &descriptor)?;
        assert!(
            !patch.write_table_in_use(group)?,
            "the bitmap says another count"
        );
        Ok(())
    });
}

/// The check takes the pointers for the target then.
#[test]
fn a_target_in_a_block_of_a_table_is_kept() {
    let image = Image::new(&format!("{PLAIN},^extents,^64bit"));
    image.add(FIRST, FileType::Symlink, &[b't'; 100]);
    for size in [0, 1, 3, 5, 59, 99, 101] {
        image.edit_inode(FIRST, |inode| inode.size = size);
        image.repair_of("symbolic-link.target-length");
        assert_eq!(image.read(FIRST), [b't'; 100], "{size}");
    }
}

#[test]
fn links_have_the_length_of_their_target() {
    let image = Image::new(PLAIN);
    image.add(FIRST, FileType::Symlink, &[b't'; 100]);
    for size in [5, 99, 101, 1 << 20] {
        image.edit_inode(FIRST, |inode| inode.size = size);
        image.repair_of("symbolic-link.target-length");
        assert_eq!(image.read(FIRST), [b't'; 100], "{size}");
    }
    // A short target moves into the inode.
    let block = image.extents(FIRST)[0].start;
    image.edit(|patch| {
        let mut bytes = patch.read(block)?;
        bytes[6..].fill(0);
        patch.write(block, bytes)
    });
    image.repair_of("symbolic-link.target-length");
    let inode = image.inode(FIRST);
    assert!(inode.size == 6 && inode.i_block.starts_with(b"tttttt\0"));
    image.edit_inode(FIRST, |inode| {
        inode.i_block = [0; 60];
        inode.i_block[..6].copy_from_slice(b"target");
        inode.flags.remove(InodeFlags::EXTENTS);
        inode.size = 6;
        inode.blocks_raw = 0;
    });
    image.repair();
    for size in [0, 5, 59, 60, 1000] {
        image.edit_inode(FIRST, |inode| inode.size = size);
        assert!(!image.codes().is_empty());
        image.repair();
        assert_eq!(image.inode(FIRST).size, 6, "{size}");
        assert!(image.inode(FIRST).i_block.starts_with(b"target\0"));
    }
}
