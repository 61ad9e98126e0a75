//! Treatment of orphans after a crash.

use crate::{crashed, image};
use std::sync::Arc;
use uext4::device::{Event, MemDevice, Recorder, Survivors};
use uext4::format::Feature;
use uext4::{Caller, Filesystem, SetAttr, WriteContext};
use uext4_testkit::oracle::{self, KernelMount, Repair};

const ROOT: Caller = Caller::root();

/// On a file system with recorded errors, orphans are left to e2fsck.
#[test]
fn orphans_of_a_file_system_with_errors_wait_for_e2fsck() {
    for feature in ["orphan_file", "^orphan_file"] {
        for is_marked in [false, true] {
            let device = image::mke2fs(64, &["-O", feature]);
            let fs = image::mount_with(&device, "errors=continue").unwrap();
            if is_marked {
                fs.trigger_error().unwrap();
            }
            let root = fs.root().unwrap();
            let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
            fs.write(&file, 0, &[7; 100_000], &WriteContext::ROOT)
                .unwrap();
            fs.sync().unwrap();
            let free = fs.statfs().inodes_free;
            fs.unlink(&root, b"file", &ROOT).unwrap();
            fs.sync().unwrap();
            fs.abandon();
            drop((file, root, fs));
            let fs = image::mount_with(&device, "errors=continue").unwrap();
            let freed = fs.statfs().inodes_free - free;
            assert_eq!(freed, u64::from(!is_marked), "{feature}");
            fs.unmount().unwrap();
            drop(fs);
            if is_marked {
                let (_dir, path) = image::on_disk(&device);
                let found = oracle::e2fsck(&path).unwrap();
                assert!(!found.is_clean(), "{feature}: the orphan is still there");
                oracle::e2fsck_repair(&path, Repair::Everything).unwrap();
                oracle::assert_clean(&path);
            } else {
                image::assert_clean(&device);
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Errors {
    None,
    Marked,
}

/// Leaves an orphan behind by a crash.
fn leave_orphan(feature: &str, errors: Errors) -> Arc<MemDevice> {
    let device = image::mke2fs(64, &["-O", feature]);
    let fs = image::mount_with(&device, "errors=continue").unwrap();
    if errors == Errors::Marked {
        fs.trigger_error().unwrap();
    }
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    fs.write(&file, 0, &[7; 100_000], &WriteContext::ROOT)
        .unwrap();
    fs.unlink(&root, b"file", &ROOT).unwrap();
    fs.create(&root, b"other", 0o644, &ROOT).unwrap();
    fs.sync().unwrap();
    fs.abandon();
    device
}

/// The kernel does the same on a writable device.
#[test]
fn a_read_only_mount_frees_them_where_it_may_write() {
    for feature in ["orphan_file", "^orphan_file"] {
        let device = leave_orphan(feature, Errors::None);
        let (_dir, kernels) = image::on_disk(&device);
        let before = uext4::read_superblock(&*device, None).unwrap();
        assert!(before.features().has(Feature::RECOVER));
        let fs = image::mount_with(&device, "ro").unwrap();
        let found = uext4::read_superblock(&*device, None).unwrap();
        assert!(!found.features().has(Feature::RECOVER), "{feature}");
        assert!(!found.features().has(Feature::ORPHAN_PRESENT), "{feature}");
        assert_eq!(found.mnt_count, before.mnt_count, "not a mount");
        image::assert_clean(&device);
        let bytes = device.to_bytes();
        assert!(
            fs.create(&fs.root().unwrap(), b"new", 0o644, &ROOT)
                .is_err()
        );
        let free = fs.statfs().inodes_free;
        assert_eq!(u64::from(found.free_inodes_count), free, "{feature}");
        fs.unmount().unwrap();
        assert!(device.to_bytes() == bytes, "{feature}: written later");
        if KernelMount::available_or_skip("a_read_only_mount_frees_them_where_it_may_write") {
            KernelMount::new(&kernels, "").unwrap().unmount().unwrap();
            let kernel = oracle::dumpe2fs(&kernels).unwrap();
            let kernel = kernel.number("Free inodes").unwrap();
            assert_eq!(kernel, free, "{feature}: as the kernel's recovery");
        }
    }
}

#[test]
fn a_read_only_mount_leaves_them_where_it_may_not_write() {
    for feature in ["orphan_file", "^orphan_file"] {
        for (is_sealed, list) in [(true, "ro"), (false, "ro,noload")] {
            let device = leave_orphan(feature, Errors::None);
            let before = device.to_bytes();
            let options = crashed::options().parse(list).unwrap();
            let fs = match is_sealed {
                true => Filesystem::mount(image::Sealed::new(device.clone()), options),
                false => Filesystem::mount(device.clone(), options),
            };
            fs.unwrap().unmount().unwrap();
            assert!(device.to_bytes() == before, "{feature} {list}");
        }
    }
}

/// With recorded errors the journal is replayed, and orphans are left alone.
#[test]
fn a_read_only_mount_leaves_them_where_there_were_errors() {
    for feature in ["orphan_file", "^orphan_file"] {
        let found = |is_sealed| {
            let device = leave_orphan(feature, Errors::Marked);
            let options = crashed::options().parse("ro").unwrap();
            let fs = match is_sealed {
                true => Filesystem::mount(image::Sealed::new(device.clone()), options),
                false => Filesystem::mount(device.clone(), options),
            };
            let free = fs.unwrap().statfs().inodes_free;
            let left = uext4::read_superblock(&*device, None).unwrap();
            let is_left = left.last_orphan != 0 || left.features().has(Feature::ORPHAN_PRESENT);
            (free, is_left)
        };
        let (free, is_left) = found(false);
        assert_eq!(free, found(true).0, "{feature}");
        assert!(is_left, "{feature}");
    }
}

/// An orphan list longer than one transaction of the small log can process: no inode is lost if a
/// crash interrupts the recovery at any point.
#[test]
fn a_long_list_survives_crashes_of_its_recovery() {
    const FILES: u64 = 1600;
    let shape = ["-b", "1024", "-I", "256", "-N", "2048", "-J", "size=1"];
    let shape = [&shape[..], &["-O", "^orphan_file"]].concat();
    let device = image::mke2fs(16, &shape);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let free = fs.statfs().inodes_free;
    let name = |nr: u64| nr.to_string().into_bytes();
    let create = |nr| fs.create(&root, &name(nr), 0o644, &ROOT).unwrap();
    let files: Vec<_> = (0..FILES).map(create).collect();
    for nr in 0..FILES {
        fs.unlink(&root, &name(nr), &ROOT).unwrap();
    }
    fs.sync().unwrap();
    fs.abandon();
    drop((files, root, fs));
    let recorder = Arc::new(Recorder::new(device));
    let fs = Filesystem::mount(recorder.clone(), crashed::options()).unwrap();
    assert_eq!(fs.statfs().inodes_free, free);
    fs.abandon();
    drop(fs);
    let mut log = recorder.log();
    let is_flush = |cut: &usize| matches!(log.events()[*cut], Event::FlushDone { .. });
    let cuts: Vec<_> = (0..log.len()).filter(is_flush).collect();
    assert!(cuts.len() > 2, "one transaction was enough");
    for cut in cuts {
        let image = Arc::new(log.image(cut + 1, Survivors::None));
        let fs = image::mount(&image);
        assert_eq!(fs.statfs().inodes_free, free, "cut {cut} lost orphans");
        fs.unmount().unwrap();
        image::assert_clean(&image);
    }
}

/// The list ends at an invalid inode number; the sound part before it is freed.
#[test]
fn a_list_ends_at_a_bad_number() {
    let device = image::mke2fs(16, &["-O", "^orphan_file"]);
    let fs = image::mount(&device);
    let file = fs.create(&fs.root().unwrap(), b"file", 0o644, &ROOT);
    let nr = file.unwrap().nr().0;
    fs.unmount().unwrap();
    let (_dir, path) = image::on_disk(&device);
    let orphan = [
        "unlink file".to_owned(),
        format!("set_inode_field <{nr}> links_count 0"),
        format!("set_super_value last_orphan {nr}"),
    ];
    oracle::debugfs(&path, oracle::Access::Write, &orphan).unwrap();
    for bad in [nr, 999_999, 1] {
        let set = format!("set_inode_field <{nr}> dtime {bad}");
        oracle::debugfs(&path, oracle::Access::Write, &[set]).unwrap();
        let device = Arc::new(MemDevice::from_bytes(&std::fs::read(&path).unwrap()));
        image::mount(&device).unmount().unwrap();
        image::assert_clean(&device);
    }
}

/// A thread that dropped the last reference to an orphan and is idle: other threads free the file.
#[test]
fn what_a_thread_left_behind_is_freed_by_others() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let leave = || {
        let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
        fs.write(&file, 0, &[7; 1 << 20], &WriteContext::ROOT)
            .unwrap();
        fs.fsync(&file).unwrap();
        fs.unlink(&root, b"file", &ROOT).unwrap();
        std::thread::scope(|scope| scope.spawn(|| drop(file)).join().unwrap());
        fs.fsync(&root).unwrap();
    };
    let empty = (fs.statfs().inodes_free, fs.free_space().all_bytes);

    leave();
    assert!(fs.free_space().all_bytes < empty.1, "no sweep yet");
    for step in 0..256 {
        let set = SetAttr {
            mode: Some(0o700 + step % 8),
            ..SetAttr::default()
        };
        fs.set_attr(&root, &set, &ROOT).unwrap();
    }
    fs.fsync(&root).unwrap();
    assert_eq!(fs.free_space().all_bytes, empty.1, "one of many operations");

    leave();
    assert_eq!(fs.statfs().inodes_free, empty.0, "a count sweeps");

    leave();
    fs.sync().unwrap();
    assert_eq!(fs.free_space().all_bytes, empty.1, "a sync sweeps");
    drop(root);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
