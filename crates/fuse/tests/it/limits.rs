//! Limits of the process (`ulimit`), and what a mount cannot do without.

use crate::support::{Mounted, program};
use std::fs::{self, File};
use std::process::{Command, Stdio};
use uext4_fuse::Image;

/// The example program in a shell that runs `before` first.
fn after(before: &str) -> Command {
    let mut command = Command::new("sh");
    let line = format!("{before} \"$0\" \"$@\"");
    command.args(["-c", &line]).arg(program());
    command
}

/// The limit is raised where the server may. Elsewhere changes fail, and the server goes on.
#[test]
fn a_limit_of_file_sizes_ends_no_server() {
    let mut mounted = Mounted::of_bytes(64 << 20, &[], &[]);
    fs::write(mounted.path("old"), "data").unwrap();
    mounted.unmount();
    // In units of 512 bytes: behind the journal, and less than is written.
    mounted.mount_by(after("ulimit -f 90000; exec"), &[]);
    let path = mounted.path("file");
    let written = fs::write(&path, vec![7; 50 << 20]);
    let synced = written.and_then(|()| File::open(&path)?.sync_all());
    assert_eq!(fs::read(mounted.path("old")).unwrap(), b"data");
    assert_eq!(mounted.server().try_wait().unwrap(), None);
    let raised = "ulimit -f 90000; ulimit -f unlimited";
    let may_raise = Command::new("sh").args(["-c", raised]).output().unwrap();
    assert_eq!(synced.is_ok(), may_raise.status.success(), "{synced:?}");
    if synced.is_ok() {
        assert_eq!(fs::read(&path).unwrap(), vec![7; 50 << 20]);
        mounted.unmount();
    }
}

/// Whatever descriptor is the one too many: a mount is complete or not there, and says why.
#[test]
fn too_few_descriptors_leave_no_dead_mount() {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let (mut n_refused, mut n_mounted) = (0, 0);
    for n_files in (4..28).chain([64]) {
        // The background: the parent returns when the mount is ready.
        let output = after(&format!("ulimit -n {n_files}; exec timeout 60"))
            .args([mounted.image(), mounted.root()])
            .args(["daemon", crate::VIA.word()])
            .stdin(Stdio::null())
            .output()
            .expect("the server starts");
        if output.status.success() {
            n_mounted += 1;
            assert_eq!(mounted.umount_soon(), Image::Clean, "{n_files}");
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!mounted.is_mounted(), "{n_files}: dead; {said}");
        if !output.status.success() {
            n_refused += 1;
            assert!(!said.trim().is_empty(), "{n_files}: {}", output.status);
        }
    }
    assert!(n_refused > 0 && n_mounted > 0, "{n_refused} {n_mounted}");
    mounted.mount(&[]);
    mounted.unmount();
}

#[test]
fn a_mount_without_proc_is_refused() {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let script = "umount -l /proc && exec \"$0\" \"$@\"";
    let output = Command::new("timeout")
        .args(["30", "unshare", "--mount", "sh", "-c", script])
        .arg(program())
        .args([mounted.image(), mounted.root()])
        .output()
        .expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("needs /proc"), "{said}");
}
