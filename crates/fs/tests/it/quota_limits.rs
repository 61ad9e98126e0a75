//! Quota limits of users, groups and projects.

use crate::image;
use std::sync::Arc;
use std::time::Duration;
use uext4::device::MemDevice;
use uext4::format::quota::{QuotaEntry, QuotaKind};
use uext4::{
    Caller, Error, FallocateMode, Filesystem, GraceTimes, InodeRef, MountOptions, NewOwner,
    SetAttr, Threads, WriteContext,
};
use uext4_sync::{ManualClock, WallTime};

const ROOT: Caller = Caller::root();
const USER: u32 = 1000;
const PROJECT: u32 = 77;
const KIB: u64 = 1024;

fn caller(gid: u32) -> Caller {
    Caller {
        uid: USER,
        gid,
        groups: vec![100, 200],
        ..Caller::root()
    }
}

fn image() -> Arc<MemDevice> {
    image::mke2fs(64, &["-I", "256", "-O", "quota,project", "-b", "1024"])
}

fn mount(device: &Arc<MemDevice>) -> Filesystem {
    image::mount_with(device, "usrquota,grpquota,prjquota").unwrap()
}

/// A world-writable directory.
fn public(fs: &Filesystem) -> InodeRef {
    let root = fs.root().unwrap();
    fs.mkdir(&root, b"public", 0o777, &ROOT).unwrap()
}

fn write(fs: &Filesystem, file: &InodeRef, at: u64, len: usize, user: &Caller) -> usize {
    let data = vec![7; len];
    let written = fs.write(file, at, &data, &WriteContext::by(user.clone()));
    match written {
        Err(Error::Quota) => 0,
        other => other.unwrap().len_bytes,
    }
}

fn entry(fs: &Filesystem, kind: QuotaKind, id: u32) -> QuotaEntry {
    let all = fs.quota(kind).unwrap();
    all.into_iter().find(|entry| entry.id == id).unwrap()
}

/// Sets a user's hard limit of space.
fn limit_space(fs: &Filesystem, id: u32, hard_kib: u64) {
    let limits = QuotaEntry {
        id,
        space_hard_kib: hard_kib,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::User, &limits).unwrap();
}

