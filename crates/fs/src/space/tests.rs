//! Where data go, and that space held in advance is neither lost nor missed.

use crate::file::FallocateMode;
use crate::mkfs::{self, MkfsOptions, Preset};
use crate::{Caller, Error, Filesystem, InodeRef, MountOptions};
use std::sync::Arc;
use uext4_device::MemDevice;
use uext4_testkit::oracle;

const PAGE: usize = 4096;

fn mount(mib: u64) -> (Arc<MemDevice>, Filesystem) {
    let device = Arc::new(MemDevice::new(mib << 20));
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(PAGE as u32);
    mkfs::format(&*device, &options).expect("mkfs of a plain image");
    let mounted = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    (device, mounted)
}

fn create(fs: &Filesystem, name: &str) -> InodeRef {
    let root = fs.root().expect("the root");
    fs.create(&root, name.as_bytes(), 0o644, &Caller::root())
        .expect("a new file")
}

fn assert_clean(device: &MemDevice) {
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    let image = scratch.path().join("image.img");
    std::fs::write(&image, device.to_bytes()).expect("the image");
    oracle::assert_clean(&image);
}

/// What the engine has free, nothing being held or pending, is what the counts say.
fn assert_counts(fs: &Filesystem) {
    fs.sync().expect("a commit gives freed space back");
    let space = &fs.fs.space;
    space.discard_preallocations();
    assert_eq!(space.preallocated_clusters(), 0);
    assert_eq!(space.engine.free_clusters(), space.claims.available());
    assert_eq!(space.claims.free_on_disk(), space.claims.available());
}

#[test]
fn writers_at_once_get_long_extents() {
    const BYTES: usize = 8 << 20;
    let (device, fs) = mount(512);
    let files: Vec<_> = (0..16)
        .map(|nr| create(&fs, &format!("file {nr}")))
        .collect();
    std::thread::scope(|scope| {
        for file in &files {
            let fs = &fs;
            scope.spawn(move || {
                for page in 0..BYTES / PAGE {
                    fs.append(file, &[page as u8; PAGE]).expect("appends");
                }
            });
        }
    });
    let extents = |file| fs.fiemap(file, 0, u64::MAX).expect("extents").len();
    let extents: usize = files.iter().map(extents).sum();
    assert!(
        files.len() * BYTES / extents >= 1 << 20,
        "{extents} extents"
    );
    assert_counts(&fs);
    drop(files);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn small_files_of_a_thread_lie_together() {
    const FILES: usize = 200;
    let (device, fs) = mount(64);
    let mut starts = Vec::new();
    for nr in 0..FILES {
        let file = create(&fs, &format!("file {nr}"));
        fs.write(&file, 0, &[nr as u8; 6000]).expect("writes");
        starts.extend(
            fs.fiemap(&file, 0, u64::MAX)
                .expect("extents")
                .iter()
                .map(|extent| extent.physical_bytes),
        );
    }
    assert_eq!(starts.len(), FILES, "one extent each");
    let adjacent = starts
        .windows(2)
        .filter(|pair| pair[0] + 2 * PAGE as u64 == pair[1])
        .count();
    assert!(
        adjacent >= FILES - 3,
        "{adjacent} of {FILES} behind the one before"
    );
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn held_space_is_free_to_others() {
    let (device, fs) = mount(64);
    let before = fs.statfs().blocks_free;
    let holders: Vec<_> = (0..4)
        .map(|nr| create(&fs, &format!("holder {nr}")))
        .collect();
    for holder in &holders {
        fs.write(holder, 5 << 20, &[1; PAGE]).expect("writes");
    }
    assert!(
        fs.fs.space.preallocated_clusters() >= 1024,
        "windows are held"
    );
    assert_eq!(fs.statfs().blocks_free, before - 4, "and free");
    let filler = create(&fs, "filler");
    let chunk = vec![2; 1 << 20];
    let mut at = 0;
    let end = loop {
        match fs.write(&filler, at, &chunk) {
            Ok(written) => at += written as u64,
            Err(Error::NoSpace) => break at,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(fs.statfs().blocks_available, 0, "NoSpace at {end}");
    assert_counts(&fs);
    fs.truncate(&filler, 0).expect("truncates");
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn what_is_held_is_let_go() {
    let (_device, fs) = mount(64);
    let held = || fs.fs.space.preallocated_clusters();
    let file = create(&fs, "file");
    let write = |at| fs.write(&file, at, &[3; PAGE]).expect("writes");
    write(100 << 10);
    assert_eq!(held(), 31, "a window of 128 KiB for a file of 104");
    write(50 << 10);
    assert_eq!(held(), 29, "served from the window, which covers the hole");
    assert_eq!(fs.fiemap(&file, 0, u64::MAX).expect("extents").len(), 2);
    fs.fallocate(&file, FallocateMode::Allocate, 0, 8192)
        .expect("allocates");
    assert_eq!(held(), 27, "fallocate uses what is held");
    fs.truncate(&file, 60 << 10).expect("truncates");
    assert_eq!(held(), 0);
    fs.write(&file, 1 << 20, &[3; PAGE]).expect("writes");
    assert!(held() > 0);
    drop(file);
    fs.sync().expect("any operation reaps");
    assert_eq!(held(), 0, "the last user is gone");
    let file = create(&fs, "other");
    fs.fallocate(&file, FallocateMode::Allocate, 0, 1 << 20)
        .expect("allocates");
    assert_eq!(held(), 0, "fallocate holds nothing in advance");
    assert_counts(&fs);
}

#[test]
fn a_crash_loses_nothing_that_is_held() {
    let (device, fs) = mount(64);
    let file = create(&fs, "file");
    fs.write(&file, 3 << 20, &[4; PAGE]).expect("writes");
    fs.write(&create(&fs, "small"), 0, &[5; PAGE])
        .expect("writes");
    fs.sync().expect("commits");
    assert!(fs.fs.space.preallocated_clusters() > 0);
    let free = fs.statfs().blocks_free;
    drop(file);
    fs.abandon();
    drop(fs);
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("recovers");
    assert_eq!(fs.statfs().blocks_free, free);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}
