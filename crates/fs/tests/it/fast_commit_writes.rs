//! What an fsync writes on file systems with and without fast commits, and which changes need a
//! full commit.

use crate::image;
use std::sync::Arc;
use uext4::device::{Change, Event, MemDevice, Recorder};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{
    Caller, FallocateMode, Filesystem, InodeRef, MountOptions, RenameFlags, SetAttr, SetMode,
    Threads, WriteContext,
};
use uext4_format::jbd2::{INCOMPAT_FAST_COMMIT, Superblock};

const MIB: u64 = 64;
const BLOCK: u64 = 4096;

/// A mount of a recorded device.
pub(crate) struct Rig {
    pub(crate) device: Arc<Recorder>,
    pub(crate) fs: Filesystem,
    pub(crate) root: InodeRef,
}

/// Accesses of a device.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    writes: usize,
    bytes: u64,
    flushes: usize,
}

impl Rig {
    /// A mount after its first full commit.
    pub(crate) fn new(features: &str) -> Self {
        let mut made = MkfsOptions::new(Preset::Ext4);
        made.features.apply_list(features).unwrap();
        made.block_size = Some(BLOCK as u32);
        Self::on(image::fresh(MIB, &made))
    }

    /// As [`Self::new`], of an image.
    pub(crate) fn on(image: Arc<MemDevice>) -> Self {
        let device = Arc::new(Recorder::new(image));
        let options = MountOptions {
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(device.clone(), options).unwrap();
        let root = fs.root().unwrap();
        let rig = Self { device, fs, root };
        rig.fs.fsync(&rig.file(b"first")).unwrap();
        rig
    }

    pub(crate) fn file(&self, name: &[u8]) -> InodeRef {
        let file = self.fs.create(&self.root, name, 0o644, &Caller::root());
        let file = file.unwrap();
        self.write(&file, 0, 100);
        file
    }

    pub(crate) fn write(&self, file: &InodeRef, at: u64, len: usize) {
        let written = self.fs.write(file, at, &vec![7; len], &WriteContext::ROOT);
        assert_eq!(written.unwrap().len_bytes, len);
    }

    fn fsync(&self, file: &InodeRef) -> Cost {
        let before = self.device.log().len();
        self.fs.fsync(file).unwrap();
        let log = self.device.log();
        let events = &log.events()[before..];
        let len = |event: &Event| match event {
            Event::Change {
                change: Change::Write { bytes, .. },
                ..
            } => Some(bytes.len() as u64),
            _ => None,
        };
        let is_flush = |event: &&Event| matches!(event, Event::FlushDone { .. });
        Cost {
            writes: events.iter().filter_map(len).count(),
            bytes: events.iter().filter_map(len).sum(),
            flushes: events.iter().filter(is_flush).count(),
        }
    }

    /// Runs a change and an fsync; returns the reasons why that was a full commit.
    pub(crate) fn full(
        &self,
        file: &InodeRef,
        change: impl FnOnce(&Filesystem),
    ) -> Vec<&'static str> {
        let before = self.fs.stats();
        change(&self.fs);
        self.fs.fsync(file).unwrap();
        let after = self.fs.stats();
        let reasons = after.full_commits.iter();
        let new = reasons.filter(|(reason, count)| **count > before.full_commits[**reason]);
        let new: Vec<_> = new.map(|(reason, _)| *reason).collect();
        let was_full = after.journal.transactions > before.journal.transactions;
        assert_eq!(was_full, !new.is_empty(), "{new:?}");
        let was_fast = after.fast_commits.commits > before.fast_commits.commits;
        assert!(was_full || was_fast);
        new
    }
}

#[test]
fn an_append_writes_its_data_and_one_durable_block() {
    let costs = ["fast_commit", ""].map(|features| {
        let rig = Rig::new(features);
        let file = rig.file(b"log");
        rig.fsync(&file);
        rig.write(&file, BLOCK, 512);
        rig.fsync(&file)
    });
    let fast = Cost {
        writes: 2,
        bytes: 2 * BLOCK,
        // The record is a durable write.
        flushes: 1,
    };
    assert_eq!(costs[0], fast);
    assert!(
        costs[1].writes > 2 && costs[1].bytes > 4 * BLOCK,
        "{costs:?}"
    );
}

/// A name and its file are on disk, so only the record is written.
#[test]
fn a_rename_writes_one_durable_block_and_flushes_nothing() {
    let rig = Rig::new("fast_commit");
    let (root, user) = (&rig.root, &Caller::root());
    let file = rig.file(b"new");
    rig.write(&file, 0, 4096);
    rig.fsync(&file);
    rig.fs
        .rename(root, b"new", root, b"mail", RenameFlags::Replace, user)
        .unwrap();
    let record = Cost {
        writes: 1,
        bytes: BLOCK,
        flushes: 0,
    };
    assert_eq!(rig.fsync(root), record);
}

