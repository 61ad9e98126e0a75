//! `mount -o loop`: sync reaches the image, and the loop device goes with the mount.

use crate::rig::Rig;
use crate::room::{UNPRIVILEGED, can_mount};
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount, Program, Repair};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::{skip, wait};

fn can_loop() -> bool {
    can_mount() && KernelMount::available_or_skip("mounts through loop devices")
}

fn rig() -> Rig {
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("mnt")).expect("it is fresh");
    rig
}

/// The loop devices over the image.
fn loops(rig: &Rig) -> String {
    let losetup = Program::new("losetup").expect("losetup is there");
    let listed = losetup.args(["-nO", "NAME", "-j"]).arg(rig.image());
    listed.run_ok().expect("it lists").stdout.trim().to_owned()
}

/// Writes a file, calls `syncfs`, and copies the image at that moment.
fn written_synced_and_copied(rig: &Rig, name: &str) -> PathBuf {
    let content = format!("{name}\n");
    std::fs::write(rig.path("mnt").join(name), content).expect("there is room");
    let dir = std::fs::File::open(rig.path("mnt")).expect("it is mounted");
    rustix::fs::syncfs(&dir).expect("nothing is in the way");
    let copy = rig.path("cut.img");
    std::fs::copy(rig.image(), &copy).expect("there is room");
    copy
}

/// Content of a file of an image after a recovery by e2fsck; none if there is no such file.
fn recovered(image: &Path, name: &str) -> Option<String> {
    let verdict = oracle::e2fsck_repair(image, Repair::Preen).expect("e2fsck runs");
    assert!(verdict.is_repaired(), "{verdict}");
    let told = oracle::debugfs_one(image, &format!("cat /{name}")).expect("debugfs answers");
    (!told.contains("File not found")).then(|| told.trim_end().to_owned())
}

/// Whether this kernel sent `syncfs` to the server: Linux does since 6.18.
fn is_told(rig: &Rig) -> bool {
    rig.ok(&["stats", "mnt"]).contains("\nsyncfs")
}

/// The commit interval is longer than the test, so that only `syncfs` commits.
#[test]
fn syncfs_makes_durable_what_was_written() {
    if !can_loop() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "io_uring");
    for via in [Some("no_io_uring"), over_rings].into_iter().flatten() {
        for word in ["loop", "loop_direct"] {
            let rig = rig();
            let options = format!("{word},commit=300,{via}");
            rig.ok(&["mount", "-o", &options, "disk.img", "mnt"]);
            let device = loops(&rig);
            assert!(device.starts_with("/dev/loop"), "{device:?}");
            let copy = written_synced_and_copied(&rig, "synced");
            let is_told = is_told(&rig);
            rig.ok(&["umount", "mnt"]);
            assert_eq!(loops(&rig), "", "{options}");
            rig.assert_clean();
            if is_told {
                let found = recovered(&copy, "synced");
                assert_eq!(found.as_deref(), Some("synced"), "{options}");
            } else {
                skip::record("sync of a mount", "a kernel that passes syncfs on");
            }
        }
    }
}

/// The control of the test above: of an image file the server hears no `syncfs`.
#[test]
fn without_the_option_syncfs_does_not_reach_the_image() {
    if !can_mount() {
        return;
    }
    let rig = rig();
    rig.ok(&["mount", "-o", "commit=300", "disk.img", "mnt"]);
    let copy = written_synced_and_copied(&rig, "synced");
    let is_told = is_told(&rig);
    rig.ok(&["umount", "mnt"]);
    assert!(!is_told);
    assert_eq!(recovered(&copy, "synced"), None);
}

#[test]
fn the_device_goes_after_the_server_was_killed() {
    if !can_loop() {
        return;
    }
    let rig = rig();
    rig.ok(&["mount", "-o", "loop", "disk.img", "mnt"]);
    let device = loops(&rig);
    rig.fails(5, &device, &["tune", "disk.img", "-L", "label"]);
    let pid = rig.json(&["info", "--json", "mnt"])["pid"].as_i64();
    let pid = rustix::process::Pid::from_raw(pid.expect("a number") as i32);
    rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::KILL)
        .expect("it runs");
    let gone = rig.run(&["umount", "mnt"]);
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(gone.status.success(), "{said}");
    wait::until_true("the device goes", || loops(&rig).is_empty());
    rig.ok(&["mount", "-o", "loop", "disk.img", "mnt"]);
    rig.ok(&["umount", "mnt"]);
    assert_eq!(loops(&rig), "");
    rig.assert_clean();
}

#[test]
fn a_mount_that_fails_leaves_no_device() {
    if !can_loop() {
        return;
    }
    let rig = rig();
    rig.fails(
        1,
        "no such directory",
        &["mount", "-o", "loop", "disk.img", "none"],
    );
    assert_eq!(loops(&rig), "");
    rig.fails(
        1,
        "No such file",
        &["mount", "-o", "loop", "none.img", "mnt"],
    );
    // It writes nothing, so it needs no device.
    rig.ok(&["mount", "-o", "loop,ro", "disk.img", "mnt"]);
    assert_eq!(loops(&rig), "");
    rig.ok(&["umount", "mnt"]);
    std::fs::write(rig.image(), vec![0; 1 << 20]).expect("there is room");
    rig.fails(3, "no magic", &["mount", "-o", "loop", "disk.img", "mnt"]);
    wait::until_true("the device goes", || loops(&rig).is_empty());
}

#[test]
fn only_the_superuser_may_and_others_hear_one_sentence() {
    if !can_loop() {
        return;
    }
    let rig = rig();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        UNPRIVILEGED,
        "--regid",
        UNPRIVILEGED,
        "--clear-groups",
    ]);
    command.arg(env!("CARGO_BIN_EXE_uext4"));
    command.args(["mount", "-o", "loop", "disk.img", "mnt"]);
    std::fs::set_permissions(
        rig.path(""),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("it is ours");
    let refused = command.current_dir(rig.path("")).output();
    let refused = refused.expect("setpriv is there");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("only the superuser"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_block_device_needs_no_other_one() {
    if !can_loop() {
        return;
    }
    let rig = rig();
    let device = oracle::LoopDevice::attach(&rig.image()).expect("a loop device");
    rig.fails(
        2,
        "block device already",
        &["mount", "-o", "loop", device.path(), "mnt"],
    );
}
