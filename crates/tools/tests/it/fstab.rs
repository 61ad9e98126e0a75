//! `mount(8)`, `umount(8)`, fstab and a service, as `docs/mounting.md` shows them.

use crate::rig::Rig;
use crate::room::{MOUNT_FUSE, OURS, ROOT, UNPRIVILEGED, can_mount, in_room, rig_of};
use std::path::Path;
use std::process::Command;
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::skip;

const BY_HAND: &str = r#"
    image=$room/disk.img
    mount -t fuse.uext4 disk.img mnt -o noatime,$VIA
    mounted rw,noatime
    echo first >mnt/file
    fails 32 "mounted already" mount -t fuse.uext4 disk.img mnt
    mount -o remount,ro mnt
    mounted ro,noatime
    fails 2 "Read-only" sh -c 'echo late >mnt/late'
    "$TOOL" stats mnt >stats
    mount -o remount,rw,nosuid mnt
    mounted rw,nosuid,noatime
    exec 5<mnt/file
    fails 32 "in use" umount mnt
    umount -l mnt
    absent
    exec 5<&-
    closed
    mount -t fuse.uext4 disk.img mnt -o ro
    fails 1 "umount -f" umount -f mnt
    umount -i mnt
    mount -t fuse.uext4 disk.img mnt
    echo second >>mnt/file
    umount mnt
    # No waiting: umount returns when the image is closed.
    test "$("$TOOL" cat disk.img /file)" = "$(printf 'first\nsecond')"
    # An absolute path reaches the helper when the mount has an option for user space.
    mount -t fuse.uext4 -o x-wait disk.img mnt
    echo third >>mnt/file
    umount "$room/mnt"
    test "$("$TOOL" cat disk.img /file)" = "$(printf 'first\nsecond\nthird')"
    "$TOOL" replay disk.img
    fails 32 "No such file" mount -t fuse.uext4 none.img mnt
    fails 1 "bogus" mount -t fuse.uext4 disk.img mnt -o bogus
    truncate -s 1M zero.img
    fails 32 "no ext4" mount -t fuse.uext4 zero.img mnt
"#;

#[test]
fn by_hand() {
    if !can_mount() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "io_uring");
    for via in [Some("no_io_uring"), over_rings].into_iter().flatten() {
        let rig = rig_of(ROOT);
        in_room(&rig, OURS, ROOT, &format!("VIA={via}\n{BY_HAND}"));
        rig.assert_clean();
    }
}

const FSTAB: &str = r#"
    cat >fstab <<END
$room/disk.img $room/mnt fuse.uext4 noatime,nofail,x-systemd.automount 0 0
$room/none.img $room/other fuse.uext4 nofail,noatime 0 0
$room/disk.img $room/third fuse.uext4 noauto,untrusted,no_io_uring,offset=0 0 0
$room/none.img $room/fourth fuse.uext4 defaults 0 0
END
    mkdir other third fourth
    mount -T fstab "$room/mnt"
    mounted rw,noatime
    echo text >mnt/file
    mount -T fstab -o remount,ro "$room/mnt"
    mounted ro,noatime
    umount "$room/mnt"
    mount -T fstab "$room/third"
    findmnt -n -o OPTIONS third | grep ^ro,nosuid,nodev
    # The whole line is repeated; what is another than it was is refused.
    mount -T fstab -o remount,noatime "$room/third"
    findmnt -n -o OPTIONS third | grep ^ro,nosuid,nodev,noatime
    "$TOOL" remount -o rw third
    findmnt -n -o OPTIONS third | grep ^rw,nosuid,nodev,noatime
    fails 32 "io_uring cannot change" mount -T fstab -o remount,io_uring "$room/third"
    umount third
    # An image that is not there: silence with nofail, an error without.
    test -z "$(mount -T fstab "$room/other" 2>&1)"
    fails 32 "No such file" mount -T fstab "$room/fourth"
    # What is marked so is mounted at boot, the rest is told.
    fails 64 "No such file" mount -T fstab -a -t fuse.uext4
    mounted rw,noatime
    umount mnt
    sed -i '$d' fstab
    test -z "$(mount -T fstab -a -t fuse.uext4 2>&1)"
    umount mnt
    absent
