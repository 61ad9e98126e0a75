//! What `uext4 build` changes of its sources: owners, modes, devices, labels. debugfs, e2fsck and
//! the kernel read them back.

use crate::rig::Rig;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use uext4_testkit::oracle::{self, KernelMount};

/// The image mounted by the kernel, if this machine can.
fn mounted(rig: &Rig) -> Option<KernelMount> {
    oracle::assert_clean(&rig.image());
    KernelMount::available_or_skip("build").then(|| KernelMount::new(&rig.image(), "ro").unwrap())
}

/// What debugfs shows of a file.
fn stat(rig: &Rig, path: &str) -> String {
    oracle::debugfs_one(&rig.image(), &format!("stat \"{path}\"")).unwrap()
}

fn is_owned(rig: &Rig, path: &str, uid: u32, gid: u32) -> bool {
    let words: Vec<String> = stat(rig, path)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let value = |key: &str| {
        let at = words.iter().position(|word| word == key).unwrap();
        words[at + 1].parse::<u32>().unwrap()
    };
    (value("User:"), value("Group:")) == (uid, gid)
}

fn tree(rig: &Rig) {
    std::fs::create_dir_all(rig.path("tree/etc")).unwrap();
    std::fs::write(rig.path("tree/etc/passwd"), "root\n").unwrap();
    std::fs::write(rig.path("tree/init"), "#!/bin/sh\n").unwrap();
}

#[test]
fn one_owner_for_directories_and_archives() {
    let rig = Rig::empty();
    tree(&rig);
    let tar = std::process::Command::new("tar")
        .current_dir(rig.path("tree"))
        .args(["--owner=5", "--group=6", "-cf", "../t.tar", "etc/passwd"])
        .status();
    assert!(tar.unwrap().success());
    for (source, path) in [("tree", "/init"), ("t.tar", "/etc/passwd")] {
        rig.ok(&[
            "build", "-qF", "disk.img", source, "--at", "a/b", "--owner", "7:70000",
        ]);
        oracle::assert_clean(&rig.image());
        for path in [&format!("/a/b{path}"), "/a/b", "/a", "/", "/lost+found"] {
            assert!(is_owned(&rig, path, 7, 70_000), "{source} {path}");
        }
    }
}

#[test]
fn maps_move_owners_and_those_of_lists() {
    let rig = Rig::empty();
    tree(&rig);
    let (uid, gid) = {
        let found = std::fs::metadata(rig.path("tree")).unwrap();
        (found.uid(), found.gid())
    };
    let map = |id: u32| format!("{id}:{}:10", id + 100_000);
    let (users, groups) = (map(uid), map(gid));
    let list = std::process::Command::new("setfacl")
        .args(["-m", &format!("u:{}:r", uid + 3)])
        .arg(rig.path("tree/init"))
        .status();
    let has_list = list.is_ok_and(|status| status.success());
    let args = [
        "build", "-q", "disk.img", "tree", "--map", &users, "--map", &groups,
    ];
    rig.ok(&args);
    let Some(kernel) = mounted(&rig) else {
        return;
    };
    for path in ["etc/passwd", "init", "etc", "", "lost+found"] {
        let found = std::fs::metadata(kernel.path().join(path)).unwrap();
        let own = if path == "lost+found" {
            (0, 0)
        } else {
            (uid, gid)
        };
        let expected = match path {
            "lost+found" if uid != 0 => own,
            _ => (own.0 + 100_000, own.1 + 100_000),
        };
        assert_eq!((found.uid(), found.gid()), expected, "{path}");
    }
    if has_list {
        let said = std::process::Command::new("getfacl")
            .args(["-n", "-p"])
            .arg(kernel.path().join("init"))
            .output()
            .unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(
            said.contains(&format!("user:{}:r", uid + 100_003)),
            "{said}"
        );
    }
    kernel.unmount().unwrap();
    let other = format!("{}:0:1", uid + 1);
    rig.fails(
        1,
        "which no map has",
        &["build", "-qF", "disk.img", "tree", "--map", &other],
    );
}

