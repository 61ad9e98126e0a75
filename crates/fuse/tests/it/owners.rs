//! Owner mapping: `map=`, `uid=` and `gid=`.

use crate::support::{Mounted, errno, run, try_run};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Runs a shell command with this user and group id.
fn try_as(id: u32, script: &str, path: &Path) -> bool {
    let script = format!("exec setpriv --reuid {id} --regid {id} --clear-groups {script} \"$0\"");
    try_run("sh", &[&"-c", &script, &path]).status.success()
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.gid())
}

fn list(path: &Path) -> String {
    run("getfacl", &[&"-cnp", &path])
}

/// A file of each owner (root, 1000, 5000), one with an ACL, a world-writable directory.
fn furnished() -> Mounted {
    let mut mounted = Mounted::new();
    for id in [0, 1000, 5000] {
        let path = mounted.path(&id.to_string());
        fs::write(&path, "data").unwrap();
        chown(&path, Some(id), Some(id)).unwrap();
    }
    fs::write(mounted.path("listed"), "").unwrap();
    run(
        "setfacl",
        &[&"-m", &"u:1000:rw,g:6000:r", &mounted.path("listed")],
    );
    fs::create_dir(mounted.path("open")).unwrap();
    fs::set_permissions(mounted.path("open"), PermissionsExt::from_mode(0o777)).unwrap();
    run(
        "setfacl",
        &[&"-d", &"-m", &"u:1000:rwx", &mounted.path("open")],
    );
    chown(mounted.path("open"), Some(1), Some(2)).unwrap();
    mounted.unmount();
    mounted
}

#[test]
fn ranges_lead_both_ways() {
    let mut mounted = furnished();
    mounted.mount(&["-o", "map=b:0:100000:2000"]);
    assert_eq!(owner(&mounted.path("0")), (100_000, 100_000));
    assert_eq!(owner(&mounted.path("1000")), (101_000, 101_000));
    assert_eq!(owner(&mounted.path("5000")), (65534, 65534));
    let listed = mounted.path("listed");
    let text = list(&listed);
    assert!(text.contains("user:101000:rw-"), "{text}");
    assert!(text.contains("group:65534:r--"), "{text}");
    // Writing the ACL back would name another user.
    assert!(
        !try_run("setfacl", &[&"-m", &"u:100005:r", &listed])
            .status
            .success()
    );
    run("setfacl", &[&"-x", &"g:65534", &listed]);
    run("setfacl", &[&"-m", &"u:100005:r", &listed]);
    assert!(
        !try_run("setfacl", &[&"-m", &"u:5:r", &listed])
            .status
            .success()
    );
    // ACL entries apply by their outside ids.
    assert!(try_as(101_000, "test -w", &listed) && !try_as(1000, "test -w", &listed));
    let given = mounted.path("0");
    chown(&given, Some(100_007), Some(100_008)).unwrap();
    assert_eq!(owner(&given), (100_007, 100_008));
    assert_eq!(errno(chown(&given, Some(7), None)), Some(libc::EINVAL));
    assert_eq!(
        errno(chown(&given, None, Some(102_000))),
        Some(libc::EINVAL)
    );
    // New files belong to their creator; an unmapped user cannot create any.
    assert!(try_as(101_000, "mkdir", &mounted.path("open/made")));
    let refused = fs::write(mounted.path("open/root"), "");
    assert_eq!(errno(refused), Some(libc::EOVERFLOW));
    assert!(!try_as(5000, "touch", &mounted.path("open/5000")));
    assert!(list(&mounted.path("open/made")).contains("user:101000:rwx"));
    // The user with the overflow id does not own the file.
    assert!(!try_as(65534, "chmod 777", &mounted.path("5000")));
    assert!(try_as(101_000, "chmod 600", &mounted.path("1000")));
    chown(mounted.path("5000"), Some(100_009), None).unwrap();
    mounted.unmount();
    mounted.mount(&[]);
    assert_eq!(owner(&mounted.path("0")), (7, 8));
    assert_eq!(owner(&mounted.path("open/made")), (1000, 1000));
    assert_eq!(owner(&mounted.path("5000")), (9, 5000));
    let text = list(&listed);
    assert!(
        text.contains("user:5:r--") && text.contains("user:1000:rw-"),
        "{text}"
    );
    mounted.unmount();
}

