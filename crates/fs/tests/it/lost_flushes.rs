//! Devices that lose their cache with a failed flush, or fail reads transiently: results of
//! `fsync`, other operations and the unmount.

use crate::image;
use std::sync::Arc;
use uext4::device::{Cause, Fault, Faulty, MemDevice, Operation, VolatileDevice, When};
use uext4::{Caller, Filesystem, InodeRef, MountOptions, Threads, WriteContext};

const EIO: i32 = 5;
const BLOCK: usize = 4096;

/// A mount over a volatile cache.
struct Rig {
    cache: Arc<VolatileDevice>,
    faulty: Arc<Faulty>,
    fs: Filesystem,
}

impl Rig {
    fn new(device: &MemDevice, options: &str) -> Self {
        let cache = Arc::new(VolatileDevice::new(device));
        let faulty = Arc::new(Faulty::over_cache(cache.clone()));
        let threads = MountOptions {
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let options = threads.parse(options).unwrap();
        let fs = Filesystem::mount(faulty.clone(), options).unwrap();
        Self { cache, faulty, fs }
    }

    fn fail(&self, operation: Operation, when: When) {
        self.faulty.arm(Fault {
            operation,
            when,
            cause: Cause::Io,
        });
    }

    fn fail_next(&self, operation: Operation) {
        self.fail(operation, When::Counted { after: 0, count: 1 });
    }

    /// A durable file of one block.
    fn file(&self, name: &str) -> InodeRef {
        let root = self.fs.root().unwrap();
        let file = self
            .fs
            .create(&root, name.as_bytes(), 0o644, &Caller::root());
        let file = file.unwrap();
        self.write(&file, 1);
        self.fs.fsync(&file).unwrap();
        file
    }

    fn write(&self, file: &InodeRef, stamp: u8) {
        let written = self.fs.write(file, 0, &[stamp; BLOCK], &WriteContext::ROOT);
        assert_eq!(written.unwrap().len_bytes, BLOCK);
    }

    fn fsync(&self, file: &InodeRef) -> i32 {
        self.fs
            .fsync(file)
            .map_or_else(|error| error.errno(), |()| 0)
    }
}

fn without_journal() -> Arc<MemDevice> {
    image::mke2fs(64, &["-O", "^has_journal"])
}

/// First byte of a file, mounted after a power cut.
fn first_byte(device: MemDevice, name: &str) -> u8 {
    let fs = image::mount(&Arc::new(device));
    let root = fs.root().unwrap();
    let file = fs.lookup(&root, name.as_bytes(), &Caller::root()).unwrap();
    let mut byte = [0];
    fs.read(&file, 0, &mut byte).unwrap();
    byte[0]
}

/// The failed flush belongs to an fsync without changes, so that no commit fails with it.
#[test]
fn a_failed_flush_is_told_to_every_later_fsync() {
    for options in ["", "errors=continue", "errors=remount-ro"] {
        let rig = Rig::new(&image::ext4(64), options);
        let (first, second) = (rig.file("first"), rig.file("second"));
        let untouched = rig.file("untouched");
        rig.write(&second, 2);
        rig.fail_next(Operation::Flush);
        assert_eq!(rig.fsync(&first), EIO, "{options}");
        assert_ne!(rig.fsync(&second), 0, "{options}: its data are lost");
        assert_ne!(rig.fsync(&untouched), 0, "{options}");
        assert!(rig.fs.unmount().is_err(), "{options}");
        assert_eq!(first_byte(rig.cache.durable(), "second"), 1);
    }
}

#[test]
fn without_a_journal_a_failed_flush_is_told_until_the_file_is_written_again() {
    let rig = Rig::new(&without_journal(), "errors=continue");
    let (first, second) = (rig.file("first"), rig.file("second"));
    let cursor = rig.fs.error_cursor(&second);
    rig.write(&first, 2);
    rig.write(&second, 2);
    rig.fail_next(Operation::Flush);
    assert_eq!(rig.fsync(&first), EIO);
    for _ in 0..2 {
        assert_eq!(rig.fsync(&second), EIO, "its data are lost");
    }
    assert_eq!(rig.fs.sync().map_err(|error| error.errno()), Err(EIO));
    assert!(rig.fs.failure().is_none(), "errors=continue goes on");
    rig.write(&second, 3);
    let told = rig.fs.fsync_open(&second, &cursor);
    assert_eq!(
        told.map_err(|error| error.errno()),
        Err(EIO),
        "it was not told"
    );
    assert_eq!(rig.fsync(&second), 0, "its data are there again");
    let third = rig.file("third");
    drop((first, second, third));
    let unmounted = rig.fs.unmount();
    assert_eq!(unmounted.map_err(|error| error.errno()), Err(EIO));
    assert_eq!(first_byte(rig.cache.durable(), "second"), 3);
    assert_eq!(first_byte(rig.cache.durable(), "first"), 1);
}

/// Byte range of an inode's block in the inode table.
fn inode_block(device: &MemDevice, nr: u32) -> std::ops::Range<u64> {
    use uext4::device::BlockDevice;
    use uext4::format::{BlockNr, GroupNr};
    let superblock = uext4::read_superblock(device, None).unwrap();
    let geometry = superblock.geometry().unwrap();
    let (block, offset) = geometry.descriptor_location(GroupNr(0));
    let size = u64::from(geometry.block_size());
    let mut low = [0; 4];
    let at = block.0 * size + u64::from(offset) + 8;
    device.read_at(at, &mut low).unwrap();
    let table = BlockNr(u64::from(u32::from_le_bytes(low)));
    let (block, _) = geometry.inode_location(table, nr - 1);
    block.0 * size..(block.0 + 1) * size
}

#[test]
fn a_read_error_fails_one_operation_and_is_recorded() {
    for image in [image::ext4(64), without_journal()] {
        let rig = Rig::new(&image, "errors=continue");
        let names: Vec<String> = (0..40).map(|nr| format!("file {nr}")).collect();
        let last = names
            .iter()
            .map(|name| rig.file(name).nr().0)
            .max()
            .unwrap();
        rig.fs.unmount().unwrap();
        let durable = rig.cache.durable();
        let rig = Rig::new(&durable, "errors=continue");
        rig.fail(Operation::Read, When::Touching(inode_block(&durable, last)));
        let (root, caller) = (rig.fs.root().unwrap(), Caller::root());
        let failed = rig.fs.lookup(&root, b"file 39", &caller).unwrap_err();
        assert_eq!(failed.errno(), EIO);
        rig.faulty.disarm();
        assert!(rig.fs.failure().is_none(), "{:?}", rig.fs.failure());
        let file = rig.fs.lookup(&root, b"file 39", &caller).unwrap();
        rig.write(&file, 7);
        assert_eq!(rig.fsync(&file), 0);
        drop((file, root));
        rig.fs.unmount().unwrap();
        let noted = uext4::read_superblock(&rig.cache.durable(), None).unwrap();
        assert_eq!((noted.error_count, noted.state & 2), (1, 2));
        let range = inode_block(&durable, last);
        let block = range.start / (range.end - range.start);
        assert_eq!(
            (noted.last_error_block, noted.last_error_errcode),
            (block, 2)
        );
    }
}

#[test]
fn errors_of_a_stopped_mount_are_recorded_when_it_ends() {
    for image in [image::ext4(64), without_journal()] {
        let rig = Rig::new(&image, "errors=remount-ro");
        let file = rig.file("file");
        rig.write(&file, 2);
        rig.fail_next(Operation::Flush);
        assert_eq!(rig.fsync(&file), EIO);
        drop(file);
        assert!(rig.fs.unmount().is_err());
        let noted = uext4::read_superblock(&rig.cache.durable(), None).unwrap();
        assert_eq!((noted.error_count, noted.state & 2), (1, 2));
        assert_eq!(noted.last_error_errcode, 2, "an error of the device");
        // The next mount does not count the error again.
        let device = Arc::new(rig.cache.durable());
        image::mount(&device).unmount().unwrap();
        let noted = uext4::read_superblock(&*device, None).unwrap();
        assert_eq!((noted.error_count, noted.state & 2), (1, 2));
    }
}

/// A file with a separate map block that is not in memory; returns the byte range of the block.
fn with_deep_file(image: &MemDevice) -> (MemDevice, std::ops::Range<u64>) {
    let rig = Rig::new(image, "nodelalloc");
    let file = rig.file("deep");
    for nr in 1..12 {
        let at = nr * 8 * BLOCK as u64;
        rig.fs
            .write(&file, at, &[1; BLOCK], &WriteContext::ROOT)
            .unwrap();
    }
    rig.fs.fsync(&file).unwrap();
    drop(file);
    rig.fs.unmount().unwrap();
    let device = rig.cache.durable();
    let (_dir, path) = image::on_disk(&device);
    let told = uext4_testkit::oracle::debugfs_one(&path, "ex deep").unwrap();
    let inner = told
        .lines()
        .find(|line| line.trim_start().starts_with("0/ 1"));
    let inner = inner.expect("a tree of two levels").to_owned();
    // "0/ 1   1/  1     0 -    88  1234               89"
    let words: Vec<&str> = inner.split_whitespace().collect();
    let dash = words.iter().position(|word| *word == "-").unwrap();
    let block: u64 = words[dash + 2].parse().unwrap();
    let superblock = uext4::read_superblock(&device, None).unwrap();
    let size = u64::from(superblock.geometry().unwrap().block_size());
    (device, block * size..(block + 1) * size)
}

/// Without a journal, an on-disk inode must not refer to a map block that could not be written; the
/// durable blocks would be lost with it.
#[test]
fn a_map_that_cannot_be_written_costs_nothing_that_was_durable() {
    for options in ["errors=remount-ro", "errors=continue"] {
        let image = without_journal();
        let rig = Rig::new(&image, &format!("nodelalloc,{options}"));
        let file = rig.file("file");
        // More extents than fit in the inode.
        for nr in 1..8 {
            let at = nr * 8 * BLOCK as u64;
            rig.fs
                .write(&file, at, &[2; BLOCK], &WriteContext::ROOT)
                .unwrap();
        }
        let inode = inode_block(&image, file.nr().0);
        let behind = When::Touching(inode.end..u64::MAX);
        rig.fail(Operation::Write, behind);
        assert_eq!(rig.fsync(&file), EIO, "{options}");
        assert!(rig.faulty.injected() > 0, "{options}");
        rig.faulty.disarm();
        match options {
            // The unmount records the error and flushes.
            "errors=remount-ro" => assert!(rig.fs.unmount().is_err()),
            // Another program flushes the device before the next commit.
            _ => {
                uext4::device::BlockDevice::flush(&*rig.cache).unwrap();
                rig.fs.abandon();
            }
        }
        drop(file);
        let durable = Arc::new(rig.cache.durable());
        let fs = image::mount_with(&durable, "ro").unwrap();
        let root = fs.root().unwrap();
        let file = fs.lookup(&root, b"file", &Caller::root()).unwrap();
        let mut byte = [0];
        fs.read(&file, 0, &mut byte).unwrap();
        assert_eq!(byte, [1], "{options}");
    }
}

#[test]
fn errors_of_housekeeping_do_not_replace_results() {
    let (device, map) = with_deep_file(&image::ext4(64));
    let rig = Rig::new(&device, "errors=continue");
    rig.fail(Operation::Read, When::Touching(map));
    let (root, caller) = (rig.fs.root().unwrap(), Caller::root());
    // The file is freed at the end of this operation.
    rig.fs.unlink(&root, b"deep", &caller).unwrap();
    assert!(rig.faulty.injected() > 0);
    rig.faulty.disarm();
    let gone = rig.fs.lookup(&root, b"deep", &caller).unwrap_err();
    assert_eq!(gone.errno(), 2);
    drop(root);
    rig.fs.unmount().unwrap();
    let noted = uext4::read_superblock(&rig.cache.durable(), None).unwrap();
    assert!(noted.error_count > 0, "the failure is recorded");
}

#[test]
fn an_unmount_writes_data_though_a_file_cannot_be_freed() {
    let (device, map) = with_deep_file(&image::ext4(64));
    let rig = Rig::new(&device, "errors=continue");
    let (root, caller) = (rig.fs.root().unwrap(), Caller::root());
    let deep = rig.fs.lookup(&root, b"deep", &caller).unwrap();
    let other = rig.fs.create(&root, b"other", 0o644, &caller).unwrap();
    rig.fail(Operation::Read, When::Touching(map));
    rig.fs.unlink(&root, b"deep", &caller).unwrap();
    rig.write(&other, 9);
    let unmounted = rig.fs.unmount();
    assert_eq!(unmounted.map_err(|error| error.errno()), Err(EIO));
    drop((deep, other, root));
    assert_eq!(first_byte(rig.cache.durable(), "other"), 9);
}
