//! Files that lose their names while they are open, in an orphan file with four slots (in builds
//! for the checker a block has two): claims, releases and the list when the file is full.

use crate::explore::explore;
use crate::rig::{Flat, dir, image_with_directory, join, mount, names, recover, unmount};
use std::sync::Arc;
use uext4::{Caller, Filesystem, InodeRef};
use uext4_sync::thread;

const THREADS: u8 = 3;

fn orphan(fs: &Filesystem, name: &[u8]) -> InodeRef {
    let (dir, caller) = (dir(fs, b"d"), Caller::root());
    let file = fs.create(&dir, name, 0o644, &caller).expect("a new name");
    fs.write(&file, 0, &[1; 3000]).expect("a write");
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
    let free = |fs: &Filesystem| (fs.statfs().blocks_free, fs.statfs().inodes_free);
    let before = free(&fs);
    let workers = (0..THREADS).map(|thread| {
        let fs = fs.clone();
        thread::spawn(move || work(&fs, thread))
    });
    let workers: Vec<_> = workers.collect();
    fs.sync().expect("a sync");
    // Whoever was an orphan at this moment is freed by the next mount.
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

#[test]
fn orphans_come_and_go() {
    let image = image_with_directory();
    explore(40, move || meet(&image));
}

#[test]
fn a_slot_has_one_owner() {
    explore(300, || uext4::orphan_slots(Flat::new(&[0; 16 << 10])));
}
