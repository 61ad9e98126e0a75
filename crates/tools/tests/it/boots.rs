//! A Debian made by `uext4 build` starts in a virtual machine and gives a shell (`make boot`).
//!
//! The kernel, its modules and the initramfs are Debian's, inside the tree. QEMU emulates the
//! processor, so that no KVM is needed: half a minute a boot.

use crate::rig::Rig;
use std::path::Path;
use uext4_testkit::oracle::{self, Program, in_ci};

/// The first process: a script of the shell, which shows that the system works, and ends it.
const FIRST: &str = r#"#!/bin/sh
echo "boot: $(uname -sr) on $(grep ' / ' /proc/mounts)"
echo written >/written && cat /written && dpkg-query -W -f 'boot: ${Package} ${Version}\n' bash
sync && mount -o remount,ro / && echo "boot: done"
busybox poweroff -f
"#;
/// Packages beside the essential ones.
const PACKAGES: &str = "--include=linux-image-cloud-amd64,initramfs-tools,busybox-static,kmod";

/// The tree as a tar file, or why there is none.
fn debian(rig: &Rig) -> Result<(), String> {
    let needed = ["mmdebstrap", "qemu-system-x86_64", "qemu-img"];
    if let Some(missing) = needed.into_iter().find(|name| !oracle::is_installed(name)) {
        return Err(format!("{missing} is not installed"));
    }
    let made = Program::new("mmdebstrap").and_then(|program| {
        let program = program.args(["--variant=minbase", PACKAGES, "bookworm"]);
        program.arg(rig.path("root.tar")).run_ok()
    });
    made.map(|_| ())
        .map_err(|error| format!("mmdebstrap: {error:#}"))
}

/// Starts a machine with this disk; returns what its console shows.
fn boot(rig: &Rig, disk: &str, format: &str, root: &str) -> String {
    let boot = |prefix: &str| {
        let files = std::fs::read_dir(rig.path("boot")).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let is_it = |path: &Path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(prefix)
        };
        files.find(|path| is_it(path)).expect(prefix)
    };
    let drive = format!(
        "file={},format={format},if=virtio",
        rig.path(disk).display()
    );
    let line = format!("root={root} rw console=ttyS0 init=/first panic=-1");
    let machine = Program::new("qemu-system-x86_64").unwrap();
    let machine = machine.args(["-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults"]);
    let machine = machine.args(["-nographic", "-no-reboot", "-serial", "stdio"]);
    let machine = machine.args(["-drive", &drive, "-append", &line]);
    let machine = machine.arg("-kernel").arg(boot("vmlinuz"));
    let said = machine.arg("-initrd").arg(boot("initrd")).run().unwrap();
    let said = said.all();
    println!("{said}");
    said
}

fn assert_booted(said: &str, root: &str) {
    for line in ["boot: Linux", root, "written", "boot: bash", "boot: done"] {
        assert!(said.contains(line), "no {line:?} in {said}");
    }
    assert!(!said.contains("EXT4-fs error"), "{said}");
}

#[test]
#[ignore = "downloads a Debian and takes minutes; `make boot` runs it"]
fn a_debian_boots_from_raw_and_from_a_partition_in_qcow2() {
    let rig = Rig::empty();
    if let Err(problem) = debian(&rig) {
        assert!(!in_ci(), "{problem}, and CI may not skip it");
        eprintln!("=== SKIPPED: no image boots: {problem} ===");
        return;
    }
    std::fs::create_dir(rig.path("over")).unwrap();
    std::fs::write(rig.path("over/first"), FIRST).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(rig.path("over/first"), executable).unwrap();
    let tar = Program::new("tar")
        .unwrap()
        .arg("-xf")
        .arg(rig.path("root.tar"));
    tar.arg("-C")
        .arg(rig.path("."))
        .arg("./boot")
        .run_ok()
        .unwrap();

    let fixed = [
        "root.tar", "over", "--json", "--size", "min+20%", "-L", "root",
    ];
    rig.ok(&[&["build", "disk.img"], &fixed[..]].concat());
    rig.assert_clean();
    assert_booted(
        &boot(&rig, "disk.img", "raw", "/dev/vda"),
        "/dev/vda / ext4",
    );
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/written"]), "written\n");

    let options = [
        "--format",
        "qcow2",
        "--partition",
        "gpt",
        "--partition-type",
        "root-x86-64",
    ];
    let made = rig.json(&[&["build", "disk.qcow2"], &fixed[..], &options].concat());
    let guid = made["partition"]["guid"].as_str().unwrap();
    let root = format!("PARTUUID={guid}");
    assert_booted(
        &boot(&rig, "disk.qcow2", "qcow2", &root),
        "/dev/vda1 / ext4",
    );
    let judge = |args: &[&str], files: &[&str]| {
        let program = Program::new("qemu-img").unwrap().args(args);
        let files = files.iter().map(|file| rig.path(file));
        program.args(files).run_ok().unwrap()
    };
    judge(&["check", "-q"], &["disk.qcow2"]);
    judge(&["convert", "-O", "raw"], &["disk.qcow2", "whole.img"]);
    let (start, size) = (
        &made["partition"]["start_bytes"],
        &made["partition"]["size_bytes"],
    );
    let dd = Program::new("dd")
        .unwrap()
        .arg("bs=1M")
        .arg("iflag=skip_bytes,count_bytes");
    let dd = dd.arg(format!("if={}", rig.path("whole.img").display()));
    let dd = dd.arg(format!("of={}", rig.path("part.img").display()));
    dd.args([format!("skip={start}"), format!("count={size}")])
        .run_ok()
        .unwrap();
    oracle::assert_clean(&rig.path("part.img"));
    assert_eq!(rig.ok(&["cat", "part.img", "/written"]), "written\n");
}
