//! Freezes of the file system; e2fsck, the kernel and the writers' models check the image.

use crate::worker::Worker;
use crate::{crashed, image, threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use uext4::device::{BlockDevice, MemDevice, Recorder};
use uext4::format::Feature;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Error, Filesystem, InodeRef, MountOptions, WriteContext};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::Manifest;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::wait;

const THREADS: u64 = 4;
const FREEZES: u32 = 3;

fn file_with(fs: &Filesystem, name: &[u8], data: &[u8]) -> InodeRef {
    let root = fs.root().unwrap();
    let file = fs.create(&root, name, 0o644, &Caller::root()).unwrap();
    fs.write(&file, 0, data, &WriteContext::ROOT).unwrap();
    file
}

fn read(fs: &Filesystem, name: &[u8]) -> Vec<u8> {
    let root = fs.root().unwrap();
    let file = fs.lookup(&root, name, &Caller::root()).unwrap();
    let mut data = vec![0; 64];
    let len = fs.read(&file, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

/// The image is marked clean and is clean, and the kernel sees the same tree as the frozen mount.
fn judge(fs: &Filesystem, device: &MemDevice) {
    let still = device.snapshot();
    let superblock = uext4::read_superblock(&still, None).unwrap();
    assert!(!superblock.features().has(Feature::RECOVER));
    let ours = Manifest::of(&EngineTarget::new(fs)).unwrap();
    let (_dir, path) = image::on_disk(&still);
    let kernels = crashed::clean_tree(&path);
    let differences = ours.diff(&kernels, &crashed::policy());
    assert!(differences.is_empty(), "{differences:?}");
    assert!(device.to_bytes() == still.to_bytes(), "reads changed it");
}

fn freezes_under_writers(options: &MkfsOptions) {
    let device = image::fresh(96, options);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let run = |id| {
        let (worker, done) = (Worker::new(&fs, id, id).unwrap(), done.clone());
        thread::spawn(move || worker.work(|_| !done.load(Ordering::SeqCst)).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    for round in 0..FREEZES {
        let name = format!("round {round}").into_bytes();
        drop(file_with(&fs, &name, &name));
        fs.freeze().unwrap();
        assert_eq!(read(&fs, &name), name, "a read does not wait");
        fs.sync().expect("a sync does not wait");
        judge(&fs, &device);
        fs.thaw().unwrap();
    }
    done.store(true, Ordering::SeqCst);
    threads::finish(workers, &fs, &device);
}

#[test]
fn a_frozen_image_is_clean_under_writers() {
    if KernelMount::available_or_skip("a_frozen_image_is_clean_under_writers") {
        freezes_under_writers(&MkfsOptions::new(Preset::Ext4));
    }
}

#[test]
fn a_frozen_image_without_a_journal_is_clean_under_writers() {
    if KernelMount::available_or_skip("a_frozen_image_without_a_journal") {
        freezes_under_writers(&MkfsOptions::new(Preset::Ext2));
    }
}

#[test]
fn changes_wait_and_reads_of_the_same_file_do_not() {
    let device = image::ext4(32);
    let fs = image::mount_with(&device, "strictatime").unwrap();
    let file = file_with(&fs, b"file", b"before");
    fs.freeze().unwrap();
    thread::scope(|scope| {
        let root = fs.root().unwrap();
        let (fs, file) = (&fs, &file);
        let write = scope.spawn(move || fs.write(file, 0, b"after!", &WriteContext::ROOT).unwrap());
        let unlink = scope.spawn(move || fs.unlink(&root, b"file", &Caller::root()));
        for _ in 0..200 {
            assert_eq!(read(fs, b"file"), b"before");
            thread::yield_now();
        }
        assert!(!write.is_finished() && !unlink.is_finished());
        fs.thaw().unwrap();
        assert_eq!(write.join().unwrap().len_bytes, 6);
        unlink.join().unwrap().unwrap();
    });
    drop(file);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn freezing_is_answered_as_linux_does() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    assert!(matches!(fs.thaw(), Err(Error::Invalid(_))));
    fs.freeze().unwrap();
    assert!(fs.is_frozen());
    assert!(matches!(fs.freeze(), Err(Error::Busy)));
    assert!(matches!(fs.remount("ro"), Err(Error::Remount(_))));
    fs.thaw().unwrap();
    assert!(!fs.is_frozen());
    fs.unmount().unwrap();
    assert!(matches!(fs.freeze(), Err(Error::Unmounted)));
    let fs = image::mount_with(&device, "ro").unwrap();
    let before = device.to_bytes();
    fs.freeze().unwrap();
    fs.thaw().unwrap();
    assert!(device.to_bytes() == before);
}

#[test]
fn unmounting_while_frozen_ends_the_waiters() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let file = file_with(&fs, b"file", b"data");
    fs.freeze().unwrap();
    let is_written = thread::scope(|scope| {
        let waiting = scope.spawn(|| fs.write(&file, 0, b"late", &WriteContext::ROOT));
        fs.unmount().unwrap();
        waiting.join().unwrap().is_ok()
    });
    image::assert_clean(&device);
    let content: &[u8] = if is_written { b"late" } else { b"data" };
    assert_eq!(read(&image::mount(&device), b"file"), content);
}

/// A device that counts writes of backup superblocks. Each waits for the end of the call that
/// makes the file system stand still, which must not come before.
struct Slow {
    inner: Arc<MemDevice>,
    is_writing: AtomicBool,
    is_still: AtomicBool,
    copies: AtomicU64,
}

/// Byte offsets of the backup superblocks with blocks of 1024 bytes: in groups 1 and 3.
const COPIES: [u64; 2] = [8193 << 10, (3 * 8192 + 1) << 10];

impl BlockDevice for Slow {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), uext4::device::Error> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), uext4::device::Error> {
        if COPIES.contains(&offset) {
            self.is_writing.store(true, Ordering::SeqCst);
            let is_still = || self.is_still.load(Ordering::SeqCst);
            wait::is_true_within(Duration::from_millis(15), is_still);
            self.copies.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), uext4::device::Error> {
        self.inner.flush()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// Tunes until `stop`. Returns the number of calls.
fn tune_until(fs: &Filesystem, stop: &AtomicBool) -> u32 {
    let mut done = 0u32;
    while !stop.load(Ordering::SeqCst) {
        let label = Some(format!("label {}", done % 100).into_bytes());
        let tuning = uext4::Tuning {
            label,
            ..Default::default()
        };
        match fs.tune(&tuning) {
            Ok(()) => done += 1,
            Err(Error::ReadOnly) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done
}

/// A tune call completes before a freeze or read-only remount returns, or starts after its end;
/// this includes the backup superblocks.
#[test]
fn what_stands_still_is_not_tuned() {
    let inner = image::fresh(
        32,
        &MkfsOptions {
            block_size: Some(1024),
            ..MkfsOptions::new(Preset::Ext4)
        },
    );
    let device = Arc::new(Slow {
        inner: inner.clone(),
        is_writing: AtomicBool::new(false),
        is_still: AtomicBool::new(false),
        copies: AtomicU64::new(0),
    });
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).unwrap();
    let stop = AtomicBool::new(false);
    let copies = || device.copies.load(Ordering::SeqCst);
    let mut while_still = 0;
    let done = thread::scope(|scope| {
        let tuner = scope.spawn(|| tune_until(&fs, &stop));
        for round in 0..20 {
            device.is_writing.store(false, Ordering::SeqCst);
            let is_writing = || device.is_writing.load(Ordering::SeqCst);
            wait::until_true("a backup superblock is written", is_writing);
            match round % 2 {
                0 => fs.freeze().unwrap(),
                _ => fs.remount("ro").unwrap(),
            }
            let before = copies();
            device.is_still.store(true, Ordering::SeqCst);
            wait::is_true_within(Duration::from_millis(35), || copies() > before);
            while_still += copies() - before;
            device.is_still.store(false, Ordering::SeqCst);
            match round % 2 {
                0 => fs.thaw().unwrap(),
                _ => fs.remount("rw").unwrap(),
            }
        }
        stop.store(true, Ordering::SeqCst);
        tuner.join().unwrap()
    });
    assert_eq!(while_still, 0, "writes to a device that stands still");
    assert!(done > 0 && copies() > 0);
    fs.unmount().unwrap();
    image::assert_clean(&inner);
}

/// True if all threads end within 30 s.
fn end<T>(threads: &[thread::ScopedJoinHandle<'_, T>]) -> bool {
    wait::is_true_within(Duration::from_secs(30), || {
        threads.iter().all(|thread| thread.is_finished())
    })
}

/// An `fsync` of data that was pending at the freeze, or of a clean file, returns before the thaw.
#[test]
fn fsync_ends_while_frozen() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let (busy, idle) = (file_with(&fs, b"busy", b"x"), file_with(&fs, b"idle", b"y"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                fs.write(&busy, 0, &[3; 100_000], &WriteContext::ROOT)
                    .unwrap();
            }
        });
        let mut all_end = true;
        for _ in 0..20 {
            let syncs: Vec<_> = (0..3).map(|_| scope.spawn(|| fs.fsync(&busy))).collect();
            fs.freeze().unwrap();
            let clean = scope.spawn(|| fs.fsync(&idle).and(fs.close(&busy)).and(fs.sync()));
            all_end &= end(&syncs) && end(&[clean]);
            fs.thaw().unwrap();
            for sync in syncs {
                sync.join().unwrap().unwrap();
            }
            if !all_end {
                break;
            }
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        assert!(all_end, "an fsync waits for the thaw");
    });
    drop((busy, idle));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Orphans survive a freeze; recovery of a copy of the device frees them.
#[test]
fn an_open_file_without_a_name_is_freed_in_a_copy() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let file = file_with(&fs, b"file", &[7; 50_000]);
    fs.unlink(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    fs.freeze().unwrap();
    let copy = Arc::new(device.snapshot());
    fs.thaw().unwrap();
    let mut byte = [0];
    fs.read(&file, 49_999, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    drop(file);
    fs.unmount().unwrap();
    image::assert_clean(&device);
    image::mount(&copy).unmount().unwrap();
    image::assert_clean(&copy);
}

/// The syncing thread may be the one that has to thaw.
#[test]
fn a_sync_does_not_wait_for_what_is_freed_after_the_thaw() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let before = fs.statfs();
    let file = file_with(&fs, b"file", &[7; 50_000]);
    fs.unlink(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    fs.freeze().unwrap();
    drop(file);
    fs.sync().unwrap();
    assert_eq!(fs.statfs().inodes_free, before.inodes_free - 1);
    fs.thaw().unwrap();
    fs.sync().unwrap();
    let after = fs.statfs();
    assert_eq!(after.inodes_free, before.inodes_free);
    assert_eq!(after.blocks_free, before.blocks_free);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Power cuts at every write from the freeze to after the thaw.
#[test]
fn a_crash_while_frozen_loses_nothing() {
    let device = image::ext4(32);
    let recorder = Arc::new(Recorder::new(device));
    let fs = Filesystem::mount(recorder.clone(), crashed::options()).unwrap();
    drop(file_with(&fs, b"durable", b"promised"));
    fs.sync().unwrap();
    recorder.restart();
    drop(file_with(&fs, b"frozen", b"in time"));
    fs.freeze().unwrap();
    recorder.mark(1);
    fs.thaw().unwrap();
    drop(file_with(&fs, b"late", b"after it"));
    fs.sync().unwrap();
    recorder.mark(2);
    fs.abandon();
    image::at_every_cut(&mut recorder.log(), |fs, log, cut| {
        assert_eq!(read(fs, b"durable"), b"promised", "cut {cut}");
        if log.last_mark(cut) == Some(2) {
            assert_eq!(read(fs, b"late"), b"after it", "cut {cut}");
        }
        if log.last_mark(cut).is_some() {
            assert_eq!(read(fs, b"frozen"), b"in time", "cut {cut}");
        }
    });
}

/// Damage found while frozen is recorded at the thaw.
#[test]
fn damage_met_while_frozen_is_recorded_later() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let dir = fs
        .mkdir(&fs.root().unwrap(), b"dir", 0o755, &Caller::root())
        .unwrap();
    let place = fs.fiemap(&dir, 0, 4096).unwrap()[0].physical_bytes;
    drop(dir);
    fs.unmount().unwrap();
    device.write_at(place, &[0xAA; 512]).unwrap();
    let fs = image::mount_with(&device, "errors=continue").unwrap();
    fs.freeze().unwrap();
    let before = device.to_bytes();
    let dir = fs
        .lookup(&fs.root().unwrap(), b"dir", &Caller::root())
        .unwrap();
    let found = fs.lookup(&dir, b"x", &Caller::root());
    assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
    assert!(device.to_bytes() == before);
    fs.thaw().unwrap();
    drop(dir);
    fs.unmount().unwrap();
    let superblock = uext4::read_superblock(&*device, None).unwrap();
    assert_eq!(superblock.error_count, 1);
}
