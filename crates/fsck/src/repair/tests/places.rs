//! Descriptors that lead elsewhere, without a backup: one group has none.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use crate::repair::Restoration;
use crate::repair::table_evidence::Reading;
use crate::report::Limits;
use crate::whole_check::check;
use crate::{RepairAll, code};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Feature, GroupDescriptor, GroupNr, InodeNr};
use uext4_volume::superblock::write_superblock;

/// Feature sets with and without checksums and free choice of places.
const FEATURES: [&str; 4] = [
    "^has_journal",
    "^has_journal,^metadata_csum,^uninit_bg",
    "^has_journal,^flex_bg,^metadata_csum,uninit_bg",
    "^has_journal,bigalloc,^resize_inode",
];

const UNSEALED: &str = "^has_journal,^metadata_csum,^uninit_bg";

fn image(features: &str) -> Image {
    let image = Image::new(features);
    image.add_file(FIRST, 40);
    image.add_file(SECOND, 3);
    image
}

/// Changes the descriptor of a group, with its checksum.
fn edit_descriptor(image: &Image, change: impl FnOnce(&mut GroupDescriptor)) {
    image.edit(|patch| {
        let mut descriptor = patch.descriptor(GroupNr(0))?;
        change(&mut descriptor);
        patch.write_descriptor(GroupNr(0), &descriptor)
    });
}

fn assert_files(image: &Image) {
    assert!(image.read(FIRST) == contents(FIRST, 40));
    assert!(image.read(SECOND) == contents(SECOND, 3));
}

#[test]
fn places_outside_are_found_or_made() {
    for features in FEATURES {
        let image = image(features);
        edit_descriptor(&image, |group| group.block_bitmap = BlockNr(70_000));
        image.repair_of("group-descriptor.block-bitmap-range");
        edit_descriptor(&image, |group| group.inode_bitmap = BlockNr(0));
        image.repair_of("group-descriptor.inode-bitmap-range");
        edit_descriptor(&image, |group| group.inode_table = BlockNr(1 << 30));
        image.repair_of("group-descriptor.inode-table-range");
        edit_descriptor(&image, |group| {
            group.block_bitmap = BlockNr(0);
            group.inode_bitmap = BlockNr(0);
            group.inode_table = BlockNr(0);
        });
        image.repair();
        assert_files(&image);
    }
}

#[test]
fn what_overlaps_goes_where_it_belongs() {
    for features in FEATURES {
        let image = image(features);
        edit_descriptor(&image, |group| group.inode_bitmap = group.block_bitmap);
        image.repair_of("group-descriptor.group-overlap");
        edit_descriptor(&image, |group| {
            group.block_bitmap.0 = group.inode_table.0 + 3
        });
        image.repair_of("group-descriptor.group-overlap");
        edit_descriptor(&image, |group| group.inode_table = group.inode_bitmap);
        image.repair_of("group-descriptor.group-overlap");
        edit_descriptor(&image, |group| group.inode_table.0 = 1);
        image.repair_of("group-descriptor.group-overlap");
        assert_files(&image);
    }
}

/// A bitmap is no reason to take a block from a file.
#[test]
fn a_usual_place_that_a_file_has_is_not_taken() {
    let image = image("^has_journal,^metadata_csum,^uninit_bg");
    let taken = image.edit(|patch| Ok(patch.descriptor(GroupNr(0))?.block_bitmap));
    image.edit_inode(SECOND, |inode| {
        // The first extent: its block.
        inode.i_block[20..24].copy_from_slice(&(taken.0 as u32).to_le_bytes());
    });
    image
        .device
        .write_at(taken.0 * BLOCK, &contents(SECOND, 3)[..BLOCK as usize])
        .unwrap();
    edit_descriptor(&image, |group| group.block_bitmap = BlockNr(70_000));
    image.repair();
    assert_files(&image);
}

#[test]
fn a_table_that_is_nowhere_is_made_empty() {
    for features in FEATURES {
        let image = image(features);
        let (table, len) = image.edit(|patch| {
            let len = patch.check.geometry.inode_table_blocks();
            Ok((patch.descriptor(GroupNr(0))?.inode_table, len))
        });
        let garbage: Vec<u8> = (0..u64::from(len) * BLOCK)
            .map(|at| (at * at / 7 + at % 251) as u8 | 1)
            .collect();
        image.device.write_at(table.0 * BLOCK, &garbage).unwrap();
        edit_descriptor(&image, |group| group.inode_table = BlockNr(0));
        image.repair();
    }
}

/// Both groups say that the table is theirs; the one whose inodes are there keeps it.
#[test]
fn one_of_two_groups_with_the_same_table_gets_its_own_back() {
    for (wrong, right) in [(0, 1), (1, 0)].map(|(a, b)| (GroupNr(a), GroupNr(b))) {
        let image = Image::of_groups(2);
        image.add_file(FIRST, 40);
        image.edit(|patch| {
            let of_other = patch.descriptor(right)?.inode_table;
            let geometry = patch.check.geometry;
            // No backup says better.
            let (_, run) = geometry.descriptor_run(GroupNr(1)).expect("a backup");
            for at in 0..u64::from(run.len_blocks) {
                patch.write(BlockNr(run.start.0 + at), vec![0xA5; BLOCK as usize])?;
            }
            let mut descriptor = patch.descriptor(wrong)?;
            descriptor.inode_table = of_other;
            patch.write_descriptor(wrong, &descriptor)
        });
        image.repair_of("group-descriptor.group-overlap");
        assert!(image.read(FIRST) == contents(FIRST, 40));
    }
}

