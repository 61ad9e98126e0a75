//! Journals of all kinds, left for replay by the kernel and by us, and recovered by both.

use crate::crashed::{self, Crashed};
use crate::image::Sealed;
use std::fs::File;
use std::path::{Path, PathBuf};
use uext4::{Filesystem, MountOptions};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};
use uext4_testkit::oracle::{KernelMount, Program, mke2fs_image};

const MIB: u64 = 24;
const STEPS: usize = 300;

/// A kind of journal: options for mke2fs and mount.
struct Kind {
    name: &'static str,
    mke2fs: &'static [&'static str],
    mount: &'static str,
}

const fn kind(name: &'static str, mke2fs: &'static [&'static str], mount: &'static str) -> Kind {
    Kind {
        name,
        mke2fs,
        mount,
    }
}

const NO_CSUM: &[&str] = &["-O", "^metadata_csum"];

const KINDS: &[Kind] = &[
    kind("default", &[], ""),
    kind("32 bits", &["-O", "^64bit"], ""),
    kind("no checksums", NO_CSUM, ""),
    kind("checksums of blocks alone", NO_CSUM, "journal_checksum"),
    kind(
        "checksum of the transaction",
        NO_CSUM,
        "journal_async_commit,data=writeback",
    ),
    kind(
        "neither 64 bits nor checksums",
        &["-O", "^64bit,^metadata_csum"],
        "journal_checksum",
    ),
    kind("small and wrapping", &["-b", "1024", "-J", "size=1"], ""),
    kind("data in the journal", &["-b", "1024"], "data=journal"),
    kind("data out of order", &[], "data=writeback"),
];

/// Both replays produce the same directory times.
fn policy() -> Policy {
    Policy::default().check(Field::DataRuns)
}

fn palette() -> Palette {
    Palette {
        file_max_bytes: 60 << 10,
        ..Palette::default()
    }
}

/// Runs a stream of operations with a sync after every 40. Operations after the last sync may be
/// lost.
fn run(target: &mut dyn Target, seed: u64, mut sync: impl FnMut()) {
    for (nr, op) in Stream::new(seed, palette()).take(STEPS).enumerate() {
        let _an_error_is_an_answer = target.run(&op);
        if nr % 40 == 39 {
            sync();
        }
    }
}

fn run_on_kernel(root: &Path, seed: u64) {
    let dir = File::open(root).unwrap();
    run(&mut HostTarget::new(root), seed, || {
        rustix::fs::syncfs(&dir).unwrap()
    });
}

#[track_caller]
fn assert_same(name: &str, kernel: &Manifest, ours: &Manifest) {
    let differences = kernel.diff(ours, &policy());
    assert!(differences.is_empty(), "{name}: {differences:?}");
    assert!(
        kernel.entries.len() > 10,
        "{name}: an empty tree proves nothing"
    );
}

#[test]
fn we_recover_what_the_kernel_left() {
    if !KernelMount::available_or_skip("we_recover_what_the_kernel_left") {
        return;
    }
    for (seed, kind) in KINDS.iter().enumerate() {
        let work = |root: &Path| run_on_kernel(root, 20 + seed as u64);
        let crashed = Crashed::by_kernel(MIB, kind.mke2fs, kind.mount, work);
        assert!(
            needs_recovery(crashed.image()),
            "{}: the journal is empty",
            kind.name
        );
        assert_same(
            kind.name,
            &crashed.kernel_tree().unwrap(),
            &crashed.our_tree(),
        );
    }
}

fn needs_recovery(image: &Path) -> bool {
    let header = uext4_testkit::oracle::dumpe2fs(image).unwrap();
    header.has_feature("needs_recovery") && header.text("Journal start").unwrap() != "0"
}

#[test]
fn the_kernel_recovers_what_we_left() {
    if !KernelMount::available_or_skip("the_kernel_recovers_what_we_left") {
        return;
    }
    for (seed, kind) in KINDS.iter().enumerate() {
        let (_dir, image) = mke2fs_image(MIB << 20, kind.mke2fs).unwrap();
        let fs = Filesystem::mount(crashed::open(&image), crashed::options()).unwrap();
        run(&mut EngineTarget::new(&fs), seed as u64 + 100, || {
            fs.sync().unwrap()
        });
        fs.abandon();
        drop(fs);
        let crashed = Crashed::from_image(&image);
        assert!(
            needs_recovery(crashed.image()),
            "{}: the journal is empty",
            kind.name
        );
        assert_same(
            kind.name,
            &crashed.kernel_tree().unwrap(),
            &crashed.our_tree(),
        );
    }
}

/// A loop device that is detached when dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Self {
        let losetup = Program::new("losetup").unwrap().args(["--find", "--show"]);
        Self(losetup.arg(file).run_ok().unwrap().stdout.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Program::new("losetup")
            .unwrap()
            .args(["-d", &self.0])
            .run_ok();
        assert!(detached.is_ok() || std::thread::panicking(), "{detached:?}");
    }
}

