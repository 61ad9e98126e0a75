//! Idmapped mounts (`-o idmap`): owners, access lists and set-id bits are those of the kernel's
//! ext4 on such a mount, and an owner 0 inside has no rights of the superuser.

use crate::support::{IMAGE_BYTES, Mounted, program, try_run};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::path::Path;
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::skip;

const BIND: &str = include_str!("idmap.py");
const SCRIPT: &str = include_str!("idmapped.sh");

/// An idmapped mount; dropping it takes it off.
struct Idmapped(tempfile::TempDir);

impl Idmapped {
    /// Shows ids 0 to 65535 of the tree as 100000 and up.
    fn of(tree: &Path) -> Result<Self, String> {
        let dir = oracle::scratch_dir().expect("there is room");
        let ids = ["0", "100000", "65536"];
        let args: [&dyn AsRef<std::ffi::OsStr>; 7] =
            [&"-c", &BIND, &tree, &dir.path(), &ids[0], &ids[1], &ids[2]];
        let output = try_run("/usr/bin/python3", &args);
        if output.status.success() {
            Ok(Self(dir))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Idmapped {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Whether the kernel has idmapped mounts of FUSE (Linux 6.12); else `test` is skipped.
fn available_or_skip(test: &str) -> bool {
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap_or_default().split('.');
    let mut next = || numbers.next().and_then(|part| part.parse::<u32>().ok());
    let can = (next(), next()) >= (Some(6), Some(12));
    skip::can_or_skip(test, can, "Linux 6.12 (idmapped mounts of FUSE)")
}

fn said(tree: &Path) -> String {
    let mapped = Idmapped::of(tree).expect("it can be idmapped");
    let output = try_run("sh", &[&"-c", &SCRIPT, &"sh", &mapped.path(), &tree]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &errors;
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn an_idmapped_mount_is_that_of_the_kernel() {
    if !available_or_skip("idmapped") || !KernelMount::available_or_skip("idmapped") {
        return;
    }
    let options = ["-b", "4096"];
    let mut mounted = Mounted::with(&options, &["idmap"]);
    let (_kept, image) = oracle::mke2fs_image(IMAGE_BYTES, &options).unwrap();
    let kernel = KernelMount::new(&image, "").unwrap();
    let (theirs, ours) = (said(kernel.path()), said(&mounted.root()));
    for (index, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
        assert_eq!(theirs, ours, "line {}: the kernel's, ours", index + 1);
    }
    assert_eq!(theirs.len(), ours.len());
    assert!(
        theirs.contains("file100005 5:5 644 regular file"),
        "{theirs}"
    );
    kernel.unmount().unwrap();
    mounted.unmount();
}

#[test]
fn without_the_option_there_is_no_idmapped_mount() {
    let mut mounted = Mounted::new();
    let refused = Idmapped::of(&mounted.root()).err().expect("it is refused");
    assert!(refused.contains("Invalid argument"), "{refused}");
    mounted.unmount();
}

/// Writes until there is no space, as this user.
fn fill(file: &Path, id: u32) {
    let script = format!(
        "exec setpriv --reuid {id} --regid {id} --clear-groups \
         dd if=/dev/zero bs=1M oflag=append conv=notrunc,fsync of=\"$0\""
    );
    let output = try_run("sh", &[&"-c", &script, &file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("No space left"), "{said}");
}

/// Free blocks, and those of them for all users.
fn free(at: &Path) -> (u64, u64) {
    let found = rustix::fs::statvfs(at).unwrap();
    (found.f_bfree, found.f_bavail)
}

/// The superuser of a container owns its files as user 0 of the image, and is not its superuser.
#[test]
fn an_owner_0_inside_leaves_the_reserved_blocks() {
    if !available_or_skip("idmapped_reserved") {
        return;
    }
    let options = ["-b", "4096", "-m", "20"];
    let mut mounted = Mounted::of_bytes(64 << 20, &options, &["idmap"]);
    let root = mounted.root();
    let mapped = Idmapped::of(&root).unwrap();
    let reserved_blocks = (64 << 20) / 4096 / 5;
    let path = mapped.path().join("file");
    // As on the kernel's ext4, the superuser outside has no id inside.
    assert!(File::create(&path).is_err());
    std::os::unix::fs::chown(&root, Some(0), Some(0)).unwrap();
    let made = try_run(
        "sh",
        &[
            &"-c",
            &"exec setpriv --reuid 100000 --regid 100000 --clear-groups touch \"$0\"",
            &path,
        ],
    );
    assert!(made.status.success(), "{made:?}");
    fill(&path, 100_000);
    let (all, users) = free(&root);
    assert!(
        users < 1000 && all >= reserved_blocks * 9 / 10,
        "{all} {users}"
    );
    // The superuser of the host writes to the same file, by the mount or by the tree.
    fill(&path, 0);
    let (all, _) = free(&root);
    assert!(all < reserved_blocks / 5, "{all}");
    fs::remove_file(root.join("file")).unwrap();
    drop(mapped);
    mounted.unmount();
}

/// The numbers of callers there are those of other processes.
#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    if !available_or_skip("idmap in a pid namespace") {
        return;
    }
    let mut mounted = Mounted::new();
    mounted.unmount();
    let _on = crate::VIA.switch_on();
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]);
    command
        .arg(program())
        .arg(mounted.image())
        .arg(mounted.root());
    command.args([crate::VIA.word(), "idmap"]);
    let output = command.output().expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another pid namespace"), "{output:?}");
    assert!(!mounted.is_mounted());
}
