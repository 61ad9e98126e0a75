//! Tree walks over damaged images, and treatment of permissions, devices and failures.

use crate::rig::{Rig, bytes};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::process::{Command, Output};
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::skip;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a debugfs command that changes the image.
fn damage(rig: &Rig, line: &str) {
    let mut command = Command::new("debugfs");
    command.args(["-w", "-R", line]).arg(rig.image());
    assert!(
        command.output().expect("debugfs").status.success(),
        "{line}"
    );
}

fn inode(rig: &Rig, path: &str) -> u64 {
    let found = rig.json(&["stat", "--json", "disk.img", path]);
    found["inode"].as_u64().expect("a number")
}

/// An image in which `/a/b/loop` is `/a`, and `/c/twice` is `/d`.
fn with_cycles() -> Rig {
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "-p", "disk.img", "/a/b/below", "/c", "/d/e"]);
    fs::write(rig.path("file"), "file").unwrap();
    rig.ok(&["put", "disk.img", "file", "/a/b/file"]);
    damage(&rig, &format!("link <{}> /a/b/loop", inode(&rig, "/a")));
    damage(&rig, &format!("link <{}> /c/twice", inode(&rig, "/d")));
    rig
}

#[test]
fn cycles_of_directories_have_an_end() {
    if !skip::root_or_skip("cycles_of_directories_have_an_end") {
        return;
    }
    let rig = with_cycles();
    let (a, d) = (inode(&rig, "/a"), inode(&rig, "/d"));
    let listed = rig.run(&["ls", "-lR", "disk.img"]);
    assert_eq!(listed.status.code(), Some(4), "{}", said(&listed));
    assert_eq!(said(&listed).lines().count(), 2, "{}", said(&listed));
    assert!(said(&listed).contains(&format!("/a/b/loop: the directory inode {a} has a second")));
    assert!(said(&listed).contains(&format!("the directory inode {d} has a second name")));
    let names = String::from_utf8(listed.stdout).unwrap();
    assert!(
        names.contains("/a/b/below") && names.lines().count() < 60,
        "{names}"
    );

    let got = rig.run(&["get", "-r", "disk.img", "/", "out"]);
    assert_eq!(got.status.code(), Some(4), "{}", said(&got));
    assert!(said(&got).contains(&format!("/a/b/loop: the directory inode {a} has a second")));
    assert_eq!(
        bytes(&rig.path("out/a/b/file")),
        b"file",
        "the rest is there"
    );
    assert!(!rig.path("out/a/b/loop").exists());

    let strict = rig.run(&["get", "-r", "--strict", "disk.img", "/", "strict"]);
    assert_eq!(strict.status.code(), Some(4));
    assert_eq!(said(&strict).lines().count(), 1, "{}", said(&strict));

    let removed = rig.run(&["rm", "-r", "disk.img", "/a"]);
    assert_eq!(removed.status.code(), Some(4), "{}", said(&removed));
    assert!(
        said(&removed).contains("below itself"),
        "{}",
        said(&removed)
    );
}

#[test]
fn get_goes_on_past_damage() {
    let rig = Rig::new(&["-b", "1K"]);
    fs::create_dir_all(rig.path("tree/dir")).unwrap();
    for name in ["a", "b", "dir/c"] {
        fs::write(rig.path("tree").join(name), vec![b'x'; 5000]).unwrap();
    }
    fs::write(rig.path("tree/damaged"), vec![b'y'; 8 << 20]).unwrap();
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    // Destroys the extent map.
    damage(&rig, "set_inode_field /tree/damaged block[0] 0xdead");
    damage(&rig, "set_inode_field /tree/damaged checksum_lo 0");
    let got = rig.run(&["get", "-r", "disk.img", "/tree", "out"]);
    assert_eq!(got.status.code(), Some(4), "{}", said(&got));
    let lines = said(&got);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(
        lines.contains("/tree/damaged") && lines.contains("1 files failed, 5"),
        "{lines}"
    );
    for name in ["a", "b", "dir/c"] {
        assert_eq!(bytes(&rig.path("out").join(name)), vec![b'x'; 5000]);
    }
    let strict = rig.run(&["get", "-r", "--strict", "disk.img", "/tree", "strict"]);
    assert_eq!(strict.status.code(), Some(4));
    assert_eq!(said(&strict).lines().count(), 1, "{}", said(&strict));
    // An error of the host is not reported as damage.
    damage(&rig, "rm /tree/damaged");
    fs::create_dir_all(rig.path("there/tree")).unwrap();
    rig.fails(1, "exists", &["get", "-r", "disk.img", "/tree", "there"]);
}

