//! A mount that was detached while in use, and what is mounted on its path afterwards.

use crate::support::{Mounted, run};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;
use uext4_testkit::wait;

/// Longer than a signal takes to act.
const A_WHILE: Duration = Duration::from_millis(300);

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
