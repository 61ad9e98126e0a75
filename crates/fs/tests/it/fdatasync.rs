//! `fdatasync`: it commits what reading the data needs, and flushes otherwise.

use crate::image;
use std::sync::Arc;
use std::time::Duration;
use uext4::device::{MemDevice, Recorder, Survivors};
use uext4::{
    Caller, FallocateMode, Filesystem, InodeRef, MountOptions, SetAttr, SetTime, Threads,
    Timestamp, WriteContext,
};
use uext4_sync::{ManualClock, WallTime};

const BLOCK: usize = 4096;

struct Rig {
    recorder: Arc<Recorder>,
    clock: Arc<ManualClock>,
    fs: Filesystem,
}

impl Rig {
    fn new(options: &str) -> Self {
        let recorder = Arc::new(Recorder::new(image::ext4(16)));
        let clock = Arc::new(ManualClock::new(WallTime {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        }));
        let mount = MountOptions {
            clock: clock.clone(),
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(recorder.clone(), mount.parse(options).unwrap()).unwrap();
        Self {
            recorder,
            clock,
            fs,
        }
    }

    /// A durable file of four blocks, two unwritten ones behind them, and a hole behind those.
    fn file(&self, name: &str) -> InodeRef {
        let fs = &self.fs;
        let root = fs.root().unwrap();
        let file = fs.create(&root, name.as_bytes(), 0o644, &Caller::root());
        let file = file.unwrap();
        let context = WriteContext::ROOT;
        fs.write(&file, 0, &[1; 4 * BLOCK], &context).unwrap();
        let unwritten = 4 * BLOCK as u64..6 * BLOCK as u64;
        fs.fallocate(&file, FallocateMode::Allocate, unwritten, &context)
            .unwrap();
        fs.write(&file, 9 * BLOCK as u64, &[1; BLOCK], &context)
            .unwrap();
        fs.fsync(&file).unwrap();
        self.clock.advance(Duration::from_secs(10));
        file
    }

    fn commits(&self) -> u64 {
        self.fs.stats().journal.transactions
    }

    /// The device after a power cut that loses all that may be lost.
    fn cut(&self) -> Arc<MemDevice> {
        let mut log = self.recorder.log();
        Arc::new(log.image(log.len(), Survivors::None))
    }
}

type Change = fn(&Filesystem, &InodeRef);

fn write(fs: &Filesystem, file: &InodeRef, offset: usize, len: usize) {
    let written = fs.write(file, offset as u64, &vec![2; len], &WriteContext::ROOT);
    written.unwrap();
}

fn set(fs: &Filesystem, file: &InodeRef, set: SetAttr) {
    fs.set_attr(file, &set, &Caller::root()).unwrap();
}

fn allocate(fs: &Filesystem, file: &InodeRef, mode: FallocateMode, blocks: [usize; 2]) {
    let [start, end] = blocks.map(|at| (at * BLOCK) as u64);
    fs.fallocate(file, mode, start..end, &WriteContext::ROOT)
        .unwrap();
}

const ATTRIBUTES: [(&str, Change); 5] = [
    ("nothing", |_, _| ()),
    ("overwrite", |fs, file| write(fs, file, 100, 2 * BLOCK)),
    ("mode", |fs, file| {
        let mode = Some(0o600);
        set(
            fs,
            file,
            SetAttr {
                mode,
                ..SetAttr::default()
            },
        );
    }),
    ("owner", |fs, file| {
        let uid = Some(7);
        set(
            fs,
            file,
            SetAttr {
                uid,
                ..SetAttr::default()
            },
        );
    }),
    ("times", |fs, file| {
        let mtime = Some(SetTime::At(Timestamp::new(5, 0)));
        set(
            fs,
            file,
            SetAttr {
                mtime,
                ..SetAttr::default()
            },
        );
    }),
];

const DATA: [(&str, Change); 10] = [
    ("append", |fs, file| write(fs, file, 10 * BLOCK, 1)),
    ("append within a block", |fs, file| {
        write(fs, file, 10 * BLOCK, 10);
        fs.fdatasync(file).unwrap();
        write(fs, file, 10 * BLOCK + 10, 10);
    }),
    ("write to a hole", |fs, file| write(fs, file, 7 * BLOCK, 1)),
    ("write to unwritten blocks", |fs, file| {
        write(fs, file, 5 * BLOCK, 1)
    }),
    ("truncate", |fs, file| {
        let size_bytes = Some(BLOCK as u64 + 1);
        set(
            fs,
            file,
            SetAttr {
                size_bytes,
                ..SetAttr::default()
            },
        );
    }),
    ("size that grows", |fs, file| {
        let size_bytes = Some(1 << 20);
        set(
            fs,
            file,
            SetAttr {
                size_bytes,
                ..SetAttr::default()
            },
        );
    }),
    ("allocate", |fs, file| {
        allocate(fs, file, FallocateMode::Allocate, [10, 12])
    }),
    ("punch", |fs, file| {
        allocate(fs, file, FallocateMode::PunchHole, [1, 2])
    }),
    ("collapse", |fs, file| {
        allocate(fs, file, FallocateMode::CollapseRange, [1, 2])
    }),
    ("overwrite and append", |fs, file| {
        write(fs, file, 10 * BLOCK, 1);
        write(fs, file, 0, 1);
        let mode = Some(0o600);
        set(
            fs,
            file,
            SetAttr {
                mode,
                ..SetAttr::default()
            },
        );
    }),
];

fn content(fs: &Filesystem, name: &str) -> (u64, Vec<u8>) {
    let path = format!("/{name}");
    let paths = fs.paths();
    (
        paths.metadata(&path).unwrap().len(),
        paths.read(&path).unwrap(),
    )
}

/// Data and size are there after a power cut right after the call.
fn check(rig: &Rig, name: &str, (what, change): (&str, Change), commits: u64) {
    let file = rig.file(name);
    change(&rig.fs, &file);
    let before = rig.commits();
    rig.fs.fdatasync(&file).unwrap();
    assert_eq!(rig.commits() - before, commits, "{what}");
    let seen = content(&rig.fs, name);
    let device = rig.cut();
    let fs = image::mount(&device);
    assert!(content(&fs, name) == seen, "{what}");
    fs.unmount().unwrap();
    image::assert_clean(&device);
    // Nothing is left for the second call; the attributes are for a later commit.
    let before = rig.commits();
    rig.fs.fdatasync(&file).unwrap();
    assert_eq!(rig.commits(), before, "{what}, again");
}

#[test]
fn a_change_of_attributes_alone_is_not_committed() {
    for options in ["delalloc", "nodelalloc", "lazytime"] {
        let rig = Rig::new(options);
        for (nr, change) in ATTRIBUTES.into_iter().enumerate() {
            check(&rig, &format!("file {nr}"), change, 0);
        }
        rig.fs.unmount().unwrap();
    }
}

#[test]
fn a_change_of_data_size_or_map_is_committed() {
    for options in ["delalloc", "nodelalloc", "lazytime"] {
        let rig = Rig::new(options);
        for (nr, change) in DATA.into_iter().enumerate() {
            check(&rig, &format!("file {nr}"), change, 1);
        }
        rig.fs.unmount().unwrap();
    }
}

/// A change in a transaction that another file's `fsync` has committed needs no commit; a change of
/// attributes since does not either. `fsync` commits it.
#[test]
fn fsync_commits_what_fdatasync_leaves() {
    let rig = Rig::new("nodelalloc");
    let (file, other) = (rig.file("file"), rig.file("other"));
    write(&rig.fs, &file, 10 * BLOCK, 1);
    write(&rig.fs, &other, 10 * BLOCK, 1);
    rig.fs.fsync(&other).unwrap();
    let mode = Some(0o600);
    set(
        &rig.fs,
        &file,
        SetAttr {
            mode,
            ..SetAttr::default()
        },
    );
    let before = rig.commits();
    rig.fs.fdatasync(&file).unwrap();
    assert_eq!(rig.commits(), before);
    rig.fs.fsync(&file).unwrap();
    assert_eq!(rig.commits(), before + 1);
    let fs = image::mount(&rig.cut());
    let attr = fs.paths().metadata("/file").unwrap().attr().clone();
    assert_eq!((attr.mode, attr.size_bytes), (0o600, 10 * BLOCK as u64 + 1));
    fs.abandon();
}
