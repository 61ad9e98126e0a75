//! Mount options with an effect on the device.

use crate::image;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4::device::{BlockDevice, Error, MemDevice};
use uext4::{Caller, Filesystem, MountOptions, Threads, WriteContext};
use uext4_testkit::oracle::{KernelMount, debugfs_one};

/// A device that counts its flushes.
struct Counting {
    device: Arc<MemDevice>,
    flushes: AtomicU64,
}

impl BlockDevice for Counting {
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
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.device.flush()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}

fn flushes_of_a_run(list: &str) -> u64 {
    let device = image::ext4(32);
    let counting = Arc::new(Counting {
        device: device.clone(),
        flushes: AtomicU64::new(0),
    });
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(counting.clone(), options.parse(list).unwrap()).unwrap();
    let file = fs
        .create(&fs.root().unwrap(), b"file", 0o644, &Caller::root())
        .unwrap();
    fs.write(&file, 0, b"data", &WriteContext::ROOT).unwrap();
    fs.fsync(&file).unwrap();
    drop(file);
    fs.unmount().unwrap();
    image::assert_clean(&device);
    counting.flushes.load(Ordering::Relaxed)
}

#[test]
fn nobarrier_sends_no_flush() {
    assert!(flushes_of_a_run("") > 2);
    assert_eq!(flushes_of_a_run("nobarrier"), 0);
    assert_eq!(flushes_of_a_run("barrier=0"), 0);
}

/// Creates a file, syncs, and cuts the power.
fn crashed(device: &Arc<MemDevice>, list: &str) {
    let fs = image::mount_with(device, list).unwrap();
    let file = fs
        .create(&fs.root().unwrap(), b"file", 0o644, &Caller::root())
        .unwrap();
    fs.write(&file, 0, b"data", &WriteContext::ROOT).unwrap();
    fs.sync().unwrap();
    drop(file);
    fs.abandon();
}

fn content(fs: &Filesystem) -> Vec<u8> {
    let file = fs
        .lookup(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    let mut data = vec![0; 10];
    let len = fs.read(&file, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

#[test]
fn a_backup_superblock_mounts_what_the_primary_cannot() {
    for (shape, at_kib) in [
        (&["-b", "1024"][..], 8193),
        (&["-b", "4096", "-g", "4096"], 16384),
    ] {
        for dirty in [false, true] {
            let device = image::mke2fs(48, shape);
            crashed(&device, "");
            if !dirty {
                image::mount(&device).unmount().unwrap();
            }
            device.write_at(1024, &[0; 1024]).unwrap();
            assert!(image::mount_with(&device, "").is_err());
            let fs = image::mount_with(&device, &format!("ro,sb={at_kib}")).unwrap();
            assert_eq!(content(&fs), b"data", "{shape:?} read-only");
            drop(fs);
            let fs = image::mount_with(&device, &format!("sb={at_kib}")).unwrap();
            assert_eq!(content(&fs), b"data", "{shape:?}");
            fs.unmount().unwrap();
            image::assert_clean(&device);
        }
    }
}

#[test]
fn noload_needs_a_read_only_mount_and_replays_nothing() {
    let device = image::ext4(32);
    crashed(&device, "");
    assert!(image::mount_with(&device, "noload").is_err());
    let before = device.to_bytes();
    let fs = image::mount_with(&device, "ro,noload").unwrap();
    assert!(
        fs.lookup(&fs.root().unwrap(), b"file", &Caller::root())
            .is_err()
    );
    drop(fs);
    assert!(device.to_bytes() == before);
    let options = MountOptions::default().parse("ro").unwrap();
    let fs = Filesystem::mount(image::Sealed::new(device.clone()), options).unwrap();
    assert_eq!(content(&fs), b"data");
    drop(fs);
    assert!(device.to_bytes() == before);
}

#[test]
fn the_log_is_checksummed_as_asked() {
    let plain = &["-O", "^metadata_csum"][..];
    for (shape, list, wanted) in [
        (&[][..], "", true),
        (&[], "nojournal_checksum", false),
        (plain, "", false),
        (plain, "journal_checksum", true),
    ] {
        let device = image::mke2fs(48, shape);
        crashed(&device, list);
        let (_dir, path) = image::on_disk(&device);
        let log = debugfs_one(&path, "logdump -S").unwrap();
        assert_eq!(
            log.contains("journal_checksum_v3"),
            wanted,
            "{shape:?} {list}: {log}"
        );
        if KernelMount::available_or_skip("journal_checksum in the kernel") {
            let mount = KernelMount::new(&path, "").expect("the kernel replays it");
            assert_eq!(std::fs::read(mount.path().join("file")).unwrap(), b"data");
            mount.unmount().unwrap();
        }
        uext4_testkit::oracle::assert_clean(&path);
    }
}

#[test]
fn words_in_the_superblock_are_used() {
    let device = image::mke2fs(24, &[]);
    let mut superblock = uext4::read_superblock(&*device, None).unwrap();
    superblock.mount_opts[..5].copy_from_slice(b"grpid");
    device.write_at(1024, &superblock.to_bytes()).unwrap();
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let set = uext4::SetAttr {
        gid: Some(77),
        ..Default::default()
    };
    fs.set_attr(&root, &set, &Caller::root()).unwrap();
    let file = fs.create(&root, b"file", 0o644, &Caller::root()).unwrap();
    assert_eq!(fs.attr(&file).gid, 77);
    drop((file, root));
    fs.unmount().unwrap();
    let fs = image::mount_with(&device, "nogrpid").unwrap();
    let file = fs
        .create(&fs.root().unwrap(), b"other", 0o644, &Caller::root())
        .unwrap();
    assert_eq!(fs.attr(&file).gid, 0);
}
