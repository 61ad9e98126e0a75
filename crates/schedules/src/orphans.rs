//! Files that are unlinked while open, in an orphan file with four slots (in builds for the checker
//! a block has two): claims, releases, and the legacy list when the file is full.

use crate::explore::explore;
use crate::rig::{
    Flat, dir, fall_behind, image, image_with_directory, join, mount, names, recover, unmount,
};
use std::sync::Arc;
use uext4::{Caller, Filesystem, InodeRef, WriteContext};
use uext4_sync::thread;

const THREADS: u8 = 3;

fn orphan(fs: &Filesystem, name: &[u8]) -> InodeRef {
    let (dir, caller) = (dir(fs, b"d"), Caller::root());
    let file = fs.create(&dir, name, 0o644, &caller).expect("a new name");
    fs.write(&file, 0, &[1; 3000], &WriteContext::ROOT)
        .expect("a write");
    fs.unlink(&dir, name, &caller).expect("a name");
    file
}

/// Two orphans at a time.
fn work(fs: &Filesystem, thread: u8) {
    for round in 0..2 {
        let name = |nr| [b'a' + thread, b'0' + round, nr];
        let first = orphan(fs, &name(b'x'));
        let second = orphan(fs, &name(b'y'));
        drop(first);
        fs.truncate(&second, 1000).expect("a truncate");
    }
}

fn meet(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, "nodelalloc"));
    let before = free(&fs);
    let workers = (0..THREADS).map(|thread| {
        let fs = fs.clone();
        thread::spawn(move || work(&fs, thread))
    });
    let workers: Vec<_> = workers.collect();
    fs.sync().expect("a sync");
    // Inodes that were orphans at this moment are freed by the next mount.
    recover(&device.bytes(), |crashed| {
        let named = names(crashed, &dir(crashed, b"d")).len() as u64;
        let (_, inodes) = free(crashed);
        assert_eq!(
            inodes,
            before.1 - named,
            "all inodes without a name are free"
        );
    });
    join(workers);
    fs.sync().expect("a sync");
    assert_eq!(free(&fs), before, "everything was freed");
    unmount(&device, &fs);
}

/// Free blocks and inodes.
fn free(fs: &Filesystem) -> (u64, u64) {
    (fs.statfs().blocks_free, fs.statfs().inodes_free)
}

#[test]
fn orphans_come_and_go() {
    let image = image_with_directory();
    explore(40, move || meet(&image));
}

#[test]
fn a_slot_has_one_owner() {
    explore(300, || uext4::orphan_slots(Flat::new(&[0; 16 << 10])));
}

/// A reference by number is taken and dropped while the last user of an unlinked file leaves.
fn reference_during_the_last_drop(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, "nodelalloc"));
    let before = free(&fs);
    let file = orphan(&fs, b"file");
    let nr = file.nr();
    let ends = {
        let fs = fs.clone();
        thread::spawn(move || {
            fall_behind();
            drop(file);
            fs.sync().expect("a sync");
        })
    };
    let holds = (0..2).map(|_| {
        let fs = fs.clone();
        thread::spawn(move || {
            fall_behind();
            // The number may be free by then.
            drop(fs.inode(nr));
        })
    });
    let holds: Vec<_> = holds.collect();
    join([ends]);
    join(holds);
    fs.sync().expect("a sync");
    assert_eq!(free(&fs), before, "everything was freed");
    unmount(&device, &fs);
}

#[test]
fn the_last_of_several_users_frees_a_file_without_a_name() {
    let image = image_with_directory();
    explore(150, move || reference_during_the_last_drop(&image));
}

/// Each piece is an extent; this many need more than one transaction to truncate.
const PIECES: u64 = 600;

fn scattered(fs: &Filesystem) {
    let (root, caller) = (fs.root().expect("a root"), Caller::root());
    fs.mkdir(&root, b"d", 0o755, &caller).expect("a new name");
    let file = fs.create(&dir(fs, b"d"), b"file", 0o644, &caller);
    let file = file.expect("a new name");
    for piece in 0..PIECES {
        let written = fs.write(&file, piece * 2048, &[7; 1024], &WriteContext::ROOT);
        written.expect("a write");
    }
}

/// The file is unlinked while it is truncated; then a crash follows.
fn cut_beside_unlink(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, "nodelalloc"));
    let inodes = fs.statfs().inodes_free;
    let file = fs.lookup(&dir(&fs, b"d"), b"file", &Caller::root());
    let file = file.expect("a name");
    let cutter = {
        let (fs, file) = (fs.clone(), file.clone());
        thread::spawn(move || fs.truncate(&file, 0).expect("a truncate"))
    };
    let unlinker = {
        let (fs, file) = (fs.clone(), file.clone());
        thread::spawn(move || {
            while fs.attr(&file).size_bytes > 0 {
                thread::yield_now();
            }
            fall_behind();
            fs.unlink(&dir(&fs, b"d"), b"file", &Caller::root())
                .expect("a name");
        })
    };
    join([cutter, unlinker]);
    fs.sync().expect("a sync");
    recover(&device.bytes(), |crashed| {
        let free = crashed.statfs().inodes_free;
        assert_eq!(free, inodes + 1, "the file is free after a crash");
    });
    drop(file);
    unmount(&device, &fs);
}

#[test]
fn a_cut_file_that_loses_its_name_stays_tracked() {
    let image = image(scattered);
    explore(30, move || cut_beside_unlink(&image));
}
