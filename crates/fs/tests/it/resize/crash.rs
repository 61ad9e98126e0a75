//! A crash at every write of a change of the size: the old size or the new one, with all files.
//!
//! Changes of other kinds, which keep the size, are recorded and judged by the same means.

use super::descriptor_size::{self, other};
use super::inode_size;
use super::kind::{Image, Kind};
use super::scattered::scatter;
use super::shrinking::minimum;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use uext4::device::{
    Access, BlockDevice, Change, CrashLog, Error, Event, FileDevice, MemDevice, Recorder,
    Survivors, Tearing,
};
use uext4::mkfs::DeviceContents;
use uext4::resize::{Least, NewSize, grow, set_descriptor_size, set_inode_size, shrink};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount, Repair};

const MIB: u64 = 1 << 20;

/// Cuts of one change that other programs judge, where `UEXT4_RESIZE_JUDGED` sets no number.
const JUDGED: usize = 3;

/// Crashes of one recovery.
const SECOND_CRASHES: usize = 6;

/// Ways in which a write of the superblock is torn.
const TORN: u64 = 4;

/// A change with all its writes.
pub(crate) struct Recorded {
    kind: Kind,
    tree: Manifest,
    sizes: [u64; 2],
    inode_sizes: [u16; 2],
    descriptor_sizes: [u16; 2],
    log: CrashLog,
    /// What e2fsck may do before nothing is left to repair.
    repair: Repair,
}

/// A device that says it flushes.
pub(crate) struct Careless(pub(crate) Arc<Recorder>);

impl BlockDevice for Careless {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), Error> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), Error> {
        self.0.write_at(offset, buf)
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), Error> {
        self.0.write_at(offset, buf)
    }
    fn flush(&self) -> std::result::Result<(), Error> {
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "careless".into()
    }
}

/// The judges of a crash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judges {
    All,
    /// The recovery and the check by uext4.
    Own,
}

/// What a device does with flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushes {
    Heeded,
    Ignored,
}

fn record(kind: Kind, factor: u64, flushes: Flushes) -> Recorded {
    let device_bytes = kind.blocks * u64::from(kind.block_size) * factor;
    let image = kind.make(device_bytes);
    image.fill("/before", MIB / 2, 7);
    record_change(&image, flushes, |device| {
        let contents = DeviceContents::Zeroed;
        grow(device, image.options(), device_bytes, contents).expect("a growth");
    })
}

/// The growth of a mount, from the mount to the unmount.
fn record_mounted(kind: Kind, factor: u64, flushes: Flushes) -> Recorded {
    let image = kind.make(kind.blocks * u64::from(kind.block_size) * factor);
    image.fill("/before", MIB / 2, 7);
    record_mount(&image, flushes, |device| {
        let fs = Filesystem::mount(device, image.options()).expect("a mount");
        fs.grow(NewSize::Device).expect("a growth");
        fs.unmount().expect("an unmount");
    })
}

/// A change that mounts.
pub(crate) fn record_mount(
    image: &Image,
    flushes: Flushes,
    change: impl FnOnce(Arc<dyn BlockDevice>),
) -> Recorded {
    Recorded {
        // A mount that ends in a crash leaves the mark of an orphan file in use.
        repair: Repair::Preen,
        ..record_change(image, flushes, change)
    }
}

fn record_shrinking(kind: Kind, least: Least, flushes: Flushes) -> Recorded {
    let image = kind.make(kind.blocks * u64::from(kind.block_size));
    scatter(&image, 7);
    record_change(&image, flushes, |device| {
        shrink(device, image.options(), least).expect("a smaller size");
    })
}

fn record_inode_size(kind: Kind, wanted: u16, flushes: Flushes) -> Recorded {
    let image = inode_size::made(kind);
    record_change(&image, flushes, |device| {
        set_inode_size(device, image.options(), wanted).expect("larger inodes");
    })
}

