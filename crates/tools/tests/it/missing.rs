//! Errors name the missing resource: the FUSE device, its helper, inodes, the journal of an image.

use crate::rig::Rig;
use crate::room::{OURS, ROOT, UNPRIVILEGED, can_mount, in_room, rig_of};
use std::process::Command;

/// `refused WORD STATUS COMMAND`: the command must fail with this status and one line that matches
/// WORD.
const REFUSED: &str = r#"
    refused() {
        word=$1 status=$2 got=0; shift 2
        "$@" >said 2>&1 || got=$?
        [ "$got" = "$status" ] && grep -q "$word" said && [ "$(wc -l <said)" = 1 ] || {
            echo "$*: $got: $(cat said)" >&2; exit 1
        }
    }
"#;

#[test]
fn a_missing_device_is_named_and_what_to_do() {
    if !can_mount() {
        return;
    }
    // The namespace has a private /dev/fuse, which the test replaces.
    for (instead, word) in [
        ("rm dev/fuse", "there is no /dev/fuse.*modprobe fuse"),
        (
            "rm dev/fuse; mknod dev/fuse c 10 254",
            "the kernel has no FUSE; `modprobe fuse`",
        ),
        (
            "rm dev/fuse; mknod -m 666 dev/fuse c 1 3",
            "/dev/fuse cannot be opened: it is not the FUSE device",
        ),
        (
            "rm dev/fuse; mkdir dev/fuse",
            "/dev/fuse cannot be opened: Is a directory",
        ),
    ] {
        for options in ["sandbox", "no_sandbox"] {
            let rig = rig_of(ROOT);
            // /dev is replaced as a whole, so that the file can be absent.
            let script = format!(
                "{REFUSED}
                umount /dev/fuse
                {instead}
                touch dev/null; mount --bind /dev/null dev/null
                if [ -d /dev/shm ]; then mkdir dev/shm; mount --rbind /dev/shm dev/shm; fi
                mount --rbind dev /dev
                cd \"$room\"
                refused '{word}' 1 \"$TOOL\" mount -o {options} disk.img mnt
                refused '{word}' 1 \"$TOOL\" mount --foreground -o {options} disk.img mnt"
            );
            in_room(&rig, OURS, ROOT, &script);
            rig.assert_clean();
        }
    }
}

#[test]
fn a_missing_helper_is_named_and_where_it_comes_from() {
    if !can_mount() {
        return;
    }
    for mode in ["666", "000"] {
        let rig = rig_of(UNPRIVILEGED);
        // Mode 000: a machine that grants users no access to the device.
        let script = format!(
            "chmod {mode} /dev/fuse
            chown {UNPRIVILEGED} . mnt
            mkdir bin
            for program in grep wc cat; do ln -s \"$(command -v $program)\" bin/; done
            cat >refused.sh <<'END'
            {REFUSED}
            PATH=$room/bin
            refused 'fusermount3, which is not in PATH; .* package fuse3' 1 \\
                \"$TOOL\" mount disk.img mnt
END
            setpriv --reuid={UNPRIVILEGED} --regid={UNPRIVILEGED} --clear-groups sh -eu refused.sh"
        );
        in_room(&rig, OURS, ROOT, &script);
        rig.assert_clean();
    }
}

#[test]
fn a_lack_of_inodes_is_no_lack_of_space() {
    let rig = Rig::empty();
    rig.ok(&["mkfs", "disk.img", "--size", "16M", "-q", "-N", "16"]);
    std::fs::create_dir(rig.path("tree")).expect("it is fresh");
    for nr in 0..32 {
        std::fs::write(rig.path(&format!("tree/{nr}")), "x").expect("there is room");
    }
    let word = "no free inodes";
    rig.fails(1, word, &["put", "-r", "disk.img", "tree", "/tree"]);
    rig.fails(1, word, &["put", "disk.img", "tree/1", "/file"]);
    rig.fails(1, "`uext4 mkfs -N`", &["mkdir", "disk.img", "/dir"]);
    rig.assert_clean();
    // A lack of space is reported as such.
    std::fs::write(rig.path("big"), vec![7; 32 << 20]).expect("there is room");
    rig.ok(&["rm", "-r", "disk.img", "/tree"]);
    rig.fails(1, "no space", &["put", "disk.img", "big", "/big"]);
    rig.assert_clean();
}

/// Creates `disk.img` with its journal on `log.img`.
fn with_external_journal(rig: &Rig) {
    let script = "set -e
        truncate -s 16M log.img; truncate -s 64M disk.img
        mke2fs -q -F -b 4096 -O journal_dev -U 01234567-89ab-cdef-0123-456789abcdef log.img
        loop=$(losetup -f --show log.img)
        mke2fs -q -F -t ext4 -b 4096 -J device=$loop disk.img || failed=1
        losetup -d $loop
        exit ${failed:-0}";
    let mut shell = Command::new("timeout");
    shell.args(["-k", "5", "60", "sh", "-c", script]);
    let output = shell
        .current_dir(rig.path(""))
        .output()
        .expect("sh is there");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_external_journal_is_named() {
    if !can_mount() {
        return;
    }
    let rig = Rig::empty();
    with_external_journal(&rig);
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    std::fs::create_dir(rig.path("mnt")).expect("it is fresh");
    for args in [
        &["ls", "disk.img"][..],
        &["check", "disk.img"],
        &["mkdir", "disk.img", "/dir"],
        &["mount", "disk.img", "mnt"],
    ] {
        rig.fails(3, uuid, args);
        // Loop devices have the major number 7.
        rig.fails(3, "device 7:", args);
        rig.fails(3, "journal_path=", args);
    }
    for args in [
        &["ls", "log.img"][..],
        &["info", "log.img"],
        &["check", "log.img"],
        &["mount", "log.img", "mnt"],
    ] {
        rig.fails(3, uuid, args);
        rig.fails(3, "is an external journal", args);
    }
    let with = |journal| ["ls", "--journal-path", journal, "disk.img"];
    assert_eq!(rig.ok(&with("log.img")), "lost+found\n");
    rig.fails(3, "is not an ext4 journal device", &with("disk.img"));
    let other = [
        "-q",
        "-F",
        "-b",
        "4096",
        "-O",
        "journal_dev",
        "other.img",
        "16M",
    ];
    let mut mke2fs = Command::new("mke2fs");
    let made = mke2fs.args(other).current_dir(rig.path("")).status();
    assert!(made.expect("mke2fs is there").success());
    rig.fails(3, &format!("not {uuid}"), &with("other.img"));
}
