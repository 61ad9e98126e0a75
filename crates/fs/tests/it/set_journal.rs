//! A journal that is removed, added and replaced: e2fsck, the files, and a crash at every write.

use crate::image;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice, Recorder, Survivors, Tearing};
use uext4::format::{Feature, jbd2};
use uext4::mkfs::{self, DeviceContents, JournalDeviceOptions, MkfsOptions, Preset};
use uext4::set_journal;
use uext4::{
    Error, Filesystem, InternalJournal, Journal, MountOptions, Presence, ResizeError, Threads,
    Tuning,
};
use uext4_testkit::oracle::{self, Repair};

const SHAPES: [&str; 7] = [
    "",
    "^extent,^64bit",
    "bigalloc,^resize_inode",
    "^metadata_csum,^orphan_file",
    "inline_data,fast_commit",
    "meta_bg,^resize_inode",
    "^resize_inode,sparse_super2,^sparse_super",
];

fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

fn made(features: &str) -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(1024);
    options.apply_features(features).expect("known features");
    let device = image::fresh(24, &options);
    let fs = image::mount(&device);
    fs.paths().create_dir_all("/a/b").unwrap();
    for nr in 0..40 {
        let name = format!("/a/b/{nr}");
        fs.paths().write(name, vec![nr as u8; 700 * nr]).unwrap();
    }
    fs.unmount().unwrap();
    device
}

#[track_caller]
fn assert_files(fs: &Filesystem, what: &str) {
    for nr in 0..40 {
        let bytes = fs.paths().read(format!("/a/b/{nr}")).unwrap();
        assert_eq!(bytes, vec![nr as u8; 700 * nr], "{what}: file {nr}");
    }
}

/// Blocks of the log, if there is one.
fn log_blocks(device: &MemDevice) -> Option<u64> {
    let fs = image::mount(&Arc::new(device.snapshot()));
    let disk = uext4::read_superblock(device, None).unwrap();
    assert_files(&fs, "mounted");
    fs.unmount().unwrap();
    let has = disk.features().has(Feature::HAS_JOURNAL);
    has.then(|| u64::from(disk.jnl_blocks[16]) >> 10)
}

fn set(device: &Arc<MemDevice>, journal: Journal<'_>) -> Result<(), Error> {
    let device: Arc<dyn BlockDevice> = device.clone();
    set_journal(&device, &options(), journal)
}

#[test]
fn journals_go_come_back_and_change_their_size() {
    for shape in SHAPES {
        let device = made(shape);
        let free = || {
            let fs = image::mount(&Arc::new(device.snapshot()));
            let free = fs.statfs().blocks_free;
            fs.unmount().unwrap();
            free
        };
        let (before, blocks) = (free(), log_blocks(&device).expect("mkfs makes one"));
        set(&device, Journal::None).unwrap_or_else(|error| panic!("{shape}: {error}"));
        image::assert_clean(&device);
        assert_eq!(log_blocks(&device), None, "{shape}");
        assert!(free() >= before + blocks, "{shape}: its blocks are free");
        set(&device, Journal::Internal(InternalJournal::of(2048))).unwrap();
        image::assert_clean(&device);
        let fast_commits = u64::from(shape.contains("fast_commit"));
        // Without a journal there is no fast_commit; with another one it stays.
        let (now, after) = (2048, 2048 + 32 * fast_commits);
        assert_eq!(log_blocks(&device), Some(now), "{shape}");
        if fast_commits > 0 {
            let fs = image::mount(&device);
            let features = vec![(Feature::FAST_COMMIT, Presence::Present)];
            let tuning = Tuning {
                features,
                ..Tuning::default()
            };
            fs.tune(&tuning).unwrap();
            fs.unmount().unwrap();
            set(&device, Journal::Internal(InternalJournal::of(2048))).unwrap();
            assert_eq!(log_blocks(&device), Some(after), "{shape}");
        }
        set(&device, Journal::Internal(InternalJournal::default())).unwrap();
        image::assert_clean(&device);
        assert_eq!(log_blocks(&device), Some(blocks), "{shape}");
        if oracle::KernelMount::available_or_skip("set_journal") {
            let (_dir, path) = image::on_disk(&device);
            let kernel = oracle::KernelMount::new(&path, "").unwrap();
            let file = std::fs::read(kernel.path().join("a/b/39")).unwrap();
            std::fs::write(kernel.path().join("new"), "by the kernel").unwrap();
            kernel.unmount().unwrap();
            assert_eq!(file, vec![39; 700 * 39], "{shape}");
            oracle::assert_clean(&path);
        }
    }
}