fn record_descriptor_size(kind: Kind, flushes: Flushes) -> Recorded {
    let image = inode_size::made(kind);
    let wanted = other(&image);
    record_change(&image, flushes, |device| {
        set_descriptor_size(device, image.options(), wanted).expect("another size");
    })
}

fn record_change(
    image: &Image,
    flushes: Flushes,
    change: impl FnOnce(Arc<dyn BlockDevice>),
) -> Recorded {
    let kind = image.kind;
    let tree = image.tree();
    let (before, inode_size) = (image.blocks(), image.inode_size());
    let descriptor_size = descriptor_size::bytes(image);
    let recorder = Arc::new(Recorder::new(image.main.clone()));
    change(match flushes {
        Flushes::Heeded => recorder.clone(),
        Flushes::Ignored => Arc::new(Careless(recorder.clone())),
    });
    let mut log = recorder.log();
    // The superblock has two sectors, which its checksum or the log holds together.
    log.keep_whole(1024..2048);
    Recorded {
        kind,
        tree,
        sizes: [before, image.blocks()],
        inode_sizes: [inode_size, image.inode_size()],
        descriptor_sizes: [descriptor_size, descriptor_size::bytes(image)],
        log,
        repair: Repair::JournalOnly,
    }
}

impl Recorded {
    fn image(&mut self, cut: usize, survivors: Survivors) -> Image {
        Image {
            kind: self.kind,
            main: Arc::new(self.log.image(cut, survivors)),
            journal: None,
        }
    }

    /// Whether a recovery by uext4 finds the tree in one of the sizes, and can use and grow it.
    fn judge(&self, image: &Image, is_sample: bool) -> Result<()> {
        let fs = image.mount().context("mount")?;
        let found = Manifest::of(&EngineTarget::new(&fs)).context("tree")?;
        fs.unmount().context("unmount")?;
        drop(fs);
        let differences = self.tree.diff(&found, &Policy::default());
        ensure!(differences.is_empty(), "{differences:?}");
        let blocks = image.blocks();
        ensure!(self.sizes.contains(&blocks), "{blocks} blocks");
        let size = image.inode_size();
        ensure!(self.inode_sizes.contains(&size), "inodes of {size} bytes");
        let disk = uext4::read_superblock(&*image.main, None)?;
        ensure!(
            disk.journal_inum == 0 || disk.journal_dev == 0,
            "Linux is kept out"
        );
        let size = descriptor_size::bytes(image);
        ensure!(
            self.descriptor_sizes.contains(&size),
            "descriptors of {size} bytes"
        );
        let limits = uext4::check::Limits::default();
        let report = uext4::check::check(image.main.clone(), image.options(), &limits)?;
        ensure!(report.is_clean(), "{report:?}");
        if is_sample {
            let verdict = image.e2fsck();
            ensure!(verdict.is_clean(), "{verdict}");
            let size = image.main.size_bytes();
            grow(
                image.main.clone(),
                image.options(),
                size,
                DeviceContents::Unknown,
            )?;
            let verdict = image.e2fsck();
            ensure!(verdict.is_clean(), "grown again: {verdict}");
        }
        Ok(())
    }

    /// Whether a second crash, in the recovery by uext4, leaves as much.
    fn judge_second_crash(&self, image: &Image) -> Result<()> {
        let recorder = Arc::new(Recorder::new(Arc::new(image.main.snapshot())));
        let recovered = Filesystem::mount(recorder.clone(), image.options());
        recovered.context("mount")?.abandon();
        let mut log = recorder.log();
        log.keep_whole(1024..2048);
        let cuts = log.len();
        for cut in (0..=cuts).step_by(cuts.div_ceil(SECOND_CRASHES).max(1)) {
            let (seed, tearing) = (cut as u64, Tearing::Sectors);
            let again = Image {
                kind: self.kind,
                main: Arc::new(log.image(cut, Survivors::Seeded { seed, tearing })),
                journal: None,
            };
            self.judge(&again, false)
                .with_context(|| format!("second crash, cut {cut} of {cuts}"))?;
        }
        Ok(())
    }

