//! Fast commits of the engine, replayed by the engine, by the kernel and by e2fsck, with equal
//! results.

use crate::crashed::{self, Crashed};
use crate::fast_commit_writes::Rig;
use crate::image;
use rustix::fs::XattrFlags;
use std::sync::{Arc, Barrier};
use uext4::device::{MemDevice, Survivors};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, FallocateMode, Filesystem, WriteContext};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Field, Manifest};
use uext4_testkit::oracle::{KernelMount, Repair, e2fsck_repair};

const BLOCK: u64 = 4096;
/// Rounds of threads that change one name.
const ROUNDS: u64 = 150;

/// Cuts power now, with all writes on the device. Every replay must give the tree that ours gives,
/// without a complaint of e2fsck.
#[track_caller]
pub(crate) fn replays_agree(rig: &Rig) {
    if !KernelMount::available_or_skip("replays_agree") {
        return;
    }
    let mut log = rig.device.log();
    let image = log.image(log.len(), Survivors::All);
    let (_dir, path) = image::on_disk(&image);
    let crashed = Crashed::from_image(&path);
    let ours = crashed.our_tree();
    let by_kernel = crashed.kernel_tree().expect("the kernel mounts the image");
    let repaired = crashed.copy("repaired.img");
    e2fsck_repair(&repaired, Repair::Preen).expect("e2fsck runs");
    let by_e2fsck = crashed::clean_tree(&repaired);
    let policy = crashed::policy().ignore(Field::Mtime);
    ours.assert_same(&by_kernel, &policy);
    ours.assert_same(&by_e2fsck, &policy);
}

/// The head of a queue is punched out as it grows at its end.
#[test]
fn a_file_emptied_at_its_head_and_written_behind() {
    let rig = Rig::new("fast_commit");
    let file = rig.file(b"queue");
    rig.write(&file, 0, 4 * BLOCK as usize);
    rig.fs.sync().unwrap();
    let punch = |blocks: std::ops::Range<u64>| {
        let bytes = blocks.start * BLOCK..blocks.end * BLOCK;
        let mode = FallocateMode::PunchHole;
        rig.fs
            .fallocate(&file, mode, bytes, &WriteContext::ROOT)
            .unwrap();
    };
    let fast = |change: &dyn Fn()| {
        let none: Vec<&str> = Vec::new();
        assert_eq!(rig.full(&file, |_| change()), none);
        replays_agree(&rig);
    };
    fast(&|| {
        punch(0..4);
        rig.write(&file, 8 * BLOCK, 4096);
    });
    fast(&|| {
        rig.write(&file, 12 * BLOCK, 4096);
        punch(8..9);
    });
    // In two fast commits.
    fast(&|| punch(12..13));
    fast(&|| rig.write(&file, 20 * BLOCK, 9000));
}

/// A replay keeps the bytes of an inode behind the fields of its record, and the kernel those of a
/// file that it deletes.
#[test]
fn a_new_file_has_no_attributes_of_the_one_before_it() {
    if !KernelMount::available_or_skip("a_new_file_has_no_attributes_of_the_one_before_it") {
        return;
    }
    let made = image::mke2fs(64, &["-O", "fast_commit"]);
    let (_dir, path) = image::on_disk(&made);
    let kernel = KernelMount::new(&path, "").expect("the kernel mounts it");
    let names = ["one", "two", "three"].map(|name| kernel.path().join(name));
    for name in &names {
        std::fs::write(name, b"old").unwrap();
        rustix::fs::setxattr(name, "user.old", b"value", XattrFlags::empty()).unwrap();
    }
    rustix::fs::syncfs(std::fs::File::open(kernel.path()).unwrap()).unwrap();
    names
        .iter()
        .for_each(|name| std::fs::remove_file(name).unwrap());
    kernel.unmount().expect("unmount");
    let bytes = std::fs::read(&path).unwrap();
    let rig = Rig::on(Arc::new(MemDevice::from_bytes(&bytes)));
    let file = rig.file(b"new");
    assert_eq!(rig.full(&file, |_| ()), ["attribute"]);
    replays_agree(&rig);
    rig.file(b"in the third place");
    let next = rig.file(b"in a fresh place");
    rig.fs.sync().unwrap();
    rig.write(&next, 0, 5000);
    let none: Vec<&str> = Vec::new();
    assert_eq!(rig.full(&next, |_| ()), none);
    let fresh = rig.file(b"in another one");
    assert_eq!(rig.full(&fresh, |_| ()), none);
    replays_agree(&rig);
}

