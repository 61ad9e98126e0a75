//! Caching of unused metadata.

use crate::image;
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::{Caller, Filesystem};

const FILES: u64 = 3000;

fn mount(device: &Arc<MemDevice>, list: &str) -> Filesystem {
    image::mount_with(device, list).unwrap()
}

fn name(nr: u64) -> Vec<u8> {
    format!("file{nr}").into_bytes()
}

fn with_files() -> Arc<MemDevice> {
    let device = image::ext4(64);
    let fs = mount(&device, "");
    let root = fs.root().unwrap();
    for nr in 0..FILES {
        fs.create(&root, &name(nr), 0o644, &Caller::root()).unwrap();
    }
    drop(root);
    fs.unmount().unwrap();
    device
}

fn look_up_all(fs: &Filesystem) {
    let root = fs.root().unwrap();
    for nr in 0..FILES {
        let file = fs.lookup(&root, &name(nr), &Caller::root()).unwrap();
        assert_eq!(fs.attr(&file).links, 1);
    }
}

#[test]
fn what_is_unused_stays_within_metadata_cache() {
    let device = with_files();
    let fs = mount(&device, "");
    let kept = |fs: &Filesystem| {
        look_up_all(fs);
        fs.stats().caches.inodes
    };
    let all = kept(&fs);
    assert!(all.entries >= FILES && all.evictions == 0, "{all:?}");
    fs.remount("metadata_cache=256K").unwrap();
    assert_eq!(fs.tunable("metadata_cache"), Some(256 << 10));
    fs.reclaim_memory();
    fs.set_tunable("metadata_cache", 128 << 10).unwrap();
    let few = kept(&fs);
    assert!(few.entries < FILES / 2 && few.evictions > 0, "{few:?}");
    fs.unmount().unwrap();
    let fs = mount(&device, "metadata_cache=64M");
    assert!(kept(&fs).entries >= FILES);
    drop(fs);
    image::assert_clean(&device);
}

#[test]
fn inodes_that_follow_the_one_before_come_with_their_block() {
    let device = with_files();
    let fs = mount(&device, "");
    look_up_all(&fs);
    let inodes = fs.stats().caches.inodes;
    let slots_per_block = u64::from(fs.statfs().block_size) / 256;
    let most = FILES / slots_per_block + 100;
    assert!(inodes.misses < most, "{inodes:?}, no more than {most}");
}
