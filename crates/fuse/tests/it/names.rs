//! Names: all forms of rename, links, long names, directories that change while they are read.

use crate::support::{Mounted, errno, long_name, names_in};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4_testkit::wait;

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> std::io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

#[test]
fn renames() {
    let mut mounted = Mounted::new();
    let (a, b) = (mounted.path("a"), mounted.path("b"));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    assert_eq!(
        errno(rename(&a, &b, RenameFlags::NOREPLACE)),
        Some(libc::EEXIST)
    );
    rename(&a, &b, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(&a).unwrap(), fs::read(&b).unwrap()),
        (b"b".to_vec(), b"a".to_vec())
    );
    rename(&a, &b, RenameFlags::WHITEOUT).unwrap();
    let whiteout = fs::symlink_metadata(&a).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    assert_eq!(fs::read(&b).unwrap(), b"b");
    let (dir, inner) = (mounted.path("dir"), mounted.path("dir/inner"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&inner).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().nlink(), 3);
    assert_eq!(
        errno(rename(&dir, &inner.join("x"), RenameFlags::empty())),
        Some(libc::EINVAL)
    );
    fs::rename(&inner, mounted.path("moved")).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().nlink(), 2);
    assert_eq!(errno(fs::rename(&dir, &b)), Some(libc::ENOTDIR));
    assert_eq!(errno(fs::rename(&b, &dir)), Some(libc::EISDIR));
    fs::rename(&dir, mounted.path("moved")).unwrap();
    mounted.unmount();
}

#[test]
fn link_counts_and_change_times_follow() {
    let mut mounted = Mounted::new();
    let (a, b) = (mounted.path("a"), mounted.path("b"));
    fs::write(&a, "x").unwrap();
    fs::hard_link(&a, &b).unwrap();
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 2);
    let before = fs::metadata(&a).unwrap();
    wait::clock_tick();
    fs::remove_file(&b).unwrap();
    let after = fs::metadata(&a).unwrap();
    assert_eq!(after.nlink(), 1);
    let ctime = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    assert!(ctime(&after) > ctime(&before));
    mounted.unmount();
}

#[test]
fn names_of_255_bytes_fit_and_256_do_not() {
    let mut mounted = Mounted::new();
    let (fits, long) = (mounted.path(&long_name(255)), mounted.path(&long_name(256)));
    fs::write(&fits, "x").unwrap();
    assert_eq!(errno(fs::write(&long, "x")), Some(libc::ENAMETOOLONG));
    assert_eq!(errno(fs::metadata(&long)), Some(libc::ENAMETOOLONG));
    assert_eq!(errno(fs::create_dir(&long)), Some(libc::ENAMETOOLONG));
    assert_eq!(errno(fs::rename(&fits, &long)), Some(libc::ENAMETOOLONG));
    assert_eq!(errno(fs::remove_file(&long)), Some(libc::ENAMETOOLONG));
    assert!(names_in(&mounted.root()).contains(&long_name(255)));
    mounted.unmount();
}

#[test]
fn names_that_are_not_there_appear() {
    let mut mounted = Mounted::new();
    let name = mounted.path("later");
    for _ in 0..3 {
        assert_eq!(errno(fs::metadata(&name)), Some(libc::ENOENT));
        fs::write(&name, "x").unwrap();
        assert_eq!(fs::metadata(&name).unwrap().len(), 1);
        fs::remove_file(&name).unwrap();
    }
    mounted.unmount();
}

#[test]
fn unnamed_files_get_a_name() {
    let mut mounted = Mounted::new();
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let fd = rustix::fs::open(mounted.root(), flags, Mode::from_raw_mode(0o600)).unwrap();
    rustix::io::write(&fd, b"secret").unwrap();
    let name = mounted.path("named");
    let proc = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    rustix::fs::linkat(CWD, &proc, CWD, &name, rustix::fs::AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(fd);
    assert_eq!(fs::read(&name).unwrap(), b"secret");
    assert_eq!(fs::metadata(&name).unwrap().nlink(), 1);
    let lost = rustix::fs::open(mounted.root(), flags, Mode::from_raw_mode(0o600)).unwrap();
    rustix::io::write(&lost, &[1; 100_000]).unwrap();
    drop(lost);
    mounted.unmount();
}

#[test]
fn ten_thousand_names_while_others_come_and_go() {
    let mut mounted = Mounted::new();
    let dir = mounted.path("many");
    fs::create_dir(&dir).unwrap();
    for i in 0..10_000 {
        File::create(dir.join(format!("stays-{i}"))).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (dir, stop) = (&dir, &stop);
            scope.spawn(move || {
                for i in 0.. {
                    let name = dir.join(format!("goes-{thread}-{}", i % 500));
                    if fs::exists(&name).unwrap() {
                        fs::remove_file(&name).unwrap()
                    } else {
                        drop(File::create(&name).unwrap())
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..5 {
            let names = names_in(&dir);
            let stays: Vec<_> = names
                .iter()
                .filter(|name| name.starts_with("stays"))
                .collect();
            let distinct: HashSet<_> = stays.iter().collect();
            assert_eq!((stays.len(), distinct.len()), (10_000, 10_000));
        }
        stop.store(true, Ordering::Relaxed);
    });
    for name in names_in(&dir) {
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::remove_dir(&dir).unwrap();
    mounted.unmount();
}

#[test]
fn directory_errors() {
    let mut mounted = Mounted::new();
    let (dir, file) = (mounted.path("d"), mounted.path("d/f"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, "x").unwrap();
    assert_eq!(errno(fs::remove_dir(&dir)), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::remove_dir(&file)), Some(libc::ENOTDIR));
    assert_eq!(errno(fs::remove_file(&dir)), Some(libc::EISDIR));
    assert_eq!(errno(fs::create_dir(&dir)), Some(libc::EEXIST));
    assert_eq!(errno(fs::metadata(file.join("x"))), Some(libc::ENOTDIR));
    let open = File::open(&dir).unwrap();
    fs::remove_file(&file).unwrap();
    fs::remove_dir(&dir).unwrap();
    let name = Path::new("new");
    let made = rustix::fs::openat(&open, name, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
    assert_eq!(made.err(), Some(rustix::io::Errno::NOENT));
    drop(open);
    mounted.unmount();
}
