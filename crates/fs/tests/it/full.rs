//! Full devices: reserved blocks, exact counts, and complete release of space.

use crate::image;
use uext4::{Caller, Error, FallocateMode, Filesystem, InodeRef, SetMode, WriteContext};

const SHAPES: &[&[&str]] = &[
    &["-m", "10"],
    &["-m", "10", "-b", "1024"],
    &[
        "-m",
        "10",
        "-b",
        "1024",
        "-O",
        "^has_journal,^extent,^64bit,^metadata_csum",
    ],
    &["-m", "10", "-O", "bigalloc", "-C", "16384"],
    &["-m", "10", "-O", "inline_data"],
];
/// Map blocks that a file may need in addition to its data.
const MAP_BLOCKS: u64 = 80;

fn caller(uid: u32, gid: u32) -> Caller {
    Caller {
        uid,
        gid,
        ..Caller::root()
    }
}

fn write_until_full(fs: &Filesystem, file: &InodeRef, caller: &Caller) {
    let data = vec![0x5A; 1 << 20];
    loop {
        let end = fs.attr(file).size_bytes;
        match fs.write(file, end, &data, &WriteContext::by(caller.clone())) {
            Ok(_) => {}
            Err(Error::NoSpace) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// An attribute value that needs a separate block.
fn attributes_too(fs: &Filesystem, file: &InodeRef, user: &Caller, shape: &[&str]) {
    let value = vec![7; 600];
    let set = |caller| fs.set_xattr(file, b"user.long", &value, SetMode::Any, caller);
    let refused = set(user);
    assert!(
        matches!(refused, Err(Error::NoSpace)),
        "{shape:?}: {refused:?}"
    );
    set(&Caller::root()).unwrap();
    fs.remove_xattr(file, b"user.long", user).unwrap();
}

#[test]
fn the_reserve_is_for_the_superuser() {
    for shape in SHAPES {
        let device = image::mke2fs(32, shape);
        let fs = image::mount(&device);
        let (root, user) = (Caller::root(), caller(1000, 1000));
        let top = fs.root().unwrap();
        let before = fs.statfs();
        let reserved = before.blocks_free - before.blocks_available;
        let file = fs.create(&top, b"user's", 0o666, &root).unwrap();
        write_until_full(&fs, &file, &user);
        let full = fs.statfs();
        assert_eq!(full.blocks_available, 0, "{shape:?}");
        let cluster = 4;
        assert!(
            full.blocks_free <= reserved + cluster,
            "{shape:?}: {full:?} {reserved}"
        );
        assert!(
            full.blocks_free + MAP_BLOCKS > reserved,
            "{shape:?}: {full:?}"
        );
        let more = fs.create(&top, b"more", 0o666, &root).unwrap();
        let refused = fs.fallocate(
            &more,
            FallocateMode::Allocate,
            0..1 << 16,
            &WriteContext::by(user.clone()),
        );
        if !shape.iter().any(|word| word.contains("^extent")) {
            assert!(
                matches!(refused, Err(Error::NoSpace)),
                "{shape:?}: {refused:?}"
            );
        }
        let open = fs.mkdir(&top, b"open", 0o777, &root).unwrap();
        if !shape.contains(&"inline_data") {
            let made = fs.mkdir(&open, b"no", 0o755, &user);
            assert!(matches!(made, Err(Error::NoSpace)), "{shape:?}");
        }
        attributes_too(&fs, &more, &user, shape);
        write_until_full(&fs, &more, &root);
        let empty = fs.statfs();
        assert!(
            empty.blocks_free < full.blocks_free / 2,
            "{shape:?}: {empty:?}"
        );
        assert!(fs.attr(&more).size_bytes > 1 << 20);
        drop((more, file, open));
        for name in [&b"more"[..], b"user's"] {
            fs.unlink(&top, name, &root).unwrap();
        }
        fs.rmdir(&top, b"open", &root).unwrap();
        fs.sync().unwrap();
        assert_eq!(fs.statfs(), before, "{shape:?}");
        drop(top);
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

#[test]
fn resuid_and_resgid_may_use_the_reserve() {
    let tune: &[&[&str]] = &[&["-m", "10", "-E", "root_owner=0:0"]];
    let device = image::mke2fs(24, tune[0]);
    let fs = image::mount_with(&device, "resuid=7,resgid=70").unwrap();
    let top = fs.root().unwrap();
    let file = fs.create(&top, b"file", 0o666, &Caller::root()).unwrap();
    write_until_full(&fs, &file, &caller(1000, 1000));
    let full = fs.statfs().blocks_free;
    let member = Caller {
        groups: vec![5, 70],
        ..caller(8, 8)
    };
    write_until_full(&fs, &file, &member);
    assert!(fs.statfs().blocks_free < full / 2);
    fs.truncate(&file, 0).unwrap();
    fs.sync().unwrap();
    write_until_full(&fs, &file, &caller(7, 7));
    assert!(fs.statfs().blocks_free < full / 2);
    drop((file, top));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn inodes_run_out_and_come_back() {
    for shape in [
        &["-N", "300"][..],
        &["-N", "300", "-b", "1024", "-O", "^metadata_csum"],
    ] {
        let device = image::mke2fs(24, shape);
        let fs = image::mount(&device);
        let (root, top) = (Caller::root(), fs.root().unwrap());
        let before = fs.statfs();
        let mut made = 0u64;
        let refused = loop {
            match fs.create(&top, format!("{made}").as_bytes(), 0o644, &root) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoInodes));
        assert_eq!((made, fs.statfs().inodes_free), (before.inodes_free, 0));
        assert!(matches!(
            fs.mkdir(&top, b"dir", 0o755, &root),
            Err(Error::NoInodes)
        ));
        assert!(matches!(
            fs.symlink(&top, b"link", b"x", &root),
            Err(Error::NoInodes)
        ));
        assert!(matches!(
            fs.tmpfile(&top, 0o600, &root),
            Err(Error::NoInodes)
        ));
        for i in 0..made {
            fs.unlink(&top, format!("{i}").as_bytes(), &root).unwrap();
        }
        fs.sync().unwrap();
        assert_eq!(fs.statfs().inodes_free, before.inodes_free);
        fs.mkdir(&top, b"dir", 0o755, &root).unwrap();
        drop(top);
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

/// Blocks of a removed file become free with the next commit, for which mkdir waits.
#[test]
fn room_that_was_just_freed_is_room_for_a_directory() {
    let device = image::mke2fs(24, &["-b", "1024"]);
    let fs = image::mount(&device);
    let (root, top) = (Caller::root(), fs.root().unwrap());
    let file = fs.create(&top, b"file", 0o644, &root).unwrap();
    write_until_full(&fs, &file, &root);
    fs.sync().unwrap();
    drop(file);
    let made = fs.mkdir(&top, b"dir", 0o755, &root);
    assert!(matches!(made, Err(Error::NoSpace)));
    fs.unlink(&top, b"file", &root).unwrap();
    fs.mkdir(&top, b"dir", 0o755, &root).unwrap();
    drop(top);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Each worker holds few blocks and frees them; a write must not be refused while freed blocks are
/// pending.
#[test]
fn what_others_free_is_not_refused() {
    const WORKERS: u64 = 64;
    const STEP_BYTES: u64 = 8192;
    const STEPS: u64 = 96;
    for allocator in ["linear", "optimized", "freespace-tree"] {
        let device = image::mke2fs(72, &["-m", "0", "-J", "size=4"]);
        let options = format!("allocator={allocator}");
        let fs = image::mount_with(&device, &options).unwrap();
        let work = |nr: u64| {
            let (top, root) = (fs.root().unwrap(), Caller::root());
            let name = nr.to_string();
            let file = fs.create(&top, name.as_bytes(), 0o600, &root).unwrap();
            for _ in 0..60 {
                for step in 0..STEPS {
                    let at = step * STEP_BYTES;
                    let taken = fs.fallocate(
                        &file,
                        FallocateMode::Allocate,
                        at..at + STEP_BYTES,
                        &WriteContext::ROOT,
                    );
                    taken.unwrap_or_else(|error| panic!("{allocator}, {step}: {error}"));
                }
                fs.truncate(&file, 0).unwrap();
            }
        };
        std::thread::scope(|scope| {
            (0..WORKERS).for_each(|nr| drop(scope.spawn(move || work(nr))));
        });
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}