    /// Whether e2fsck and the kernel recover the image as well.
    fn judge_by_others(&self, image: &Image) -> Result<()> {
        let (_dir, path) = crate::image::on_disk(&image.main);
        oracle::e2fsck_repair(&path, self.repair)?;
        let verdict = oracle::e2fsck(&path)?;
        ensure!(verdict.is_clean(), "after its own replay: {verdict}");
        if !self.kind.has_kernel() || !KernelMount::is_available() {
            return Ok(());
        }
        let (_dir, path) = crate::image::on_disk(&image.main);
        let mounted = match KernelMount::new(&path, "") {
            // It looks for descriptors of groups that went with the replay, or for inodes of the
            // size before it.
            Err(_) if self.sizes[0] > self.sizes[1] => KernelMount::new(&path, ""),
            Err(_) if self.inode_sizes[0] < self.inode_sizes[1] => KernelMount::new(&path, ""),
            // The superblock keeps it out.
            Err(_) if self.descriptor_sizes[0] != self.descriptor_sizes[1] => {
                oracle::e2fsck_repair(&path, self.repair)?;
                KernelMount::new(&path, "").or_else(|_| let_in(&path))
            }
            other => other,
        };
        let mounted = mounted?;
        let found = Manifest::of_dir(mounted.path())?;
        std::fs::write(mounted.path().join("new"), [1; 5000])?;
        mounted.unmount()?;
        let differences = self.tree.diff(&found, &Policy::default());
        ensure!(differences.is_empty(), "kernel: {differences:?}");
        // The kernel counts in the groups that it saw before its replay.
        let mut verdict = oracle::e2fsck(&path)?;
        if verdict.output.contains("count wrong") {
            KernelMount::new(&path, "")?.unmount()?;
            verdict = oracle::e2fsck(&path)?;
        }
        ensure!(verdict.is_clean(), "after the kernel's replay: {verdict}");
        Ok(())
    }

    /// Judges all cuts by all judges.
    fn assert_sound(&mut self) {
        if let Some(failure) = self.first_failure(Judges::All) {
            panic!("{failure}");
        }
    }

    /// Judges all cuts, some by e2fsck and the kernel as well; returns what failed first.
    ///
    /// All, none or some of the writes since the last flush survive: at each cut one of these in
    /// turn, and each at the last one or with `UEXT4_RESIZE_JUDGED`.
    pub(crate) fn first_failure(&mut self, judges: Judges) -> Option<String> {
        let step = step(self.log.len(), JUDGED);
        let is_full = std::env::var_os("UEXT4_RESIZE_JUDGED").is_some();
        for cut in 0..=self.log.len() {
            let (seed, tearing) = (cut as u64, Tearing::Sectors);
            let some = Survivors::Seeded { seed, tearing };
            let mut all = vec![Survivors::All, Survivors::None, some];
            if !is_full && cut < self.log.len() {
                let turn = if cut % step == 0 { 2 } else { cut % 3 };
                all = vec![all[turn]];
            }
            for survivors in all {
                let image = self.image(cut, survivors);
                let copy = Image {
                    main: Arc::new(image.main.snapshot()),
                    ..image
                };
                let is_sample = judges == Judges::All && cut % step == 0 && survivors == some;
                let mut judged = self.judge(&image_of(&copy), is_sample);
                if is_sample {
                    judged = judged
                        .and_then(|()| self.judge_by_others(&copy))
                        .and_then(|()| self.judge_second_crash(&copy));
                }
                if let Err(error) = judged {
                    let name = self.kind.name;
                    return Some(format!("{name}, cut {cut}, {survivors:?}: {error:#}"));
                }
            }
        }
        None
    }
}