fn journal_options() -> JournalDeviceOptions {
    JournalDeviceOptions {
        block_size: 1024,
        uuid: Some([9; 16]),
        label: Vec::new(),
        time: Some(1_700_000_000),
        contents: DeviceContents::Zeroed,
    }
}

#[test]
fn a_journal_moves_to_another_device_and_back() {
    let device = made("");
    let other = Arc::new(MemDevice::new(8 << 20));
    let uuid = mkfs::format_journal_device(&*other, &journal_options()).unwrap();
    let journal: Arc<dyn BlockDevice> = other.clone();
    let external = Journal::External {
        device: &journal,
        uuid,
        number: 0,
    };
    set(&device, external).unwrap();
    let with_journal = || MountOptions {
        journal_device: Some(journal.clone()),
        ..options()
    };
    let fs = Filesystem::mount(device.clone(), with_journal()).unwrap();
    assert_files(&fs, "external");
    fs.unmount().unwrap();
    let home: Arc<dyn BlockDevice> = device.clone();
    let users = || {
        let mut log = [0; 1024];
        other.read_at(2048, &mut log).unwrap();
        jbd2::Superblock::parse(&log).unwrap().users()
    };
    assert_eq!(users(), 1);
    let second = set(&made(""), external);
    assert!(matches!(second, Err(Error::Mount(_))), "{second:?}");
    assert_eq!(users(), 1, "the log has blocks of one file system");
    set_journal(
        &home,
        &with_journal(),
        Journal::Internal(InternalJournal::default()),
    )
    .unwrap();
    image::assert_clean(&device);
    assert!(log_blocks(&device).is_some());
    assert_eq!(users(), 0, "the journal knows its former user");
}

/// The mount of one would discard what waits in the log for the other.
#[test]
fn a_journal_of_two_file_systems_is_refused() {
    let device = made("");
    let other: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(8 << 20));
    let uuid = mkfs::format_journal_device(&*other, &journal_options()).unwrap();
    let external = Journal::External {
        device: &other,
        uuid,
        number: 0,
    };
    set(&device, external).unwrap();
    let mut bytes = [0; 1024];
    other.read_at(2048, &mut bytes).unwrap();
    let mut log = jbd2::Superblock::parse(&bytes).unwrap();
    log.add_user(&[7; 16]).unwrap();
    other.write_at(2048, &log.encode()).unwrap();
    let with_journal = MountOptions {
        journal_device: Some(other.clone()),
        ..options()
    };
    let refused = Filesystem::mount(device, with_journal).map(drop);
    let told = refused.expect_err("two users").to_string();
    assert!(told.contains("several file systems"), "{told}");
}

/// Nodes of the map of a longer log go home in any order; until then their places have what other
/// files left there.
#[test]
fn a_journal_is_found_before_the_nodes_of_a_longer_one_are_home() {
    for (shape, step) in [("^extent,^64bit", 3), ("", 3)] {
        let base = made(shape);
        set(&base, Journal::Internal(InternalJournal::of(1024))).unwrap();
        let fs = image::mount(&base);
        fs.paths().write("/fill", vec![0xff; 14 << 20]).unwrap();
        fs.paths().remove_file("/fill").unwrap();
        fs.unmount().unwrap();
        // Free space in pieces, so that the map has nodes.
        let fs = image::mount(&base);
        let name = |nr: u32| format!("/piece{nr}");
        for nr in 0..1600 {
            fs.paths().write(name(nr), vec![0xff; 7 << 10]).unwrap();
        }
        for nr in (0..1600).step_by(2) {
            fs.paths().remove_file(name(nr)).unwrap();
        }
        fs.unmount().unwrap();
        let recorder = Arc::new(Recorder::new(Arc::new(base.snapshot())));
        let home: Arc<dyn BlockDevice> = recorder.clone();
        let journal = Journal::Internal(InternalJournal::of(5000));
        set_journal(&home, &options(), journal).unwrap();
        let mut log = recorder.log();
        let last = log.len();
        image::assert_clean(&Arc::new(log.image(last, Survivors::All)));
        for cut in (0..=log.len()).step_by(step) {
            let tearing = Tearing::Sectors;
            let seed = cut as u64;
            let image = Arc::new(log.image(cut, Survivors::Seeded { seed, tearing }));
            let fs = Filesystem::mount(image, options());
            let fs = fs.unwrap_or_else(|error| panic!("{shape:?}, cut {cut}: {error}"));
            assert_files(&fs, &format!("{shape:?}, cut {cut}"));
            fs.unmount().unwrap();
        }
    }
}

