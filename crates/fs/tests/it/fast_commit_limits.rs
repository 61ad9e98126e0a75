//! Fast commits whose replay changes more blocks than the log holds.

use crate::{crashed, image};
use std::path::Path;
use std::sync::Arc;
use uext4::device::BlockDevice;
use uext4::format::crc32c;
use uext4::format::jbd2::{INCOMPAT_FAST_COMMIT, Superblock};
use uext4::{Caller, FallocateMode, Filesystem, WriteContext};
use uext4_journal::Log;
use uext4_journal::recovery::{FastCommitArea, RecoveryMode, recover};
use uext4_testkit::oracle;

const ROOT: Caller = Caller::root();
const BLOCK: u32 = 1024;
/// The groups are small, so that a large file changes more bitmaps than the log has blocks.
const SHAPE: [&str; 8] = [
    "-b",
    "1024",
    "-g",
    "2048",
    "-O",
    "fast_commit",
    "-J",
    "size=1",
];
const IMAGE_BYTES: u64 = 3 << 30;
const FILE_BYTES: u64 = 2700 << 20;

const DEL_RANGE: u16 = 2;
const TAIL: u16 = 8;
const HEAD: u16 = 9;

fn record(tag: u16, fields: &[u32]) -> Vec<u8> {
    let len = (fields.len() * 4) as u16;
    let head = [tag.to_le_bytes(), len.to_le_bytes()].concat();
    let fields = fields.iter().flat_map(|field| field.to_le_bytes());
    head.into_iter().chain(fields).collect()
}

/// A fast commit in the kernel's format that unmaps all blocks of an inode.
fn unmaps_all(tid: u32, inode: u32) -> Vec<u8> {
    let mut block = record(HEAD, &[0, tid]);
    block.extend(record(
        DEL_RANGE,
        &[inode, 0, (FILE_BYTES / u64::from(BLOCK)) as u32],
    ));
    let len = BLOCK as usize - block.len() - 4;
    let tail = [TAIL.to_le_bytes(), (len as u16).to_le_bytes()].concat();
    block.extend(tail);
    block.extend(tid.to_le_bytes());
    let sum = crc32c(0, &block);
    block.extend(sum.to_le_bytes());
    block.resize(BLOCK as usize, 0);
    block
}

/// The journal of an image in the kernel's format, and its fast-commit area.
fn journal(path: &Path, device: &Arc<dyn BlockDevice>) -> (Log, Option<FastCommitArea>) {
    let block = |at: u32| -> u64 {
        let said = oracle::debugfs_one(path, &format!("bmap <8> {at}")).unwrap();
        said.trim().parse().unwrap()
    };
    let first = block(0);
    let at = first * u64::from(BLOCK);
    let mut block_of = vec![0; BLOCK as usize];
    device.read_at(at, &mut block_of).unwrap();
    let mut superblock = Superblock::parse(&block_of).unwrap();
    superblock.incompat |= INCOMPAT_FAST_COMMIT;
    superblock.fast_commit_blocks = 256;
    device.write_at(at, &superblock.encode()).unwrap();
    let len = superblock.max_len_blocks;
    assert_eq!(block(len - 1), first + u64::from(len) - 1, "one extent");
    let log = Log::contiguous(device.clone(), first, len);
    let report = recover(&log, device, BLOCK, RecoveryMode::Inspect).unwrap();
    (log, report.fast_commit)
}

fn blocks_of(fs: &Filesystem) -> u64 {
    let root = fs.root().unwrap();
    let file = fs.lookup(&root, b"large", &ROOT).unwrap();
    fs.attr(&file).sectors
}

#[test]
fn what_the_log_cannot_hold_at_once_is_refused() {
    let (_dir, path) = oracle::mke2fs_image(IMAGE_BYTES, &SHAPE).unwrap();
    let device = crashed::open(&path);
    let fs = Filesystem::mount(device.clone(), crashed::options()).unwrap();
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"large", 0o644, &ROOT).unwrap();
    fs.fallocate(
        &file,
        FallocateMode::Allocate,
        0..FILE_BYTES,
        &WriteContext::ROOT,
    )
    .unwrap();
    fs.sync().unwrap();
    let inode = file.nr().0;
    fs.abandon();
    drop((file, root, fs));
    let (log, area) = journal(&path, &device);
    let area = area.expect("a log in use, with an area of fast commits");
    let at = log.runs[0].device_block + u64::from(area.first);
    let commit = unmaps_all(area.tid.0, inode);
    device.write_at(at * u64::from(BLOCK), &commit).unwrap();

    let refused = Filesystem::mount(device.clone(), crashed::options());
    let refused = refused.err().expect("the log cannot hold it").to_string();
    assert!(refused.contains("more than its log holds"), "{refused}");
    let (_, still) = journal(&path, &device);
    assert_eq!(still, Some(area), "it is all there");

    let options = || crashed::options().parse("ro").unwrap();
    let sealed: Arc<dyn BlockDevice> = image::Sealed::new(device.clone());
    for device in [device.clone(), sealed] {
        let fs = Filesystem::mount(device, options()).unwrap();
        assert_eq!(blocks_of(&fs), 0, "replayed in memory");
        fs.unmount().unwrap();
    }
}