/// A mount by the kernel behind one by uext4: e2fsck leaves the mark that keeps the kernel out, if
/// the crash was before the commit.
pub(crate) fn let_in(path: &std::path::Path) -> Result<KernelMount> {
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite)?);
    Filesystem::mount(device, MountOptions::default())?.unmount()?;
    KernelMount::new(path, "")
}

/// Distance of the cuts that other programs judge.
fn step(cuts: usize, judged: usize) -> usize {
    let set = std::env::var("UEXT4_RESIZE_JUDGED");
    let judged = set.map_or(judged, |number| number.parse().expect("a number"));
    cuts.div_ceil(judged.max(1)).max(1)
}

/// A copy that a judge may change.
fn image_of(image: &Image) -> Image {
    Image {
        kind: image.kind,
        main: Arc::new(image.main.snapshot()),
        journal: None,
    }
}

#[test]
fn every_crash_leaves_the_old_or_the_new_size() {
    let kinds = [
        ("ext4", 3),
        ("ext4-4k", 4),
        ("small-groups", 3),
        ("ext3", 3),
        ("bigalloc", 6),
        ("short-reserve", 6),
        ("no-reserve", 20),
        ("fast-commit", 3),
        ("no-checksums", 3),
    ];
    for (name, factor) in kinds {
        let mut recorded = record(Kind::named(name), factor, Flushes::Heeded);
        assert!(recorded.sizes[0] < recorded.sizes[1]);
        recorded.assert_sound();
    }
}

#[test]
fn every_crash_of_a_mounted_growth_leaves_the_old_or_the_new_size() {
    let kinds = [
        ("ext4", 3),
        ("small-groups", 3),
        ("ext3", 3),
        ("bigalloc", 6),
        ("short-reserve", 6),
        ("fast-commit", 3),
    ];
    for (name, factor) in kinds {
        let mut recorded = record_mounted(Kind::named(name), factor, Flushes::Heeded);
        assert!(recorded.sizes[0] < recorded.sizes[1]);
        recorded.assert_sound();
    }
}

/// Linux reads the descriptors of all groups before it replays the log: whatever of the write of
/// the superblock survives, with whatever was written beside it, it mounts.
#[test]
fn the_kernel_mounts_every_torn_superblock_of_a_growth() {
    for (name, factor) in [("ext4-4k", 4), ("small-groups", 3)] {
        let mut recorded = record(Kind::named(name), factor, Flushes::Heeded);
        let events = recorded.log.events().iter().enumerate();
        let writes_superblock = |event: &Event| match event {
            Event::Change {
                change: Change::Write { offset, bytes },
                ..
            } => *offset <= 1024 && *offset + bytes.len() as u64 >= 2048,
            _ => false,
        };
        let cuts: Vec<_> = events
            .filter(|(_, event)| writes_superblock(event))
            .map(|(at, _)| at + 1)
            .collect();
        assert!(cuts.len() > 2, "{cuts:?}");
        for cut in cuts {
            for seed in 0..TORN {
                let tearing = Tearing::Sectors;
                let image = recorded.image(cut, Survivors::Seeded { seed, tearing });
                let judged = recorded.judge_by_others(&image);
                judged.unwrap_or_else(|error| panic!("{name}, cut {cut}, seed {seed}: {error:#}"));
            }
        }
    }
}

#[test]
fn a_mounted_growth_on_a_device_that_ignores_flushes_is_noticed() {
    let mut recorded = record_mounted(Kind::named("small-groups"), 3, Flushes::Ignored);
    let failure = recorded.first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}

