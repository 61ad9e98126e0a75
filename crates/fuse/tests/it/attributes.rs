//! Attributes, extended attributes, access control lists, permissions.

use crate::support::{Mounted, errno, run, try_run};
use rustix::fs::{
    AtFlags, CWD, Timespec, Timestamps, XattrFlags, getxattr, listxattr, removexattr, setxattr,
    utimensat,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use uext4_testkit::wait;

fn set_times(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}

#[test]
fn times_are_exact_also_before_1970() {
    let mut mounted = Mounted::new();
    let path = mounted.path("old");
    fs::write(&path, "x").unwrap();
    for (seconds, nanoseconds) in [
        (-2, 800_000_000),
        (-1, 1),
        (0, 0),
        (5_000_000_000, 999_999_999),
    ] {
        set_times(&path, seconds, nanoseconds);
        let set = fs::metadata(&path).unwrap();
        assert_eq!((set.mtime(), set.mtime_nsec()), (seconds, nanoseconds));
        mounted.unmount();
        mounted.mount(&[]);
        let kept = fs::metadata(&path).unwrap();
        assert_eq!((kept.mtime(), kept.mtime_nsec()), (seconds, nanoseconds));
        assert_eq!((kept.atime(), kept.atime_nsec()), (seconds, nanoseconds));
    }
    mounted.unmount();
}

/// With the write-back cache the kernel shows its own ctime for a file; an ioctl does not update
/// it.
#[test]
fn a_change_of_flags_is_a_change_that_is_seen_at_once() {
    for (words, names) in [(&[][..], &["dir"][..]), (&["through"], &["dir", "file"])] {
        let mut mounted = Mounted::with(&["-b", "4096"], words);
        fs::create_dir(mounted.path("dir")).unwrap();
        fs::write(mounted.path("file"), "x").unwrap();
        for path in names.iter().map(|name| mounted.path(name)) {
            let seen = || {
                let seen = fs::metadata(&path).unwrap();
                ((seen.ctime(), seen.ctime_nsec()), seen.mtime_nsec())
            };
            let before = seen();
            wait::clock_tick();
            run("chattr", &[&"+A", &path]);
            let after = seen();
            assert!(after.0 > before.0 && after.1 == before.1, "{path:?}");
        }
        mounted.unmount();
    }
}

#[test]
fn attributes_of_every_kind() {
    let mut mounted = Mounted::new();
    let path = mounted.path("file");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    fs::write(&path, vec![1; 10_000]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o104751);
    std::os::unix::fs::chown(&path, Some(70_000), Some(1234)).unwrap();
    let owned = fs::metadata(&path).unwrap();
    assert_eq!(
        (owned.uid(), owned.gid(), owned.mode()),
        (70_000, 1234, 0o100751)
    );
    assert_eq!(
        (owned.size(), owned.blocks(), owned.blksize()),
        (10_000, 24, 4096)
    );
    assert_eq!(fs::metadata(mounted.root()).unwrap().ino(), 2);
    let born = owned
        .created()
        .unwrap()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    // File times advance with clock ticks: one may lag the clock and lie in the second before.
    assert!(born.as_secs() + 1 >= now.as_secs() && born.as_secs() <= now.as_secs() + 60);
    let numbers = rustix::fs::statvfs(mounted.root()).unwrap();
    assert_eq!((numbers.f_bsize, numbers.f_namemax), (4096, 255));
    assert!(numbers.f_bfree > numbers.f_bavail && numbers.f_files > numbers.f_ffree);
    run("mknod", &[&mounted.path("device"), &"b", &"259", &"70000"]);
    let device = fs::metadata(mounted.path("device")).unwrap();
    assert_eq!(
        (
            rustix::fs::major(device.rdev()),
            rustix::fs::minor(device.rdev())
        ),
        (259, 70_000)
    );
    mounted.unmount();
}

#[test]
fn extended_attributes() {
    let mut mounted = Mounted::new();
    let path = mounted.path("file");
    fs::write(&path, "x").unwrap();
    let mut buf = [0; 64];
    assert_eq!(getxattr(&path, "user.a", &mut buf), Err(Errno::NODATA));
    setxattr(&path, "user.a", b"value", XattrFlags::empty()).unwrap();
    setxattr(&path, "trusted.b", b"", XattrFlags::CREATE).unwrap();
    assert_eq!(
        setxattr(&path, "user.a", b"x", XattrFlags::CREATE),
        Err(Errno::EXIST)
    );
    assert_eq!(
        setxattr(&path, "user.c", b"x", XattrFlags::REPLACE),
        Err(Errno::NODATA)
    );
    assert_eq!(getxattr(&path, "user.a", &mut buf), Ok(5));
    assert_eq!(&buf[..5], b"value");
    assert_eq!(getxattr(&path, "user.a", &mut buf[..4]), Err(Errno::RANGE));
    let len = run(
        "getfattr",
        &[
            &"--absolute-names",
            &"-n",
            &"user.a",
            &"--only-values",
            &path,
        ],
    );
    assert_eq!(len, "value");
    let list = listxattr(&path, &mut buf).unwrap();
    let mut names: Vec<&[u8]> = buf[..list]
        .split(|&byte| byte == 0)
        .filter(|n| !n.is_empty())
        .collect();
    names.sort();
    assert_eq!(names, [&b"trusted.b"[..], b"user.a"]);
    removexattr(&path, "user.a").unwrap();
    assert_eq!(removexattr(&path, "user.a"), Err(Errno::NODATA));
    mounted.unmount();
    mounted.mount(&[]);
    assert_eq!(getxattr(&path, "trusted.b", &mut buf), Ok(0));
    mounted.unmount();
}

/// Runs a shell line as another user.
fn as_user(line: &str) -> bool {
    let user = [
        &"--reuid=1000" as &dyn AsRef<std::ffi::OsStr>,
        &"--regid=1000",
        &"--clear-groups",
        &"sh",
        &"-c",
        &line,
    ];
    try_run("setpriv", &user).status.success()
}

#[test]
fn access_control_lists_and_the_umask() {
    let mut mounted = Mounted::new();
    let (dir, file) = (mounted.path("dir"), mounted.path("dir/file"));
    fs::create_dir(&dir).unwrap();
    run("setfacl", &[&"-d", &"-m", &"u:1000:rw", &dir]);
    run("setfacl", &[&"-m", &"u:1000:rwx", &dir]);
    run(
        "sh",
        &[
            &"-c",
            &format!("umask 077; echo secret > {}", file.display()),
        ],
    );
    let list = run("getfacl", &[&"-npc", &file]);
    assert!(list.contains("user:1000:rw-"), "{list}");
    assert!(as_user(&format!(
        "cat {} && echo more >> {0}",
        file.display()
    )));
    run("setfacl", &[&"-m", &"u:1000:r", &file]);
    assert!(!as_user(&format!("echo more >> {}", file.display())));
    run("setfacl", &[&"-b", &file]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!as_user(&format!("cat {}", file.display())));
    let plain = mounted.path("plain");
    run(
        "sh",
        &[&"-c", &format!("umask 027; echo x > {}", plain.display())],
    );
    assert_eq!(fs::metadata(&plain).unwrap().mode() & 0o777, 0o640);
    mounted.unmount();
}

#[test]
fn sticky_directories_and_group_inheritance() {
    let mut mounted = Mounted::new();
    let (sticky, group) = (mounted.path("sticky"), mounted.path("group"));
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(sticky.join("root"), "x").unwrap();
    assert!(!as_user(&format!("rm -f {}/root", sticky.display())));
    assert!(as_user(&format!(
        "echo x > {0}/own && rm {0}/own",
        sticky.display()
    )));
    fs::create_dir(&group).unwrap();
    std::os::unix::fs::chown(&group, None, Some(4321)).unwrap();
    fs::set_permissions(&group, fs::Permissions::from_mode(0o2777)).unwrap();
    assert!(as_user(&format!(
        "mkdir {0}/d && echo x > {0}/f && chmod 2755 {0}/f",
        group.display()
    )));
    let (dir, file) = (group.join("d"), group.join("f"));
    let (dir, file) = (fs::metadata(dir).unwrap(), fs::metadata(file).unwrap());
    assert_eq!((dir.gid(), dir.mode() & 0o2000), (4321, 0o2000));
    assert_eq!((file.gid(), file.mode() & 0o7777), (4321, 0o755));
    mounted.unmount();
}

/// The times of a file that is immutable or append-only: a time of modification alone is what the
/// write-back cache sends of accepted data, too.
fn assert_times_stay(path: &Path) {
    let before = fs::metadata(path).unwrap().mtime();
    for when in ["2001-02-03", "now"] {
        let touched = try_run("touch", &[&"-m", &"-d", &when, &path]);
        assert!(!touched.status.success(), "{when}");
    }
    // The time of change of a new name is written back later, and nothing is refused.
    assert!(try_run("sync", &[&path]).status.success());
    assert_eq!(fs::metadata(path).unwrap().mtime(), before);
}

#[test]
fn flags_of_a_file_that_has_new_names_and_data() {
    let mut mounted = Mounted::new();
    for flag in ["i", "a"] {
        let path = mounted.path(flag);
        fs::write(&path, "x").unwrap();
        fs::hard_link(&path, mounted.path(&format!("{flag}2"))).unwrap();
        let mut open = File::options().append(true).open(&path).unwrap();
        open.write_all(b"more").unwrap();
        run("chattr", &[&format!("+{flag}"), &path]);
        open.sync_all().unwrap();
        drop(open);
        assert_times_stay(&path);
        assert_eq!(fs::read(&path).unwrap(), b"xmore");
        run("chattr", &[&format!("-{flag}"), &path]);
        run("touch", &[&"-m", &"-d", &"2001-02-03", &path]);
    }
    mounted.unmount();
}

#[test]
fn inode_flags() {
    let mut mounted = Mounted::new();
    let path = mounted.path("fixed");
    fs::write(&path, "x").unwrap();
    run("chattr", &[&"+i", &path]);
    assert!(run("lsattr", &[&path]).contains('i'));
    assert_eq!(errno(fs::write(&path, "y")), Some(libc::EPERM));
    assert_eq!(errno(fs::remove_file(&path)), Some(libc::EPERM));
    assert_times_stay(&path);
    run("chattr", &[&"-i", &"+a", &path]);
    assert_times_stay(&path);
    assert_eq!(errno(fs::write(&path, "y")), Some(libc::EPERM));
    let append = format!("printf more >> {}", path.display());
    run("sh", &[&"-c", &append]);
    mounted.unmount();
    mounted.mount(&[]);
    assert_eq!(fs::read(&path).unwrap(), b"xmore");
    run("sh", &[&"-c", &append]);
    run("chattr", &[&"-a", &path]);
    assert!(
        run("lsattr", &[&"-v", &path])
            .split_whitespace()
            .next()
            .is_some()
    );
    mounted.unmount();
}
