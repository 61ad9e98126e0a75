//! File times under the write-back cache, which the kernel owns: the next mount shows the times of
//! the last `stat`, and the same operations update times as on ext4.

use crate::support::{IMAGE_BYTES, Mounted};
use rustix::fs::{FallocateFlags, OFlags, copy_file_range, fallocate, fcntl_setfl};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::wait;

const MKE2FS: &[&str] = &["-b", "4096"];
/// Long enough for a clock tick to fall into an operation now and then, in bytes.
const LEN_BYTES: usize = 4 << 20;
/// Repetitions of each operation; only in some a tick falls between its start and its end.
const ROUNDS: usize = 10;
const ALIGN_BYTES: usize = 4096;
/// A file in the directory, written back.
const SOURCE: &str = "source";

const LONG_AGO: SystemTime = SystemTime::UNIX_EPOCH;

type Operation = (&'static str, fn(&Path, &File));

const OPERATIONS: &[Operation] = &[
    ("write", |_, file| file.write_all_at(b"text", 0).unwrap()),
    ("write past the cache", |_, file| write_direct(file)),
    ("allocate", |_, file| space(file, FallocateFlags::empty())),
    ("keep the size", |_, file| {
        space(file, FallocateFlags::KEEP_SIZE)
    }),
    ("punch", |_, file| space(file, PUNCH)),
    ("zero", |_, file| space(file, FallocateFlags::ZERO_RANGE)),
    ("copy", |at, file| copy(&at.join(SOURCE), file)),
    ("cut", |_, file| file.set_len(100).unwrap()),
];
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

fn write_direct(file: &File) {
    let data = vec![7; LEN_BYTES + ALIGN_BYTES];
    let start = data.as_ptr().align_offset(ALIGN_BYTES);
    fcntl_setfl(file, OFlags::DIRECT).expect("it takes the flag");
    let data = &data[start..][..LEN_BYTES];
    file.write_all_at(data, 0).expect("there is room");
}

fn space(file: &File, mode: FallocateFlags) {
    fallocate(file, mode, 4096, LEN_BYTES as u64).expect("there is room");
}

fn copy(source: &Path, file: &File) {
    let source = File::open(source).expect("it is there");
    let copied = copy_file_range(&source, None, file, None, LEN_BYTES);
    assert!(copied.expect("there is room") > 0);
}

fn new_file(path: &Path, len_bytes: usize) -> File {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .expect("there is room");
    file.write_all(&vec![5; len_bytes]).expect("there is room");
    file.sync_all().expect("it syncs");
    file
}

/// mtime and ctime.
fn times(seen: &Metadata) -> [(i64, i64); 2] {
    [
        (seen.mtime(), seen.mtime_nsec()),
        (seen.ctime(), seen.ctime_nsec()),
    ]
}

fn times_of(path: &Path) -> [(i64, i64); 2] {
    times(&path.metadata().expect("it is there"))
}

#[test]
fn what_was_told_is_noted() {
    let mut mounted = Mounted::new();
    drop(new_file(&mounted.path(SOURCE), LEN_BYTES));
    let mut told = Vec::new();
    for round in 0..ROUNDS {
        for (name, operation) in OPERATIONS {
            let path = mounted.path(&format!("{name} {round}"));
            // Its times are written, and most often still current.
            let file = new_file(&path, 2 * ALIGN_BYTES);
            operation(&mounted.root(), &file);
            drop(file);
            told.push((path.clone(), times_of(&path)));
        }
    }
    mounted.unmount();
    mounted.mount(&[]);
    let differ = told.iter().filter(|(path, told)| times_of(path) != *told);
    let differ: Vec<_> = differ.map(|it| (it, times_of(&it.0))).collect();
    assert!(differ.is_empty(), "told, noted: {differ:#?}");
    mounted.unmount();
}

/// The times that an operation updates.
fn moved(at: &Path) -> Vec<(&'static str, [bool; 2])> {
    std::fs::set_permissions(at, PermissionsExt::from_mode(0o777)).unwrap();
    drop(new_file(&at.join(SOURCE), LEN_BYTES));
    let files = OPERATIONS.iter().map(|(name, operation)| {
        let path = at.join(name);
        let file = new_file(&path, 2 * ALIGN_BYTES);
        file.set_modified(LONG_AGO).expect("it is ours");
        let before = times_of(&path);
        wait::clock_tick();
        operation(at, &file);
        drop(file);
        let after = times_of(&path);
        (*name, [after[0] != before[0], after[1] != before[1]])
    });
    files.collect()
}

#[test]
fn times_move_as_those_of_ext4() {
    let all = |moved: &[(_, [bool; 2])]| moved.iter().all(|(_, moved)| *moved == [true; 2]);
    for words in [&[][..], &["through"]] {
        let mut mounted = Mounted::with(MKE2FS, words);
        let ours = moved(&mounted.root());
        assert!(all(&ours), "{words:?}: {ours:?}");
        mounted.unmount();
    }
    if KernelMount::available_or_skip("times that move") {
        let (_kept, image) = oracle::mke2fs_image(IMAGE_BYTES, MKE2FS).unwrap();
        let kernel = KernelMount::new(&image, "").unwrap();
        let theirs = moved(kernel.path());
        assert!(all(&theirs), "the kernel's: {theirs:?}");
        kernel.unmount().unwrap();
    }
}

/// The kernel opens the file for direct I/O and does not update its times.
#[test]
fn times_of_a_synchronous_file_move() {
    let mut mounted = Mounted::new();
    let path = mounted.path("file");
    drop(new_file(&path, 2 * ALIGN_BYTES));
    let chattr = Command::new("chattr").arg("+S").arg(&path).status();
    assert!(chattr.unwrap().success());
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(LONG_AGO).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"more", 0).unwrap();
    drop(file);
    mounted.unmount();
    mounted.mount(&[]);
    assert!(path.metadata().unwrap().modified().unwrap() > LONG_AGO);
    mounted.unmount();
}