#[test]
fn an_interrupted_change_is_done_again_without_a_leak() {
    let base = made("");
    let recorder = Arc::new(Recorder::new(Arc::new(base.snapshot())));
    let home: Arc<dyn BlockDevice> = recorder.clone();
    let journal = Journal::Internal(InternalJournal::of(2048));
    set_journal(&home, &options(), journal).unwrap();
    let mut log = recorder.log();
    let mut done = 0;
    for cut in (0..=log.len()).step_by(1 + log.len() / 60) {
        let image = Arc::new(log.image(cut, Survivors::All));
        match set(&image, journal) {
            // A crash of a mount without a journal: e2fsck frees what there is.
            Err(Error::Resize(ResizeError::Unclean)) => continue,
            other => other.unwrap_or_else(|error| panic!("cut {cut}: {error}")),
        }
        image::assert_clean(&image);
        done += 1;
    }
    assert!(done > 10, "{done}");
}

#[test]
fn sizes_that_do_not_fit_are_refused_before_a_write() {
    let device = made("");
    let before = device.to_bytes();
    for blocks in [1000, 13_000] {
        let refused = set(&device, Journal::Internal(InternalJournal::of(blocks)));
        assert!(matches!(refused, Err(Error::NotSupported(_))), "{blocks}");
        assert!(device.to_bytes() == before, "{blocks}: written");
    }
}

#[test]
fn without_space_there_is_no_journal_and_nothing_is_lost() {
    let device = made("");
    set(&device, Journal::None).unwrap();
    let fs = image::mount(&device);
    let bytes = vec![1; 19 << 20];
    fs.paths().write("/large", bytes).unwrap();
    fs.unmount().unwrap();
    let full = set(&device, Journal::Internal(InternalJournal::of(4096)));
    assert!(matches!(full, Err(Error::NoSpace)), "{full:?}");
    image::assert_clean(&device);
    assert_eq!(log_blocks(&device), None);
}

#[test]
fn without_space_the_old_journal_stays() {
    for shape in ["", "^extent,^64bit"] {
        let device = made(shape);
        let old = log_blocks(&device).expect("mkfs makes one");
        let fs = image::mount(&device);
        fs.paths().write("/large", vec![1; 17 << 20]).unwrap();
        fs.unmount().unwrap();
        let before = device.to_bytes();
        let full = set(&device, Journal::Internal(InternalJournal::of(6000)));
        assert!(matches!(full, Err(Error::NoSpace)), "{shape}: {full:?}");
        assert!(device.to_bytes() == before, "{shape}: written");
        assert_eq!(log_blocks(&device), Some(old), "{shape}");
    }
}

/// After each cut e2fsck may have to free what inode 8 maps; the files are as before.
#[test]
fn a_crash_leaves_all_files() {
    for shape in ["", "^extent,^64bit"] {
        let base = made(shape);
        for journal in [Journal::None, Journal::Internal(InternalJournal::of(2048))] {
            let device = Arc::new(base.snapshot());
            let recorder = Arc::new(Recorder::new(device));
            let home: Arc<dyn BlockDevice> = recorder.clone();
            set_journal(&home, &options(), journal).unwrap();
            let mut log = recorder.log();
            assert!(log.len() > 10, "{} events", log.len());
            for cut in (0..=log.len()).step_by(1 + log.len() / 30) {
                let what = format!("{shape:?}, cut {cut} of {}", log.len());
                for survivors in [Survivors::All, Survivors::None] {
                    let (_dir, path) = image::on_disk(&log.image(cut, survivors));
                    let verdict = oracle::e2fsck_repair(&path, Repair::Everything).unwrap();
                    let fixed = verdict.is_clean() || verdict.is_repaired();
                    assert!(fixed, "{what}: {verdict:?}");
                    let bytes = std::fs::read(&path).unwrap();
                    let fs = image::mount(&Arc::new(MemDevice::from_bytes(&bytes)));
                    assert_files(&fs, &what);
                    fs.unmount().unwrap();
                }
            }
        }
    }
}

/// What e2fsck says after the replay of any mount that a crash ended.
const DECLARED: [&str; 3] = [
    "orphan_present is set but orphan file is clean",
    "Clear? no",
    "WARNING: Filesystem still has errors",
];