/// Runs the tool as user 1234, in a directory that this user may write to.
pub(crate) fn as_user(rig: &Rig, umask: &str, args: &[&str]) -> Output {
    let dir = rig.path("home");
    let tool = rig.path("uext4");
    if !dir.exists() {
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(1234), Some(1234)).unwrap();
        fs::set_permissions(rig.path("."), Permissions::from_mode(0o755)).unwrap();
        // By another process: a child that another test forks would hold a file that is open for
        // writing here, and the tool could not be run (`ETXTBSY`).
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_uext4"))
            .arg(&tool)
            .status();
        assert!(copied.expect("cp is there").success());
    }
    let line = format!("umask {umask}; exec \"$@\"");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "1234", "--regid", "1234", "--clear-groups"]);
    command
        .args(["sh", "-c", &line, "sh"])
        .arg(&tool)
        .args(args);
    command.current_dir(dir).output().expect("setpriv runs")
}

#[test]
fn without_root_modes_are_those_of_an_ordinary_user() {
    let name = "without_root_modes_are_those_of_an_ordinary_user";
    if !KernelMount::available_or_skip(name) {
        return;
    }
    let rig = Rig::new(&[]);
    let tree = rig.path("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    for name in ["set", "sticky", "plain"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let chmod = |name: &str, mode| {
        fs::set_permissions(tree.join(name), Permissions::from_mode(mode)).unwrap();
    };
    chmod("set", 0o6777);
    chmod("sticky", 0o1666);
    chmod("dir", 0o3777);
    let pipe = rustix::fs::FileType::CharacterDevice;
    let device = rustix::fs::makedev(1, 3);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, tree.join("null"), pipe, mode, device).unwrap();
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    let modes = |dir: &str| {
        let of = |name: &&str| {
            let meta = fs::metadata(rig.path(dir).join(name)).unwrap();
            meta.mode() & 0o7777
        };
        ["set", "sticky", "dir"].iter().map(of).collect::<Vec<_>>()
    };
    let got = as_user(&rig, "027", &["get", "-r", "../disk.img", "/tree", "got"]);
    assert!(got.status.success(), "{}", said(&got));
    assert_eq!(modes("home/got"), [0o750, 0o640, 0o750]);
    let all = as_user(&rig, "027", &["get", "-rp", "../disk.img", "/tree", "all"]);
    assert!(all.status.success(), "{}", said(&all));
    assert_eq!(modes("home/all"), [0o6777, 0o1666, 0o3777]);
    // Root keeps all permission bits by default.
    rig.ok(&["get", "-r", "disk.img", "/tree", "same"]);
    assert_eq!(modes("same"), [0o6777, 0o1666, 0o3777]);
    assert!(
        fs::metadata(rig.path("same/null"))
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let args = [
        "get",
        "-r",
        "--no-same-permissions",
        "--no-devices",
        "disk.img",
        "/tree",
        "less",
    ];
    let less = rig.run(&args);
    assert!(less.status.success() && said(&less).contains("1 device nodes were left out"));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = u32::from_str_radix(umask.expect("a umask").trim(), 8).unwrap();
    let kept = |mode: u32| mode & !umask;
    assert_eq!(modes("less"), [kept(0o777), kept(0o666), kept(0o777)]);
    assert!(!rig.path("less/null").exists());
    oracle::assert_clean(&rig.image());
}

#[test]
fn put_goes_on_past_files_that_cannot_be_read() {
    let name = "put_goes_on_past_files_that_cannot_be_read";
    if !KernelMount::available_or_skip(name) {
        return;
    }
    let rig = Rig::new(&[]);
    as_user(&rig, "022", &["--version"]);
    let tree = rig.path("home/tree");
    fs::create_dir_all(tree.join("closed")).unwrap();
    for name in ["a", "secret", "z"] {
        fs::write(tree.join(name), name).unwrap();
    }
    for (name, mode) in [("secret", 0o600), ("closed", 0o700)] {
        fs::set_permissions(tree.join(name), Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::chown(rig.image(), Some(1234), Some(1234)).unwrap();
    let put = as_user(&rig, "022", &["put", "-r", "../disk.img", "tree", "/"]);
    assert_eq!(put.status.code(), Some(1), "{}", said(&put));
    let lines = said(&put);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("tree/secret: Permission denied"), "{lines}");
    assert!(lines.contains("tree/closed: Permission denied"), "{lines}");
    assert!(
        lines.contains("2 files failed, 3 with 2 bytes were copied"),
        "{lines}"
    );
    assert_eq!(rig.ok(&["ls", "disk.img", "/tree"]), "a\nz\n");
    rig.assert_clean();
}
