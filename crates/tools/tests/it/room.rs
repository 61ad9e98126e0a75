//! A private mount namespace for tests that need helpers in `/sbin` or a `/dev/fuse` that users may
//! open (`room.sh`).

use crate::rig::Rig;
use std::process::Command;
use uext4_testkit::skip;

/// User IDs of Debian: the superuser and `nobody`.
pub(crate) const ROOT: &str = "0";
pub(crate) const UNPRIVILEGED: &str = "65534";

/// Links to the tool in `/sbin`.
pub(crate) const OURS: &str = "mount.fuse.uext4 umount.fuse.uext4";
pub(crate) const MOUNT_FUSE: &str = "uext4";

pub(crate) fn can_mount() -> bool {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    let programs = has("fusermount3") && has("mount");
    let can = skip::opens("/dev/fuse") && skip::may_mount() && programs;
    skip::can_or_skip("mount(8)", can, "root, /dev/fuse and fusermount3")
}

/// Runs a script as this user, with these links to the tool in `/sbin`. Returns its output.
pub(crate) fn in_room(rig: &Rig, links: &str, user: &str, script: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "100", "unshare", "--mount", "sh", "-c"]);
    command
        .arg(include_str!("room.sh"))
        .current_dir(rig.path(""));
    command.env("SCRIPT", script).env("AS", user);
    command.env("LINKS", links).env_remove("XDG_RUNTIME_DIR");
    command.env("TOOL", env!("CARGO_BIN_EXE_uext4"));
    let output = command.output().expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}\n{wrong}");
    said
}

/// A rig whose image and root directory belong to the user.
pub(crate) fn rig_of(user: &str) -> Rig {
    let rig = Rig::empty();
    let owner = format!("root_owner={user}:{user}");
    rig.ok(&["mkfs", "disk.img", "--size", "64M", "-q", "-E", &owner]);
    let user = user.parse().ok();
    std::os::unix::fs::chown(rig.image(), user, user).expect("it is the superuser's");
    rig
}
