//! Mount flags that a remount changes, keeps and restores.

use crate::support::{Mounted, errno, run};
use std::fs;

/// Mount and superblock options in `/proc/self/mountinfo`.
fn flags(mounted: &Mounted) -> (String, String) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = mounted.root();
    let root = root.to_str().unwrap();
    let line = table
        .lines()
        .rfind(|line| line.split(' ').nth(4) == Some(root));
    let words: Vec<&str> = line.expect("it is mounted").split(' ').collect();
    let of_superblock = words.last().unwrap().split(',').next().unwrap();
    (words[5].to_owned(), of_superblock.to_owned())
}

#[test]
fn a_refused_remount_changes_no_flag() {
    let mut mounted = Mounted::new();
    let root = mounted.root();
    let more = "remount,bind,nosymfollow,nodev,noatime";
    run("mount", &[&"-i", &"-o", &more, &root]);
    let before = flags(&mounted);
    assert!(before.0.contains("nosymfollow"), "{before:?}");
    for list in ["ro,bogus", "bogus,ro", "rw,bogus"] {
        let refused = uext4_fuse::remount(&root, list);
        assert!(refused.is_err(), "{list}");
        assert_eq!(flags(&mounted), before, "{list}");
    }
    fs::write(mounted.path("file"), "still writable").unwrap();
    uext4_fuse::remount(&root, "ro").unwrap();
    let read_only = flags(&mounted);
    assert!(
        read_only.0.starts_with("ro,") && read_only.1 == "ro",
        "{read_only:?}"
    );
    assert!(read_only.0.contains("nosymfollow"), "{read_only:?}");
    // A read-only mount stays read-only.
    assert!(uext4_fuse::remount(&root, "ro,bogus").is_err());
    assert_eq!(flags(&mounted), read_only);
    assert_eq!(
        errno(fs::write(mounted.path("file"), "x")),
        Some(libc::EROFS)
    );
    uext4_fuse::remount(&root, "rw,relatime").unwrap();
    let after = flags(&mounted).0;
    assert_eq!(after, before.0.replace("noatime", "relatime"));
    mounted.unmount();
}