/// To the kernel the shown id owns the file; `open` is world-writable.
#[test]
fn an_owner_unknown_outside_stays() {
    let mut mounted = furnished();
    // Created by an unmapped owner in a directory of a mapped one.
    mounted.mount(&[]);
    let inside = |name: &str| mounted.path("open").join(name);
    for name in ["victim", "source", "other"] {
        fs::write(inside(name), name).unwrap();
        chown(inside(name), Some(5000), Some(5000)).unwrap();
    }
    fs::create_dir(inside("dir")).unwrap();
    chown(inside("dir"), Some(5000), Some(5000)).unwrap();
    for name in ["own", "own2"] {
        fs::write(inside(name), name).unwrap();
        chown(inside(name), Some(1000), Some(1000)).unwrap();
    }
    mounted.unmount();
    mounted.mount(&["-o", "map=b:0:100000:2000"]);
    let open = mounted.path("open");
    for script in [
        "unlink victim",
        "rmdir dir",
        "mv -T source taken",
        "mv -T own victim",
        "mv -T dir taken",
    ] {
        let script = format!("sh -c 'cd \"$0\" && {script}'");
        assert!(!try_as(101_000, &script, &open), "{script}");
    }
    let exchange = |other: &str| {
        let call = format!("ctypes.CDLL(None).renameat2(-100, b'own', -100, b'{other}', 2)");
        let code = format!("import ctypes, os, sys; os.chdir(sys.argv[1]); sys.exit({call} != 0)");
        try_as(101_000, &format!("/usr/bin/python3 -c \"{code}\""), &open)
    };
    let opens = |id, name: &str, flags: &str| {
        let flags = flags.replace("O_", "os.O_");
        let code = format!("import os, sys; os.open(sys.argv[1], {flags})");
        let python = format!("/usr/bin/python3 -c \"{code}\"");
        try_as(id, &python, &open.join(name))
    };
    for flags in [
        "O_RDONLY|O_TRUNC",
        "O_RDONLY|O_TRUNC|O_CREAT",
        "O_WRONLY",
        "O_WRONLY|O_CREAT",
        "O_WRONLY|O_APPEND",
        "O_RDWR",
        "O_RDWR|O_TRUNC",
    ] {
        for id in [65534, 101_000] {
            assert!(!opens(id, "victim", flags), "{id} {flags}");
        }
        assert!(opens(101_000, "own2", flags), "{flags}");
    }
    assert!(!exchange("other") && exchange("own2") && exchange("own2"));
    assert!(!try_as(65534, "chattr +d", &open.join("victim")));
    assert!(try_as(101_000, "chattr +d", &open.join("own")));
    assert!(try_as(65534, "lsattr", &open.join("victim")));
    for name in ["victim", "source", "other", "own"] {
        assert_eq!(fs::read(open.join(name)).unwrap(), name.as_bytes());
    }
    assert!(open.join("dir").is_dir());
    // The superuser may, and so may each user with files of a mapped owner.
    assert!(try_as(
        101_001,
        "sh -c 'mv -T \"$0\" \"$0.new\"'",
        &open.join("own")
    ));
    fs::remove_file(open.join("victim")).unwrap();
    mounted.unmount();
}

/// As on an idmapped mount of ext4, where an unmapped owner is no process.
#[test]
fn an_owner_unknown_outside_reads_what_others_read() {
    let mut mounted = furnished();
    mounted.mount(&[]);
    let set = |name: &str, uid, gid, mode| {
        fs::write(mounted.path(name), name).unwrap();
        chown(mounted.path(name), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(mounted.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("owner", 5000, 0, 0o600);
    set("group", 0, 5000, 0o640);
    set("all", 5000, 5000, 0o6755);
    set("acl", 5000, 5000, 0o640);
    run(
        "setfacl",
        &[&"-m", &"u:7:r,u:5001:r,g:5001:r", &mounted.path("acl")],
    );
    fs::create_dir(mounted.path("private")).unwrap();
    chown(mounted.path("private"), Some(5000), Some(5000)).unwrap();
    fs::set_permissions(mounted.path("private"), PermissionsExt::from_mode(0o700)).unwrap();
    mounted.unmount();
    mounted.mount(&["-o", "map=b:0:100000:2000"]);
    for (name, script) in [
        ("owner", "cat"),
        ("group", "cat"),
        ("acl", "cat"),
        ("private", "ls"),
    ] {
        assert!(!try_as(65534, script, &mounted.path(name)), "{name}");
    }
    assert!(try_as(65534, "cat", &mounted.path("all")));
    assert!(try_as(100_007, "cat", &mounted.path("acl")));
    assert!(try_as(100_000, "cat", &mounted.path("group")));
    let mode = |name| fs::metadata(mounted.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("all"), mode("owner")), (0o555, 0));
    // What is in the image does not change, and the superuser reads it.
    assert_eq!(fs::read(mounted.path("owner")).unwrap(), b"owner");
    mounted.unmount();
    mounted.mount(&[]);
    let mode = |name| fs::metadata(mounted.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("all"), mode("owner")), (0o6755, 0o600));
    mounted.unmount();
}

#[test]
fn one_owner_for_all_changes_nothing_inside() {
    let mut mounted = furnished();
    mounted.mount(&["-o", "uid=3000,gid=3001"]);
    for name in ["0", "1000", "5000", "open", "listed"] {
        assert_eq!(owner(&mounted.path(name)), (3000, 3001), "{name}");
    }
    assert!(!list(&mounted.path("listed")).contains("user:1000"));
    let acl = try_run("setfacl", &[&"-m", &"u:5:r", &mounted.path("0")]);
    assert!(!acl.status.success());
    assert!(try_as(3000, "chmod 640", &mounted.path("0")));
    assert!(try_as(3000, "touch", &mounted.path("open/made")));
    let given = mounted.path("0");
    chown(&given, Some(3000), Some(3001)).unwrap();
    assert_eq!(errno(chown(&given, Some(0), None)), Some(libc::EPERM));
    mounted.unmount();
    mounted.mount(&[]);
    assert_eq!(owner(&mounted.path("0")), (0, 0));
    assert_eq!(owner(&mounted.path("open/made")), (1, 2));
    assert!(list(&mounted.path("listed")).contains("user:1000:rw-"));
    mounted.unmount();
}

#[test]
fn without_lists_the_mode_decides() {
    let mut mounted = furnished();
    mounted.mount(&["-o", "noacl"]);
    let path = mounted.path("1000");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(try_as(1000, "test -r", &path) && !try_as(3000, "test -r", &path));
    chown(&path, Some(0), Some(3000)).unwrap();
    assert!(try_as(3000, "cat", &path));
    mounted.unmount();
}
