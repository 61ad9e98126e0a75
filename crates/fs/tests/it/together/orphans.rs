//! Unlink of a file while a truncate of several transactions frees its blocks.

use super::{content, create, in_threads, judge, mount, open, rounds};
use crate::image;
use std::sync::Arc;
use std::thread;
use uext4::device::MemDevice;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Filesystem, WriteContext};
use uext4_sync::Rng;

const BLOCK_BYTES: u64 = 1024;
/// Number of extents. They need a tree of 30 leaves, more than one transaction can truncate.
const PIECES: u64 = 2500;
const MIB: u64 = 24;

fn device(features: &str) -> Arc<MemDevice> {
    let mut made = MkfsOptions::new(Preset::Ext4);
    made.block_size = Some(BLOCK_BYTES as u32);
    made.features.apply_list(features).expect("known features");
    image::fresh(MIB, &made)
}

fn scattered(fs: &Filesystem) {
    let file = create(fs, "file");
    for piece in 0..PIECES {
        fs.write(
            &file,
            piece * 2 * BLOCK_BYTES,
            &[7; BLOCK_BYTES as usize],
            &WriteContext::ROOT,
        )
        .expect("a write");
    }
}

fn free(fs: &Filesystem) -> (u64, u64) {
    (fs.statfs().blocks_free, fs.statfs().inodes_free)
}

/// One thread truncates the file, another unlinks it, and it stays open until after a crash.
fn cut_beside_unlink(round: u64, features: &str) {
    let device = device(features);
    let fs = mount(&device, "nodelalloc");
    let before = free(&fs);
    scattered(&fs);
    let held = open(&fs, "file");
    let (shared, file) = (fs.clone(), held.clone());
    in_threads(2, move |id| match id {
        0 => shared.truncate(&file, 0).expect("a truncate"),
        _ => {
            let root = shared.root().expect("a root");
            // The first transaction of the truncate sets the size.
            while shared.attr(&file).size_bytes > 0 {
                thread::yield_now();
            }
            let steps = Rng::new(round).below(20);
            (0..steps).for_each(|_| thread::yield_now());
            let gone = shared.unlink(&root, b"file", &Caller::root());
            gone.expect("a name");
        }
    });
    fs.sync().expect("a sync");
    let crashed = Arc::new(device.snapshot());
    let recovered = image::mount(&crashed);
    assert_eq!(
        free(&recovered),
        before,
        "round {round}: all is free after a crash"
    );
    recovered.unmount().expect("unmounts");
    image::assert_clean(&crashed);
    assert!(content(&fs, &held).is_empty());
    drop(held);
    fs.sync().expect("a sync");
    assert_eq!(free(&fs), before, "round {round}: all is free");
    judge(&device, &fs, |_| {});
}

#[test]
fn a_cut_file_that_loses_its_name_stays_tracked() {
    for features in ["orphan_file", "^orphan_file"] {
        (0..rounds(2)).for_each(|round| cut_beside_unlink(round, features));
    }
}