#[test]
fn a_manifest_and_labels() {
    let rig = Rig::empty();
    tree(&rig);
    let manifest = "#mtree\n\
        ./etc/passwd mode=0640 uid=3 gid=4 time=1234567890.5 xattr.user.note=a\\040b\n\
        ./dev type=dir mode=0711\n\
        ./dev/console type=char device=linux,5,1 mode=0600\n\
        ./dev/disk type=block device=8,300 uid=0 gid=6\n"
        .replace("device=8,300", "device=linux,8,300");
    std::fs::write(rig.path("m"), manifest).unwrap();
    let contexts = "/.* u:r:any:s0\n/etc(/.*)? u:r:etc:s0\n/dev/.* -c u:r:char:s0\n\
                    /dev/.* -b <<none>>\n/lost\\+found -d u:r:lost:s0\n";
    std::fs::write(rig.path("c"), contexts).unwrap();
    rig.ok(&[
        "build",
        "-q",
        "disk.img",
        "tree",
        "--manifest",
        "m",
        "--file-contexts",
        "c",
        "--owner",
        "1:1",
    ]);
    for (path, label) in [
        ("/", "u:r:any:s0"),
        ("/init", "u:r:any:s0"),
        ("/etc/passwd", "u:r:etc:s0"),
        ("/dev/console", "u:r:char:s0"),
        ("/lost+found", "u:r:lost:s0"),
    ] {
        let said = stat(&rig, path);
        let expected = format!("security.selinux ({}) = \"{label}", label.len() + 1);
        assert!(said.contains(&expected), "{path}: {said}");
    }
    assert!(!stat(&rig, "/dev/disk").contains("selinux"));
    assert!(stat(&rig, "/etc/passwd").contains("user.note (3) = \"a b\""));
    let Some(kernel) = mounted(&rig) else {
        return;
    };
    let found = |path: &str| std::fs::metadata(kernel.path().join(path)).unwrap();
    let passwd = found("etc/passwd");
    assert_eq!(
        (passwd.uid(), passwd.gid(), passwd.mode()),
        (3, 4, 0o100_640)
    );
    assert_eq!((passwd.mtime(), passwd.mtime_nsec()), (1_234_567_890, 5));
    assert_eq!((found("init").uid(), found("init").gid()), (1, 1));
    assert_eq!(found("dev").mode() & 0o7777, 0o711);
    let (console, disk) = (found("dev/console"), found("dev/disk"));
    assert!(console.file_type().is_char_device() && disk.file_type().is_block_device());
    assert_eq!(console.rdev(), 5 << 8 | 1);
    assert_eq!(disk.rdev(), 0x10_082C); // 8, 300: the minor number is split at 8 bits
    assert_eq!((disk.uid(), disk.gid()), (0, 6));
    kernel.unmount().unwrap();
}

#[test]
fn bad_lines_are_named() {
    let rig = Rig::empty();
    tree(&rig);
    std::fs::write(rig.path("m"), "#mtree\n./init mode=9\n").unwrap();
    std::fs::write(rig.path("k"), "./init mod=0644\n").unwrap();
    std::fs::write(rig.path("g"), "./gone type=file\n").unwrap();
    std::fs::write(rig.path("c"), "/.* l\n/[ l\n").unwrap();
    for (status, said, args) in [
        (
            2,
            "m: line 2 has mode=9, whose value is none",
            ["--manifest", "m"],
        ),
        (
            2,
            "k: line 1 has the key mod, which is none",
            ["--manifest", "k"],
        ),
        (
            1,
            "g: line 1 is for a file that no source has",
            ["--manifest", "g"],
        ),
        (1, "absent: No such file", ["--manifest", "absent"]),
        (
            2,
            "c: line 2 has the pattern /[, which is none",
            ["--file-contexts", "c"],
        ),
        (2, "an owner is UID:GID", ["--owner", "root"]),
        (2, "an owner is UID:GID", ["--owner", "4294967295:0"]),
        (2, "a map is FROM:TO:COUNT", ["--map", "0:1"]),
    ] {
        rig.fails(
            status,
            said,
            &[&["build", "-q", "disk.img", "tree"], &args[..]].concat(),
        );
        assert!(!rig.image().exists());
    }
}
