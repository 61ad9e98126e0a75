//! What a mount does with orphans that a crash left.

use crate::{crashed, image};
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::format::Feature;
use uext4::{Caller, Filesystem};
use uext4_testkit::oracle::{self, KernelMount, Repair};

const ROOT: Caller = Caller::root();

/// On a file system that is marked with errors they are left to e2fsck.
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
            fs.write(&file, 0, &[7; 100_000]).unwrap();
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

/// A file without a name, which the crash of its last user left.
fn leave_orphan(feature: &str, errors: Errors) -> Arc<MemDevice> {
    let device = image::mke2fs(64, &["-O", feature]);
    let fs = image::mount_with(&device, "errors=continue").unwrap();
    if errors == Errors::Marked {
        fs.trigger_error().unwrap();
    }
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    fs.write(&file, 0, &[7; 100_000]).unwrap();
    fs.unlink(&root, b"file", &ROOT).unwrap();
    fs.create(&root, b"other", 0o644, &ROOT).unwrap();
    fs.sync().unwrap();
    fs.abandon();
    device
}

/// As the kernel does when the device takes writes.
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

/// The journal of a file system that is marked with errors is replayed, and no more.
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
