//! Journaled blocks are revoked when they are freed: more blocks than one transaction of a small
//! log can revoke.

use crate::image;
use std::path::Path;
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::{Caller, FallocateMode, Filesystem, WriteContext};
use uext4_testkit::oracle::{self, Access};

const ROOT: Caller = Caller::root();
/// Size of the file in bytes. With blocks of 1 KiB a revoke block holds 125 entries, and the log
/// has 1024 blocks.
const BYTES: u64 = 160 << 20;
/// Inode flags: extents and data journaling.
const FLAGS: u32 = 0x8_4000;

fn journaled() -> Arc<MemDevice> {
    let device = image::mke2fs(256, &["-b", "1024", "-J", "size=1"]);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    fs.fallocate(
        &file,
        FallocateMode::Allocate,
        0..BYTES,
        &WriteContext::ROOT,
    )
    .unwrap();
    drop((root, file));
    fs.unmount().unwrap();
    let (_dir, path) = image::on_disk(&device);
    mark(&path);
    Arc::new(MemDevice::from_bytes(&std::fs::read(path).unwrap()))
}

fn mark(path: &Path) {
    let command = format!("set_inode_field file flags {FLAGS:#x}");
    oracle::debugfs(path, Access::Write, &[command]).unwrap();
}

fn judge(device: &MemDevice, fs: &Filesystem) {
    fs.sync().expect("the log takes it");
    assert!(fs.failure().is_none());
    fs.unmount().unwrap();
    image::assert_clean(device);
}

#[test]
fn a_large_file_with_data_in_the_journal_is_cut_in_steps() {
    let device = journaled();
    let fs = image::mount(&device);
    let file = fs.lookup(&fs.root().unwrap(), b"file", &ROOT).unwrap();
    fs.truncate(&file, 0).expect("a truncate");
    drop(file);
    judge(&device, &fs);
}

#[test]
fn a_large_file_with_data_in_the_journal_is_freed_in_steps() {
    let device = journaled();
    let fs = image::mount(&device);
    fs.unlink(&fs.root().unwrap(), b"file", &ROOT)
        .expect("an unlink");
    judge(&device, &fs);
}
