//! Two servers on one device in separate page caches (`mmp.sh`).

use crate::rig::Rig;
use crate::room::can_mount;
use std::process::Command;

/// `UEXT4_MMP_ROUNDS` is the number of seeds, and `UEXT4_MMP_SEED` the first.
#[test]
fn two_hosts_never_write_at_once() {
    if !can_mount() {
        return;
    }
    let number = |name: &str, usual: u64| {
        let said = std::env::var(name).ok();
        said.map_or(usual, |said| said.parse().expect("a number"))
    };
    let first = number("UEXT4_MMP_SEED", 1);
    for seed in first..first + number("UEXT4_MMP_ROUNDS", 1) {
        let rig = Rig::empty();
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "300", "unshare", "--mount", "sh", "-c"]);
        command.arg(include_str!("mmp.sh"));
        command
            .current_dir(rig.path(""))
            .env("SEED", seed.to_string());
        command.env("TOOL", env!("CARGO_BIN_EXE_uext4"));
        let output = command.output().expect("timeout is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "UEXT4_MMP_SEED={seed}: {said}");
    }
}