#[test]
fn space_ends_at_the_hard_limit() {
    let device = image();
    let fs = mount(&device);
    let dir = public(&fs);
    limit_space(&fs, USER, 100);
    let file = fs.create(&dir, b"file", 0o644, &caller(100)).unwrap();
    let mut done = 0;
    while done < 200 * KIB {
        match write(&fs, &file, done, 30_000, &caller(100)) {
            0 => break,
            written => done += written as u64,
        }
    }
    assert_eq!(done, 100 * KIB);
    assert_eq!(entry(&fs, QuotaKind::User, USER).space_bytes, 100 * KIB);
    let mode = FallocateMode::AllocateKeepSize;
    let range = 1 << 20..(1 << 20) + 4096;
    let more = fs.fallocate(&file, mode, range, &WriteContext::by(caller(100)));
    assert!(matches!(more, Err(Error::Quota)));
    // Existing blocks can be overwritten, and the superuser is not limited.
    assert_eq!(write(&fs, &file, 0, 5000, &caller(100)), 5000);
    assert_eq!(write(&fs, &file, done, 5000, &ROOT), 5000);
    fs.truncate(&file, 50 * KIB).unwrap();
    assert_eq!(write(&fs, &file, 50 * KIB, 10_240, &caller(100)), 10_240);
    fs.unmount().unwrap();
    image::assert_clean(&device);
    // Without the mount option limits are not enforced, but usage is counted.
    let fs = image::mount(&device);
    let file = fs.lookup(&public_of(&fs), b"file", &ROOT).unwrap();
    assert_eq!(write(&fs, &file, 0, 200_000, &caller(100)), 200_000);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// The reserved blocks and quota are two questions: a user of the reserve keeps its limits.
#[test]
fn resuid_and_resgid_lift_no_limit() {
    for words in ["resuid=1000", "resgid=200", "resuid=1000,nodelalloc"] {
        let device = image();
        let fs = image::mount_with(&device, &format!("usrquota,{words}")).unwrap();
        let dir = public(&fs);
        limit_space(&fs, USER, 100);
        let file = fs.create(&dir, b"file", 0o644, &caller(100)).unwrap();
        let mut done = 0;
        while done < 200 * KIB {
            match write(&fs, &file, done, 30_000, &caller(100)) {
                0 => break,
                written => done += written as u64,
            }
        }
        assert_eq!(done, 100 * KIB, "{words}");
        let mode = FallocateMode::AllocateKeepSize;
        let range = 1 << 20..(1 << 20) + 4096;
        let more = fs.fallocate(&file, mode, range, &WriteContext::by(caller(100)));
        assert!(matches!(more, Err(Error::Quota)), "{words}: {more:?}");
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

fn public_of(fs: &Filesystem) -> InodeRef {
    fs.lookup(&fs.root().unwrap(), b"public", &ROOT).unwrap()
}

#[test]
fn inodes_end_at_their_limit_and_changes_of_owner_too() {
    let device = image();
    let fs = mount(&device);
    let dir = public(&fs);
    let inodes = |id, inodes_hard| QuotaEntry {
        id,
        inodes_hard,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::Group, &inodes(100, 2)).unwrap();
    let user = caller(100);
    let first = fs.create(&dir, b"1", 0o644, &user).unwrap();
    fs.mkdir(&dir, b"2", 0o755, &user).unwrap();
    assert!(matches!(
        fs.create(&dir, b"3", 0o644, &user),
        Err(Error::Quota)
    ));
    assert!(matches!(fs.tmpfile(&dir, 0o644, &user), Err(Error::Quota)));
    assert!(matches!(
        fs.symlink(&dir, b"4", b"5", &user),
        Err(Error::Quota)
    ));
    let other = fs.create(&dir, b"6", 0o644, &caller(200)).unwrap();
    let group = |gid| SetAttr {
        gid: Some(gid),
        ..SetAttr::default()
    };
    let refused = fs.set_attr(&other, &group(100), &caller(200));
    assert!(matches!(refused, Err(Error::Quota)));
    assert_eq!(fs.attr(&other).gid, 200);
    fs.set_attr(&first, &group(200), &user).unwrap();
    fs.set_attr(&other, &group(100), &caller(200)).unwrap();
    // The superuser may.
    fs.create(&dir, b"7", 0o644, &Caller { gid: 100, ..ROOT })
        .unwrap();
    // A creator whose files belong to user 0, by a mapping above, is not the superuser.
    let mapped = |gid| Caller {
        owner: Some(NewOwner {
            uid: 0,
            gid,
            groups: Vec::new(),
        }),
        ..caller(300)
    };
    let refused = fs.create(&dir, b"8", 0o644, &mapped(100));
    assert!(matches!(refused, Err(Error::Quota)));
    let made = fs.create(&dir, b"8", 0o644, &mapped(200)).unwrap();
    assert_eq!((fs.attr(&made).uid, fs.attr(&made).gid), (0, 200));
    assert_eq!(entry(&fs, QuotaKind::Group, 100).inodes, 3);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn a_project_is_inherited_and_limited() {
    let device = image();
    let fs = mount(&device);
    let dir = public(&fs);
    let inherit = 0x2000_0000;
    let set = SetAttr {
        project: Some(PROJECT),
        flags: Some(fs.attr(&dir).flags | inherit),
        ..SetAttr::default()
    };
    fs.set_attr(&dir, &set, &ROOT).unwrap();
    let limits = QuotaEntry {
        id: PROJECT,
        space_hard_kib: 40,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::Project, &limits).unwrap();
    let file = fs.create(&dir, b"file", 0o644, &caller(100)).unwrap();
    assert_eq!(fs.attr(&file).project, PROJECT);
    let used = entry(&fs, QuotaKind::Project, PROJECT).space_bytes;
    let written = write(&fs, &file, 0, 100_000, &caller(100)) as u64;
    let more = write(&fs, &file, written, 100_000, &caller(100)) as u64;
    assert_eq!(used + written + more, 40 * KIB);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn soft_limits_hold_after_the_grace_time() {
    let device = image();
    let clock = Arc::new(ManualClock::new(WallTime {
        seconds: 1_000_000,
        nanoseconds: 0,
    }));
    let options = MountOptions {
        threads: Threads::Inline,
        clock: clock.clone(),
        ..MountOptions::default()
    };
    let options = options.parse("usrquota").unwrap();
    let fs = Filesystem::mount(device.clone(), options).unwrap();
    let dir = public(&fs);
    let grace = GraceTimes {
        space_seconds: 60,
        inodes_seconds: 30,
    };
    fs.set_quota_grace(QuotaKind::User, grace).unwrap();
    let limits = QuotaEntry {
        id: USER,
        space_soft_kib: 10,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::User, &limits).unwrap();
    let file = fs.create(&dir, b"file", 0o644, &caller(100)).unwrap();
    assert_eq!(write(&fs, &file, 0, 20_480, &caller(100)), 20_480);
    assert_ne!(entry(&fs, QuotaKind::User, USER).space_grace_end, 0);
    clock.advance(Duration::from_secs(59));
    assert_eq!(write(&fs, &file, 20_480, 1024, &caller(100)), 1024);
    clock.advance(Duration::from_secs(2));
    assert_eq!(write(&fs, &file, 21_504, 1024, &caller(100)), 0);
    fs.truncate(&file, 0).unwrap();
    assert_eq!(entry(&fs, QuotaKind::User, USER).space_grace_end, 0);
    assert_eq!(write(&fs, &file, 0, 20_480, &caller(100)), 20_480);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Delayed data counts: the limit applies when data is accepted, and all accepted data is written.
#[test]
fn limits_hold_for_data_that_wait() {
    let device = image();
    let fs = mount(&device);
    let dir = public(&fs);
    for owner in [USER, USER + 1] {
        limit_space(&fs, owner, 200);
    }
    let file = fs.create(&dir, b"waits", 0o666, &caller(100)).unwrap();
    let pieces = (0..50).map(|nr| write(&fs, &file, nr * 4096, 4096, &caller(100)));
    let accepted: usize = pieces.sum();
    assert_eq!(accepted, 200 << 10);
    assert_eq!(write(&fs, &file, 200 << 10, 1, &caller(100)), 0);
    assert_eq!(
        fs.stats().space.delayed_bytes,
        200 << 10,
        "nothing is written yet"
    );
    assert_eq!(entry(&fs, QuotaKind::User, USER).space_bytes, 200 * KIB);
    // Truncated delayed data is returned to the owner's quota.
    fs.truncate(&file, 100 << 10).unwrap();
    assert_eq!(entry(&fs, QuotaKind::User, USER).space_bytes, 100 * KIB);
    assert_eq!(write(&fs, &file, 100 << 10, 102_400, &caller(100)), 102_400);
    let give = SetAttr {
        uid: Some(USER + 1),
        ..SetAttr::default()
    };
    fs.set_attr(&file, &give, &Caller::root()).unwrap();
    let used = |owner| entry(&fs, QuotaKind::User, owner).space_bytes;
    assert_eq!((used(USER), used(USER + 1)), (0, 200 * KIB));
    fs.fsync(&file).expect("was promised");
    assert_eq!(used(USER + 1), 200 * KIB);
    let again = fs.create(&dir, b"again", 0o666, &caller(100)).unwrap();
    assert_eq!(write(&fs, &again, 0, 300_000, &caller(100)), 200 << 10);
    drop((file, again));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Eight concurrent threads together do not exceed the limit.
#[test]
fn many_threads_get_no_more_than_the_limit() {
    let device = image();
    let fs = mount(&device);
    let dir = public(&fs);
    let limits = QuotaEntry {
        id: USER,
        space_hard_kib: 500,
        inodes_hard: 30,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::User, &limits).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (fs, dir) = (&fs, &dir);
            scope.spawn(move || {
                for nr in 0..20 {
                    let name = format!("{thread} {nr}");
                    let made = fs.create(dir, name.as_bytes(), 0o644, &caller(100));
                    if let Ok(file) = made {
                        write(fs, &file, 0, 40_000, &caller(100));
                    }
                }
            });
        }
    });
    let used = entry(&fs, QuotaKind::User, USER);
    assert_eq!((used.inodes, used.space_bytes), (30, 500 * KIB));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn debugfs_reads_our_limits() {
    let device = image();
    let fs = mount(&device);
    let limits = QuotaEntry {
        id: 4242,
        space_soft_kib: 300,
        space_hard_kib: 400,
        inodes_soft: 5,
        inodes_hard: 6,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::User, &limits).unwrap();
    fs.unmount().unwrap();
    image::assert_clean(&device);
    let (_dir, path) = image::on_disk(&device);
    let told = uext4_testkit::oracle::debugfs_one(&path, "get_quota user 4242").unwrap();
    let line = told.lines().find(|line| line.contains("4242")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["4242", "0", "300", "400", "0", "5", "6"], "{told}");
    let missing = image::mount_with(&image::ext4(16), "usrquota");
    let error = missing.err().unwrap().to_string();
    assert!(
        error.contains("usrquota") && error.contains("user quota"),
        "{error}"
    );
}

/// A directory owned by the user, whose limit includes it.
fn own(fs: &Filesystem, hard_kib: u64) -> InodeRef {
    let dir = public(fs);
    let own = fs.mkdir(&dir, b"own", 0o755, &caller(100)).unwrap();
    limit_space(fs, USER, hard_kib);
    own
}

fn used_kib(fs: &Filesystem) -> u64 {
    entry(fs, QuotaKind::User, USER).space_bytes / KIB
}

#[test]
fn directories_do_not_grow_past_a_limit() {
    for features in ["dir_index", "^dir_index", "inline_data"] {
        let features = format!("quota,{features}");
        let device = image::mke2fs(64, &["-I", "256", "-O", &features, "-b", "1024"]);
        let fs = image::mount_with(&device, "usrquota").unwrap();
        let user = caller(100);
        let dir = own(&fs, 30);
        let file = fs.create(&dir, b"file", 0o644, &user).unwrap();
        let mut names = 0;
        let refused = loop {
            let name = format!("{names:050}");
            match fs.link(&file, &dir, name.as_bytes(), &user) {
                Ok(()) => names += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Quota), "{features}: {refused}");
        assert_eq!(used_kib(&fs), 30, "{features}");
        let made = fs.mkdir(&dir, b"more", 0o755, &user);
        assert!(matches!(made, Err(Error::Quota)) || features.contains("inline"));
        let before = used_kib(&fs);
        // The limit does not apply to the superuser.
        for nr in 0..100 {
            let name = format!("{nr:060}");
            fs.link(&file, &dir, name.as_bytes(), &ROOT).unwrap();
        }
        assert!(used_kib(&fs) > before, "{features}");
        drop((dir, file));
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

/// Map blocks of delayed data may exceed a limit, as in the kernel.
#[test]
fn maps_do_not_grow_past_a_limit() {
    for features in ["quota,extent", "quota,^extent,^64bit"] {
        let device = image::mke2fs(64, &["-I", "256", "-O", features, "-b", "1024"]);
        let fs = image::mount_with(&device, "usrquota,nodelalloc").unwrap();
        let dir = own(&fs, 250);
        let user = caller(100);
        let file = fs.create(&dir, b"file", 0o644, &user).unwrap();
        let mut at = 0;
        // Every second block, so that each is an extent of its own.
        while at < 2000 * KIB && write(&fs, &file, at, 1024, &user) == 1024 {
            at += 2 * KIB;
        }
        assert_eq!(used_kib(&fs), 250, "{features}");
        assert!(
            fs.attr(&file).sectors / 2 > at / KIB / 2,
            "{features}: the map"
        );
        drop((dir, file));
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

#[test]
fn attributes_do_not_grow_past_a_limit() {
    let device = image::mke2fs(64, &["-I", "256", "-O", "quota,ea_inode", "-b", "1024"]);
    let fs = image::mount_with(&device, "usrquota").unwrap();
    let dir = own(&fs, 4);
    let user = caller(100);
    let file = fs.create(&dir, b"file", 0o644, &user).unwrap();
    assert_eq!(write(&fs, &file, 0, 4096, &user), 3072);
    let set = |name: &[u8], len: usize, user: &Caller| {
        let value = vec![7; len];
        fs.set_xattr(&file, name, &value, uext4::SetMode::Any, user)
    };
    set(b"user.small", 20, &user).unwrap();
    for len in [500, 5000] {
        let refused = set(b"user.large", len, &user);
        assert!(matches!(refused, Err(Error::Quota)), "{len}: {refused:?}");
    }
    assert_eq!(used_kib(&fs), 4);
    set(b"user.large", 500, &ROOT).unwrap();
    assert_eq!(used_kib(&fs), 5);
    drop((dir, file));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
