//! Repairs of the file system's own files: the image is sound afterwards, and keeps the others.

use super::image::{BLOCK, FIRST, Image, contents};
use uext4_device::BlockDevice;
use uext4_format::indirect::{DOUBLE_INDIRECT, pointer, set_pointer};
use uext4_format::{BlockNr, Feature, GroupNr, InodeFlags, InodeNr};

fn image(features: &str) -> Image {
    let image = Image::new(features);
    image.add_file(FIRST, 3);
    image
}

#[test]
fn the_resize_inode_is_made_anew() {
    type Change = fn(&mut uext4_format::Inode);
    let cases: [(Change, &str); 5] = [
        (
            |inode| set_pointer(&mut inode.i_block, 3, BlockNr(77)),
            "resize-inode.maps-more-than-table",
        ),
        (|inode| inode.links = 0, "resize-inode.not-in-use"),
        (|inode| inode.size = 1 << 60, "resize-inode.size-wrong"),
        (
            |inode| set_pointer(&mut inode.i_block, DOUBLE_INDIRECT, BlockNr(3)),
            "resize-inode.table-not-own",
        ),
        (|inode| inode.mode = 0, "resize-inode.not-in-use"),
    ];
    for (change, code) in cases {
        let image = image("^has_journal");
        let before = image.inode(InodeNr::RESIZE);
        image.edit_inode(InodeNr::RESIZE, change);
        image.repair_of(code);
        let inode = image.inode(InodeNr::RESIZE);
        assert_eq!(inode.size, before.size, "{code}");
        assert_ne!(pointer(&inode.i_block, DOUBLE_INDIRECT).0, 0, "{code}");
        assert_eq!(image.read(FIRST), contents(FIRST, 3), "{code}");
    }
    let image = image("^has_journal");
    let table = pointer(&image.inode(InodeNr::RESIZE).i_block, DOUBLE_INDIRECT);
    let first = image.edit(|patch| {
        let bytes = patch.read(table)?;
        patch.write(table, vec![0xEE; bytes.len()])?;
        Ok(bytes)
    });
    image.repair_of("resize-inode.descriptor-place");
    assert_eq!(image.edit(|patch| patch.read(table)), first);
}

/// Blocks that are reserved no longer are none of its table.
#[test]
fn the_resize_inode_maps_what_is_reserved() {
    let image = image("^has_journal");
    let mut superblock = image.superblock();
    superblock.reserved_gdt_blocks -= 2;
    uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
    assert!(
        image
            .codes()
            .iter()
            .all(|code| code.starts_with("block-bitmap"))
    );
    image.edit_inode(InodeNr::RESIZE, |inode| inode.blocks_raw += 2);
    image.repair_of("inode.blocks-wrong");
    let sectors = image.inode(InodeNr::RESIZE).blocks_raw;
    assert_eq!(sectors, u64::from(superblock.reserved_gdt_blocks) * 2 + 2);
}

#[test]
fn large_files_have_their_feature() {
    let image = image("^has_journal");
    image.edit_inode(FIRST, |inode| inode.size = 1 << 31);
    image.assert_clean();
    let mut superblock = image.superblock();
    let mut features = superblock.features();
    features.remove(Feature::LARGE_FILE);
    superblock.set_features(features);
    uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
    image.repair_of("superblock.large-without-feature");
    assert!(image.superblock().features().has(Feature::LARGE_FILE));
}

#[test]
fn a_resize_inode_without_the_feature_is_cleared() {
    let image = image("^has_journal,^resize_inode");
    image.edit_inode(InodeNr::RESIZE, |inode| inode.i_block[3] = 5);
    image.repair_of("resize-inode.maps-without-feature");
    assert_eq!(image.inode(InodeNr::RESIZE).i_block, [0; 60]);
}

#[test]
fn reserved_inodes_are_cleared() {
    for (nr, code) in [
        (9, "reserved-inode.reserved-type"),
        (8, "reserved-inode.unused-holds"),
        (4, "reserved-inode.unused-holds"),
        (1, "reserved-inode.block-list-deep"),
    ] {
        let image = image("^has_journal");
        image.edit_inode(InodeNr(nr), |inode| {
            (inode.mode, inode.links) = (0o100_600, 1);
        });
        image.repair_of(code);
        assert_eq!(image.inode(InodeNr(nr)).mode, 0, "{nr}");
        assert_eq!(image.read(FIRST), contents(FIRST, 3));
    }
}