#[test]
fn names_and_attributes_of_files_are_recorded() {
    let rig = Rig::new("fast_commit");
    let (root, user) = (&rig.root, &Caller::root());
    let none: Vec<&str> = Vec::new();
    let (one, two) = (rig.file(b"one"), rig.file(b"two"));
    let chmod = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    let cut = SetAttr {
        size_bytes: Some(10),
        ..SetAttr::default()
    };
    let change = |fs: &Filesystem| _ = fs.set_attr(&one, &chmod, user).unwrap();
    assert_eq!(rig.full(&one, change), none);
    let change = |fs: &Filesystem| _ = fs.set_attr(&one, &cut, user).unwrap();
    assert_eq!(rig.full(&one, change), none);
    let hold = |fs: &Filesystem| {
        let mode = FallocateMode::AllocateKeepSize;
        fs.fallocate(&one, mode, 4 * BLOCK..5 * BLOCK, &WriteContext::ROOT)
            .unwrap();
    };
    assert_eq!(rig.full(&one, hold), none);
    let link = |fs: &Filesystem| fs.link(&one, root, b"other", user).unwrap();
    assert_eq!(rig.full(&one, link), none);
    let rename = |fs: &Filesystem| {
        let flags = RenameFlags::NoReplace;
        fs.rename(root, b"other", root, b"another", flags, user)
            .unwrap();
    };
    assert_eq!(rig.full(&one, rename), none);
    let replace = |fs: &Filesystem| {
        let flags = RenameFlags::Replace;
        fs.rename(root, b"two", root, b"one", flags, user).unwrap();
    };
    assert_eq!(rig.full(&two, replace), none);
    let unlink = |fs: &Filesystem| fs.unlink(root, b"one", user).unwrap();
    assert_eq!(rig.full(root, unlink), none);
    rig.fs.sync().unwrap();
    drop((one, two));
    rig.fs.unmount().unwrap();
}

#[test]
fn what_has_no_record_needs_a_full_commit() {
    let rig = Rig::new("fast_commit");
    let (root, user) = (&rig.root, &Caller::root());
    let file = rig.file(b"file");
    rig.fsync(&file);
    let xattr = |fs: &Filesystem| {
        fs.set_xattr(&file, b"user.name", b"value", SetMode::Any, user)
            .unwrap();
    };
    assert_eq!(rig.full(&file, xattr), ["attribute", "other"]);
    let mkdir = |fs: &Filesystem| _ = fs.mkdir(root, b"dir", 0o755, user).unwrap();
    assert!(rig.full(root, mkdir).contains(&"other"));
    let symlink = |fs: &Filesystem| _ = fs.symlink(root, b"link", b"there", user).unwrap();
    assert!(rig.full(root, symlink).contains(&"other"));
    let comb = |fs: &Filesystem| {
        for nr in 1..8 {
            rig.write(&file, 2 * nr * BLOCK, 10);
            fs.fsync(&file).unwrap();
        }
    };
    assert!(rig.full(&file, comb).contains(&"layout"));
    let big = rig.file(b"big");
    let value = [1; 600];
    let set = rig
        .fs
        .set_xattr(&big, b"user.big", &value, SetMode::Any, user);
    set.unwrap();
    rig.fsync(&big);
    let append = |_: &Filesystem| rig.write(&big, 100, 5000);
    assert_eq!(rig.full(&big, append), ["attribute"], "it has a block");
    let freeze = |fs: &Filesystem| {
        fs.freeze().unwrap();
        fs.thaw().unwrap();
        rig.write(&file, 0, 5000);
    };
    assert!(rig.full(&file, freeze).contains(&"first_commit"));
}

/// As Linux: a clean log does not have the feature, so that others can use it.
#[test]
fn the_log_has_the_feature_while_it_is_in_use() {
    let rig = Rig::new("fast_commit");
    let feature = || {
        let log = rig.device.log();
        let events = log.events().iter().rev();
        let superblock = |event: &Event| match event {
            Event::Change {
                change: Change::Write { bytes, .. },
                ..
            } => Superblock::parse(bytes).ok(),
            _ => None,
        };
        let newest = { events }.find_map(superblock).expect("it was written");
        (
            newest.incompat & INCOMPAT_FAST_COMMIT != 0,
            newest.start != 0,
        )
    };
    assert_eq!(feature(), (true, true));
    rig.fs.freeze().unwrap();
    assert_eq!(feature(), (false, false));
    rig.fs.thaw().unwrap();
    rig.fs.fsync(&rig.file(b"file")).unwrap();
    assert_eq!(feature(), (true, true));
}
