//! Access times and synchronous mounts, compared with the kernel's ext4.

use crate::support::{IMAGE_BYTES, Mounted};
use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

const SCRIPT: &str = include_str!("times.sh");
const MKE2FS: &[&str] = &["-b", "4096"];

fn said(at: &Path, script: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", "sh", "-c", script]);
    let output = command.current_dir(at).output().expect("timeout is there");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// Both file systems, mounted with these options.
struct Both {
    ours: Mounted,
    kernel: KernelMount,
    image: std::path::PathBuf,
    _kept: tempfile::TempDir,
}

impl Both {
    fn new(options: &str) -> Self {
        let (kept, image) = oracle::mke2fs_image(IMAGE_BYTES, MKE2FS).unwrap();
        Self {
            ours: Mounted::with(MKE2FS, &["-o", options]),
            kernel: KernelMount::new(&image, options).unwrap(),
            image,
            _kept: kept,
        }
    }

    fn end(mut self) {
        self.kernel.unmount().unwrap();
        self.ours.unmount();
    }
}

#[test]
fn access_times_follow_the_mount_options() {
    if !KernelMount::available_or_skip("times") {
        return;
    }
    let all = ["relatime", "noatime", "strictatime", "nodiratime"];
    for options in all {
        let both = Both::new(options);
        let theirs = said(both.kernel.path(), SCRIPT);
        let ours = said(&both.ours.root(), SCRIPT);
        assert_eq!(theirs, ours, "-o {options}: the kernel's, ours");
        assert_eq!(
            theirs.contains("first read: new"),
            options != "noatime",
            "{theirs}"
        );
        both.end();
    }
}

/// Whether a copy of the mounted image, taken now, passes `check` after recovery.
fn survives(image: &Path, check: &str) -> bool {
    let scratch = oracle::scratch_dir().unwrap();
    let copy = scratch.path().join("copy");
    let cp = Command::new("cp")
        .arg("--sparse=auto")
        .args([image, &copy])
        .status();
    assert!(cp.unwrap().success());
    let mount = KernelMount::new(&copy, "").unwrap();
    let mut test = Command::new("sh");
    let found = test
        .args(["-c", check])
        .current_dir(mount.path())
        .status()
        .unwrap()
        .success();
    mount.unmount().unwrap();
    found
}

/// Mount options, setup, operation, observation, whether the operation is durable.
type Case = (&'static str, &'static str, &'static str, &'static str, bool);

const CASES: &[Case] = &[
    ("async", "", "mkdir d", "test -d d", false),
    ("sync", "", "echo text >f", "grep -q text f", true),
    (
        "sync",
        "echo text >f",
        "echo more >>f",
        "grep -q more f",
        true,
    ),
    (
        "sync",
        "echo text >f",
        "truncate -s 2 f",
        "test $(stat -c %s f) = 2",
        true,
    ),
    ("dirsync", "", "mkdir d", "test -d d", true),
    (
        "dirsync",
        "touch f g",
        "ln f h && mv f i && rm g",
        "test -e h -a -e i -a ! -e g",
        true,
    ),
    ("dirsync", "", "ln -s to l", "test -L l", true),
    (
        "dirsync",
        "echo text >f",
        "echo more >>f",
        "grep -q more f",
        false,
    ),
    (
        "async",
        "mkdir d; chattr +D d",
        "touch d/f",
        "test -e d/f",
        true,
    ),
    (
        "async",
        "mkdir d; chattr +S d",
        "echo text >d/f",
        "grep -q text d/f",
        true,
    ),
    (
        "async",
        "touch f; chattr +S f",
        "echo text >f",
        "grep -q text f",
        true,
    ),
    ("async", "touch f", "echo text >f", "grep -q text f", false),
];

#[test]
fn what_is_synchronous_survives_at_once() {
    if !KernelMount::available_or_skip("synchronous mounts") {
        return;
    }
    for options in ["async", "sync", "dirsync"] {
        let both = Both::new(&format!("{options},commit=600"));
        let mine = |case: &&Case| case.0 == options;
        for (nr, &(_, before, action, check, durable)) in CASES.iter().filter(mine).enumerate() {
            let place = format!("mkdir -p case{nr}; cd case{nr};");
            for (side, at, image) in [
                ("the kernel", both.kernel.path(), &both.image),
                ("we", &*both.ours.root(), &both.ours.image()),
            ] {
                said(at, &format!("{place} {before}\n touch z; sync z"));
                said(at, &format!("cd case{nr}; {action}"));
                let found = survives(image, &format!("cd case{nr}; {check}"));
                assert_eq!(found, durable, "{side}, -o {options}: {before}; {action}");
            }
        }
        both.end();
    }
}

#[test]
fn lazy_times_are_kept_until_they_are_asked_for() {
    if !KernelMount::available_or_skip("lazytime") {
        return;
    }
    let atime = "test $(stat -c %X f) -gt 1000";
    for (finish, kept) in [
        ("true", false),
        ("sync f", true),
        ("chmod 700 f; touch g; sync g", true),
    ] {
        let both = Both::new("lazytime,strictatime,commit=600");
        for (side, at, image) in [
            ("the kernel", both.kernel.path(), &both.image),
            ("we", &*both.ours.root(), &both.ours.image()),
        ] {
            said(at, "echo text >f; touch -d @1000 f; sync f .");
            said(at, "cat f");
            said(at, finish);
            assert_eq!(survives(image, atime), kept, "{side}: {finish}");
        }
        both.end();
    }
}
