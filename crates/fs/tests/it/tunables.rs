//! Tunables: effects on requests and on readahead hints to the device.

use crate::image;
use std::sync::Arc;
use uext4::device::{BlockDevice, Error, MemDevice};
use uext4::{Caller, Filesystem, MountOptions, Threads, WriteContext};
use uext4_sync::{Mutex, Rank};

/// A device that records readahead hints and may be rotational.
struct Watched {
    device: Arc<MemDevice>,
    turns: bool,
    ahead: Mutex<Vec<(u64, u64)>>,
}

impl BlockDevice for Watched {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.device.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.device.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.ahead.lock().push((offset, len));
    }
    fn is_rotational(&self) -> bool {
        self.turns
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}

/// One flexible group of eight groups with blocks of 1 KiB; all bitmaps are on the device.
fn eight_groups() -> Arc<MemDevice> {
    image::mke2fs(64, &["-b", "1024", "-O", "^metadata_csum,^uninit_bg"])
}

fn watched(turns: bool) -> Arc<Watched> {
    Arc::new(Watched {
        device: eight_groups(),
        turns,
        ahead: Mutex::new(Rank::Device, Vec::new()),
    })
}

fn mount(device: Arc<dyn BlockDevice>, list: &str, threads: Threads) -> Filesystem {
    let options = MountOptions {
        threads,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options.parse(list).unwrap()).unwrap()
}

/// Writes 8 blocks into a new file.
fn write_small_file(fs: &Filesystem) {
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"small", 0o644, &Caller::root()).unwrap();
    fs.write(&file, 0, &[7; 8192], &WriteContext::ROOT).unwrap();
    fs.fsync(&file).unwrap();
}

/// Readahead hints before the first file is written, as (block, length in blocks).
fn told_ahead(tunable: Option<(&str, u64)>) -> Vec<(u64, u64)> {
    let device = watched(false);
    let fs = mount(device.clone(), "allocator=linear", Threads::Inline);
    if let Some((name, value)) = tunable {
        fs.set_tunable(name, value).unwrap();
    }
    write_small_file(&fs);
    let told: Vec<_> = std::mem::take(&mut *device.ahead.lock());
    let blocks: u64 = told.iter().map(|(_, len)| len / 1024).sum();
    assert_eq!(fs.stats().allocator["bitmaps_ahead"], blocks);
    fs.unmount().unwrap();
    told.iter()
        .map(|(at, len)| (at / 1024, len / 1024))
        .collect()
}

#[test]
fn bitmaps_of_a_flexible_group_are_asked_for_in_one_go() {
    // File data starts in the second group.
    let whole = told_ahead(None);
    assert_eq!(whole.len(), 1, "{whole:?}");
    let (first, blocks) = whole[0];
    assert_eq!(blocks, 7);
    assert_eq!(told_ahead(Some(("mb_prefetch", 2))), [(first, 2)]);
    assert_eq!(told_ahead(Some(("mb_prefetch_limit", 3))), [(first, 3)]);
    assert_eq!(told_ahead(Some(("mb_prefetch", 0))), []);
}

#[test]
fn defaults_suit_the_disk_and_its_groups() {
    for (turns, linear) in [(false, 0), (true, 4)] {
        let fs = mount(watched(turns), "mb_optimize_scan=1", Threads::Inline);
        assert_eq!(fs.tunable("mb_max_linear_groups"), Some(linear));
        assert_eq!(fs.tunable("mb_prefetch"), Some(8), "no more than there are");
        fs.unmount().unwrap();
    }
    let many = image::fresh(
        2 << 20,
        &uext4::mkfs::MkfsOptions::new(uext4::mkfs::Preset::Ext4),
    );
    let fs = image::mount(&many);
    assert_eq!(
        fs.tunable("mb_prefetch"),
        Some(128),
        "eight flexible groups"
    );
    assert_eq!(fs.tunable("mb_prefetch_limit"), Some(512));
    fs.unmount().unwrap();
}

/// Clusters that stay preallocated after a file of 8 blocks was written.
fn preallocated(list: &str, tunable: Option<(&str, u64)>) -> u64 {
    let fs = image::mount_with(&eight_groups(), list).unwrap();
    if let Some((name, value)) = tunable {
        fs.set_tunable(name, value).unwrap();
    }
    write_small_file(&fs);
    let clusters = fs.tunable("mb_preallocated").unwrap();
    fs.unmount().unwrap();
    clusters
}

#[test]
fn small_files_share_runs_of_the_length_that_is_set() {
    assert_eq!(preallocated("", None), 512 - 8);
    assert_eq!(preallocated("", Some(("mb_group_prealloc", 64))), 64 - 8);
    assert_eq!(preallocated("stripe=48", None), 528 - 8, "whole stripes");
}

#[test]
fn files_beyond_the_size_that_is_set_are_streams() {
    assert_eq!(preallocated("", Some(("mb_stream_req", 8))), 512 - 8);
    assert_eq!(
        preallocated("", Some(("mb_stream_req", 7))),
        16 - 8,
        "its own window"
    );
}

#[test]
fn threads_learn_of_groups_unless_they_may_not() {
    for allocator in ["linear", "optimized"] {
        let list = format!("allocator={allocator}");
        let fs = mount(eight_groups(), &list, Threads::Background);
        let filed = || {
            fs.stats()
                .orders
                .iter()
                .map(|order| order.groups_by_largest)
                .sum::<u32>()
        };
        while filed() < 8 {
            std::thread::yield_now();
        }
        assert_eq!(fs.stats().allocator["loads"], 0, "nothing is kept");
        write_small_file(&fs);
        fs.unmount().unwrap();

        let list = format!("{list},no_prefetch_block_bitmaps");
        let fs = mount(eight_groups(), &list, Threads::Background);
        write_small_file(&fs);
        assert_eq!(fs.stats().allocator["surveys"], 0);
        fs.unmount().unwrap();
    }
}

#[test]
fn a_remount_leaves_what_was_set_unless_it_says_otherwise() {
    let fs = image::mount_with(&eight_groups(), "freespace_tree").unwrap();
    fs.set_tunable("mb_frsp_max_mem", 1 << 20).unwrap();
    fs.set_tunable("frsp_cache_aggression", 3).unwrap();
    fs.remount("noatime").unwrap();
    assert_eq!(fs.tunable("mb_frsp_max_mem"), Some(1 << 20));
    assert_eq!(fs.tunable("frsp_cache_aggression"), Some(3));
    fs.remount("freespace_memory=2M,cache_aggression=2")
        .unwrap();
    assert_eq!(fs.tunable("mb_frsp_max_mem"), Some(2 << 20));
    assert_eq!(fs.tunable("frsp_cache_aggression"), Some(2));
    fs.unmount().unwrap();
}
