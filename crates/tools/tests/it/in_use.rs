//! Images in use by the kernel or by one of our servers, under any name: no command writes to them.

use crate::rig::Rig;
use crate::room::can_mount;
use std::process::Command;

#[test]
fn no_command_writes_an_image_in_use() {
    if !can_mount() {
        return;
    }
    let rig = Rig::empty();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "200", "unshare", "--mount", "sh", "-c"]);
    command.arg(include_str!("in_use.sh"));
    command
        .current_dir(rig.path(""))
        .env_remove("XDG_RUNTIME_DIR")
        .env("TOOL", env!("CARGO_BIN_EXE_uext4"));
    let output = command.output().expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    eprint!("{said}");
}