/// The log goes on behind the transaction of the growth: a crash loses nothing that was durable.
#[test]
fn what_is_durable_after_a_mounted_growth_survives() {
    for (name, factor) in [
        ("ext4", 3),
        ("small-groups", 3),
        ("fast-commit", 3),
        ("bigalloc", 6),
    ] {
        let kind = Kind::named(name);
        let image = kind.make(kind.blocks * u64::from(kind.block_size) * factor);
        let recorder = Arc::new(Recorder::new(image.main.clone()));
        let fs = Filesystem::mount(recorder.clone(), image.options()).expect("a mount");
        let mut durable_from = Vec::new();
        for nr in 0..6 {
            if nr % 3 == 1 {
                let size = image.main.size_bytes() * (nr / 3 + 2) / 3;
                fs.grow(NewSize::Bytes(size)).expect("a growth");
            }
            let file = fs.paths().create(format!("/{nr}")).expect("a file");
            file.write_all_at(0, &[nr as u8; 6000]).expect("data");
            file.sync_all().expect("durable");
            durable_from.push(recorder.log().len());
        }
        fs.abandon();
        let mut log = recorder.log();
        log.keep_whole(1024..2048);
        for cut in (0..=log.len()).rev().take(400) {
            let (seed, tearing) = (cut as u64, Tearing::Sectors);
            let image = Image {
                kind,
                main: Arc::new(log.image(cut, Survivors::Seeded { seed, tearing })),
                journal: None,
            };
            let fs = image
                .mount()
                .unwrap_or_else(|error| panic!("{name}, cut {cut}: {error}"));
            for nr in (0..6).filter(|nr| durable_from[*nr] <= cut) {
                let read = fs.paths().read(format!("/{nr}"));
                assert!(
                    read.unwrap() == [nr as u8; 6000],
                    "{name}, cut {cut}, file {nr}"
                );
            }
            fs.unmount().expect("an unmount");
            if cut % 9 == 0 {
                image.assert_clean(&format!("{name}, cut {cut}"));
            }
        }
    }
}

/// With threads of the journal, as a server has.
#[test]
fn a_growth_beside_the_threads_of_the_journal_survives_a_crash() {
    let kind = Kind::named("ext4");
    let image = kind.make(36 * MIB);
    let recorder = Arc::new(Recorder::new(image.main.clone()));
    let options = MountOptions {
        threads: Threads::Background,
        ..image.options()
    };
    let fs = Filesystem::mount(recorder.clone(), options).expect("a mount");
    std::thread::scope(|scope| {
        for id in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                for nr in 0..40 {
                    let file = fs.paths().create(format!("/{id} {nr}")).expect("a file");
                    file.write_all_at(0, &[id; 3000]).expect("data");
                    file.sync_all().expect("durable");
                }
            });
        }
        for size in [20 * MIB, 36 * MIB] {
            fs.grow(NewSize::Bytes(size)).expect("a growth");
        }
    });
    fs.abandon();
    let mut log = recorder.log();
    let cut = log.len();
    let image = Image {
        main: Arc::new(log.image(cut, Survivors::None)),
        ..image
    };
    image.mounted(|fs| {
        for (id, nr) in (0..4).flat_map(|id| (0..40).map(move |nr| (id, nr))) {
            let read = fs.paths().read(format!("/{id} {nr}")).expect("durable");
            assert!(read == [id; 3000]);
        }
    });
    assert_eq!(image.blocks(), 36 << 10);
    image.assert_clean("after a crash");
}

/// The control: without flushes some crash must be noticed.
#[test]
fn a_device_that_ignores_flushes_is_noticed() {
    let mut recorded = record(Kind::named("small-groups"), 3, Flushes::Ignored);
    let failure = recorded.first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}

#[test]
fn without_a_journal_e2fsck_repairs_every_crash() {
    let grown = record(Kind::NO_JOURNAL, 3, Flushes::Heeded);
    let shrunk = record_shrinking(Kind::NO_JOURNAL, Least::Possible, Flushes::Heeded);
    for mut recorded in [grown, shrunk] {
        assert_repaired(&mut recorded);
    }
}

