//! Clusters that repairs take.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use crate::RepairAll;
use crate::repair::patch::Patch;
use crate::repair::repair;
use crate::repair::shared::Copies;
use crate::report::Limits;
use std::collections::BTreeSet;
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, GroupNr, InodeNr};

const CLUSTERS: &str = "^has_journal,bigalloc,^resize_inode";

/// Takes all free clusters behind a goal; their first blocks.
fn take_all(patch: &mut Patch<'_, '_>, goal: BlockNr) -> Vec<BlockNr> {
    let next = || patch.allocate(goal).expect("it can be read");
    std::iter::from_fn(next).collect()
}

#[test]
fn no_cluster_ends_behind_the_file_system() {
    Image::new(CLUSTERS).edit(|patch| {
        patch.check.geometry.blocks_count -= 2;
        let end = patch.check.geometry.blocks_count;
        let taken = take_all(patch, BlockNr(end - 3));
        assert!(taken.len() > 100);
        assert!(taken.iter().all(|block| block.0 + 4 <= end));
        Ok(())
    });
}

#[test]
fn searches_from_changing_goals_find_each_cluster_once() {
    let image = Image::new("^has_journal");
    let free = image.edit(|patch| Ok(take_all(patch, BlockNr(1)).len()));
    image.edit(|patch| {
        let mut taken = BTreeSet::new();
        for goal in [4000, 7000, 100, 4001, 9999, 0, 5].into_iter().cycle() {
            let Some(block) = patch.allocate(BlockNr(goal))? else {
                break;
            };
            assert!(taken.insert(block), "{block} again");
        }
        assert_eq!(taken.len(), free);
        assert_eq!(patch.allocate(BlockNr(0))?, None);
        Ok(())
    });
}

/// The block of group 0's bitmap.
fn bitmap_of(image: &Image) -> BlockNr {
    image.edit(|patch| Ok(patch.descriptor(GroupNr(0))?.block_bitmap))
}

#[test]
fn a_bitmap_with_a_wrong_checksum_frees_nothing_of_a_damaged_map() {
    let image = Image::new("^has_journal");
    image.add_file(FIRST, 100);
    let at = bitmap_of(&image).0 * BLOCK + 900;
    image.device.write_at(at, &[0x55]).unwrap();
    let free = image.edit(|patch| Ok(take_all(patch, BlockNr(1)).len()));
    assert!(free > 100, "all maps are sound");
    image.edit_inode(FIRST, |inode| inode.i_block[0] = 0x55);
    assert_eq!(image.edit(|patch| patch.allocate(BlockNr(1))), None);
}

/// Neither the claims nor the bitmap have the blocks of the file.
#[test]
fn what_a_damaged_map_names_is_not_free() {
    let image = Image::new("^has_journal,^metadata_csum");
    image.add_file(FIRST, 100);
    let extents = image.extents(FIRST);
    let at = bitmap_of(&image).0 * BLOCK;
    let bitmap = [0; BLOCK as usize];
    image.edit_inode(FIRST, |inode| inode.i_block[0] = 0x55);
    image.device.write_at(at, &bitmap).unwrap();
    let taken = image.edit(|patch| Ok(take_all(patch, extents[0].start)));
    let is_own = |block: &&BlockNr| extents.iter().any(|extent| extent.start == **block);
    assert!(taken.len() > 100);
    assert_eq!(taken.iter().find(is_own), None);
}

#[test]
fn copies_and_nodes_never_go_onto_the_data_of_their_file() {
    let image = Image::new("^has_journal,^metadata_csum");
    image.add_file(FIRST, 100);
    let at = bitmap_of(&image).0 * BLOCK;
    let bitmap = [0; BLOCK as usize];
    image.edit_inode(FIRST, |inode| inode.i_block[0] = 0x55);
    image.device.write_at(at, &bitmap).unwrap();
    image.repair();
    assert_eq!(image.read(FIRST), contents(FIRST, 100));
}

/// Without a log a stop between writes of a round may have written the inode, and not its nodes.
#[test]
fn new_nodes_are_written_before_the_round() {
    for features in ["^has_journal", "^has_journal,^extents,^64bit"] {
        let image = Image::new(features);
        image.add_file(FIRST, 100);
        let n_nodes = image.edit(|patch| {
            let mut inode = patch.inode(FIRST)?.expect("a file");
            let extents = patch.extents_of(FIRST, &inode)?;
            assert!(patch.set_map(FIRST, &mut inode, &extents)?);
            let nodes = std::mem::take(&mut patch.blocks);
            for (block, bytes) in &nodes {
                assert!(patch.read(*block)? == *bytes, "{features}");
            }
            Ok(nodes.len())
        });
        assert!(n_nodes > 0);
    }
}

/// Files that share blocks over and over are no reason to write more than there was.
#[test]
fn copies_are_no_more_than_what_was_in_use() {
    let image = Image::new("^has_journal");
    image.add_file(FIRST, 100);
    image.edit(|patch| {
        let in_use = patch.check.claimed.count();
        let mut copied = 0;
        while patch.allocate_copy(BlockNr(1))?.is_some() {
            copied += 1;
        }
        assert_eq!(copied, in_use);
        assert!(patch.allocate(BlockNr(1))?.is_some());
        Ok(())
    });
}

/// The limit is that of all rounds together.
#[test]
fn rounds_copy_no_more_together_than_was_in_use() {
    let image = Image::new("^has_journal");
    image.add_file(FIRST, 1);
    // One run of blocks that are free.
    image.edit_inode(FIRST, |inode| {
        inode.size = 300 * BLOCK;
        inode.i_block[16..18].copy_from_slice(&300u16.to_le_bytes());
        inode.i_block[20..24].copy_from_slice(&5000u32.to_le_bytes());
    });
    image.repair();
    let (first, data) = (image.inode(FIRST), image.read(FIRST));
    let others: Vec<InodeNr> = (SECOND.0..SECOND.0 + 8).map(InodeNr).collect();
    for nr in &others {
        image.add_file(*nr, 1);
    }
    for nr in others {
        image.edit_inode(nr, |inode| {
            (inode.i_block, inode.size) = (first.i_block, first.size)
        });
    }
    let in_use = |image: &Image| image.edit(|patch| Ok(patch.check.claimed.count()));
    let before = in_use(&image);
    let report = repair(image.subject(), &mut RepairAll, &Limits::default()).unwrap();
    assert!(!report.is_sound(), "there is space for all");
    assert!(in_use(&image) <= 2 * before);
    assert_eq!(image.read(FIRST), data);
}

/// Runs of more than a write, with a block that this round changes.
#[test]
fn runs_are_copied_as_the_round_will_have_them() {
    let image = Image::new("^has_journal");
    let (from, to, len) = (2000, 4500, 1500);
    let old: Vec<u8> = (0..len * BLOCK).map(|at| (at / 700) as u8).collect();
    image.device.write_at(from * BLOCK, &old).unwrap();
    image.edit(|patch| {
        patch.write(BlockNr(from + 9), vec![0xAB; BLOCK as usize])?;
        let mut copies = Copies::default();
        for at in 0..len {
            patch.add_data(&mut copies, BlockNr(from + at), BlockNr(to + at), 1)?;
        }
        patch.write_copies(copies)
    });
    let mut wanted = old;
    wanted[9 * BLOCK as usize..10 * BLOCK as usize].fill(0xAB);
    let mut copy = vec![0; wanted.len()];
    image.device.read_at(to * BLOCK, &mut copy).unwrap();
    assert!(copy == wanted);
}
