//! The README's first command, with the tool that is built: where FUSE works, and without it.

use std::process::{Command, Output};
use uext4_testkit::skip;

/// Hides all device nodes but those that each container has.
const NO_FUSE: &str = "mount -t tmpfs -o dev none /dev && mknod -m 666 /dev/null c 1 3 \
                       && mknod -m 666 /dev/urandom c 1 9 && exec sh \"$1\"";

fn quickstart(program: &str, args: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/quickstart.sh");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", program]).args(args);
    command.arg(script);
    // May be below the hidden /dev.
    command.env_remove("TMPDIR");
    command.env("QUICKSTART_TOOL", env!("CARGO_BIN_EXE_uext4"));
    let output = command.output().expect("timeout is there");
    assert!(output.status.success(), "{output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn quickstart_mounts_where_fuse_works() {
    if !skip::fuse_or_skip("quickstart_mounts_where_fuse_works") {
        return;
    }
    let said = said(&quickstart("sh", &[]));
    assert!(said.contains("Mounting the image"), "{said}");
    assert!(!said.contains("Left out: the mount"), "{said}");
}

#[test]
fn quickstart_without_fuse_names_what_it_left_out() {
    if !skip::can_or_skip("quickstart without FUSE", skip::may_mount(), "root") {
        return;
    }
    let other = NO_FUSE.replace("exec", "mknod -m 666 /dev/fuse c 1 3 && exec");
    for (devices, reason) in [
        (NO_FUSE, "there is no /dev/fuse"),
        (&other, "/dev/fuse is not the FUSE device"),
    ] {
        let output = quickstart("unshare", &["--mount", "sh", "-c", devices, "sh"]);
        let said = said(&output);
        assert!(!said.contains("Mounting the image"), "{said}");
        assert!(said.contains("Asking e2fsck"), "{said}");
        let expected = format!("Left out: the mount, because {reason}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn quickstart_goes_on_where_this_user_may_not_mount() {
    // Root of a user namespace, in a mount namespace of another one.
    let namespace = ["--user", "--map-root-user"];
    let may = |namespace: &[&str]| {
        let status = Command::new("unshare").args(namespace).arg("true").status();
        status.is_ok_and(|status| status.success())
    };
    if !may(&namespace) {
        skip::record("quickstart in a user namespace", "user namespaces");
        return;
    }
    let said = said(&quickstart("unshare", &[&namespace[..], &["sh"]].concat()));
    assert!(said.contains("Left out: the mount, because"), "{said}");
}
