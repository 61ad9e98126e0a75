//! Locks of other programs on an image, and ours for them.

use crate::rig::Rig;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use uext4_testkit::{skip, wait};

/// Exit status for an image in use.
const BUSY: i32 = 5;

fn qemu_io(rig: &Rig) -> Command {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]).arg(rig.image());
    command
}

#[test]
fn qemu_and_uext4_see_each_other() {
    if !skip::programs_or_skip("qemu_and_uext4_see_each_other", &["qemu-io"]) {
        return;
    }
    let rig = Rig::new(&[]);
    let mut qemu = qemu_io(&rig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut commands = qemu.stdin.take().unwrap();
    commands.write_all(b"read 0 512\n").unwrap();
    let mut said = BufReader::new(qemu.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("512/512") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "qemu-io ended");
    }
    rig.fails(BUSY, "in use", &["mkdir", "disk.img", "/x"]);
    rig.ok(&["ls", "disk.img", "/"]);
    drop(commands);
    assert!(qemu.wait().unwrap().success());
    rig.ok(&["mkdir", "disk.img", "/x"]);

    let mut put = rig.start(&["put", "disk.img", "-", "/file"], Stdio::piped());
    let input = put.stdin.take().unwrap();
    // The last of its locks. QEMU locks too when it tries, and would keep the writer out.
    let number = std::fs::metadata(rig.image()).unwrap().ino();
    let lock = format!(":{number} 203 203");
    wait::until_true("the writer has its locks", || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let mut locks = locks.lines().filter(|line| line.contains("OFDLCK"));
        locks.any(|line| line.ends_with(&lock))
    });
    let tried = qemu_io(&rig).args(["-c", "read 0 512"]).output().unwrap();
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert!(said.contains("lock"), "{said}: {tried:?}");
    drop(input);
    assert!(put.wait_with_output().unwrap().status.success());
    rig.assert_clean();
}

/// A pipe at which nothing waits, and devices without blocks.
#[test]
fn only_files_and_block_devices_are_images() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("tree")).unwrap();
    let made = Command::new("mkfifo").arg(rig.path("pipe")).status();
    assert!(made.unwrap().success());
    for args in [["ls", "pipe"], ["check", "pipe"], ["check", "/dev/zero"]] {
        let ran = rig.run(&args);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success(), "{args:?}");
        assert!(
            said.contains("a file or a block device is needed"),
            "{args:?}: {said}"
        );
    }
    rig.fails(1, "a block device is needed", &["build", "pipe", "tree"]);
    rig.fails(
        1,
        "a block device is needed",
        &["mkfs", "pipe", "--size", "8M"],
    );
}
