//! The feature `shared_blocks`: files that share data keep them, or get their own.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use crate::repair::repair;
use crate::report::Limits;
use crate::subject::SharedData;
use crate::{RepairAll, RepairReport, code};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, Feature, InodeNr, LogicalBlock};
use uext4_volume::append_extent;
use uext4_volume::superblock::write_superblock;

const THIRD: InodeNr = InodeNr(14);
/// Clusters that are left free: fewer than a file needs, and enough for a node.
const LEFT: u64 = 2;

/// Two files with the same blocks.
fn image() -> Image {
    let image = Image::new("^has_journal");
    image.add_file(FIRST, 3);
    image.add_file(SECOND, 3);
    let first = image.inode(FIRST);
    image.edit_inode(SECOND, |inode| inode.i_block = first.i_block);
    let mut disk = image.superblock();
    let mut features = disk.features();
    features.insert(Feature::SHARED_BLOCKS);
    disk.set_features(features);
    write_superblock(&*image.device, &disk).unwrap();
    // The blocks that the second file had are free.
    image.repair();
    image
}

fn unshare(image: &Image) -> RepairReport {
    let mut subject = image.subject();
    subject.shared_data = SharedData::Parted;
    repair(subject, &mut RepairAll, &Limits::default()).unwrap()
}

fn assert_files(image: &Image) {
    assert!(image.read(FIRST) == contents(FIRST, 3));
    assert!(image.read(SECOND) == contents(FIRST, 3));
}

#[test]
fn files_share_data_until_they_are_parted() {
    let image = image();
    assert_eq!(image.extents(FIRST), image.extents(SECOND));
    assert!(unshare(&image).is_sound());
    image.assert_clean();
    assert!(!image.superblock().features().has(Feature::SHARED_BLOCKS));
    assert_ne!(image.extents(FIRST), image.extents(SECOND));
    assert_files(&image);
}

/// Gives a file all free clusters but a few.
fn fill(image: &Image) {
    image.add_file(THIRD, 1);
    image.edit(|patch| {
        let mut inode = patch.inode(THIRD)?.expect("it is there");
        let mut extents = patch.extents_of(THIRD, &inode)?;
        let free = patch.check.geometry.clusters_count() - patch.check.claimed.count();
        for logical in 1..=free - LEFT {
            let start = patch.allocate(BlockNr(1))?.expect("there is space");
            let next = Extent {
                logical: LogicalBlock(logical as u32),
                start,
                len: 1,
                state: ExtentState::Written,
            };
            append_extent(&mut extents, next);
            inode.size = (logical + 1) * BLOCK;
        }
        assert!(patch.set_map(THIRD, &mut inode, &extents)?);
        patch.write_inode(THIRD, &inode)
    });
    image.repair();
}

#[test]
fn without_space_the_feature_stays() {
    let image = image();
    fill(&image);
    let report = unshare(&image);
    assert!(!report.left.is_empty());
    let mut left = report.left.iter().map(|left| code(&left.corrupt));
    assert!(left.all(|code| code == "inode-map.data-shared"));
    assert!(image.superblock().features().has(Feature::SHARED_BLOCKS));
    image.repair();
    assert_files(&image);
}
