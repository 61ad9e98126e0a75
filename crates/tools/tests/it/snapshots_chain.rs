//! Copies of a running mount that refer to earlier ones.

use crate::rig::{Rig, bytes};
use crate::snapshots::Mounted;
use crate::snapshots_since::backup;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use uext4::device::{Access, FileDevice};
use uext4_fuse::{SnapshotPurpose, SnapshotResult};
use uext4_image::Backing;
use uext4_testkit::skip;

fn behind(path: &Path) -> String {
    let file = fs::File::open(path).expect("it is there");
    let backing = Backing::of_qcow2(&file).expect("it is proper");
    backing.expect("there is one").name
}

/// What is behind a qcow2 image is not updated, and a change of it is noticed.
#[test]
fn a_base_stays_as_it_is() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let first = backup(&mounted, &["a.img"]);
    let base = ["b.qcow2", "--since", &first, "--base", "a.img"];
    let second = backup(&mounted, &base);
    let before = bytes(&mounted.path("a.img"));
    let update = ["backup", "mnt", "a.img", "--since", &first];
    mounted.0.fails(1, "the base of a qcow2 image", &update);
    assert!(bytes(&mounted.path("a.img")) == before);
    let base = ["c.qcow2", "--since", &second, "--base", "b.qcow2"];
    let third = backup(&mounted, &base);
    for out in ["b.qcow2", "a.img"] {
        let loops = ["backup", "mnt", out, "--format", "qcow2", "--force"];
        let loops = [&loops[..], &["--since", &third, "--base", "c.qcow2"]].concat();
        mounted.0.fails(2, "none of its files", &loops);
    }
    assert!(bytes(&mounted.path("a.img")) == before);
    backup(&mounted, &["a.img", "--force"]);
    let late = ["backup", "mnt", "d.qcow2", "--since", &third];
    let late = [&late[..], &["--base", "c.qcow2"]].concat();
    mounted.0.fails(1, "a file behind it", &late);
    mounted.umount();
}

/// A backup that updates a copy has it locked until its new content is there.
#[test]
fn what_is_updated_is_no_base() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let first = backup(&mounted, &["a.img"]);
    let updated = FileDevice::open(mounted.path("a.img"), Access::ReadWrite);
    let updated = updated.expect("nothing else has it");
    let base = ["backup", "mnt", "b.qcow2", "--since", &first];
    let base = [&base[..], &["--base", "a.img"]].concat();
    mounted.0.fails(5, "may write or replace it", &base);
    assert!(!mounted.path("b.qcow2").exists());
    drop(updated);
    mounted.0.ok(&base);
    mounted.umount();
}

/// A copy that is continued again and again is not forgotten.
#[test]
fn a_base_in_use_is_known_for_long() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let first = backup(&mounted, &["first.qcow2"]);
    for _ in 0..3 {
        backup(&mounted, &["other", "--force"]);
    }
    for name in ["a.qcow2", "b.qcow2", "c.qcow2", "d.qcow2", "e.qcow2"] {
        backup(
            &mounted,
            &[name, "--since", &first, "--base", "first.qcow2"],
        );
    }
    // By the name of a link the image would be in another directory.
    fs::create_dir(mounted.path("sub")).expect("it is new");
    std::os::unix::fs::symlink("sub/real.qcow2", mounted.path("link.qcow2")).expect("it is new");
    fs::write(mounted.path("sub/real.qcow2"), b"").expect("there is room");
    let link = ["link.qcow2", "--force", "--since", &first];
    backup(&mounted, &[&link[..], &["--base", "first.qcow2"]].concat());
    assert_eq!(behind(&mounted.path("e.qcow2")), "./first.qcow2");
    let name = behind(&mounted.path("sub/real.qcow2"));
    assert!(Path::new(&name).is_absolute(), "{name}");
    mounted.umount();
}

/// What is in front of the superblock is content that any program may have written.
#[test]
fn a_raw_copy_that_begins_as_qcow2_is_raw() {
    if !skip::fuse_or_skip("snapshots") {
        return;
    }
    let rig = Rig::new(&["-b", "4096"]);
    let image = fs::File::options().write(true).open(rig.image());
    let image = image.expect("it is there");
    let header = [
        &b"QFI\xFB\0\0\0\x03\0\0\0\0\0\0\x02\0\0\0\0\x0B"[..],
        &[0; 492],
    ]
    .concat();
    let header = [&header[..], b"/etc/passwd"].concat();
    image.write_all_at(&header, 0).expect("there is room");
    fs::create_dir(rig.path("mnt")).expect("it is new");
    rig.ok(&["mount", "disk.img", "mnt", "-o", "no_io_uring"]);
    let mounted = Mounted(rig);
    let id = backup(&mounted, &["a.img"]);
    assert!(bytes(&mounted.path("a.img")).starts_with(b"QFI"));
    let id = backup(&mounted, &["a.img", "--since", &id]);
    backup(&mounted, &["b.qcow2", "--since", &id, "--base", "a.img"]);
    let file = fs::File::open(mounted.path("b.qcow2")).expect("it is there");
    let backing = Backing::of_qcow2(&file).expect("it is proper");
    let format = backing.expect("there is one").format;
    assert_eq!(format, uext4_image::Format::Raw);
    mounted.umount();
}

#[test]
fn a_snapshot_has_one_result() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let snapshot = mounted.take_for(SnapshotPurpose::Backup);
    let result = SnapshotResult {
        verdict: "copied".into(),
        findings: 0,
        copy: None,
    };
    snapshot.report(&result).expect("it is the first");
    assert!(snapshot.report(&result).is_err());
    drop(snapshot);
    mounted.umount();
}

/// A mount that only reads notes no changes: other programs may write its image.
#[test]
fn a_copy_of_a_read_only_mount_is_not_continued() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let id = backup(&mounted, &["copy"]);
    mounted.0.ok(&["remount", "mnt", "-o", "ro"]);
    let made = mounted.0.json(&["backup", "mnt", "other", "--json"]);
    assert!(made["backup_id"].is_null(), "{made}");
    mounted.0.ok(&["remount", "mnt", "-o", "rw"]);
    let late = ["backup", "mnt", "copy", "--since", &id];
    mounted.0.fails(1, "does not know", &late);
    mounted.umount();
}
