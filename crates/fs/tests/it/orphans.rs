//! What a mount does with orphans that a crash left.

use crate::image;
use uext4::Caller;
use uext4_testkit::oracle::{self, Repair};

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
