//! `lazytime`: when times that are kept in memory reach the disk.

use crate::image;
use std::sync::Arc;
use std::time::Duration;
use uext4::device::MemDevice;
use uext4::{
    Caller, Filesystem, InodeRef, MountOptions, SetAttr, Threads, Timestamp, WriteContext,
};
use uext4_sync::{ManualClock, WallTime};

const START: i64 = 1_700_000_000;

struct Lazy {
    device: Arc<MemDevice>,
    clock: Arc<ManualClock>,
    fs: Filesystem,
    file: InodeRef,
    other: InodeRef,
}

impl Lazy {
    /// Two files on disk, and an hour later a read of one.
    fn new() -> Self {
        let device = image::ext4(16);
        let start = WallTime {
            seconds: START,
            nanoseconds: 0,
        };
        let clock = Arc::new(ManualClock::new(start));
        let options = MountOptions {
            clock: clock.clone(),
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let options = options.parse("lazytime,strictatime").unwrap();
        let fs = Filesystem::mount(device.clone(), options).unwrap();
        let root = fs.root().unwrap();
        let make = |name: &[u8]| {
            let file = fs.create(&root, name, 0o644, &Caller::root()).unwrap();
            fs.write(&file, 0, name, &WriteContext::ROOT).unwrap();
            file
        };
        let (file, other) = (make(b"file"), make(b"other"));
        fs.sync().unwrap();
        clock.advance(Duration::from_secs(3600));
        fs.read(&file, 0, &mut [0; 4]).unwrap();
        assert_eq!(fs.attr(&file).atime.seconds, START + 3600);
        Self {
            device,
            clock,
            fs,
            file,
            other,
        }
    }

    /// Commits, without a change of the file.
    fn commit(&self) {
        let root = self.fs.root().unwrap();
        let made = self.fs.create(&root, b"new", 0o644, &Caller::root());
        self.fs.fsync(&made.unwrap()).unwrap();
        self.fs.unlink(&root, b"new", &Caller::root()).unwrap();
    }

    /// The access time after a crash, in seconds after the start.
    fn on_disk(&self) -> i64 {
        let fs = image::mount(&Arc::new(self.device.snapshot()));
        let found = fs.paths().metadata("/file").unwrap().attr().atime;
        fs.abandon();
        assert_eq!(found, Timestamp::new(found.seconds, 0));
        found.seconds - START
    }
}

#[test]
fn times_stay_in_memory_until_they_are_asked_for() {
    type Ask = fn(&Lazy);
    let asks: [(&str, Ask); 6] = [
        ("fsync", |it| it.fs.fsync(&it.file).unwrap()),
        ("sync", |it| it.fs.sync().unwrap()),
        ("freeze", |it| it.fs.freeze().unwrap()),
        ("unmount", |it| it.fs.unmount().unwrap()),
        ("read-only", |it| it.fs.remount("ro").unwrap()),
        ("a change", |it| {
            let mode = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            it.fs.set_attr(&it.file, &mode, &Caller::root()).unwrap();
            it.commit();
        }),
    ];
    for (what, ask) in asks {
        let lazy = Lazy::new();
        lazy.commit();
        assert_eq!(lazy.on_disk(), 0, "{what}: a commit of another file");
        lazy.fs.fdatasync(&lazy.file).unwrap();
        assert_eq!(lazy.on_disk(), 0, "{what}: the data are durable");
        ask(&lazy);
        assert_eq!(lazy.on_disk(), 3600, "{what}");
    }
}

#[test]
fn a_day_old_list_is_written() {
    let lazy = Lazy::new();
    let read = |seconds| {
        lazy.clock.advance(Duration::from_secs(seconds));
        lazy.fs.read(&lazy.other, 0, &mut [0; 4]).unwrap();
        lazy.commit();
        lazy.on_disk()
    };
    assert_eq!(read(24 * 3600 - 1), 0);
    assert_eq!(read(1), 3600);
}

/// A later mount that is not lazy must not lose them.
#[test]
fn nolazytime_writes_every_time_from_then_on() {
    let lazy = Lazy::new();
    lazy.fs.remount("nolazytime").unwrap();
    lazy.clock.advance(Duration::from_secs(1));
    lazy.fs.read(&lazy.file, 0, &mut [0; 4]).unwrap();
    lazy.commit();
    assert_eq!(lazy.on_disk(), 3601);
    lazy.fs.unmount().unwrap();
    image::assert_clean(&lazy.device);
}

/// An inode that is deleted meanwhile is not written again.
#[test]
fn deleted_files_are_forgotten() {
    let Lazy {
        device,
        fs,
        file,
        other,
        ..
    } = Lazy::new();
    fs.unlink(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    drop((file, other));
    fs.sync().unwrap();
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