"#;

#[test]
fn by_fstab() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(ROOT);
    in_room(&rig, OURS, ROOT, FSTAB);
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "text\n");
}

/// Without our helpers `mount.fuse3` runs the tool, and umount(8) unmounts without a helper.
#[test]
fn by_mount_fuse() {
    if !can_mount() || !Path::new("/sbin/mount.fuse3").exists() {
        return;
    }
    let rig = rig_of(ROOT);
    let script = r#"
        mount -t fuse.uext4 "$room/disk.img" mnt -o noatime
        mounted rw,noatime
        echo text >mnt/file
        mount -o remount,ro mnt
        mounted ro,noatime
        umount mnt
        # At once: the server before is waited for.
        for round in 1 2 3 4 5 6 7 8; do
            mount -t fuse.uext4 "$room/disk.img" mnt -o nofail,_netdev
            umount mnt
        done
        closed
        fails 32 "No such file" mount -t fuse.uext4 "$room/none.img" mnt
    "#;
    in_room(&rig, MOUNT_FUSE, ROOT, script);
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "text\n");
}

#[test]
fn by_a_user_that_fstab_allows() {
    if !can_mount() {
        return;
    }
    let script = r#"
        for round in 1 2; do
            mount mnt
            mounted nosuid,nodev,noexec
            how | grep user_id=65534
            echo mine >>mnt/file
            umount mnt
            absent
        done
        mount "$room/disk.img"
        exec 5<mnt/file
        fails 32 "" umount mnt
        umount -l mnt
        exec 5<&-
        closed
        "$TOOL" mount disk.img mnt
        fusermount3 -u mnt
        "$TOOL" mount disk.img mnt
        "$TOOL" remount -o ro mnt
        fails 2 "Read-only" sh -c 'echo late >mnt/late'
        umount mnt
    "#;
    for links in [OURS, MOUNT_FUSE] {
        let rig = rig_of(UNPRIVILEGED);
        let line = "{room}/disk.img {room}/mnt fuse.uext4 user,noauto 0 0\n";
        let room = rig.path("");
        let room = room
            .to_str()
            .expect("the path is plain")
            .trim_end_matches('/');
        std::fs::write(rig.path("fstab"), line.replace("{room}", room)).expect("it is fresh");
        in_room(&rig, links, UNPRIVILEGED, script);
        rig.assert_clean();
        assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "mine\nmine\n");
    }
}

/// The packaged service unit.
#[test]
fn the_unit_is_one() {
    let text = include_str!("../../../../packaging/uext4@.service.in");
    let unit = text.replace("@BINDIR@/uext4", env!("CARGO_BIN_EXE_uext4"));
    for section in ["[Unit]", "[Service]", "Type=notify", "[Install]"] {
        assert!(unit.contains(section), "{section}: {unit}");
    }
    verify("uext4@data.service", &unit);
}

/// The packaged units of checks.
#[test]
fn the_units_of_checks_are_some() {
    let text = include_str!("../../../../packaging/uext4-check@.service.in");
    let unit = text.replace("@BINDIR@/uext4", env!("CARGO_BIN_EXE_uext4"));
    assert!(unit.contains(" fsck -n ${DIR}"), "{unit}");
    verify("uext4-check@data.service", &unit);
}

fn verify(name: &str, unit: &str) {
    let rig = Rig::empty();
    std::fs::write(rig.path(name), unit).expect("it is fresh");
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).arg(rig.path(name));
    let Ok(output) = command.output() else {
        skip::record("units", "systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("data.service"))
        .collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}