/// e2fsck replays fast commits with the descriptors that were home before the log.
#[test]
fn files_in_groups_that_were_empty_before() {
    let shape = ["-b", "1024", "-g", "1024", "-G", "1", "-O", "fast_commit"];
    let rig = Rig::on(image::mke2fs(32, &shape));
    let (fs, root, user) = (&rig.fs, &rig.root, &Caller::root());
    let fill = |nr: u32| {
        let dir = fs.mkdir(root, format!("dir {nr}").as_bytes(), 0o755, user);
        fs.create(&dir.unwrap(), b"file", 0o644, user).unwrap()
    };
    let files: Vec<_> = (0..8).map(fill).collect();
    fs.sync().unwrap();
    for file in &files {
        let none: Vec<&str> = Vec::new();
        assert_eq!(rig.full(file, |_| rig.write(file, 0, 3000)), none);
    }
    let mut log = rig.device.log();
    let image = log.image(log.len(), Survivors::All);
    let (_dir, path) = image::on_disk(&image);
    let found = e2fsck_repair(&path, Repair::Preen).expect("e2fsck runs");
    assert!(!found.output.contains("UNINIT"), "{found}");
    replays_agree(&rig);
}

/// e2fsck takes the front of the area for fast commits for the end of a log that wraps.
#[test]
fn a_log_that_was_filled_is_replayed_by_all() {
    let rig = Rig::new("fast_commit");
    let (fs, root) = (&rig.fs, &rig.root);
    let len = u64::from(fs.stats().journal.log_len_blocks);
    let mut made = 0;
    for turn in 1..3 {
        while fs.stats().journal.log_blocks < turn * len + len / 8 {
            made += 1;
            let name = format!("dir {made}");
            fs.mkdir(root, name.as_bytes(), 0o755, &Caller::root())
                .unwrap();
            fs.fsync(root).unwrap();
        }
        fs.fsync(&rig.file(format!("file {turn}").as_bytes()))
            .unwrap();
        replays_agree(&rig);
    }
}

/// Threads link and unlink one name. Its changes are replayed in their order.
#[test]
fn names_changed_by_several_threads_are_replayed_in_order() {
    let made = MkfsOptions {
        features: {
            let mut features = Preset::Ext4.features();
            features.apply_list("fast_commit").unwrap();
            features
        },
        ..MkfsOptions::new(Preset::Ext4)
    };
    let rig = Rig::on(image::fresh(8, &made));
    let (fs, root) = (&rig.fs, &rig.root);
    let files = [rig.file(b"one"), rig.file(b"two")];
    fs.sync().unwrap();
    let mut fast = 0;
    for round in 0..ROUNDS {
        let together = Barrier::new(files.len() + 1);
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(|| {
                    together.wait();
                    // The name may be there or not: each error is that of some order.
                    let _ = fs.link(file, root, b"name", &Caller::root());
                });
            }
            together.wait();
            let _ = fs.unlink(root, b"name", &Caller::root());
        });
        let before = fs.stats().fast_commits.commits;
        fs.fsync(root).unwrap();
        fast += u64::from(fs.stats().fast_commits.commits > before);
        let mut log = rig.device.log();
        let crashed = Arc::new(log.image(log.len(), Survivors::All));
        let found = image::mount(&crashed);
        let tree = |fs: &Filesystem| Manifest::of(&EngineTarget::new(fs)).unwrap();
        let differences = tree(fs).diff(&tree(&found), &crashed::policy());
        assert!(differences.is_empty(), "round {round}: {differences:?}");
    }
    // How many depends on the order in which the threads ran.
    assert!(fast > 0, "no fast commit");
}