/// The file system and its journal after a crash, recovered by the kernel.
fn kernel_tree_of_pair(image: &Path, journal: &Path) -> Manifest {
    let device = Loop::new(journal);
    let mounted = KernelMount::new(image, &format!("journal_path={}", device.0)).unwrap();
    let tree = Manifest::of_dir(mounted.path()).unwrap();
    mounted.unmount().unwrap();
    tree
}

fn with_journal(journal: &Path) -> MountOptions {
    MountOptions {
        journal_device: Some(crashed::open(journal)),
        ..crashed::options()
    }
}

/// The file system and its journal after a crash, recovered by us; e2fsck must agree.
fn our_tree_of_pair(image: &Path, journal: &Path) -> Manifest {
    let fs = Filesystem::mount(crashed::open(image), with_journal(journal)).unwrap();
    fs.unmount().unwrap();
    let device = Loop::new(journal);
    let e2fsck = Program::new("e2fsck")
        .unwrap()
        .args(["-fn", "-j", &device.0]);
    let verdict = e2fsck.arg(image).run().unwrap();
    assert_eq!(verdict.code, Some(0), "{}", verdict.all());
    drop(device);
    kernel_tree_of_pair(image, journal)
}

fn copy(file: &Path, name: &str) -> PathBuf {
    let to = file.with_file_name(name);
    std::fs::copy(file, &to).unwrap();
    to
}

/// An ext4 with an external journal in another file, both in one directory.
pub(crate) fn external() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (dir, image) = mke2fs_image(MIB << 20, &["-O", "^has_journal"]).unwrap();
    let journal = dir.path().join("journal.img");
    File::create(&journal).unwrap().set_len(8 << 20).unwrap();
    let mke2fs = || {
        Program::new("mke2fs")
            .unwrap()
            .args(["-q", "-F", "-b", "4096"])
    };
    mke2fs()
        .args(["-O", "journal_dev"])
        .arg(&journal)
        .run_ok()
        .unwrap();
    let device = Loop::new(&journal);
    let option = format!("device={}", device.0);
    mke2fs()
        .args(["-t", "ext4", "-J", &option])
        .arg(&image)
        .run_ok()
        .unwrap();
    drop(device);
    (dir, image, journal)
}

#[test]
fn a_journal_on_another_device_is_recovered_by_both() {
    if !KernelMount::available_or_skip("a_journal_on_another_device_is_recovered_by_both") {
        return;
    }
    let (_dir, image, journal) = external();
    let device = Loop::new(&journal);
    let options = format!("{},journal_path={}", crashed::NO_COMMITS, device.0);
    let mounted = KernelMount::new(&image, &options).unwrap();
    run_on_kernel(mounted.path(), 77);
    let (crashed, log) = (copy(&image, "c.img"), copy(&journal, "cj.img"));
    mounted.unmount().unwrap();
    drop(device);
    let kernel = kernel_tree_of_pair(&copy(&crashed, "k.img"), &copy(&log, "kj.img"));
    assert_same("by the kernel", &kernel, &our_tree_of_pair(&crashed, &log));

    let (_dir, image, journal) = external();
    let fs = Filesystem::mount(crashed::open(&image), with_journal(&journal)).unwrap();
    run(&mut EngineTarget::new(&fs), 78, || fs.sync().unwrap());
    fs.abandon();
    drop(fs);
    let kernel = kernel_tree_of_pair(&copy(&image, "k.img"), &copy(&journal, "kj.img"));
    assert_same("by us", &kernel, &our_tree_of_pair(&image, &journal));
}

#[test]
fn a_read_only_mount_leaves_an_external_journal_alone() {
    if !KernelMount::available_or_skip("a_read_only_mount_leaves_an_external_journal_alone") {
        return;
    }
    let (_dir, image, journal) = external();
    let fs = Filesystem::mount(crashed::open(&image), with_journal(&journal)).unwrap();
    run(&mut EngineTarget::new(&fs), 79, || fs.sync().unwrap());
    fs.abandon();
    drop(fs);
    let before = [&image, &journal].map(|file| std::fs::read(file).unwrap());
    let access = uext4::Access::ReadOnly;
    let options = MountOptions {
        access,
        ..with_journal(&journal)
    };
    let device = Sealed::new(crashed::open(&image));
    let fs = Filesystem::mount(device, options).unwrap();
    assert!(Manifest::of(&EngineTarget::new(&fs)).unwrap().entries.len() > 10);
    drop(fs);
    let after = [&image, &journal].map(|file| std::fs::read(file).unwrap());
    assert!(before == after, "a read-only mount wrote");
}

#[test]
fn a_long_log_takes_long_transactions() {
    let (_dir, path) = mke2fs_image(1 << 30, &["-J", "size=400"]).unwrap();
    let device = uext4_device::FileDevice::open(&path, uext4_device::Access::ReadWrite).unwrap();
    let fs = Filesystem::mount(std::sync::Arc::new(device), MountOptions::default()).unwrap();
    let stats = fs.stats().journal;
    // The limit by memory, a sixteenth of it, is higher on every machine that runs this.
    assert_eq!(stats.transaction_limit_blocks, stats.log_len_blocks / 4);
    assert!(stats.transaction_limit_blocks > 25_000);
    fs.unmount().unwrap();
}
