//! Commands that read images, on running mounts.

use crate::rig::bytes;
use crate::snapshots::{Mounted, work};
use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use uext4_fuse::SnapshotPurpose;
use uext4_testkit::wait;

/// All of them show of a mount what they show of a copy.
#[test]
fn a_mount_is_read_as_its_copy_is() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    fs::create_dir(mounted.path("mnt/dir")).expect("it is new");
    mounted.write("mnt/dir/file", &vec![7; 300_000]);
    std::os::unix::fs::symlink("dir/file", mounted.path("mnt/link")).expect("it is new");
    mounted.0.ok(&["freeze", "mnt"]);
    mounted.0.ok(&["backup", "mnt", "copy", "--as-is"]);
    for command in [
        &["ls", "IMAGE", "-lR", "/"][..],
        &["ls", "IMAGE", "--json", "/dir"],
        &["stat", "IMAGE", "/dir/file"],
        &["cat", "IMAGE", "/dir/file"],
        &["extents", "IMAGE", "/dir/file"],
        &["log", "IMAGE", "--json"],
        &["undelete", "IMAGE", "--json"],
        &["debug", "IMAGE", "-c", "show inode /dir/file"],
        &["export", "IMAGE", "-o", "IMAGE.tar", "--json"],
    ] {
        let of = |image: &str| {
            let named: Vec<String> = command
                .iter()
                .map(|word| word.replace("IMAGE", image))
                .collect();
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            mounted.0.ok(&named).replace(image, "IMAGE")
        };
        assert_eq!(of("mnt"), of("copy"), "{command:?}");
    }
    assert!(bytes(&mounted.path("mnt.tar")) == bytes(&mounted.path("copy.tar")));
    mounted.0.ok(&["get", "mnt", "/dir/file", "got"]);
    assert!(bytes(&mounted.path("got")) == vec![7; 300_000]);
    mounted.0.ok(&["diff", "mnt", "copy"]);
    mounted.0.ok(&["diff", "copy", "mnt", "--blocks"]);
    mounted.0.ok(&["thaw", "mnt"]);
    mounted.write("mnt/dir/file", &vec![8; 300_000]);
    let differs = mounted.0.run(&["diff", "copy", "mnt"]);
    assert_eq!(differs.status.code(), Some(1), "{differs:?}");
    let said = String::from_utf8_lossy(&differs.stdout);
    assert!(said.contains("/dir/file: contents"), "{said}");
    let snapshots = mounted.snapshots();
    assert_eq!(snapshots["running"], serde_json::json!([]));
    assert_eq!(snapshots["last_backup"]["verdict"], "copied", "{snapshots}");
    mounted.umount();
}

#[test]
fn an_archive_beside_writers_is_that_of_one_moment() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| work(&mounted, 0, &done));
        for round in 0..5 {
            let name = format!("{round}.tar");
            mounted.0.ok(&["export", "mnt", "-o", &name]);
            assert!(bytes(&mounted.path(&name)).len() > 1024);
        }
        done.store(true, Ordering::Relaxed);
    });
    mounted.umount();
}

#[test]
fn what_no_mount_has_is_refused() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let part = ["ls", "mnt", "--offset", "4096"];
    mounted.0.fails(2, "not for a mount", &part);
    fs::create_dir(mounted.path("dir")).expect("it is new");
    mounted.0.fails(1, "dir", &["ls", "dir"]);
    let change = ["debug", "-w", "-y", "mnt", "-c", "show superblock"];
    assert_ne!(mounted.0.run(&change).status.code(), Some(0));
    mounted.umount();
}

#[test]
fn the_progress_of_a_check_is_told() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let check = mounted.take_for(SnapshotPurpose::Check);
    let running = || mounted.snapshots()["running"][0].take();
    assert!(running()["pass"].is_null() && running()["percent"].is_null());
    check.progress(2, 437).expect("the server answers");
    assert_eq!(
        (running()["pass"].as_u64(), running()["percent"].as_u64()),
        (Some(2), Some(43))
    );
    let text = mounted.0.ok(&["stats", "mnt"]);
    assert!(text.contains("pass 2, 43 %"), "{text}");
    check.progress(5, 0).expect("the server answers");
    assert_eq!(
        (running()["pass"].as_u64(), running()["percent"].as_u64()),
        (Some(5), Some(0))
    );
    drop(check);
    mounted.umount();
}

/// A trim that discards nothing does not say that it did.
#[test]
fn nothing_is_trimmed_while_a_snapshot_is_read() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let trimmed = || mounted.0.json(&["trim", "mnt", "--json"])["trimmed_bytes"].as_u64();
    let snapshot = mounted.take_for(SnapshotPurpose::Read);
    assert_eq!(trimmed(), Some(0));
    drop(snapshot);
    wait::until_true("the snapshot has ended", || {
        mounted.snapshots()["running"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    assert!(trimmed() > Some(1 << 20));
    mounted.umount();
}

/// The end of a snapshot is no damage, from which a rescue would save what is left.
#[test]
fn a_rescue_whose_snapshot_ends_fails() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    let content = vec![7; 30 << 20];
    mounted.write("mnt/large", &content);
    let is_aborted = (0..20).any(|nr| {
        let name = format!("got{nr}");
        let args = ["get", "mnt", "/large", &name, "--rescue"];
        let mut rescue = mounted.0.start(&args, Stdio::null());
        wait::until_true("it reads or has read", || {
            mounted.0.ok(&["fsck", "--abort", "mnt"]) != "mnt: ended: 0\n"
                || rescue.try_wait().expect("it runs").is_some()
        });
        let done = rescue.wait_with_output().expect("it runs");
        if done.status.success() {
            assert!(bytes(&mounted.path(&name)) == content);
            return false;
        }
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        said.contains("what was read is not complete")
    });
    assert!(is_aborted, "each rescue was done before");
    mounted.umount();
}
