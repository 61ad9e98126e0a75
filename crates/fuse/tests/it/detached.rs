//! A mount that was detached while in use, covered by another mount, or moved with its directory.

use crate::support::{Mounted, run};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;
use uext4_fuse::{Client, Image, Lazy, umount};
use uext4_testkit::wait;

/// Longer than a signal takes to act.
const A_WHILE: Duration = Duration::from_millis(300);
/// Longer than a server takes to end.
const LONG: Duration = Duration::from_secs(30);

/// A signal ends the server with its last user; the other file system on its path stays.
#[test]
fn a_signal_takes_no_other_mount_off() {
    let mut mounted = Mounted::new();
    let root = mounted.root();
    let file = File::create(mounted.path("file")).unwrap();
    unmount(&root, UnmountFlags::DETACH).unwrap();
    mount("none", &root, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(root.join("other"), "kept").unwrap();
    let server = mounted.server().id().to_string();
    run("kill", &[&server]);
    let is_off = || !root.join("other").exists();
    let was_taken_off = wait::is_true_within(A_WHILE, is_off);
    file.write_all_at(b"served", 0).unwrap();
    drop(file);
    let status = mounted.take_server().wait().unwrap();
    let still = fs::read_to_string(root.join("other"));
    // Only then nothing is left behind by a failure.
    let _ = unmount(&root, UnmountFlags::DETACH);
    assert!(!was_taken_off && status.success(), "{status}");
    assert_eq!(still.unwrap(), "kept");
    mounted.mount(&[]);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"served");
    mounted.unmount();
}

/// A covered mount cannot be taken off; the server does so when the other mount is gone.
#[test]
fn a_signal_ends_a_covered_mount_once_it_is_uncovered() {
    let mut mounted = Mounted::new();
    let root = mounted.root();
    fs::write(root.join("file"), "kept").unwrap();
    mount("none", &root, "tmpfs", MountFlags::empty(), None).unwrap();
    let server = mounted.server().id().to_string();
    run("kill", &[&server]);
    let ends_early =
        wait::is_true_within(A_WHILE, || mounted.server().try_wait().unwrap().is_some());
    let is_covered = !root.join("file").exists();
    unmount(&root, UnmountFlags::empty()).unwrap();
    assert!(!ends_early && is_covered);
    wait::until_true("the server ends", || {
        mounted.server().try_wait().unwrap().is_some()
    });
    assert!(mounted.take_server().wait().unwrap().success());
    assert!(!mounted.is_mounted());
    uext4_testkit::oracle::assert_clean(&mounted.image());
}

/// A second signal does not wait for the other mount to go.
#[test]
fn a_second_signal_closes_a_covered_mount() {
    let mut mounted = Mounted::new();
    let root = mounted.root();
    fs::write(root.join("file"), "kept").unwrap();
    mount("none", &root, "tmpfs", MountFlags::empty(), None).unwrap();
    let server = mounted.server().id().to_string();
    // Two signals of one kind may arrive as one.
    run("kill", &[&"-TERM", &server]);
    run("kill", &[&"-INT", &server]);
    let ended = wait::is_true_within(LONG, || mounted.server().try_wait().unwrap().is_some());
    unmount(&root, UnmountFlags::empty()).unwrap();
    assert!(ended && mounted.take_server().wait().unwrap().success());
    uext4_testkit::oracle::assert_clean(&mounted.image());
}

/// A mount moves with its directory: it is unmounted where it is, and its server is found there.
#[test]
fn a_renamed_mount_is_unmounted_where_it_is() {
    for by_signal in [true, false] {
        let mut mounted = Mounted::new();
        fs::write(mounted.path("file"), "kept").unwrap();
        let parent = mounted.root().parent().unwrap().to_owned();
        let renamed = parent.with_extension("renamed");
        fs::rename(&parent, &renamed).unwrap();
        let done = if by_signal {
            let server = mounted.server().id().to_string();
            run("kill", &[&server]);
            let mut has_ended = || mounted.server().try_wait().unwrap().is_some();
            wait::is_true_within(LONG, &mut has_ended)
        } else {
            // It waits for the server, which it knows by the number of the connection.
            // A list of mounts that others change meanwhile may lack one.
            let found = || Client::connect(&renamed.join("at")).is_ok();
            assert!(wait::is_true_within(LONG, found), "the server is found");
            // A process that another test starts may hold the file until it runs its program.
            let done = || umount(&renamed.join("at"), Lazy::No);
            wait::is_true_within(LONG, || matches!(done(), Ok(Image::Clean)))
        };
        fs::rename(&renamed, &parent).unwrap();
        assert!(
            done && mounted.take_server().wait().unwrap().success(),
            "{by_signal}"
        );
        uext4_testkit::oracle::assert_clean(&mounted.image());
    }
}
