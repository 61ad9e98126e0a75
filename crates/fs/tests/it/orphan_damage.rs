//! Damaged entries of the orphan list and the orphan file.

use crate::{crashed, image};
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Cause, Fault, Faulty, MemDevice, Operation, When};
use uext4::format::superblock::state;
use uext4::{Caller, Filesystem, WriteContext};
use uext4_testkit::oracle;

const ROOT: Caller = Caller::root();

/// An image with files that debugfs changes; `change` gets their inode numbers.
fn image_with(names: &[&str], change: impl Fn(&[u32]) -> Vec<String>) -> Arc<MemDevice> {
    let device = image::mke2fs(16, &["-O", "^orphan_file"]);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let make = |name: &&str| {
        let file = fs.create(&root, name.as_bytes(), 0o644, &ROOT).unwrap();
        fs.write(&file, 0, &[7; 50_000], &WriteContext::ROOT)
            .unwrap();
        file.nr().0
    };
    let numbers: Vec<u32> = names.iter().map(make).collect();
    drop(root);
    fs.unmount().unwrap();
    let (_dir, path) = image::on_disk(&device);
    for command in change(&numbers) {
        debugfs(&path, &command);
    }
    Arc::new(MemDevice::from_bytes(&std::fs::read(path).unwrap()))
}

fn debugfs(path: &Path, command: &str) {
    let out = std::process::Command::new("debugfs")
        .args(["-w", "-R", command])
        .arg(path)
        .output()
        .expect("debugfs is installed");
    let said = String::from_utf8_lossy(&out.stderr);
    let lines = said.lines().filter(|line| !line.starts_with("debugfs "));
    assert_eq!(lines.count(), 0, "{command}: {said}");
}

/// The block fields of a device node contain its number, and those of a short symlink its target.
#[test]
fn an_entry_that_names_no_file_with_blocks_frees_none() {
    for made in ["mknod odd b 8 1", "symlink odd aaaaaaaaaaaaaaaa"] {
        let device = image_with(&["file"], |numbers| {
            let odd = numbers[0] + 1;
            vec![
                made.to_string(),
                format!("set_super_value last_orphan {odd}"),
            ]
        });
        let fs = image::mount(&device);
        fs.remount("ro").expect("no orphan is left");
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

/// The first of two orphans is damaged.
fn damaged_and_good() -> Arc<MemDevice> {
    image_with(&["bad", "good"], |numbers| {
        let (bad, good) = (numbers[0], numbers[1]);
        vec![
            "unlink good".into(),
            format!("set_inode_field <{good}> links_count 0"),
            format!("set_inode_field <{bad}> block[0] 0"),
            format!("set_inode_field <{bad}> dtime @{good}"),
            format!("set_super_value last_orphan {bad}"),
        ]
    })
}

fn inodes_free(fs: &Filesystem) -> u64 {
    fs.statfs().inodes_free
}

#[test]
fn a_damaged_orphan_is_recorded_and_the_others_are_freed() {
    let device = damaged_and_good();
    let before = uext4::read_superblock(&*device, None).unwrap();
    assert_eq!(before.error_count, 0);
    let fs = image::mount_with(&device, "errors=continue").expect("damage of one file");
    assert_eq!(inodes_free(&fs), u64::from(before.free_inodes_count) + 1);
    fs.create(&fs.root().unwrap(), b"new", 0o644, &ROOT)
        .unwrap();
    fs.remount("ro").expect("no orphan is left");
    fs.unmount().unwrap();
    let after = uext4::read_superblock(&*device, None).unwrap();
    assert!(after.error_count > 0, "e2fsck is to look");
    assert_eq!(after.last_orphan, 0);
    let (_dir, path) = image::on_disk(&device);
    oracle::e2fsck_repair(&path, oracle::Repair::Everything).unwrap();
    oracle::assert_clean(&path);
}

#[test]
fn entries_of_a_file_system_with_errors_do_not_keep_it_busy() {
    for feature in ["orphan_file", "^orphan_file"] {
        let device = image::mke2fs(64, &["-O", feature]);
        let fs = image::mount_with(&device, "errors=continue").unwrap();
        fs.trigger_error().unwrap();
        let root = fs.root().unwrap();
        let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
        fs.write(&file, 0, &[7; 100_000], &WriteContext::ROOT)
            .unwrap();
        fs.unlink(&root, b"file", &ROOT).unwrap();
        fs.sync().unwrap();
        fs.abandon();
        drop((file, root, fs));
        let fs = image::mount_with(&device, "errors=continue").unwrap();
        fs.remount("ro").expect("no orphan is left");
        fs.unmount().unwrap();
    }
}

/// Two orphans and an empty log.
fn two_good() -> Arc<MemDevice> {
    image_with(&["one", "two"], |numbers| {
        let (one, two) = (numbers[0], numbers[1]);
        vec![
            "unlink one".into(),
            "unlink two".into(),
            format!("set_inode_field <{one}> links_count 0"),
            format!("set_inode_field <{two}> links_count 0"),
            format!("set_inode_field <{one}> dtime @{two}"),
            format!("set_super_value last_orphan {one}"),
        ]
    })
}

/// A read-only mount recovers first. If one of its writes fails, it continues from the content of
/// the device. A later remount to read-write must not discard the log.
#[test]
fn a_recovery_that_failed_leaves_what_it_committed() {
    let image = two_good();
    let free = uext4::read_superblock(&*image, None).unwrap();
    let free = u64::from(free.free_inodes_count) + 2;
    for after in 0..30 {
        let device = Arc::new(image.snapshot());
        let faulty = Arc::new(Faulty::new(device.clone()));
        faulty.arm(Fault {
            operation: Operation::Write,
            when: When::Counted { after, count: 1 },
            cause: Cause::Io,
        });
        let options = crashed::options().parse("ro").unwrap();
        let mounted = Filesystem::mount(faulty.clone(), options);
        faulty.disarm();
        if let Ok(fs) = mounted {
            let _whether_it_may = fs.remount("rw");
            let _stopped = fs.unmount();
        }
        let fs = image::mount(&device);
        let found = inodes_free(&fs);
        fs.unmount().unwrap();
        let after_all = uext4::read_superblock(&*device, None).unwrap();
        if after_all.state & state::ERROR == 0 {
            assert_eq!(found, free, "write {after}");
            image::assert_clean(&device);
        } else {
            // The error that stopped the log is recorded, and the orphans are left to e2fsck.
            let (_dir, path) = image::on_disk(&device);
            oracle::e2fsck_repair(&path, oracle::Repair::Everything).unwrap();
            oracle::assert_clean(&path);
        }
    }
}