/// Judges what a cut of a change from one internal journal to another leaves.
fn assert_sound_with_journal(image: &MemDevice, what: &str) {
    let disk = uext4::read_superblock(image, None).unwrap();
    assert!(disk.features().has(Feature::HAS_JOURNAL), "{what}");
    assert_eq!(disk.journal_inum, 8, "{what}");
    let (_dir, path) = image::on_disk(image);
    let replayed = oracle::e2fsck_repair(&path, Repair::JournalOnly).unwrap();
    assert!(
        replayed.is_clean() || replayed.is_repaired(),
        "{what}: {replayed}"
    );
    let verdict = oracle::e2fsck(&path).unwrap();
    let problems = verdict.problems();
    let declared = |line: &&str| DECLARED.iter().any(|part| line.contains(part));
    assert!(problems.iter().all(declared), "{what}: {verdict}");
    let fs = image::mount(&Arc::new(image.snapshot()));
    assert_files(&fs, what);
    fs.unmount().unwrap();
}

/// A cut at every write of a larger and of a smaller log leaves the old one or the new one, and no
/// block without an owner; the same command then ends the change.
#[test]
fn each_cut_of_another_size_leaves_a_journal() {
    let cases = [
        ("", 1),
        ("^extent,^64bit", 7),
        ("bigalloc,^resize_inode", 5),
        ("inline_data,fast_commit", 3),
    ];
    for (shape, step) in cases {
        for (from, to) in [(1024, 3000), (3000, 1200)] {
            let base = made(shape);
            set(&base, Journal::Internal(InternalJournal::of(from))).unwrap();
            let recorder = Arc::new(Recorder::new(Arc::new(base.snapshot())));
            let home: Arc<dyn BlockDevice> = recorder.clone();
            let journal = Journal::Internal(InternalJournal::of(to));
            set_journal(&home, &options(), journal).unwrap();
            let mut log = recorder.log();
            for cut in (0..=log.len()).step_by(step) {
                let both = [Survivors::All, Survivors::None];
                let some = if cut % 8 == 0 {
                    &both[..]
                } else {
                    &both[cut % 2..][..1]
                };
                for survivors in some {
                    let image = Arc::new(log.image(cut, *survivors));
                    let what = format!("{shape:?}, {from} to {to}, {cut} of {}", log.len());
                    assert_sound_with_journal(&image, &what);
                    if cut % 8 != 0 {
                        continue;
                    }
                    set(&image, journal).unwrap_or_else(|error| panic!("{what}: {error}"));
                    image::assert_clean(&image);
                    let disk = uext4::read_superblock(&*image, None).unwrap();
                    let whole = uext4::read_superblock(&*recorder, None).unwrap();
                    assert_eq!(disk.overhead_clusters, whole.overhead_clusters, "{what}");
                    assert_eq!(disk.jnl_blocks[16], whole.jnl_blocks[16], "{what}");
                }
            }
        }
    }
}

/// At each cut of a move between the file system and another device the superblock names a journal.
#[test]
fn a_journal_that_moves_is_always_named() {
    let device = made("");
    let other = Arc::new(MemDevice::new(8 << 20));
    let uuid = mkfs::format_journal_device(&*other, &journal_options()).unwrap();
    let journal: Arc<dyn BlockDevice> = other.clone();
    let external = Journal::External {
        device: &journal,
        uuid,
        number: 0,
    };
    let with_journal = MountOptions {
        journal_device: Some(journal.clone()),
        ..options()
    };
    let overhead = |device: &MemDevice| {
        let disk = uext4::read_superblock(device, None).unwrap();
        disk.overhead_clusters
    };
    let before = overhead(&device);
    for (options, wanted) in [
        (options(), external),
        (with_journal, Journal::Internal(InternalJournal::default())),
    ] {
        let recorder = Arc::new(Recorder::new(Arc::new(device.snapshot())));
        let home: Arc<dyn BlockDevice> = recorder.clone();
        set_journal(&home, &options, wanted).unwrap();
        let mut log = recorder.log();
        for cut in 0..=log.len() {
            let image = log.image(cut, Survivors::All);
            let disk = uext4::read_superblock(&image, None).unwrap();
            assert!(disk.features().has(Feature::HAS_JOURNAL), "cut {cut}");
            assert!(disk.journal_inum == 8 || disk.journal_uuid == uuid);
        }
        let whole = log.image(log.len(), Survivors::All);
        device.write_at(0, &whole.to_bytes()).unwrap();
    }
    image::assert_clean(&device);
    assert_eq!(overhead(&device), before);
}
