//! Mounts without the default directory for claims and control sockets: in a user namespace, and
//! with a read-only `/run`.

use crate::rig::Rig;
use crate::room::can_mount;
use std::path::Path;
use std::process::Command;

/// All commands that need the directory of the mount, on one image.
const LIFE: &str = r#"
    set -e
    "$TOOL" mkfs -q --size 16M disk.img
    "$TOOL" mount disk.img mnt
    echo data >mnt/file
    "$TOOL" info mnt >/dev/null
    "$TOOL" freeze mnt
    "$TOOL" thaw mnt
    find "$1" -name 'uext4*' 2>/dev/null | sed 's/^/base: /'
    "$TOOL" umount mnt
    # umount has waited for the server.
    test "$("$TOOL" cat disk.img /file)" = data
    rm disk.img
    # The keeper ends a moment later, and leaves nothing.
    for try in $(seq 600); do
        test -n "$(find "$1" -name 'uext4-*' 2>/dev/null)" || exit 0
        sleep 0.1
    done
    find "$1" -name 'uext4-*' >&2
    exit 1
"#;

fn run(rig: &Rig, command: &mut Command, before: &str, base: &str) -> String {
    let script = format!("set -e\n{before}\n{LIFE}");
    command.args(["sh", "-c", &script, "sh", base]);
    command
        .current_dir(rig.path(""))
        .env_remove("XDG_RUNTIME_DIR");
    command.env("TOOL", env!("CARGO_BIN_EXE_uext4"));
    let output = command.output().expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{before}: {said}\n{wrong}");
    said
}

fn rig() -> Rig {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("mnt")).expect("it is fresh");
    rig
}

#[test]
fn a_read_only_run_is_replaced_by_a_private_directory() {
    if !can_mount() {
        return;
    }
    let used = "mount -t tmpfs none /run; mkdir -m 700 /run/uext4; mount -o remount,ro /run";
    for read_only in ["mount -t tmpfs -o ro none /run", used] {
        let rig = rig();
        let private = rig.path("temporary");
        std::fs::create_dir(&private).expect("it is fresh");
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "200", "unshare", "--mount"]);
        command.env("TMPDIR", &private);
        let base = private.to_str().expect("it is plain");
        let said = run(&rig, &mut command, read_only, base);
        assert!(said.contains("base: "), "{said}");
    }
}

#[test]
fn a_user_namespace_mounts_an_image() {
    if !can_mount() || !Path::new("/proc/self/ns/user").exists() {
        return;
    }
    let rig = rig();
    for path in ["", "mnt"] {
        std::os::unix::fs::chown(rig.path(path), Some(65_534), Some(65_534)).expect("we may");
    }
    let mut command = Command::new("timeout");
    // Users may lack access to the device; this mount namespace grants it.
    let open = "cp -a /dev/fuse dev.fuse && chmod 666 dev.fuse && mount --bind dev.fuse /dev/fuse";
    let user = "exec setpriv --reuid=65534 --regid=65534 --clear-groups unshare -Urm \"$@\"";
    let line = format!("{open} && {user}");
    command.args([
        "-k", "5", "200", "unshare", "--mount", "sh", "-c", &line, "sh",
    ]);
    command.env("TMPDIR", rig.path("tmp"));
    let before = "mkdir -p tmp; chmod 700 tmp";
    let base = rig.path("tmp");
    // Every superuser of a namespace is 0 inside.
    let said = run(
        &rig,
        &mut command,
        before,
        base.to_str().expect("it is plain"),
    );
    assert!(said.contains("/uext4-65534\n"), "{said}");
}
