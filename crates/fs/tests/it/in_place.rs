//! Reads in place: the caller gets the data's location in the image, sees the same bytes as a read,
//! and the bytes do not change during the callback.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, FallocateMode, FileRange, Filesystem, InodeRef, MountOptions, WriteContext};
use uext4_testkit::rng::Rng;
use uext4_testkit::{oracle, wait};

/// A file system in a host file.
fn fresh(made_with: &[&str]) -> (TempDir, PathBuf, Filesystem) {
    let (dir, path) = oracle::mke2fs_image(64 << 20, made_with).expect("mke2fs");
    let device = FileDevice::open(&path, Access::ReadWrite).expect("the image opens");
    let fs = Filesystem::mount(Arc::new(device), MountOptions::default()).expect("it mounts");
    (dir, path, fs)
}

fn create(fs: &Filesystem, name: &str) -> InodeRef {
    let (top, root) = (fs.root().expect("the root"), Caller::root());
    fs.create(&top, name.as_bytes(), 0o644, &root)
        .expect("a new file")
}

fn look(ranges: &[FileRange<'_>]) -> Vec<u8> {
    let bytes = ranges.iter().flat_map(|range| {
        let file = range.place.file.try_clone_to_owned();
        let mut part = vec![0; range.len_bytes];
        File::from(file.expect("a descriptor"))
            .read_exact_at(&mut part, range.place.offset)
            .expect("the image is that long");
        part
    });
    bytes.collect()
}

/// Data read in place; `None` if a part of it has no place.
fn in_place(fs: &Filesystem, inode: &InodeRef, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut found = None;
    let taken = fs.read_in_place(inode, at, len, |ranges| {
        found = Some(look(ranges));
        true
    });
    assert_eq!(taken.expect("it reads"), found.is_some());
    found
}

fn compare(seed: u64, made_with: &[&str]) {
    let (_dir, path, fs) = fresh(made_with);
    let inode = create(&fs, "file");
    let mut rng = Rng::new(seed);
    let (mut n_taken, mut n_refused) = (0, 0);
    for _ in 0..300 {
        let (at, len) = (rng.below(3 << 20), 1 + rng.below(300 << 10));
        match rng.below(8) {
            0 => fs.truncate(&inode, at).expect("it cuts"),
            1 => fs
                .fallocate(
                    &inode,
                    FallocateMode::PunchHole,
                    at..at + len,
                    &WriteContext::ROOT,
                )
                .expect("it punches"),
            2 => fs
                .fallocate(
                    &inode,
                    FallocateMode::Allocate,
                    at..at + len,
                    &WriteContext::ROOT,
                )
                .expect("there is room"),
            3 => fs.fsync(&inode).expect("it syncs"),
            _ => {
                let data = rng.bytes(len as usize);
                let written = fs
                    .write(&inode, at, &data, &WriteContext::ROOT)
                    .expect("there is room");
                assert_eq!(written.len_bytes, data.len());
            }
        }
        let (at, len) = (rng.below(3 << 20), 1 + rng.below(1 << 20) as usize);
        let mut read = vec![0; len];
        let n_read = fs.read(&inode, at, &mut read).expect("it reads");
        match in_place(&fs, &inode, at, len) {
            Some(found) => {
                assert!(found == read[..n_read], "seed {seed}: {len} bytes at {at}");
                n_taken += 1;
            }
            None => n_refused += 1,
        }
    }
    assert!(
        n_taken > 10 && n_refused > 10,
        "seed {seed}: {n_taken} {n_refused}"
    );
    fs.unmount().expect("it unmounts");
    oracle::assert_clean(&path);
}

#[test]
fn what_stands_in_place_is_what_a_read_answers() {
    compare(1, &["-b", "4096"]);
    compare(2, &["-b", "1024", "-O", "bigalloc", "-C", "8192"]);
    compare(3, &["-b", "1024", "-O", "inline_data,^has_journal"]);
}

#[test]
fn what_stands_nowhere_must_be_read() {
    let (_dir, _, fs) = fresh(&["-b", "4096", "-O", "inline_data"]);
    let file = create(&fs, "file");
    fs.write(&file, 0, b"in the inode", &WriteContext::ROOT)
        .expect("there is room");
    assert!(in_place(&fs, &file, 0, 100).is_none());
    fs.write(&file, 0, &[1; 200_000], &WriteContext::ROOT)
        .expect("there is room");
    assert!(in_place(&fs, &file, 0, 16_384).is_none(), "it waits");
    fs.fsync(&file).expect("it syncs");
    assert!(in_place(&fs, &file, 0, 16_384) == Some(vec![1; 16_384]));
    assert_eq!(in_place(&fs, &file, 199_990, 4096), Some(vec![1; 10]));
    assert!(in_place(&fs, &file, 200_000, 4096).is_none(), "the end");
    let (hole, len) = (65_536, 4096);
    fs.fallocate(
        &file,
        FallocateMode::PunchHole,
        hole..hole + len,
        &WriteContext::ROOT,
    )
    .expect("it punches");
    assert!(in_place(&fs, &file, 61_440, 12_288).is_none(), "a hole");
    assert!(in_place(&fs, &file, 0, 65_536).is_some());
    let taken = fs.read_in_place(&file, 0, 4096, |_| false);
    assert!(matches!(taken, Ok(false)), "it was not taken");
    let top = fs.root().expect("the root");
    assert!(fs.read_in_place(&top, 0, 4096, |_| true).is_err());
    fs.unmount().expect("it unmounts");
}

/// Shown blocks are neither changed nor reallocated until the callback returns.
#[test]
fn a_reader_keeps_the_blocks() {
    let (_dir, _, fs) = fresh(&["-b", "4096"]);
    let (file, other) = (create(&fs, "file"), create(&fs, "other"));
    let len = 1 << 20;
    fs.write(&file, 0, &vec![1; len], &WriteContext::ROOT)
        .expect("there is room");
    fs.fsync(&file).expect("it syncs");
    let steal = || {
        fs.truncate(&file, 0).expect("it cuts");
        fs.sync().expect("it syncs");
        for at in 0..40 {
            // Fills all free space.
            let written = fs.write(&other, at << 20, &vec![2; 1 << 20], &WriteContext::ROOT);
            if written.is_err() {
                break;
            }
        }
        fs.sync().expect("it syncs");
    };
    std::thread::scope(|scope| {
        let taken = fs.read_in_place(&file, 0, len, |ranges| {
            let steal = scope.spawn(steal);
            let limit = Duration::from_millis(200);
            let is_stolen = wait::is_true_within(limit, || steal.is_finished());
            assert!(!is_stolen, "the reader was not waited for");
            assert!(look(ranges) == vec![1; len]);
            true
        });
        assert!(matches!(taken, Ok(true)));
    });
    assert!(in_place(&fs, &file, 0, 1).is_none());
    fs.unmount().expect("it unmounts");
}
