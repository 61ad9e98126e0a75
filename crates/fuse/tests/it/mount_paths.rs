//! Directories of a mount point's path are replaced while the image is opened.

use crate::support::{program, runtime_dir};
use std::fs::{self, File, create_dir, rename};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use uext4_fuse::{Image, Lazy, umount};
use uext4_testkit::{oracle, wait};

/// Starts a mount of `image` on `up/at`, and returns while it waits to open the image.
fn start(dir: &Path) -> Child {
    File::create(dir.join("hold")).expect("there is room");
    let mut server = Command::new(program())
        .args([&dir.join("image"), &dir.join("up/at")])
        .arg(format!("late={}", dir.join("hold").display()))
        .stdin(Stdio::null())
        .stdout(File::create(dir.join("said")).expect("there is room"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let waits = || fs::read(dir.join("said")).expect("it is there") == b"waiting\n";
    if !wait::is_true_within(Duration::from_secs(30), waits) {
        let _ = server.kill();
        let _ = umount(&dir.join("up/at"), Lazy::Yes);
        panic!("the example program does not wait: is it built?");
    }
    server
}

/// Mount points below `dir`.
fn mounts_below(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let dir = dir.to_str().expect("it is plain");
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let below = points.filter(|point| point.starts_with(dir));
    below.map(str::to_owned).collect()
}

/// `up/at` is the mount point; `victim` and `other/at` are not the mounting user's choice.
fn furnished() -> tempfile::TempDir {
    let dir = oracle::scratch_dir().expect("there is room");
    for name in ["up", "up/at", "victim", "other", "other/at"] {
        create_dir(dir.path().join(name)).expect("it is fresh");
    }
    oracle::mke2fs(&dir.path().join("image"), 16 << 20, &[]).expect("mke2fs runs");
    dir
}

/// A name, what it does to the path, and where the mount must not be.
type Swap = (&'static str, fn(&Path), &'static str);

#[test]
fn a_replaced_directory_is_not_mounted_on() {
    let swaps: [Swap; 5] = [
        (
            "a link to another directory",
            |dir| {
                rename(dir.join("up/at"), dir.join("up/old")).unwrap();
                symlink(dir.join("victim"), dir.join("up/at")).unwrap();
            },
            "was moved",
        ),
        (
            "another directory",
            |dir| {
                rename(dir.join("up/at"), dir.join("up/old")).unwrap();
                create_dir(dir.join("up/at")).unwrap();
            },
            "was moved",
        ),
        (
            "a link in place of the parent",
            |dir| {
                rename(dir.join("up"), dir.join("up2")).unwrap();
                symlink(dir.join("other"), dir.join("up")).unwrap();
            },
            "was moved",
        ),
        (
            "moved to another parent",
            |dir| {
                rename(dir.join("up/at"), dir.join("other/moved")).unwrap();
                symlink(dir.join("victim"), dir.join("up/at")).unwrap();
            },
            "was moved",
        ),
        (
            "removed",
            |dir| {
                fs::remove_dir(dir.join("up/at")).unwrap();
                symlink(dir.join("victim"), dir.join("up/at")).unwrap();
            },
            "mount on",
        ),
    ];
    for (case, swap, word) in swaps {
        let dir = furnished();
        let mut server = start(dir.path());
        swap(dir.path());
        fs::remove_file(dir.path().join("hold")).unwrap();
        wait::until_true("the server gives up", || {
            for name in ["victim", "other/at"] {
                let seen = mounts_below(&dir.path().join(name));
                if !seen.is_empty() {
                    let _ = server.kill();
                    let _ = umount(&dir.path().join(name), Lazy::Yes);
                    panic!("{case}: mounted on {seen:?}");
                }
            }
            server.try_wait().expect("it is our child").is_some()
        });
        let output = server.wait_with_output().expect("it is our child");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{case}");
        assert!(said.contains(word), "{case}: {said}");
        assert_eq!(mounts_below(dir.path()), Vec::<String>::new(), "{case}");
        let runtime_dir = runtime_dir(&dir.path().join("up/at"));
        wait::until_true("its directory is removed", || !runtime_dir.exists());
        oracle::assert_clean(&dir.path().join("image"));
    }
}

#[test]
fn a_directory_that_stays_is_mounted_on() {
    let dir = furnished();
    let mut server = start(dir.path());
    fs::remove_file(dir.path().join("hold")).unwrap();
    let at = dir.path().join("up/at");
    wait::until_true("it is mounted", || mounts_below(dir.path()).len() == 1);
    fs::write(at.join("file"), "data").expect("it is served");
    // The path of a parent may change later.
    rename(dir.path().join("up"), dir.path().join("new")).unwrap();
    let at = dir.path().join("new/at");
    assert_eq!(fs::read(at.join("file")).unwrap(), b"data");
    rename(dir.path().join("new"), dir.path().join("up")).unwrap();
    let done = wait::until("it is not busy", || {
        umount(&dir.path().join("up/at"), Lazy::No).ok()
    });
    assert_eq!(done, Image::Clean);
    assert!(server.wait().expect("it is our child").success());
}
