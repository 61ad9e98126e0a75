//! Operations while transactions close and while the file system is frozen: synced data survives a
//! crash, and no thread waits forever.

use crate::explore::explore;
use crate::rig::{
    Flat, dir, image_with, image_with_directory, join, make_directory, mount, recover, together,
    unmount,
};
use std::sync::Arc;
use uext4::{Caller, Filesystem, Position, RenameFlags, WriteContext};
use uext4_sync::thread;

fn content(nr: u8) -> Vec<u8> {
    vec![b'a' + nr; 1500]
}

/// Each file is complete in the image of a crash after its sync.
fn write_and_sync(fs: &Filesystem, device: &Flat) {
    let dir_ref = dir(fs, b"d");
    for nr in 0..2 {
        let name = [b'f', b'0' + nr];
        let file = fs.create(&dir_ref, &name, 0o644, &Caller::root());
        let file = file.expect("a new name");
        fs.write(&file, 0, &content(nr), &WriteContext::ROOT)
            .expect("a write");
        fs.fsync(&file).expect("a sync");
        recover(&device.bytes(), |crashed| {
            let dir = dir(crashed, b"d");
            let file = crashed.lookup(&dir, &name, &Caller::root());
            let mut read = vec![0; 2000];
            let len = crashed.read(&file.expect("a synced name"), 0, &mut read);
            assert_eq!(read[..len.expect("a read")], content(nr));
        });
    }
}

fn change(fs: &Filesystem) {
    let (dir, caller) = (dir(fs, b"d"), Caller::root());
    for nr in 0..3 {
        let (from, to) = ([b'x', b'0' + nr], [b'y', b'0' + nr]);
        let file = fs.create(&dir, &from, 0o644, &caller).expect("a new name");
        let renamed = fs.rename(&dir, &from, &dir, &to, RenameFlags::NoReplace, &caller);
        renamed.expect("a name that is there");
        fs.write(&file, Position::End, b"some", &WriteContext::ROOT)
            .expect("a write");
        fs.unlink(&dir, &to, &caller).expect("a name that is there");
    }
}

fn meet(image: &[u8], options: &str, other: fn(&Filesystem)) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, options));
    let writer = {
        let (fs, device) = (fs.clone(), device.clone());
        thread::spawn(move || write_and_sync(&fs, &device))
    };
    together(&fs, [change, other]);
    join([writer]);
    unmount(&device, &fs);
}

#[test]
fn what_was_synced_survives() {
    let image = image_with_directory();
    let again = image.clone();
    let sync = |fs: &Filesystem| (0..3).for_each(|_| fs.sync().expect("a sync"));
    explore(20, move || meet(&image, "nodelalloc", sync));
    explore(10, move || meet(&again, "delalloc,lazytime", sync));
}

#[test]
fn what_fast_commits_synced_survives() {
    let image = image_with("fast_commit", make_directory);
    let again = image.clone();
    explore(10, move || {
        meet(&image, "nodelalloc", |fs| {
            (0..2).for_each(|_| fs.sync().expect("a sync"))
        })
    });
    explore(10, move || {
        meet(&again, "delalloc", |fs| {
            let file = fs.create(&dir(fs, b"d"), b"touched", 0o600, &Caller::root());
            let file = file.expect("a new name");
            (0..3).for_each(|_| fs.fsync(&file).expect("a sync"));
        })
    });
}

#[test]
fn freezing_lets_all_go_on() {
    fn freeze(fs: &Filesystem) {
        for _ in 0..2 {
            fs.freeze().expect("freezes");
            thread::yield_now();
            fs.thaw().expect("thaws");
            fs.remount("commit=7").expect("remounts");
        }
    }
    let image = image_with_directory();
    explore(30, move || meet(&image, "delalloc", freeze));
}
