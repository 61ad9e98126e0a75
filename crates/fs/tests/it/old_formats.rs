//! Images of ext2 and ext3, where Linux sets feature bits when they are needed.

use crate::image;
use uext4::format::Feature;
use uext4::{
    Caller, Error, RenameFlags, SetAttr, SetTime, Timestamp, WriteContext, read_superblock,
};

const EXT2: &[&str] = &[
    "-O",
    "^has_journal,^extent,^64bit,^metadata_csum,^flex_bg,^large_file",
];
const EXT3: &[&str] = &[
    "-O",
    "^extent,^64bit,^metadata_csum,^flex_bg,^large_file,^orphan_file",
];

#[test]
fn large_files_are_told_by_the_superblock() {
    for shape in [EXT2, EXT3] {
        for way in 0..3 {
            let device = image::mke2fs(32, shape);
            let fs = image::mount(&device);
            let (root, top) = (Caller::root(), fs.root().unwrap());
            let file = fs.create(&top, b"large", 0o644, &root).unwrap();
            let large = 3 << 30;
            match way {
                0 => drop(fs.write(&file, large, b"x", &WriteContext::ROOT).unwrap()),
                1 => fs.truncate(&file, large).unwrap(),
                _ => {
                    let set = SetAttr {
                        size_bytes: Some(large),
                        ..Default::default()
                    };
                    fs.set_attr(&file, &set, &root).unwrap();
                }
            }
            drop((file, top));
            fs.unmount().unwrap();
            let features = read_superblock(&*device, None).unwrap().features();
            assert!(features.has(Feature::LARGE_FILE), "{shape:?} {way}");
            image::assert_clean(&device);
        }
    }
}

#[test]
fn small_inodes_keep_whole_seconds_to_2038() {
    let device = image::mke2fs(32, &["-I", "128", "-O", "^metadata_csum"]);
    let fs = image::mount(&device);
    let (root, top) = (Caller::root(), fs.root().unwrap());
    let file = fs.create(&top, b"file", 0o644, &root).unwrap();
    let at = |seconds| Some(SetTime::At(Timestamp::new(seconds, 5)));
    let set = SetAttr {
        atime: at(1 << 40),
        mtime: at(77),
        ..Default::default()
    };
    let attr = fs.set_attr(&file, &set, &root).unwrap();
    assert_eq!(attr.atime, Timestamp::new(i32::MAX.into(), 0));
    assert_eq!(attr.mtime, Timestamp::new(77, 0));
    assert_eq!(attr.crtime, Timestamp::default());
    drop((file, top));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn times_end_in_1901_and_2446() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let (root, top) = (Caller::root(), fs.root().unwrap());
    let last = (3i64 << 32) + i64::from(i32::MAX);
    let first = i64::from(i32::MIN);
    let cases = [
        (last, 0),
        (last + 1, 0),
        (last - 1, 5),
        (first, 0),
        (first - 9, 0),
        (first + 1, 5),
    ];
    for (seconds, nanoseconds) in cases {
        let set = SetAttr {
            mtime: Some(SetTime::At(Timestamp::new(seconds, 5))),
            ..Default::default()
        };
        let mtime = fs.set_attr(&top, &set, &root).unwrap().mtime;
        assert_eq!(
            mtime,
            Timestamp::new(seconds.clamp(first, last), nanoseconds)
        );
    }
}

#[test]
fn without_dir_nlink_directories_run_out_of_links() {
    let device = image::mke2fs(
        400,
        &["-O", "^dir_nlink,inline_data", "-N", "66000", "-b", "1024"],
    );
    let fs = image::mount(&device);
    let (root, top) = (Caller::root(), fs.root().unwrap());
    let dir = fs.mkdir(&top, b"dir", 0o755, &root).unwrap();
    let mut made = 2;
    let refused = loop {
        match fs.mkdir(&dir, format!("{made}").as_bytes(), 0o755, &root) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TooManyLinks), "{refused}");
    assert_eq!((made, fs.attr(&dir).links), (65000, 65000));

    // A rename cannot add a subdirectory either, and a refused rename leaves the source in place.
    let other = fs.mkdir(&top, b"other", 0o755, &root).unwrap();
    let file = fs.create(&dir, b"file", 0o644, &root).unwrap();
    for (name, flags) in [
        (&b"new"[..], RenameFlags::Replace),
        (b"file", RenameFlags::Exchange),
    ] {
        let refused = fs.rename(&top, b"other", &dir, name, flags, &root);
        assert!(
            matches!(refused, Err(Error::TooManyLinks)),
            "{flags:?}: {refused:?}"
        );
        assert_eq!(fs.lookup(&top, b"other", &root).unwrap().nr(), other.nr());
        assert_eq!(fs.lookup(&dir, b"file", &root).unwrap().nr(), file.nr());
    }
    assert_eq!((fs.attr(&dir).links, fs.attr(&top).links), (65000, 5));
    drop((other, file, dir, top));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn with_dir_nlink_the_count_becomes_one() {
    let device = image::mke2fs(400, &["-O", "inline_data", "-N", "66000", "-b", "1024"]);
    let fs = image::mount(&device);
    let (root, top) = (Caller::root(), fs.root().unwrap());
    let dir = fs.mkdir(&top, b"dir", 0o755, &root).unwrap();
    for i in 0..65_100 {
        fs.mkdir(&dir, format!("{i}").as_bytes(), 0o755, &root)
            .unwrap();
    }
    assert_eq!(fs.attr(&dir).links, 1);
    for i in 0..200 {
        fs.rmdir(&dir, format!("{i}").as_bytes(), &root).unwrap();
    }
    assert_eq!(fs.attr(&dir).links, 1);
    drop((dir, top));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