/// The descriptor names the data of a file, which the backup does not.
#[test]
fn a_bitmap_in_the_data_of_a_file_moves() {
    let image = Image::of_groups(2);
    image.add_file(FIRST, 40);
    let data = image.extents(FIRST)[0].start;
    edit_descriptor(&image, |group| {
        group.inode_bitmap = data;
        group.block_bitmap.0 = group.inode_table.0 + 3;
    });
    image.repair_of("group-descriptor.group-overlap");
    assert!(image.read(FIRST) == contents(FIRST, 40));
}

/// Files of group 1, with their slots; garbage in the first block of its table, which has no
/// directory; and a descriptor that does not lead to it. Returns the files that were not damaged.
fn table_with_garbage(features: &str, slots: &[u32]) -> (Image, Vec<InodeNr>) {
    let image = Image::of_groups_with(2, features, 256);
    let (group, geometry) = (GroupNr(1), image.subject().geometry);
    let per_block = geometry.inodes_per_block();
    let numbers = slots.iter().map(|slot| geometry.inode_at(group, *slot));
    let numbers: Vec<InodeNr> = numbers.collect();
    for nr in &numbers {
        image.add_file(*nr, 2);
    }
    let table = image.edit(|patch| Ok(patch.descriptor(group)?.inode_table));
    image
        .device
        .write_at(table.0 * BLOCK, &[0xA7; BLOCK as usize])
        .unwrap();
    image.edit(|patch| {
        let mut descriptor = patch.descriptor(group)?;
        descriptor.inode_table = BlockNr(0);
        patch.write_descriptor(group, &descriptor)
    });
    let kept = numbers.into_iter().zip(slots);
    let kept = kept.filter(|(_, slot)| **slot >= per_block);
    (image, kept.map(|(nr, _)| nr).collect())
}

/// As many slots are garbage as hold inodes.
#[test]
fn half_a_table_where_the_backup_has_it_is_kept() {
    let slots: Vec<u32> = (0..8).collect();
    let (image, kept) = table_with_garbage(UNSEALED, &slots);
    assert_eq!(kept.len(), 4);
    image.repair();
    for nr in kept {
        assert!(image.read(nr) == contents(nr, 2), "{nr}");
    }
}

/// Samples of the table have nothing but garbage.
#[test]
fn a_table_with_one_file_far_behind_is_kept() {
    for features in [UNSEALED, "^has_journal"] {
        let (image, kept) = table_with_garbage(features, &[33 * 4 + 1]);
        assert!(image.subject().geometry.inode_table_blocks() > 64);
        image.repair();
        assert!(image.read(kept[0]) == contents(kept[0], 2), "{features}");
    }
}

/// Two of 16 bits of a checksum.
#[test]
fn a_short_checksum_that_is_right_once_is_no_evidence() {
    for (inode_bytes, is_enough) in [(128, false), (256, true)] {
        let image = Image::of_groups_with(2, "^has_journal", inode_bytes);
        let (group, geometry) = (GroupNr(1), image.subject().geometry);
        image.add_file(geometry.inode_at(group, 0), 1);
        let table = image.edit(|patch| Ok(patch.descriptor(group)?.inode_table));
        let is_sound = |image: &Image| {
            image.edit(|patch| Ok(patch.table_evidence(group, table, Reading::All)?.is_sound()))
        };
        assert!(is_sound(&image));
        image
            .device
            .write_at((table.0 + 1) * BLOCK, &[0xA7; BLOCK as usize])
            .unwrap();
        assert_eq!(is_sound(&image), is_enough, "{inode_bytes}");
        image.add_file(geometry.inode_at(group, 1), 1);
        assert!(is_sound(&image));
    }
}

/// What was never written stays so where another group names the same place.
#[test]
fn a_group_that_is_right_keeps_its_descriptor() {
    let image = Image::of_groups(2);
    image.add_file(FIRST, 40);
    let right = GroupNr(1);
    let before = image.edit(|patch| patch.descriptor(right));
    assert!(before.flags != 0 && before.itable_unused > 0);
    edit_descriptor(&image, |group| group.block_bitmap = before.inode_table);
    image.repair_of("group-descriptor.group-overlap");
    let after = image.edit(|patch| patch.descriptor(right));
    assert_eq!(
        (before.flags, before.itable_unused),
        (after.flags, after.itable_unused)
    );
    assert!(image.read(FIRST) == contents(FIRST, 40));
}

/// Two zones of a group that meet a third one are one problem.
#[test]
fn an_overlap_is_found_once() {
    let image = image("^has_journal");
    edit_descriptor(&image, |group| {
        group.block_bitmap.0 = group.inode_table.0 + 3;
        group.inode_bitmap.0 = group.inode_table.0 + 5;
    });
    let report = check(&image.subject(), &Limits::default()).unwrap();
    let overlaps = report.findings.iter().map(|finding| code(&finding.corrupt));
    let overlaps = overlaps.filter(|code| code == "group-descriptor.group-overlap");
    assert_eq!(overlaps.count(), 1);
}

/// No descriptor is in a meta group then.
#[test]
fn a_first_meta_group_behind_all_is_cleared() {
    let image = image("^has_journal,^resize_inode");
    let mut disk = image.superblock();
    let mut features = disk.features();
    features.insert(Feature::META_BG);
    disk.set_features(features);
    disk.first_meta_bg = 2;
    write_superblock(&*image.device, &disk).unwrap();
    assert!(disk.geometry().is_err());
    let restoration = Restoration::find(&*image.device, None).unwrap().unwrap();
    assert!(restoration.refused(&mut RepairAll).is_none());
    restoration.write(&*image.device).unwrap();
    image.repair();
    assert!(!image.superblock().features().has(Feature::META_BG));
    assert_files(&image);
}