#[test]
fn the_journal_comes_back_from_its_copy() {
    let image = image("has_journal");
    let before = image.inode(InodeNr::JOURNAL);
    for damage in 0..4 {
        image.edit_inode(InodeNr::JOURNAL, |inode| match damage {
            0 => inode.i_block = [0xA5; 60],
            1 => inode.i_block[12 + 4] = 7,
            2 => inode.flags.remove(InodeFlags::EXTENTS),
            _ => inode.mode = 0,
        });
        assert!(!image.codes().is_empty(), "{damage}");
        image.repair();
        let after = image.inode(InodeNr::JOURNAL);
        assert_eq!(
            (after.i_block, after.size),
            (before.i_block, before.size),
            "{damage}"
        );
        assert!(image.superblock().features().has(Feature::HAS_JOURNAL));
    }
    image.edit(|patch| patch.write_inode_bytes(InodeNr::JOURNAL, &[0x5A; 256]));
    image.repair();
    assert_eq!(image.inode(InodeNr::JOURNAL).i_block, before.i_block);
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
}

#[test]
fn the_superblock_names_the_journal_again() {
    let image = image("has_journal");
    for wrong in [77_777, 9] {
        let mut superblock = image.superblock();
        superblock.journal_inum = wrong;
        uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
        assert!(!image.codes().is_empty());
        image.repair();
        assert_eq!(image.superblock().journal_inum, 8, "{wrong}");
    }
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
}

/// Without the features no file belongs to quotas or orphans.
#[test]
fn a_number_of_a_quota_file_costs_no_file() {
    let image = image("^has_journal");
    for change in 0..4 {
        let mut superblock = image.superblock();
        let mut code = "superblock.quota-number";
        match change {
            3 => {
                superblock.orphan_file_inum = FIRST.0;
                code = "orphan-file.number-range";
            }
            0 => superblock.usr_quota_inum = FIRST.0,
            1 => superblock.grp_quota_inum = FIRST.0,
            _ => superblock.prj_quota_inum = FIRST.0,
        }
        uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
        image.repair_of(code);
        assert_eq!(image.read(FIRST), contents(FIRST, 3));
        assert_eq!(image.inode(FIRST).links, 1);
    }
}

/// Without a copy of the inode the file system goes on without a journal.
#[test]
fn a_journal_that_is_lost_is_given_up() {
    let image = image("has_journal");
    let mut superblock = image.superblock();
    superblock.jnl_backup_type = 0;
    uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
    image.edit(|patch| patch.write_inode_bytes(InodeNr::JOURNAL, &[0; 256]));
    image.repair();
    assert!(!image.superblock().features().has(Feature::HAS_JOURNAL));
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
}

/// Holes of the journal are filled, because it is empty.
#[test]
fn a_journal_with_a_hole_is_whole_again() {
    for features in ["has_journal", "has_journal,^extents,^64bit"] {
        let image = image(features);
        let mut superblock = image.superblock();
        superblock.jnl_backup_type = 0;
        uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
        let before = image.inode(InodeNr::JOURNAL);
        let blocks = image
            .extents(InodeNr::JOURNAL)
            .iter()
            .map(|one| one.len)
            .sum::<u16>();
        image.edit_inode(InodeNr::JOURNAL, |inode| {
            if inode.flags.contains(InodeFlags::EXTENTS) {
                inode.i_block[12 + 4] = 0xF0;
                inode.i_block[12 + 5] = 0x03;
            } else {
                set_pointer(&mut inode.i_block, 5, BlockNr(0xFFFF_FF00));
            }
        });
        assert!(!image.codes().is_empty(), "{features}");
        image.repair();
        assert_eq!(
            image.inode(InodeNr::JOURNAL).size,
            before.size,
            "{features}"
        );
        let after = image
            .extents(InodeNr::JOURNAL)
            .iter()
            .map(|one| one.len)
            .sum::<u16>();
        assert_eq!(after, blocks, "{features}");
    }
}

