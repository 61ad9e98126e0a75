//! Extent trees and block maps: the data must be where the map points.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Volume, filled, run};
use uext4_format::extent::ExtentState;
use uext4_testkit::oracle::KernelMount;

const BLOCKS: u32 = 3000;

/// Every second block, each begins with its number; then some space without data.
fn fill(root: &Path) {
    let path = root.join("holes");
    let file = File::create(&path).expect("create");
    for block in (0..BLOCKS).step_by(2) {
        file.write_all_at(
            &(block | 0x5500_0000).to_le_bytes(),
            u64::from(block) * 1024,
        )
        .unwrap();
        if block % 64 == 0 {
            file.sync_all().expect("sync");
        }
    }
    File::create(root.join("far"))
        .unwrap()
        .write_all_at(b"end", 70_000 * 1024)
        .expect("write");
}

fn check(volume: &Volume) {
    let size = u64::from(BLOCKS - 1) * 1024;
    let node = volume
        .nodes()
        .find(|node| node.inode.size > size - 2048 && node.inode.size < size)
        .expect("the file is there");
    let map = volume.map(&node);
    let logical: Vec<u32> = map.iter().map(|(logical, ..)| *logical).collect();
    assert_eq!(logical, (0..BLOCKS).step_by(2).collect::<Vec<_>>());
    for (logical, block, state) in map {
        assert_eq!(state, ExtentState::Written);
        let wanted = (logical | 0x5500_0000).to_le_bytes();
        assert_eq!(
            volume.block(block)[..4],
            wanted,
            "block {logical} of the file"
        );
    }
    for node in volume
        .nodes()
        .filter(|node| node.inode.size == 70_000 * 1024 + 3)
    {
        let map = volume.map(&node);
        assert_eq!((map.len(), map[0].0), (1, 70_000));
        assert_eq!(&volume.block(map[0].1)[..3], b"end");
    }
}

#[test]
fn extent_trees_of_the_kernel() {
    if !KernelMount::available_or_skip("extent_trees_of_the_kernel") {
        return;
    }
    let volume = filled(&["-b", "1024"], "half_md4", |root| {
        fill(root);
        run("fallocate", &["-l", "100000"], &root.join("unwritten"));
    });
    check(&volume);
    let unwritten = volume
        .nodes()
        .find(|node| node.inode.size == 100_000)
        .expect("is there");
    let map = volume.map(&unwritten);
    assert_eq!(map.len(), 98);
    assert!(
        map.iter()
            .all(|(_, _, state)| *state == ExtentState::Unwritten)
    );
}

#[test]
fn block_maps_of_the_kernel() {
    if !KernelMount::available_or_skip("block_maps_of_the_kernel") {
        return;
    }
    let options = ["-b", "1024", "-O", "^extents,^64bit,^metadata_csum"];
    check(&filled(&options, "half_md4", fill));
}
