//! Lookups in a deep extent tree, the shrinker, and changes of the tree: no read sees another
//! block.

use crate::explore::explore;
use crate::rig::{Flat, dir, image, mount, together, unmount};
use std::sync::Arc;
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, WriteContext};

const BLOCK: u64 = 1024;
/// Every second block is a hole, so that each block is an extent and the tree is deep.
const BLOCKS: u64 = 80;

fn fill(fs: &Filesystem) {
    let root = fs.root().expect("a root");
    let file = fs.create(&root, b"f", 0o644, &Caller::root());
    let file = file.expect("a new name");
    for at in (0..BLOCKS).step_by(2) {
        put(fs, &file, at);
    }
}

/// A block contains its own number.
fn put(fs: &Filesystem, file: &InodeRef, at: u64) {
    let written = fs.write(
        file,
        at * BLOCK,
        &[at as u8 + 1; BLOCK as usize],
        &WriteContext::ROOT,
    );
    assert_eq!(written.expect("a write").len_bytes, BLOCK as usize);
}

fn read(fs: &Filesystem) {
    let file = dir(fs, b"f");
    let mut bytes = [0; BLOCK as usize];
    for at in 0..BLOCKS - 1 {
        fs.read(&file, at * BLOCK, &mut bytes).expect("a read");
        let is = bytes[0];
        assert!(bytes.iter().all(|byte| *byte == is), "half of block {at}");
        let may = u64::from(is) == at + 1 || is == 0 && (at % 2 == 1 || at >= BLOCKS / 2);
        assert!(may, "block {at} reads as {is}");
    }
}

/// Changes blocks of the second half of the file.
fn change(fs: &Filesystem) {
    let file = dir(fs, b"f");
    for at in (BLOCKS / 2..BLOCKS - 2).step_by(2) {
        let punched = fs.fallocate(
            &file,
            FallocateMode::PunchHole,
            at * BLOCK..at * BLOCK + BLOCK,
            &WriteContext::ROOT,
        );
        punched.expect("a hole");
        put(fs, &file, at + at % 4 / 2);
    }
}

fn shrink(fs: &Filesystem) {
    (0..6).for_each(|_| _ = fs.reclaim_memory());
}

fn meet(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, "nodelalloc,extent_cache=512"));
    together(&fs, [read, read, change, shrink]);
    read(&fs);
    unmount(&device, &fs);
}

#[test]
fn the_shrinker_meets_lookups_and_changes() {
    let image = image(fill);
    explore(30, move || meet(&image));
}
