//! Names that lead to reserved inodes: the mount answers as the kernel's ext4.

use crate::support::{Mounted, errno};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use uext4_testkit::oracle::{self, KernelMount};

const EUCLEAN: Option<i32> = Some(117);
const MKE2FS: &[&str] = &["-b", "4096", "-O", "orphan_file"];

/// Every operation on the name, and on names beside it.
fn hear(at: &Path) -> Vec<(&'static str, Option<i32>)> {
    let evil = at.join("d/evil");
    vec![
        ("stat", errno(fs::symlink_metadata(&evil))),
        (
            "write",
            errno(fs::OpenOptions::new().write(true).open(&evil)),
        ),
        ("read", errno(fs::read(&evil))),
        ("unlink", errno(fs::remove_file(&evil))),
        ("rename", errno(fs::rename(&evil, at.join("good")))),
        ("rename over it", errno(fs::rename(at.join("file"), &evil))),
        ("symlink over it", errno(symlink("x", &evil))),
        ("link", errno(fs::hard_link(&evil, at.join("good")))),
        ("beside it", errno(fs::read(at.join("file")))),
    ]
}

#[test]
fn no_name_leads_to_an_inode_of_the_file_system_itself() {
    let (_kept, base) = oracle::mke2fs_image(crate::support::IMAGE_BYTES, MKE2FS).unwrap();
    let made = ["mkdir d", "write /etc/passwd file"];
    oracle::debugfs(&base, oracle::Access::Write, &made).unwrap();
    oracle::e2fsck_repair(&base, oracle::Repair::Everything).unwrap();
    let header = oracle::dumpe2fs(&base).unwrap();
    let orphan_file = header.number("Orphan file inode").unwrap();
    let by_kernel = KernelMount::available_or_skip("reserved inodes on the kernel's ext4");
    for nr in [1, 3, 7, 8, orphan_file] {
        let mut mounted = Mounted::with(MKE2FS, &[]);
        mounted.unmount();
        fs::copy(&base, mounted.image()).unwrap();
        let link = format!("link <{nr}> /d/evil");
        oracle::debugfs(&mounted.image(), oracle::Access::Write, &[link]).unwrap();
        let copy = mounted.image().with_extension("kernel");
        fs::copy(mounted.image(), &copy).unwrap();
        mounted.mount(&[]);
        let ours = hear(&mounted.root());
        // All entries with their attributes.
        let listed = fs::read_dir(mounted.path("d")).unwrap();
        let stated = listed
            .map(|entry| errno(entry.unwrap().metadata()))
            .collect::<Vec<_>>();
        mounted.umount_soon();
        assert!(mounted.take_server().wait().unwrap().success());
        assert_eq!(stated, [EUCLEAN], "inode {nr}");
        let refused = ours.iter().filter(|(_, heard)| *heard == EUCLEAN).count();
        assert_eq!(refused, ours.len() - 1, "inode {nr}: {ours:?}");
        if by_kernel {
            let kernel = KernelMount::new(&copy, "").unwrap();
            let theirs = hear(kernel.path());
            kernel.unmount().unwrap();
            assert_eq!(ours, theirs, "inode {nr}");
        }
        // Nothing was written through the name: without it the image is clean.
        let unlink = ["unlink /d/evil"];
        oracle::debugfs(&mounted.image(), oracle::Access::Write, &unlink).unwrap();
        let verdict = oracle::e2fsck(&mounted.image()).unwrap();
        assert!(verdict.is_clean(), "inode {nr}: {:?}", verdict.problems());
    }
}