#[test]
fn the_orphan_file_ends_with_its_size() {
    let image = Image::new("has_journal,orphan_file");
    let nr = InodeNr(image.superblock().orphan_file_inum);
    let before = image.inode(nr);
    image.edit_inode(nr, |inode| inode.i_block[12 + 4] += 1);
    image.repair_of("inode.size-wrong");
    assert_eq!(image.inode(nr), before);
}

/// Nothing names the files of a new root; another repair gives them names.
#[test]
fn a_root_that_is_no_directory_is_made_anew() {
    let image = Image::new("^has_journal");
    let before = image.inode(InodeNr::ROOT);
    image.edit_inode(InodeNr::ROOT, |inode| inode.mode = 0o100_755);
    assert!(
        image
            .codes()
            .contains(&"root-directory.no-directory".to_string())
    );
    image.repair();
    assert_eq!(image.inode(InodeNr::ROOT), before);
    image.edit(|patch| patch.make_root().map(|_| ()));
    let root = image.inode(InodeNr::ROOT);
    assert!(root.i_block != before.i_block && root.size == before.size);
    let codes = image.codes();
    let of_root = codes.iter().filter(|code| code.starts_with("directory"));
    assert_eq!(of_root.count(), 0, "{codes:?}");
}

#[test]
fn backups_lead_to_the_same_structures_after_a_repair() {
    let image = Image::of_groups(3);
    let geometry = image.superblock().geometry().expect("it is sound");
    let backup = geometry.superblock_block(GroupNr(1)).unwrap().0 * BLOCK;
    let mut sound = vec![0; 2 * BLOCK as usize];
    image.device.read_at(backup, &mut sound).unwrap();
    let read = || {
        let mut bytes = vec![0; 2 * BLOCK as usize];
        image.device.read_at(backup, &mut bytes).unwrap();
        bytes
    };
    // The UUID of the superblock with its checksum left, and the bitmap of a descriptor.
    for at in [0x68, BLOCK + 64] {
        image.device.write_at(backup + at, &[0x77; 4]).unwrap();
    }
    assert_eq!(image.repair().n_repaired, 0, "no program reads them");
    assert_eq!(lasting_bytes(&read()), lasting_bytes(&sound));
    let before = read();
    image.repair();
    assert_eq!(read(), before, "nothing is written again");
}

/// The bytes of a backup and its descriptors without state, times, counts and checksums.
fn lasting_bytes(bytes: &[u8]) -> Vec<u8> {
    let superblock = [&bytes[..0x0C], &bytes[0x14..0x2C], &bytes[0x54..0x88]];
    let descriptors = bytes[BLOCK as usize..].chunks(64).map(|each| &each[..12]);
    superblock
        .into_iter()
        .chain(descriptors)
        .flatten()
        .copied()
        .collect()
}

#[test]
fn an_internal_journal_has_one_user() {
    let image = image("has_journal");
    let block = image.extents(InodeNr::JOURNAL)[0].start;
    let users = block.0 * BLOCK + 0x40;
    image
        .device
        .write_at(users, &[0, 0, 0, 2])
        .expect("written");
    image.repair_of("journal.several-users");
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
}

/// The copy of the journal's inode leads to the log, but not its number.
#[test]
fn an_impossible_number_of_the_journal_is_seen_before_a_replay() {
    let image = Image::new("has_journal");
    image.edit(|patch| {
        let mut features = patch.superblock.features();
        features.insert(Feature::RECOVER);
        patch.superblock.set_features(features);
        patch.superblock.journal_inum = 1 << 19 | InodeNr::JOURNAL.0;
        Ok(())
    });
    image.repair();
    assert_eq!(image.superblock().journal_inum, InodeNr::JOURNAL.0);
}

#[test]
fn seals_without_their_feature_go() {
    let image = Image::new("has_journal,orphan_file,^metadata_csum");
    let nr = InodeNr(image.superblock().orphan_file_inum);
    let first = image.extents(nr)[0].start.0 * BLOCK;
    image.device.write_at(first + BLOCK - 4, &[1]).unwrap();
    image.repair_of("orphan-file-block.seal-without-feature");

    let image = Image::new("^has_journal,^metadata_csum");
    image.edit(|patch| {
        let mut features = patch.superblock.features();
        features.insert(Feature::CSUM_SEED);
        patch.superblock.set_features(features);
        Ok(())
    });
    image.repair_of("superblock.seed-without-checksums");
}