fn assert_repaired(recorded: &mut Recorded) {
    let sizes = recorded.sizes[0].min(recorded.sizes[1])..=recorded.sizes[0].max(recorded.sizes[1]);
    for cut in (0..=recorded.log.len()).step_by(step(recorded.log.len(), 8 * JUDGED)) {
        let (seed, tearing) = (cut as u64, Tearing::Sectors);
        let image = recorded.image(cut, Survivors::Seeded { seed, tearing });
        let (_dir, path) = crate::image::on_disk(&image.main);
        let repaired = oracle::e2fsck_repair(&path, Repair::Everything).unwrap();
        assert!(repaired.is_repaired(), "cut {cut}: {repaired}");
        oracle::assert_clean(&path);
        let bytes = std::fs::read(&path).unwrap();
        let repaired = Image {
            main: Arc::new(MemDevice::from_bytes(&bytes)),
            ..image
        };
        recorded
            .tree
            .assert_same(&repaired.tree(), &Policy::default());
        assert!(sizes.contains(&repaired.blocks()), "cut {cut}");
    }
}

/// To sizes that one step reaches.
#[test]
fn every_crash_of_a_shrinking_leaves_the_old_or_the_new_size() {
    let kinds = ["ext4", "small-groups", "ext3", "bigalloc", "no-checksums"];
    for kind in kinds.map(Kind::named) {
        let image = kind.make(kind.blocks * u64::from(kind.block_size));
        scatter(&image, 7);
        let between = kind.blocks.midpoint(minimum(&image)) * u64::from(kind.block_size);
        let least = Least::Bytes(between);
        let mut recorded = record_shrinking(kind, least, Flushes::Heeded);
        assert!(recorded.sizes[0] > recorded.sizes[1]);
        recorded.assert_sound();
    }
}

#[test]
fn a_shrinking_on_a_device_that_ignores_flushes_is_noticed() {
    let kind = Kind::named("small-groups");
    let mut recorded = record_shrinking(kind, Least::Possible, Flushes::Ignored);
    let failure = recorded.first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}

#[test]
fn every_crash_of_a_larger_inode_size_leaves_the_old_or_the_new_one() {
    let cases = [
        ("ext3", [128, 256]),
        ("no-checksums", [128, 512]),
        ("ext4", [256, 512]),
        ("ext4", [128, 256]),
        ("ext4-4k", [128, 1024]),
        ("small-groups", [256, 1024]),
        ("bigalloc", [256, 512]),
    ];
    for (name, [from, to]) in cases {
        let kind = Kind::named(name).with_inodes(from);
        let mut recorded = record_inode_size(kind, to, Flushes::Heeded);
        assert_eq!(recorded.inode_sizes, [from, to]);
        recorded.assert_sound();
    }
}

#[test]
fn larger_inodes_on_a_device_that_ignores_flushes_are_noticed() {
    let mut recorded = record_inode_size(Kind::named("small-groups"), 512, Flushes::Ignored);
    let failure = recorded.first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}

#[test]
fn every_crash_of_another_descriptor_size_leaves_the_old_or_the_new_one() {
    let kinds = [
        Kind::named("ext4-4k"),
        descriptor_size::of_many_groups("small-groups"),
        Kind::named("no-checksums"),
        Kind::named("uninit"),
    ];
    for kind in kinds {
        record_descriptor_size(kind, Flushes::Heeded).assert_sound();
    }
}

/// Wider ones, where the table gets longer.
#[test]
fn every_crash_of_wider_descriptors_leaves_the_old_or_the_new_size() {
    let kind = descriptor_size::of_many_groups("small-groups");
    let image = inode_size::made(kind);
    descriptor_size::set(&image, other(&image)).expect("narrow descriptors");
    let mut recorded = record_change(&image, Flushes::Heeded, |device| {
        set_descriptor_size(device, image.options(), other(&image)).expect("wide descriptors");
    });
    assert_eq!(recorded.descriptor_sizes, [32, 64]);
    recorded.assert_sound();
}

#[test]
fn another_descriptor_size_on_a_device_that_ignores_flushes_is_noticed() {
    let kind = descriptor_size::of_many_groups("small-groups");
    let mut recorded = record_descriptor_size(kind, Flushes::Ignored);
    let failure = recorded.first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}
